#!/bin/bash
# output.capture: what is stored and what is passed on, case 24, callers that do not read, and `agentbox output`.
. "$(dirname "$0")/../lib/lib.sh"

CAPTURE=(-s output.capture=yes)
# capturing [options of run] -- COMMAND: the same with stdout and stderr apart, and what is passed on as it is.
capturing() { run "${CAPTURE[@]}" "$@"; }
# Bytes exactly, as $(...) drops newlines at the end.
same_bytes() { cmp -s "$1" "$2"; ok $? "$3"; }
stored() { stat -c %s "$(run_dir)/$1"; }
pty() { capture timeout -k 2 -s KILL 40 python3 "$SCRATCH/tests/lib/pty.py" "$@"; }

streams() {
	capturing -- sh -c 'seq 1 20000; printf end; echo to err >&2; exit 7'
	is "$status" 7 'the status is the command'\''s'
	(seq 1 20000; printf end) >want
	same_bytes "$T/out" want 'standard output is passed on'
	is "$err" 'to err' 'standard error by itself, and no more is said'
	same_bytes "$(run_dir)/stdout" want 'standard output is stored'
	is "$(cat "$(run_dir)/stderr")" 'to err' 'and standard error'
	is "$(stat -c '%a' "$(run_dir)/stdout")" 600 'for the user alone'
	is "$(event run.end output.stdout.total_bytes) $(event run.end output.stdout.total_lines)" "$(wc -c <want) 20001" 'run.end counts it'
	is "$(event output.truncated type)" absent 'nothing was left out, and no event says so'
	is "$("$AB" log --verify >/dev/null 2>&1; echo $?)" 0 'the record is whole'
	rm want

	run -- readlink /proc/self/fd/1
	is "$out" "$(readlink -f "$T/out")" '(without capture the command has the caller'\''s own file)'
	capturing -- readlink /proc/self/fd/1
	like "$out" '^pipe:' 'with capture it has not'
	capturing -- sh -c 'echo one >/dev/stdout; echo two >/dev/stderr; echo three >/proc/self/fd/1'
	is "$out$err" $'one\nthreetwo' 'the streams can be opened again by name'
	# Read to its end before it is written: cat could go on with what it has just written.
	capturing -- sh -c 'echo so far; until [ -s /workspace/logs/stdout ]; do sleep 0.02; done; x=$(cat /workspace/logs/stdout); echo "$x"; echo x >/workspace/logs/stdout'
	is "$out" $'so far\nso far' 'the command sees what is stored so far'
	like "$err" 'Read-only file system|Permission denied' 'and cannot write there'
	capturing -- sh -c 'echo last; kill -9 $$'
	is "$status $out" '137 last' 'what a killed command wrote last arrives'
	capturing -- sh -c '(sleep 5; echo late) & echo now'
	is "$status $out" '0 now' 'what is left of the box after the command is not waited for'
	capturing -- no-such-command
	is "$status" 127 'a command that is not there'
	like "$err" 'no-such-command: not in the box' 'is said as ever'
	run -- true
	capture "$AB" output
	is "$status" 125 'without capture there is no output to show'
	like "$err" 'no output was stored; a run with output.capture = yes stores it' 'as is said'
}

# Both streams to one place: the order is kept.
one_stream() {
	local i

	for ((i = 0; i < 300; i++)); do printf 'o%d\ne%d\n' "$i" "$i"; done >want
	box "${CAPTURE[@]}" -- bash -c 'for ((i = 0; i < 300; i++)); do echo o$i; echo e$i >&2; done' </dev/null >"$T/out" 2>&1
	same_bytes "$T/out" want '2>&1: in the order in which it was written'
	same_bytes "$(run_dir)/stdout" want 'and so it is stored'
	[ ! -e "$(run_dir)/stderr" ]
	ok $? 'as one stream'
	capture "$AB" output --stderr
	like "$err" 'standard error went the same way as standard output; leave --stderr away' '`output --stderr` says so'
	rm want
}

