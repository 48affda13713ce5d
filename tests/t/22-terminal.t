#!/bin/bash
# The terminal: case 28+29 (window size, job control and no TIOCSTI, together), A1; modes restored; streams that are none.
. "$(dirname "$0")/../lib/lib.sh"

# pty STEPS -- COMMAND: on a terminal, see tests/lib/pty.py.
pty() { capture timeout -k 2 -s KILL 40 python3 "$SCRATCH/tests/lib/pty.py" "$@"; }

together() {
	# A1 on descriptor 0: each request by itself, by syscall(2), as Python's own ioctl cuts the request to 32 bits.
	cat >"$repo/tiocsti.py" <<'END'
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
for name, request, arg in (("sti", 0x5412, b"x"), ("sti-high", 0x100005412, b"x"), ("linux", 0x541C, b"\3")):
    r = libc.syscall(16 if os.uname().machine == "x86_64" else 29, ctypes.c_long(0), ctypes.c_ulong(request), arg)
    print("%s=%s" % (name, "done" if r == 0 else errno.errorcode[ctypes.get_errno()]))
END
	printf '%s\n' 'trap "echo resized" WINCH' 'echo waiting' 'while :; do sleep 0.05; done' >"$repo/winch.sh"
	# It says when it goes on: the shell has given it the terminal before that.
	echo '$| = 1; $SIG{CONT} = sub { print "resumed\n" }; print "sleeping\n"; sleep 98 while 1' >"$repo/stop.pl"
	pty -w 33x77 -e '[$#] ' \
		-s 'stty size; tty\n' -e '33 77' -e '/dev/pts/0' \
		-s 'bash winch.sh\n' -e waiting \
		-r 44x88 -e resized -s '\x03' -e '[$#] ' -s 'stty size\n' -e '44 88\s+\S+[$#] ' \
		-s 'perl stop.pl\n' -e sleeping -s '\x1a' -e 'Stopped.*stop.pl\s+\S+[$#] ' -s 'fg\n' -e resumed -s '\x03' -e '[$#] ' \
		-s 'python3 tiocsti.py\n' -e 'sti=E[A-Z]+' -e 'sti-high=E[A-Z]+' -e 'linux=E[A-Z]+' -s 'exit 7\n' \
		-- "$AB" run -- bash --norc --noediting -i
	is "$status" 0 'case 28+29: size, WINCH, ^Z, fg, ^C and no TIOCSTI in one run'
	like "$out" '^\[status 7\]' 'case 28+29: with the command'\''s status'
	like "$out" '^\[modes kept\]' 'case 28+29: the terminal has its modes back'
	unlike "$out" 'no job control|cannot set terminal' 'case 28+29: the shell has job control'
	like "$out" '^sti=EPERM' 'A1: TIOCSTI is EPERM'
	like "$out" '^sti-high=EPERM' 'A1: with upper bits set, too'
	like "$out" '^linux=EPERM' 'A1: TIOCLINUX is EPERM'
	pty -- python3 tiocsti.py
	if [ "$(cat /proc/sys/dev/tty/legacy_tiocsti 2>/dev/null || echo 1)" = 1 ] || [ "$(id -u)" -eq 0 ]; then
		like "$out" 'sti=done' 'A1: outside TIOCSTI works (the probe is real)'
	else
		like "$out" '^sti=EIO' 'A1: outside it is this host'\''s sysctl that refuses TIOCSTI, with another errno'
	fi
	pty -- "$AB" run --tty no -- python3 tiocsti.py
	is "$(grep -c '=EPERM' "$T/out")" 3 'A1: refused on the caller'\''s own terminal, too (--tty no)'
	rm "$repo/tiocsti.py" "$repo/winch.sh" "$repo/stop.pl"
}

# A command that closes its terminal and opens it again (a daemon that is none, a pager).
again() {
	pty -e 19999 -e 20000 -- "$AB" run -- sh -c 'exec </dev/null >/dev/null 2>&1; sleep 0.5; exec >/dev/tty; seq 1 20000'
	is "$status $(grep -c '^\[status 0\]' "$T/out")" '0 1' 'a terminal that was closed by all is there when it is opened again'
}

