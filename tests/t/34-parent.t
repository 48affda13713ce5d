#!/bin/bash
# The caller: case 11 (a thread starts the run), --die-with-parent, stop, ps.
. "$(dirname "$0")/../lib/lib.sh"

# A program that starts the rest of its arguments from a thread that ends at once, and gives their status.
threaded() {
	cat >"$T/threaded.py" <<'END'
import subprocess, sys, threading, time
box = {}
def start():
    box["p"] = subprocess.Popen(sys.argv[1:])
    time.sleep(0.2)
t = threading.Thread(target=start)
t.start()
t.join()
sys.exit(box["p"].wait())
END
}

threads() {
	threaded
	for option in '' --die-with-parent; do
		# shellcheck disable=SC2086
		capture timeout -s KILL 20 python3 "$T/threaded.py" "$AB" run $option -- sh -c 'sleep 0.5; exit 6'
		is "$status" 6 "case 11: the thread that started the run ends, the run goes on (${option:-plain})"
	done
	# The probe sees the difference: a parent-death signal is of the thread.
	capture timeout -s KILL 20 python3 "$T/threaded.py" setpriv --pdeathsig KILL sh -c 'sleep 0.5; exit 6'
	isnt "$status" 6 'case 11: (outside, a parent-death signal comes with the thread'\''s end)'
	rm "$T/threaded.py"
}

die_with_parent() {
	local m parent

	m=$(mark)
	sh -c '"$0" run --die-with-parent -- sleep "$1"; true' "$AB" "$m" &
	parent=$!
	own $parent
	until_true 5 alive "$m"
	kill -KILL $parent
	wait $parent 2>/dev/null
	until_true 5 gone "$m"
	ok $? '--die-with-parent: the caller is killed, the run ends'
	until_true 5 sh -c '! "$0" ps | grep -q running' "$AB"
	ok $? 'and its record is closed'
	is "$(event run.end reason)" cancelled 'as cancelled'
	m=$(mark)
	sh -c '"$0" run -- sleep "$1"; true' "$AB" "$m" &
	parent=$!
	own $parent
	until_true 5 alive "$m"
	kill -KILL $parent
	wait $parent 2>/dev/null
	sleep 0.3
	alive "$m"
	ok $? 'without it the run goes on'
	capture "$AB" stop --all --grace 2s
	is "$status" 0 'stop --all'
	gone "$m"
	ok $? 'ends it'
}

stopping() {
	local m start id other

	m=$(mark)
	background -- sh -c "trap 'exit 0' TERM; sleep $m & wait"
	until_true 5 alive "$m"
	id=$(basename "$(run_dir)")
	capture "$AB" ps
	like "$out" "^$id .*default .*running .* $pid  *sh -c" 'ps: id, profile, state, pid, command'
	is "$(printf '%s\n' "$out" | head -n 1 | xargs)" 'RUN TASK PROFILE STATE AGE PID COMMAND' 'ps: the heading'
	capture "$AB" ps --json
	is "$(printf '%s\n' "$out" | python3 "$SCRATCH/tests/lib/field.py" - id) $(printf '%s\n' "$out" | python3 "$SCRATCH/tests/lib/field.py" - pid)" "$id $pid" \
		'ps --json'
	capture "$AB" stop "$id"
	is "$status $err" '0 ' 'stop RUN'
	gone "$m"
	ok $? 'returns when all of it is gone'
	finish
	is "$(event run.end reason)" cancelled 'the record says cancelled'
	capture "$AB" ps
	unlike "$out" "$id" 'ps shows it no more'
	capture "$AB" ps --all
	like "$out" "^$id .*ended" 'ps --all does'

	m=$(mark)
	background -- sh -c "trap '' TERM INT HUP; sleep $m; sleep $m"
	until_true 5 alive "$m"
	start=$(now_ms)
	capture "$AB" stop last --grace 500ms
	is "$status" 0 'stop of what ignores TERM'
	cmp_ok $(($(now_ms) - start)) -lt 5000 'is done after the grace'
	cmp_ok $(($(now_ms) - start)) -ge 400 'and not before'
	gone "$m"
	ok $? 'with nothing left'
	finish
	is "$(event run.end reason)" cancelled 'the record says cancelled'

	background -- sleep "$(mark)"
	other=$pid
	until_true 5 sh -c '"$0" ps | grep -q running' "$AB"
	background -- sleep "$(mark)"
	until_true 5 sh -c 'test "$("$0" ps | grep -c running)" = 2' "$AB"
	ok $? 'two runs'
	capture "$AB" stop no-such-run
	is "$status" 125 'stop of no run'
	like "$err" 'no such run: no-such-run' 'in words'
	capture "$AB" stop
	is "$status" 125 'stop without a run'
	ended "$pid"
	is $? 1 'leaves the others alone'
	capture "$AB" stop --all
	is "$status" 0 'stop --all'
	until_true 3 ended "$pid" && until_true 3 ended "$other"
	ok $? 'ends both'
	capture "$AB" stop last
	is "$status" 0 'stop of an ended run is no fault'
	is "$err" "agentbox: note: run $(basename "$(run_dir)") has ended already" 'and is said'
	capture "$AB" stop --all
	is "$status $err" '0 ' 'stop --all says nothing of ended ones'
	capture "$AB" stop last no-such-run
	is "$status" 125 'one that is there and one that is not: 125'
	# Another process that has its pid by now is not it: the start time is compared.
	sleep 60 &
	own $!
	sed -i "s/\"pid\": *[0-9]*/\"pid\":$!/" "$(run_dir)/run.json"
	capture "$AB" stop last
	ended $!
	is $? 1 'and never ends a stranger'
	own_kill
}

tests() {
	threads
	die_with_parent
	stopping
}

for_each_user tests
done_testing