cuts() {
	capturing -s output.head=6 -- printf abcdef
	is "$out$err $(event output.truncated type)" 'abcdef absent' 'case 24: exactly the cap is not cut'
	capturing -s output.head=6 -- printf abcdefg
	is "$out" "abcdef"$'\n'"[agentbox: 1 bytes, 0 lines left out; agentbox output $(run_field id)]" 'case 24: one more is, and is marked'
	is "$(event output.truncated stream) $(event output.truncated total_bytes) $(event output.truncated passed_bytes) $(event output.truncated stored_bytes)" \
		'stdout 7 6 7' 'case 24: the record says how much'
	like "$err" '^agentbox: stdout: 6 of 7 bytes passed on, 7 stored; agentbox log .* --denied$' 'case 24: and a line at the end'
	is "$(cat "$(run_dir)/stdout")" abcdefg 'the whole of it is stored'
	like "$("$AB" log --denied)" 'output.truncated .*total_bytes=7' '`log --denied` shows it'
	capturing -s output.head=3 -s output.tail=3 -- printf abcdef
	is "$out" abcdef 'head and tail that meet: whole'
	capturing -s output.head=3 -s output.tail=3 -- printf abcdefgh
	is "$(head -c 3 "$T/out") $(tail -c 3 "$T/out")" 'abc fgh' 'the first and the last bytes'
	capturing -s output.head-lines=2 -s output.tail-lines=2 -- seq 1 4
	is "$out" "$(seq 1 4)" 'exactly so many lines: whole'
	capturing -q -s output.head-lines=2 -s output.tail-lines=2 -- seq 1 1000
	is "$(grep -v '^\[' "$T/out" | xargs)" '1 2 999 1000' 'the first and the last lines'
	like "$out" '^\[agentbox: 3880 bytes, 996 lines left out; agentbox output [0-9a-z-]*\]$' 'with the mark in a line of its own'
	is "$err" '' 'and -q says no more'
	capturing -s output.tail-lines=1 -- seq 1 9
	is "$(tail -n 1 "$T/out")" 9 'the last line alone'
	capturing -s output.head=0 -- seq 1 9
	is "$out" '' 'head = 0: nothing, and no mark'
	is "$("$AB" output | xargs)" '1 2 3 4 5 6 7 8 9' 'but it is stored'
	capturing -s output.tail-lines=1 -- sh -c 'seq 1 9 >&2'
	like "$err" '\[agentbox: 16 bytes, 8 lines left out; agentbox output [0-9a-z-]* --stderr\]' 'standard error is cut likewise'
	capturing -s output.max=100 -- head -c 100 /dev/zero
	is "$(stored stdout) $(event limit.hit type) $(event limit.warn limit)" '100 absent output.max' 'exactly output.max is stored, with a warning'
	capturing -s output.max=100 -- head -c 101 /dev/zero
	is "$(stat -c %s "$T/out") $(stored stdout) $(event limit.hit limit) $(event output.truncated stored_bytes)" '101 100 output.max 100' \
		'one more is passed on, not stored, and said'
	capture "$AB" output
	like "$err" 'the first 100 of 101 bytes are stored' '`output` says what is missing'
	capturing -s output.max=0 -- echo hello
	is "$out $(stored stdout)" 'hello 0' 'output.max = 0: nothing is stored'
}

flood() {
	local pid top=0 now

	"$AB" run "${CAPTURE[@]}" -q -s output.head=1K -s output.tail=1K -s output.max=1M -- head -c 2G /dev/zero </dev/null >"$T/flood" 2>&1 &
	pid=$!
	own "$pid"
	while kill -0 "$pid" 2>/dev/null; do
		now=$(sed -n 's/^VmHWM:[[:space:]]*\([0-9]*\) kB/\1/p' "/proc/$pid/status" 2>/dev/null)
		[ -z "$now" ] || top=$now
		sleep 0.05
	done
	wait "$pid"
	owned=()
	is "$? $(stat -c %s "$(run_dir)/stdout")" '0 1048576' 'case 24: 2 GB: the first MiB is stored'
	is "$(event output.truncated total_bytes) $(event output.truncated passed_bytes)" '2147483648 2048' 'case 24: the counts are exact'
	cmp_ok "$top" -gt 0 'case 24: (the supervisor was seen)'
	cmp_ok "$top" -le 8192 'case 24: with flat memory'
}

