#!/bin/bash
# Exit status, signals and what is left of the processes: cases 1, 2, 3, 5, 7, 8, 9, 14, 15.
. "$(dirname "$0")/../lib/lib.sh"

statuses() {
	local s

	for s in 0 1 55 124 125 126 127 128 137 255; do
		run -- sh -c "exit $s"
		is "$status" "$s" "case 2: exit $s is $s"
		is "$(event run.end reason) $(event run.end exit_code)" "exited $s" "case 2: the record says exited $s"
	done
	run -- sh -c 'sleep 0.1 & exit 3'
	is "$status" 3 'case 1: another child does not change the status'
	run -- sh -c '(sleep 0.2; exit 9) & (exit 8) & sleep 0.1; kill -SEGV $$'
	is "$status" 139 'case 1: killed by SIGSEGV is 139'
	is "$(event run.end reason) $(event run.end signal) $(event run.end exit_code)" 'signaled 11 null' \
		'case 1: the record says signaled 11, and no exit code'
	is "$(event command.exit signal) $(event command.exit exit_code)" '11 null' 'case 1: and so does command.exit'
	run -- sh -c 'exit 139'
	is "$status" 139 'case 1: exit 139 is 139 too'
	is "$(event run.end reason) $(event run.end signal)" 'exited null' 'case 1: but the record tells them apart'
	for s in HUP INT QUIT KILL USR1 ABRT PIPE; do
		run -- sh -c "kill -$s \$\$; sleep 1"
		is "$status" $((128 + $(kill -l "$s"))) "case 1: killed by $s is 128 + its number"
	done
}

not_started() {
	run -- /no/such
	is "$status" 127 'case 3: a command that is not there is 127'
	like "$err" '/no/such: not there in the box, or its interpreter is not; .*--ro-bind' 'case 3: and is named, with what to do'
	is "$(event run.end reason)" not-found 'case 3: the record says not-found'
	is "$(event command.exit type)" absent 'case 3: and no command.exit'
	run -- no-such-command-in-path
	is "$status" 127 'case 3: nor in PATH: 127'
	like "$err" "no-such-command-in-path: not in the box's PATH \\(/usr/local/[^)]*:/bin\\)" 'case 3: and the PATH is said'
	run --setenv PATH /a:/b -- no-such-command-in-path
	like "$err" 'PATH \(/a:/b\)' 'case 3: the one of the box'
	run -- /etc/passwd
	is "$status" 126 'case 3: a file that cannot be executed is 126'
	is "$(event run.end reason)" not-executable 'case 3: the record says not-executable'
	run -- /etc
	is "$status" 126 'case 3: a directory is 126'
	printf '#!/no/such/interpreter\n' >script
	chmod +x script
	run -- ./script
	is "$status" 127 'case 3: a missing interpreter is 127, as in a shell'
	like "$err" './script: .*interpreter' 'case 3: and may be what is missing'
	for s in 126 127; do
		run -- sh -c "exit $s"
		is "$(event run.end reason)" exited "case 3: a command that exits $s itself has exited"
	done
	rm script
	run
	is "$status" 125 'no command is 125'
	run --no-such-option -- true
	is "$status" 125 'an unknown option is 125'
	like "$err" '`agentbox help run` lists them' 'and where they are listed is said'
	run -q --help -- sh -c 'exit 3'
	is "$status" 0 'run --help: 0, and nothing runs'
	like "$out" '^usage: agentbox run ' 'and the help'
	run -- echo x --help
	is "$status $out" '0 x --help' '--help behind the -- is the command'"'"'s'
	run echo -h
	is "$status $out" '0 -h' 'and so is what stands behind COMMAND'
	run --setenv A --help -- sh -c 'echo "$A"'
	is "$status $out" '0 --help' 'and what is the argument of an option is that'
	run -s no.such=1 -- true
	is "$status" 125 'an unknown key is 125'
	run -p no-such-profile -- true
	is "$status" 125 'an unknown profile is 125'
}

