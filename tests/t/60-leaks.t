#!/bin/bash
# No memory is lost and no descriptor left: a run's supervisor by the leak sanitizer, all its processes by valgrind, which needs
# tests/lib/native.c for that, and the gateway by what it holds before and after thousands of connections.
. "$(dirname "$0")/../lib/lib.sh"

leaks() {
	local words

	cp "$BUILD/tests/leaks/lsan" "$T/lsan" 2>/dev/null
	outside "$T/lsan" --version
	is "$status" 0 '(the binary with the leak sanitizer runs)' || return
	LEAK=1 outside "$T/lsan" show -p default
	like "$err" 'LeakSanitizer: 10000 byte' '(a leak is seen)'
	for words in 'true' 'false' '--allow @host:9 true' '-s egress.mode=host --allow @host:9 getent hosts host.agentbox.internal' '-s workspace.repo-mode=write -s filesystem.deny=README true' '--input README:x true' \
		'--memory 64M -s limits.processes=20 true' '--timeout 300ms sleep 9' 'no-such-command' '--bind /nosuch /x true' \
		'-s no.such=1 true' '--allow a..b true' '--chdir /nosuch true' '--dry-run true' '-s syscalls.policy=strict true' \
		'-s output.capture=yes -s output.head=5 -s output.tail=5 seq 100' '-s output.capture=yes no-such-command'; do
		# shellcheck disable=SC2086 # words
		outside "$T/lsan" run $words
		like "$status" '^(0|1|2|124|125|127)$' "run $words: ends as it should ($status)"
		unlike "$err" 'Sanitizer' "run $words: nothing is lost"
	done
	for words in 'log last' 'log last --verify' 'log last --json' 'ps --all' 'doctor' 'doctor --json' 'check default' 'show -p default' 'show --keys' \
		'why read README' 'why connect a.test:443' 'prune --keep 3' 'help' 'help run' 'stop no-such-run'; do
		# shellcheck disable=SC2086
		outside "$T/lsan" $words
		unlike "$err" 'Sanitizer' "$words: nothing is lost ($status)"
	done
}

# checked WORDS...: under valgrind; memory errors, leaks, descriptors that were not there before.
KINDS=definite,indirect,possible
VALGRIND=(valgrind --leak-check=full "--show-leak-kinds=$KINDS" "--errors-for-leak-kinds=$KINDS"
	--track-fds=yes --suppressions="$SCRATCH/tests/lib/valgrind.supp")
checked() {
	outside "${VALGRIND[@]}" --error-exitcode=99 --log-file="$T/valgrind" "$T/valgrind-agentbox" "$@"
	is "$(grep -o 'ERROR SUMMARY: [0-9]* errors' "$T/valgrind")" 'ERROR SUMMARY: 0 errors' "valgrind: $*: no errors, nothing lost" ||
		diag "$(grep -v -e WARNING -e 'write your own' "$T/valgrind" | head -n 40)"
	# A descriptor that is inherited has that in its second line.
	is "$(sed -n '/Open file descriptor/{N;/inherited/!p}' "$T/valgrind")" '' "valgrind: $*: no descriptor is left"
}

# descriptors: of the processes of a run, what they were not started with and had open at their end, one a line: pid and who opened it.
descriptors() {
	sed -n '/^==[0-9]*== Open /,/^==[0-9]*== $/p' "$1" | awk '
		/== Open / { pid = $1; who = ""; next }
		/== +(at|by) / { who = who " " $4; next }
		{ print pid who }' | grep -v '== *$'
}