callers() {
	local status start fifo=$T/fifo

	# Case 26, as without capture.
	timeout -k 2 -s KILL 20 "$AB" run "${CAPTURE[@]}" -- yes 2>"$T/err" | head -n 1 >"$T/out"
	is "${PIPESTATUS[0]} $(cat "$T/out")" '141 y' 'case 26: a caller that reads no more ends the command with SIGPIPE'
	is "$(cat "$T/err")" '' 'case 26: which is its own doing, and nothing is said'
	timeout -k 2 -s KILL 20 "$AB" run "${CAPTURE[@]}" -s output.head=1K -- yes 2>/dev/null | head -n 1 >"$T/out"
	is "${PIPESTATUS[0]}" 141 'case 26: also where all that is passed on has been'
	# Nobody reads: the command waits, and the clock does not.
	start=$(now_ms)
	timeout -k 2 -s KILL 20 "$AB" run "${CAPTURE[@]}" -s limits.grace=1s --timeout 1s -- yes 2>/dev/null | { sleep 4; cat >/dev/null; }
	status=${PIPESTATUS[0]}
	is "$status" 124 'a caller that does not read does not stop the clock'
	mkfifo "$fifo"
	(exec 9<"$fifo"; sleep 8) &
	own $!
	start=$(now_ms)
	box "${CAPTURE[@]}" -s limits.grace=1s --timeout 1s -- yes >"$fifo" 2>/dev/null </dev/null
	is "$?" 124 'a reader that never reads: timeout'
	cmp_ok $(($(now_ms) - start)) -lt 5000 'and it is not waited for'
	(exec 9<"$fifo"; sleep 8) &
	own $!
	box "${CAPTURE[@]}" -- sh -c 'yes | head -c 300000' >"$fifo" 2>/dev/null </dev/null &
	sleep 1
	start=$(now_ms)
	"$AB" stop last >/dev/null 2>&1
	wait $!
	cmp_ok $(($(now_ms) - start)) -lt 4000 '`stop` ends a run whose caller does not read'
	own_kill
	# Whoever waits for the end of the stream gets it when the command closes it.
	start=$(now_ms)
	"$AB" run "${CAPTURE[@]}" -- sh -c 'echo x; exec >&- 2>&-; sleep 3' 2>/dev/null </dev/null | { cat >"$T/out"; now_ms >"$T/closed"; }
	cmp_ok $(($(cat "$T/closed") - start)) -lt 2500 'a stream that the command closes is closed for the caller'
	is "$(cat "$T/out")" x 'after what was written'
	rm "$fifo"
}

# A process outside that was handed the box's end of the pipe keeps it open.
holder() {
	local pid

	mkdir -p out
	python3 - out/sock >"$T/held" <<'END' &
import array, socket, sys, time
s = socket.socket(socket.AF_UNIX)
s.bind(sys.argv[1])
s.listen()
c, _ = s.accept()
_, anc, _, _ = c.recvmsg(1, socket.CMSG_SPACE(4))
print(len(anc), flush=True)
time.sleep(30)
END
	own $!
	until_true 5 test -S out/sock
	cat >send.py <<'END'
import array, socket
s = socket.socket(socket.AF_UNIX)
s.connect("/workspace/artifacts/sock")
s.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [1]))])
print("sent")
END
	capturing --artifacts "$PWD/out" -- python3 send.py
	is "$status $out" '0 sent' 'a descriptor of the stream that left the box does not keep the run'
	is "$(cat "$T/held")" 1 '(it did leave the box)'
	own_kill
	rm -r out send.py
}

full_disk() {
	local -a map=()

	[ "$(id -u)" -eq 0 ] || map=(--map-root-user)
	mkdir "$T/tiny"
	# shellcheck disable=SC2016
	capture unshare -m ${map[@]+"${map[@]}"} timeout -k 2 -s KILL 40 sh -c '
		mount -t tmpfs -o size=8m tiny "$1" && mkdir -m 0700 "$1/state" || exit 99
		export AGENTBOX_STATE="$1/state"
		"$2" run -s output.capture=yes -s output.head=1K -- sh -c "head -c 20M /dev/zero; sleep 30"
		echo "status $?"
		"$2" log last --verify >/dev/null && echo whole
		echo "stored $(stat -c %s "$1"/state/runs/*/stdout)"
		"$2" log last --json --type run.end' sh "$T/tiny" "$AB"
	like "$out" '^status 125$' 'output that fills the disk ends the run'
	like "$out" "\"stored_bytes\":$(sed -n 's/^stored //p' "$T/out")[,}]" 'what is said to be stored is'
	like "$out" '^whole$' 'and its record is whole'
	like "$err" 'the command was ended: what the command writes to stdout cannot be stored in .*: No space left' 'with the reason'
	rmdir "$T/tiny"
}