signals() {
	local s m

	capture timeout -s KILL "$BOX_SECONDS" perl -e '$SIG{CHLD}="IGNORE"; exec @ARGV' "$AB" run -- sh -c 'exit 7'
	is "$status" 7 'case 5: a caller that ignores SIGCHLD gets the status'
	capture timeout -s KILL "$BOX_SECONDS" perl -MPOSIX -e \
		'sigprocmask(SIG_BLOCK, POSIX::SigSet->new(SIGCHLD, SIGTERM, SIGALRM)); exec @ARGV' "$AB" run -- sh -c 'exit 7'
	is "$status" 7 'case 5: and one that blocks it'

	background -- sh -c 'sleep 1; exit 4'
	sleep 0.2
	for s in WINCH CONT STOP CONT WINCH; do
		kill "-$s" "$pid"
		sleep 0.1
	done
	finish
	is "$status" 4 'case 7: WINCH, CONT, STOP, CONT do not disturb a run'

	# At once, wherever the start is: none of these is lost on it, and none ends it.
	for i in 1 2 3 4 5 6 7 8 9 10; do
		background --allow @host:9 -- sh -c 'exit 4'
		for s in WINCH CONT WINCH CONT; do
			kill "-$s" "$pid" 2>/dev/null || break
			sleep 0.00$i
		done
		finish
		[ "$status" -eq 4 ] || break
	done
	is "$status" 4 'case 7: nor its start'

	run -- sh -c 'kill -TERM $$; echo alive'
	is "$status" 143 'case 8: the command gets its own TERM'
	unlike "$out" alive 'case 8: and does not outlive it'
	outside sh -c 'kill -TERM $$; echo alive'
	is "$status" 143 'case 8: as outside'

	for s in TERM INT HUP QUIT USR1 USR2 ALRM; do
		m=$(mark)
		background -- sleep "$m"
		until_true 5 alive "$m" || fail "case 9: the sleep came up ($s)"
		kill "-$s" "$pid"
		finish
		is "$status" $((128 + $(kill -l "$s"))) "case 9: $s reaches the command"
		gone "$m"
		ok $? "case 9: and no sleep is left after $s"
		is "$(event run.end signal)" "$(kill -l "$s")" "case 9: the record names $s"
	done
	background -- bash -c 'trap "echo got; exit 5" TERM; echo up; while :; do sleep 0.05; done'
	until_true 5 grep -q up "$T/out"
	kill -TERM "$pid"
	finish
	is "$status $(tail -n 1 "$T/out")" '5 got' 'case 9: a command that handles TERM ends with its own status'
}

leftovers() {
	local m start

	m=$(mark)
	start=$(now_ms)
	run -- sh -c "sleep $m & exit 0"
	is "$status" 0 'case 14: a process in the background does not keep the box'
	cmp_ok $(($(now_ms) - start)) -lt 1000 'case 14: back in under 1 s'
	gone "$m"
	ok $? 'case 14: and the sleep is gone'
	outside sh -c "sleep $m & exit 0"
	alive "$m"
	ok $? 'case 14: outside it stays (the probe sees it)'
	kill -KILL "$(sleeper "$m")"

	# Pid 1 looks whether it is alone when the command has ended: orphans that go on dying are no reason to go on looking.
	start=$(now_ms)
	run -- python3 -c 'import os
for i in range(4):
    if os.fork() == 0:
        os.setsid()
        while True:
            if os.fork() == 0:
                os.fork(); os._exit(0)
            try:
                while os.waitpid(-1, os.WNOHANG)[0] > 0: pass
            except ChildProcessError: pass
os._exit(9)'
	is "$status" 9 'orphans without end: the status'
	cmp_ok $(($(now_ms) - start)) -lt 5000 'orphans without end: do not keep the box'

	m=$(mark)
	run -- sh -c "setsid sleep $m & sleep 0.2"
	is "$status" 0 'case 15: setsid'
	gone "$m"
	ok $? 'case 15: leaves nothing outside'
	m=$(mark)
	run -- sh -c "(setsid sh -c 'trap \"\" TERM INT HUP; sleep $m' &) & sleep 0.2; exit 6"
	is "$status" 6 'case 15: a double fork that ignores signals does not change the status'
	gone "$m"
	ok $? 'case 15: and leaves nothing outside'
}

tests() {
	statuses
	not_started
	signals
	leftovers
}

for_each_user tests
done_testing