# followed WHAT COUNT WORDS...: a run of COUNT processes, as checked. They write to a pipe: some may open no file and write to none.
followed() {
	local what=$1 count=$2 reader main

	shift 2
	rm -f "$T/pipe"
	mkfifo "$T/pipe"
	cat "$T/pipe" >"$T/valgrind" &
	reader=$!
	outside "${VALGRIND[@]}" --log-fd=9 "$T/valgrind-agentbox" run "$@" 9>"$T/pipe"
	wait $reader
	# pid 1, on its way out, may be killed before valgrind has said its word.
	like "$(sed -n 's/^==[0-9]*== ERROR SUMMARY: \(.* errors\) .*/\1/p' "$T/valgrind" | sort | uniq -c | xargs)" \
		"^($count|$((count - 1))) 0 errors\$" "valgrind: $what: no errors and nothing lost, in $count processes" || diag "$(grep -v -e WARNING -e 'write your own' "$T/valgrind" | head -n 60)"
	main=$(sed -n 's/^\(==[0-9]*==\) Command: .*/\1/p' "$T/valgrind")
	is "$(descriptors "$T/valgrind" | grep "^$main ")" '' "valgrind: $what: no descriptor is left by the supervisor"
	# pid 1 has its signals, the line to the supervisor and, taken behind valgrind's back, the socket of its network, the gateway what it was given and what it watches its own addresses by.
	is "$(descriptors "$T/valgrind" | grep -v -e "^$main " -e 'signalfd init_main' -e ' receive_part ' -e ' gateway_host_receive ' \
		-e ' own_open ' -e ' open_all ' -e ' socketpair start_box' -e ' socket make ')" '' "valgrind: $what: nor one of a connection by the gateway" ||
		diag "$(descriptors "$T/valgrind")"
}

runs() {
	local port

	echo y >other
	followed overlay 2 -- sh -c 'echo x >new; rm README'
	is "$status" 0 '(it ran)'
	followed write 2 -s workspace.repo-mode=write -s filesystem.deny=README --input other:x -- sh -c '! cat README && cat /workspace/input/x'
	is "$out" y '(and this one)'
	rm other
	followed 'output captured' 2 -s output.capture=yes -s output.head-lines=1 -s output.tail-lines=1 -- seq 100
	is "$(grep -v '^\[' "$T/out" | xargs)" '1 100' '(and this one)'
	followed timeout 2 --timeout 1s -- sleep 20
	is "$status" 124 '(and this one)'
	followed 'no command' 3 -- no-such-command
	is "$status" 127 '(and here there is none)'
	"$PROBES/stream" serve >"$T/port" &
	own $!
	until_true 5 test -s "$T/port"
	port=$(cat "$T/port")
	# shellcheck disable=SC2016
	followed gateway 3 --allow "@host:$port" --ro-bind "$PROBES/stream" /workspace/input/stream -- sh -c '
		a=$(getent hosts host.agentbox.internal); a=${a%% *}; getent hosts denied.test; curl -sS -m 5 http://192.0.2.1/ 2>/dev/null
		exec /workspace/input/stream first $a $0 50' "$port"
	is "$status" 0 '(50 connections through the gateway)'
	like "$(descriptors "$T/valgrind")" ' gateway_main' '(which valgrind has looked at)'
	[ "$(id -u)" -ne 0 ] || [ "$(event run.start mechanisms.ebpf.in_force)" != true ] ||
		followed 'mode = host' 3 -s egress.mode=host --memory 64M --allow "@host:$port" -- getent hosts host.agentbox.internal denied.test
}