failures() {
	(
		ulimit -f 200
		box "${CAPTURE[@]}" -- sh -c 'head -c 1M /dev/zero; sleep 20' </dev/null >"$T/out" 2>"$T/err"
		echo $? >"$T/status"
	)
	is "$(cat "$T/status") $(event run.end reason)" '125 failed' 'what cannot be stored ends the run'
	like "$(cat "$T/err")" 'the command was ended: what the command writes to stdout cannot be stored in .*: File too large' 'in words'
	full_disk
	(
		ulimit -n 14
		"$AB" run "${CAPTURE[@]}" -- true </dev/null >"$T/out" 2>"$T/err"
		echo $? >"$T/status"
	)
	is "$(cat "$T/status") $(run_field state) $(event run.end reason)" '125 ended refused' 'too few descriptors: refused, with a record'
	box "${CAPTURE[@]}" -- echo hello </dev/null >/dev/full 2>"$T/err"
	is "$? $(event run.end reason)" '125 failed' 'what cannot be passed on fails the run'
	like "$(cat "$T/err")" 'what the command writes to stdout cannot be passed on: No space left' 'in words'
	run -s output.head=5 -- echo hello
	is "$status" 125 'a cut without capture is refused'
	like "$err" '\[output\] head: output is neither cut nor stored without capture = yes; set that too' 'in words'
	printf '[output]\ncapture = yes\nhead = 5\n' >p.ini
	run -p ./p.ini -s output.capture=no -- echo hello there
	is "$status $out" '0 hello there' 'capture = no turns it off'
	rm p.ini
}

# Ways past the capture: what can be written to at standard input.
past() {
	pty -e past -e 'st.tus' -- sh -c '"$0" run -s output.capture=yes -- sh -c "echo escape >&0; echo escape >/proc/self/fd/0; echo past" | cat; echo status' "$AB"
	unlike "$out" escape 'a terminal at standard input is for reading alone'
	pty -e escape -- sh -c '"$0" run -- sh -c "echo escape >&0" | cat' "$AB"
	like "$out" escape '(without capture it is the caller'\''s)'
	: >both
	box "${CAPTURE[@]}" -- true <>both >&0 2>"$T/err"
	is "$?" 125 'standard input that is the stream itself, and can be written to, is refused'
	like "$(cat "$T/err")" 'the same file as standard output: the command could write there past the capture' 'in words'
	rm both
}

# Callers by a socket, as node has them.
sockets() {
	cat >peer.py <<'END'
import os, socket, subprocess, sys, time
how, argv = sys.argv[1], sys.argv[2:]
a, b = socket.socketpair()
run = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=a, stderr=a if how == "both" else subprocess.DEVNULL)
if how != "held":
    a.close()
if how == "shut":
    time.sleep(1)
    b.shutdown(socket.SHUT_RDWR)
elif how != "read":
    b.recv(1)
    b.close()
if how == "read":
    print(len(b"".join(iter(lambda: b.recv(65536), b""))))
else:
    time.sleep(1.5)
    ticks = sum(int(x) for x in open("/proc/%d/stat" % run.pid).read().rsplit(")", 1)[1].split()[11:13])
    print("spins" if ticks > 60 else "rests")
    run.terminate()