# The supervisor of a terminal whose other side is gone rests: user and system seconds of all that a shell waited for.
rests() {
	# shellcheck disable=SC2016
	pty -e 'cpu' -- bash -c '"$0" run --tty yes -- sh -c "sleep 0.3; echo x; exec sleep 2" | true; times >times; echo "cpu $(tail -n 1 times)"' "$AB"
	like "$out" '^cpu 0m0\.[0-4][0-9]*s 0m0\.[0-4]' 'standard output that nobody reads any more: the supervisor rests'
	rm times
}

ends() {
	local m

	pty -- "$AB" run -- sh -c 'kill -SEGV $$'
	like "$out" '^\[status 139\]' 'killed by SIGSEGV on a terminal is 139'
	like "$out" '^\[modes kept\]' 'and the modes are back'
	pty -e up -k TERM -- "$AB" run -- sh -c 'stty raw; echo up; exec sleep 30'
	like "$out" '^\[status 143\]' 'TERM to the supervisor: 143'
	like "$out" '^\[modes kept\]' 'and the modes are back, whatever the command did to its own'
	pty -- "$AB" run -- /no/such
	like "$out" '^\[status 127\]' 'a command that is not there: 127'
	like "$out" '^\[modes kept\]' 'and the modes are back'
	pty -- "$AB" run --chdir /no/such -- true
	like "$out" '^\[status 125\]' 'setup failure: 125'
	like "$out" '^\[modes kept\]' 'and the modes are back'
	pty -- "$AB" run --timeout 500ms -s limits.grace=100ms -- sleep 30
	like "$out" '^\[status 124\]' 'timeout: 124'
	like "$out" '^\[modes kept\]' 'and the modes are back'
	m=$(mark)
	pty -e up -h -- "$AB" run -- sh -c "echo up; exec sleep $m"
	gone "$m"
	ok $? 'a terminal that hangs up ends the run'
	unlike "$out" 'status -9' 'without force'
	pty -- "$AB" run -- seq 30000
	is "$(tr -d '\r' <"$T/out" | grep -Ec '^[0-9]+$')" 30000 'all output comes through before the end'
	pty -e Name -s 'Ann\n' -e 'Hello Ann' -- "$AB" run -- bash -c 'read -rp "Name? " n; echo "Hello $n"'
	is "$status" 0 'what is typed reaches the command'
	pty -e up -s 'one\n\x04' -- "$AB" run -- sh -c 'echo up; cat'
	like "$out" '^\[status 0\]' '^D is the end of input'
	pty -e up -s '\x03' -- "$AB" run -- bash -c 'trap "echo int; exit 9" INT; echo up; sleep 9'
	like "$out" '^\[status 9\]' '^C is the box'\''s SIGINT'
}

inside() {
	pty -- "$AB" run -- sh -c 'ls /dev/pts; for i in 0 1 2; do readlink /proc/self/fd/$i; done; ls /proc/self/fd; echo x >/dev/tty'
	is "$(tr -d '\r' <"$T/out" | head -n 4 | xargs)" '0 ptmx /dev/pts/0 /dev/pts/0 /dev/pts/0' \
		'the box has a terminal of its own, and none of the host'\''s'
	like "$out" '^\[status 0\]' 'and /dev/tty works'
	pty -- env TERM=vt220 "$AB" run -- sh -c 'echo "TERM is $TERM"'
	like "$out" 'TERM is vt220' 'TERM is passed with a terminal'
	capture env TERM=vt220 "$AB" run -- sh -c 'echo "TERM is ${TERM-unset}"'
	is "$out" 'TERM is unset' 'and not without'
	pty -2 "$T/stderr" -- "$AB" run -- sh -c 'echo to stderr >&2; test -t 0 && test -t 1 && ! test -t 2'
	like "$out" '^\[status 0\]' 'stderr that is a file stays one'
	is "$(cat "$T/stderr")" 'to stderr' 'and gets what is written there'
	pty -- sh -c "'$AB' run -- sh -c 'test -t 1 || echo no terminal' >'$T/piped'"
	is "$(cat "$T/piped")" 'no terminal' 'auto: stdout that is a file means no terminal'
	run --tty yes -- true
	is "$status" 125 '--tty yes without one: 125'
	like "$err" 'terminal' 'and why'
	run --tty maybe -- true
	is "$status" 125 '--tty maybe: 125'
	pty -- "$AB" run --tty no -- sh -c ': >/dev/tty'
	unlike "$out" '^\[status 0\]' '--tty no: the command has no controlling terminal'
}

tests() {
	together
	ends
	again
	rests
	inside
}

for_each_user tests
done_testing
