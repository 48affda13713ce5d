#!/bin/bash
# Case 55: sockets of the host, abstract, and by a path, also one that is shown read-only.
. "$(dirname "$0")/../lib/lib.sh"

# Serves "hello" on a Unix socket (its address as Python takes it) until it is killed.
serve() {
	python3 -c '
import socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
s.bind(sys.argv[1].replace("@", "\0"))
s.listen(16)
while True:
    c, _ = s.accept()
    c.sendall(b"hello")
    c.close()' "$1" &
	own $!
}

# client.py ADDRESS: prints what the server says.
client() {
	cat >client.py <<'END'
import socket, sys
for kind, name in ((socket.SOCK_STREAM, "stream"), (socket.SOCK_DGRAM, "datagram")):
    s = socket.socket(socket.AF_UNIX, kind)
    try:
        s.connect(sys.argv[1].replace("@", "\0"))
        print(name, s.recv(5).decode() if kind == socket.SOCK_STREAM else s.send(b"x"))
    except OSError as e:
        print(name, e.strerror, file=sys.stderr)
END
}

tests() {
	local name=agentbox-test-$$-$RANDOM mode

	client
	mkdir -p "$T/s" in
	serve "@$name"
	serve "$T/s/sock"
	serve "$repo/in/sock"
	# shellcheck disable=SC2016
	until_true 5 sh -c 'test -S "$0" && test -S "$1"' "$T/s/sock" in/sock
	outside python3 client.py "@$name"
	is "$out" 'stream hello' 'case 55: (outside the abstract socket answers)'
	run -- python3 client.py "@$name"
	is "$out" '' 'case 55: an abstract socket of the host cannot be reached'
	like "$err" 'stream Connection refused|stream Operation not permitted|stream Permission denied' 'case 55: connect fails'
	run -- sh -c 'cat /proc/net/unix'
	unlike "$out" "$name" 'case 55: nor seen'

	outside python3 client.py "$T/s/sock"
	is "$out" 'stream hello' 'case 55: (outside the path answers)'
	run --ro-bind "$T/s" /workspace/scratch/s -- python3 client.py /workspace/scratch/s/sock
	is "$out" '' 'case 55: a socket in a directory that is shown read-only'
	like "$err" '^stream ' 'case 55: connect fails'
	run --ro-bind "$T/s/sock" /workspace/scratch/s -- python3 client.py /workspace/scratch/s
	is "$out" '' 'case 55: the socket itself, shown read-only'
	run -s "filesystem.read=$T/s:/workspace/scratch/s" -- python3 client.py /workspace/scratch/s/sock
	is "$out" '' 'case 55: by filesystem.read'
	# Where nobody can find it beforehand: bound by a relative name, or later.
	(cd "$T/s" && exec python3 -c '
import socket
s = socket.socket(socket.AF_UNIX); s.bind("relative"); s.listen()
while True: c, _ = s.accept(); c.sendall(b"hello")') &
	own $!
	until_true 5 test -S "$T/s/relative"
	outside python3 client.py "$T/s/relative"
	is "$out" 'stream hello' 'case 55: (outside a socket of a relative name answers)'
	run --ro-bind "$T/s" /workspace/scratch/s -- python3 client.py /workspace/scratch/s/relative
	is "$out" '' 'case 55: one whose name the kernel has only in part'
	background --ro-bind "$T/s" /workspace/scratch/s -- \
		sh -c 'echo up; for i in 1 2 3 4 5 6; do sleep 0.1; test -S /workspace/scratch/s/late && break; done; sleep 0.2; python3 client.py /workspace/scratch/s/late'
	until_true 5 grep -q up "$T/out"
	serve "$T/s/late"
	finish
	is "$out" up 'case 55: one that is bound while the box runs'
	run --input "$T/s" -- python3 client.py /workspace/input/s/sock
	is "$out" '' 'case 55: as an input'
	for mode in read overlay; do
		run -s "workspace.repo-mode=$mode" -- python3 client.py in/sock
		is "$out" '' "case 55: in the repository ($mode)"
		run -s "workspace.repo-mode=$mode" -- sh -c 'ln in/sock hard; ln -s in/sock soft; mv in/sock moved; for i in hard soft moved in/sock; do python3 client.py $i; done'
		is "$out" '' "case 55: by another name ($mode)"
	done
	outside python3 client.py in/sock
	is "$out" 'stream hello' 'case 55: (outside that one answers, still)'
	own_kill

	# What has to work: sockets of the box's own.
	run -- python3 -c '
import os, socket, threading
for address in ("\0own", "/tmp/own", "/workspace/scratch/own", "/workspace/repo/own", os.environ["TMPDIR"] + "/own"):
    s = socket.socket(socket.AF_UNIX); s.bind(address); s.listen()
    c = socket.socket(socket.AF_UNIX); c.connect(address); print("ok")
a, b = socket.socketpair(); a.send(b"x"); print(b.recv(1))'
	is "$status $(printf '%s\n' "$out" | grep -c ok)" '0 5' 'the box'\''s own sockets work: abstract, in /tmp, scratch and repository'
}

for_each_user tests
done_testing