print(run.wait())
END
	outside python3 peer.py read "$AB" run "${CAPTURE[@]}" -- seq 1 100000
	is "$out" $'588895\n0' 'a socket gets all of it'
	outside python3 peer.py held "$AB" run "${CAPTURE[@]}" -- sh -c 'echo x; exec sleep 20'
	is "$(echo "$out" | head -n 1)" rests 'its other end goes while somebody holds ours: the supervisor rests'
	outside python3 peer.py both "$AB" run "${CAPTURE[@]}" -- sh -c 'echo x; exec sleep 20'
	is "$(echo "$out" | head -n 1)" rests 'likewise with both streams'
	outside python3 peer.py shut "$AB" run "${CAPTURE[@]}" -- yes
	is "$out" $'rests\n141' 'a socket that is shut ends the command with SIGPIPE'
	rm peer.py
}

# The master of a pseudo-terminal: its name makes another one.
master() {
	cat >master.py <<'END'
import os, subprocess, sys, tty
m, s = os.openpty()
tty.setraw(s)
print(subprocess.run(sys.argv[1:], stdin=subprocess.DEVNULL, stdout=m).returncode, os.read(s, 100))
END
	outside python3 master.py "$AB" run "${CAPTURE[@]}" -- echo hello
	is "$out" "0 b'hello\\n'" 'the master of a pseudo-terminal gets it'
	rm master.py
}

# What the command wrote is counted and stored, whether the caller takes it or not.
lost() {
	local wrote

	cat >write.py <<'END'
import fcntl, os, sys, time
fcntl.fcntl(1, fcntl.F_SETFL, os.O_NONBLOCK)
n = 0
try:
    while True:
        n += os.write(1, b"x" * 1000)
except BlockingIOError:
    pass
open("/workspace/artifacts/n", "w").write(str(n))
if sys.argv[1] == "wait":
    time.sleep(20)
END
	timeout -k 2 -s KILL 20 "$AB" run "${CAPTURE[@]}" -s limits.grace=500ms --timeout 1s -- python3 write.py wait 2>/dev/null </dev/null | (sleep 4)
	wrote=$(cat "$(run_dir)/artifacts/n")
	cmp_ok "$wrote" -gt 65536 '(the command filled the pipe)'
	is "$(event run.end output.stdout.total_bytes) $(stored stdout)" "$wrote $wrote" 'what the caller never took is counted and stored'
	is "$(event output.truncated total_bytes)" "$wrote" 'and said'
	timeout -k 2 -s KILL 20 "$AB" run "${CAPTURE[@]}" --timeout 1s -- python3 write.py go 2>/dev/null </dev/null | (sleep 4)
	is "${PIPESTATUS[0]} $(event run.end output.stdout.total_bytes)" "0 $(cat "$(run_dir)/artifacts/n")" 'likewise after the end of the command'
	rm write.py
	# One TERM, as timeout(1) and service managers send it.
	mkfifo "$T/fifo"
	(exec 9<"$T/fifo"; sleep 8) &
	own $!
	"$AB" run "${CAPTURE[@]}" -- yes >"$T/fifo" 2>/dev/null </dev/null &
	own $!
	until_true 5 sh -c '"$0" ps | grep -q running' "$AB"
	sleep 0.5
	kill -TERM $!
	until_true 4 sh -c '! "$0" ps | grep -q running' "$AB"
	ok $? 'one TERM ends a run whose caller does not read'
	own_kill
	# timeout(1) sends SIGCONT behind it; a command may take it and end by itself.
	timeout --preserve-status -k 5 1 "$AB" run "${CAPTURE[@]}" -- yes 2>/dev/null </dev/null | (sleep 4)
	is "${PIPESTATUS[0]} $(event run.end reason)" '143 signaled' 'as timeout(1) sends it'
	timeout --preserve-status -k 5 1 "$AB" run "${CAPTURE[@]}" -- bash -c 'trap "exit 3" TERM; while :; do echo aaaa; done' 2>/dev/null </dev/null | (sleep 4)
	is "${PIPESTATUS[0]} $(event run.end exit_code)" '3 3' 'and where the command ends by itself'
	# A summary that nobody reads.
	(exec 9<"$T/fifo"; sleep 12) &
	own $!
	start=$(now_ms)
	box "${CAPTURE[@]}" -s limits.grace=1s --timeout 1s -- sh -c 'yes >&2' 2>"$T/fifo" >/dev/null </dev/null
	is "$?" 124 'a caller that does not read standard error'
	cmp_ok $(($(now_ms) - start)) -lt 8000 'is not waited for with the last words'
	own_kill
	rm "$T/fifo"
}