valgrinds() {
	if ! have valgrind; then
		skip valgrind 'valgrind'
		return
	fi
	cp "$BUILD/tests/leaks/valgrind" "$T/valgrind-agentbox"
	LEAK=1 outside valgrind --leak-check=full --errors-for-leak-kinds=definite,possible --error-exitcode=99 --log-file="$T/valgrind" \
		"$T/valgrind-agentbox" show -p default
	is "$status" 99 '(valgrind sees a leak)'
	run -- true
	checked show -p default
	checked check default
	checked log last
	checked log last --verify
	checked ps --all
	checked why read README
	checked why connect a.test:443
	checked run --dry-run -s syscalls.policy=off -- true
	checked run -s no.such=1 -- true
	case $(uname -m)/$(valgrind --version) in
	x86_64/*) runs ;;
	*) skip "valgrind on $(uname -m)" 'whole runs under valgrind' ;;
	esac
}

# What the processes of a run still have open as they leave: strace holds each at exit_group for a while.
exits() {
	local f p name

	if ! have strace || ! strace -o /dev/null true 2>/dev/null; then
		skip strace 'descriptors at the exit'
		return
	fi
	(
		# What the test was started with is no descriptor of ours.
		for f in /proc/"$BASHPID"/fd/*; do
			[ "${f##*/}" -le 2 ] || eval "exec ${f##*/}>&-"
		done
		exec strace -f -b execve -o "$T/strace" -e trace=exit_group -e inject=exit_group:delay_enter=700000 \
			"$AB" run -q --allow @host:9 -- true </dev/null >"$T/out" 2>"$T/err"
	) &
	p=$!
	: >"$T/open"
	while kill -0 "$p" 2>/dev/null; do
		for f in /proc/[0-9]*/exe; do
			[ "$(readlink "$f")" = "$AB" ] || continue
			f=${f%/exe}
			# In exit_group (231, 94 on arm64): nothing more will be closed by the program.
			case $(cut -d' ' -f1 "$f/syscall") in 231 | 94) ;; *) continue ;; esac
			name=$(cat "$f/comm")
			echo "$name $(find "$f/fd" -mindepth 1 -printf '%f\n' | awk '$1 > 2' | xargs)" >>"$T/open"
		done 2>/dev/null
		sleep 0.05
	done
	wait "$p"
	is $? 0 '(the run with delayed exits)'
	is "$(grep '^agentbox ' "$T/open" | sort -u)" 'agentbox ' 'the supervisor has closed all when it leaves' ||
		diag "$(sort -u "$T/open")"
}

# The gateway's descriptors, and KiB of memory of its own.
held() {
	local f

	for f in /proc/[0-9]*/exe; do
		f=${f%/exe}
		case $(cat "$f/comm") in agentbox-gat*) ;; *) continue ;; esac
		[ "$(readlink "$f/exe")" = "$AB" ] || continue
		echo "$(find "$f/fd" -mindepth 1 | wc -l) $(sed -n 's/^RssAnon:[[:blank:]]*\([0-9]*\) kB/\1/p' "$f/status")"
	done 2>/dev/null
}
settled() { [ "$(held | cut -d' ' -f1)" = "$1" ]; }

gateway() {
	local port before after

	"$PROBES/stream" serve >"$T/port" &
	own $!
	until_true 5 test -s "$T/port"
	port=$(cat "$T/port")
	# shellcheck disable=SC2016
	background --allow "@host:$port" --ro-bind "$PROBES/stream" /workspace/input/stream -- sh -c '
		a=$(getent hosts host.agentbox.internal); a=${a%% *}
		/workspace/input/stream first $a $0 300 && echo few && sleep 2
		/workspace/input/stream first $a $0 3000 && echo many; sleep 60' "$port"
	until_true 10 grep -q few "$T/out"
	sleep 1
	before=$(held)
	like "$before" '^[0-9]+ [0-9]+$' '(the gateway is found, after 300 connections)'
	until_true 20 grep -q many "$T/out"
	ok $? '(3,000 connections more)'
	until_true 3 settled "${before% *}"
	after=$(held)
	is "${after% *}" "${before% *}" 'the gateway holds no more descriptors after 3,000 connections'
	cmp_ok "${after#* }" -le $((${before#* } + 512)) 'and no more memory'
	kill -TERM "$pid"
	finish
}

tests() {
	leaks
	valgrinds
	exits
	# A gateway cannot be looked into by its own user.
	[ "$(id -u)" -ne 0 ] || gateway
}

for_each_user tests
done_testing