# A network socket may be the caller's stream then, as the box does not get it.
socket_stream() {
	cat >serve.py <<'END'
import socket, subprocess, sys
s = socket.create_server(("127.0.0.1", 0))
c = socket.create_connection(s.getsockname())
a, _ = s.accept()
r = subprocess.run(sys.argv[1:], stdin=subprocess.DEVNULL, stdout=a.fileno(), stderr=subprocess.PIPE)
a.close()
print(r.returncode, b"".join(iter(lambda: c.recv(65536), b""))[-3:])
END
	outside python3 serve.py "$AB" run -- seq 1 100000
	is "$out" "125 b''" '(a network socket as the command'\''s own stream is refused)'
	outside python3 serve.py "$AB" run "${CAPTURE[@]}" -- seq 1 100000
	is "$out" "0 b'00\\n'" 'with capture it is passed on to'
	rm serve.py
}

terminal() {
	pty -e 'name\? ' -s 'me\n' -e 'hello me' -- "$AB" run "${CAPTURE[@]}" -s output.head=1 -- sh -c 'printf "name? "; read n; echo "hello $n"'
	like "$out" '^\[status 0\]' 'on a terminal nothing is cut'
	like "$("$AB" output | tr -d '\r')" 'hello me' 'and it is stored'
	capturing -- printf 'a\033[31mb\tc\n\302\240\n'
	is "$("$AB" output | od -An -c | xargs)" "$(printf 'a\033[31mb\tc\n\302\240\n' | od -An -c | xargs)" '`output` gives the bytes'
	pty -- "$AB" output
	like "$out" 'a\\x1b\[31mb.c' 'but to a terminal none that moves the cursor'
}

slices() {
	local big=9223372036854775807

	capturing -- sh -c 'seq 1 50000; printf end; echo e1 >&2; echo e2 >&2'
	# slice WANT OPTION...
	slice() {
		local want=$1

		shift
		is "$("$AB" output "$@" | xargs)" "$want" "output $*"
	}
	slice '3 4 5' --lines 3:5
	slice '1 2' --lines :2
	slice '50000 end' --lines 50000:
	slice '' --lines 50002:
	slice '' --lines 50002:$big
	slice '1 2 3' --head 3
	slice '' --head 0
	slice 'end' --tail 1
	slice '50000 end' --tail 2
	slice '' --tail 0
	slice '1 2' --bytes :4
	slice 'end' --bytes 288894:
	slice 'nd' --bytes 288895:288897
	slice '' --bytes $big:
	slice '9999:9999 19999:19999 29999:29999 39999:39999 49999:49999' --grep '9{4}$'
	slice '50001:end' --grep '^e'
	slice 'e1 e2' --stderr
	slice 'e2' --stderr --tail 1
	slice 'e1' --stderr "$(run_field id)" --head 1
	is "$("$AB" output --tail 60000 | wc -c)" 288897 'output --tail of more than there is'
	is "$("$AB" output --tail 40000 | head -n 1)" 10002 'output --tail over many blocks'
	for words in '--lines 5:3' '--lines 9' '--lines 0:2' '--bytes x:' '--tail -1' '--head 1 --tail 1' '--grep (' 'last last'; do
		# shellcheck disable=SC2086 # words
		capture "$AB" output $words
		is "$status" 125 "output $words: refused"
		like "$err" '^agentbox: output' "output $words: in words"
	done
	capturing -- sh -c 'head -c 200000 /dev/zero | tr "\0" x; printf "y\n\0 in a line\nz\n"'
	is "$("$AB" output --grep 'y|z' | wc -c)" 4 'a line of which --grep looks at the first 64 KiB'
	is "$("$AB" output --grep '^x' | wc -c)" 200004 'is shown whole where it matches'
	is "$("$AB" output --grep 'in a line' | tr -d '\0')" '2: in a line' 'NUL is a byte like others'
}

for_each_user streams
for_each_user one_stream
for_each_user cuts
for_each_user flood
for_each_user callers
for_each_user holder
for_each_user failures
for_each_user past
for_each_user sockets
for_each_user master
for_each_user lost
for_each_user socket_stream
for_each_user terminal
for_each_user slices
done_testing
