#!/bin/bash
# What the gateway relays: ends and resets both ways, silence, slow sides, many connections, limits; and its own end.
. "$(dirname "$0")/../lib/net.sh"

ALLOW=(--allow 'web.test:80,443,7000-7100,8080')

# The gateway and the servers hold two descriptors and more a connection; root may raise its limit.
ulimit -n 20000 2>/dev/null || ulimit -n "$(ulimit -Hn)"
half_open=2000
[ "$(ulimit -n)" -ge $((3 * half_open + 500)) ] || half_open=1000

relay() { run "${ALLOW[@]}" -- python3 relay.py "$@"; }

# children PID NAME: the processes below it that are called so (comm, or the start of the command line).
children() {
	local f pid ppid rest comm cmd

	for f in /proc/[0-9]*/stat; do
		read -r pid rest <"$f" || continue
		comm=${rest#*(} comm=${comm%)*}
		read -r _ ppid _ <<<"${rest##*)}"
		[ "$ppid" = "$1" ] || continue
		read -r -d '' cmd <"/proc/$pid/cmdline"
		case "$comm $cmd" in *"$2"*) echo "$pid" ;; esac
	done 2>/dev/null
}
gateway() { children "$pid" agentbox-gateway; }
resolver() { children "$pid" agentbox-dns; }
has_gateway() { [ -n "$(gateway)" ]; }

ends() {
	local via port seed want options

	for via in capture socks; do
		options=("${ALLOW[@]}" --setenv VIA "$via")
		run "${options[@]}" -- python3 relay.py client_ends_first 3000000
		is "$out" ok "$via: the client ends its half, the answer still comes"
		seed=$via$(id -u)
		: >"$NET/ends.log"
		run "${options[@]}" -- python3 relay.py server_ends_first "$seed"
		is "$out" 'that is all' "$via: the server ends its half"
		want=$(python3 -c 'import hashlib, sys; print(hashlib.sha256(sys.argv[1].encode() * 4096 * 16).hexdigest())' "$seed")
		until_true 3 grep -q . "$NET/ends.log"
		is "$(cat "$NET/ends.log")" "ends_first $want" "$via: what the client sends then arrives"
		outside python3 relay.py server_resets
		is "$out" reset "$via: (outside the server resets)"
		run "${options[@]}" -- python3 relay.py server_resets
		is "$out" reset "$via: a reset by the server"
		is "$(event egress.close how)" server-reset "$via: it is logged as one"
		: >"$NET/ends.log"
		run "${options[@]}" -- python3 relay.py client_ends one reset
		is "$(event egress.close how)" client-reset "$via: a reset by the client is logged as one"
		run "${options[@]}" -- python3 relay.py client_ends two end
		until_true 3 grep -q two "$NET/ends.log"
		is "$(cat "$NET/ends.log")" 'one reset
two end' "$via: the server sees a reset as a reset and an end as an end"
	done
	run --allow web.test:443 --allow two.test:7001 --allow refused.test:7009 -- sh -c '
		python3 relay.py reach two.test 7001; python3 relay.py reach refused.test 7009'
	is "$(head -n 1 <<<"$out")" 'ping soon' 'of two addresses the one that answers'
	like "$out" '(reset by peer|refused|closed) soon$' 'none that answers: an end at once'
	like "$(events | grep refused.test | grep egress.connect)" 'not reached' 'and it is logged'
}

slow() {
	local peak

	background "${ALLOW[@]}" -- python3 relay.py slow_reader 60 3
	until_true 10 grep -q open "$T/out"
	sleep 2
	peak=$(sed -n 's/^VmHWM:[[:blank:]]*\([0-9]*\) kB/\1/p' "/proc/$(gateway)/status")
	finish
	is "$out" 'open
60
True' 'slow readers: all get something, and others are served'
	cmp_ok "${peak:-0}" -gt 500 '(the gateway'\''s memory is seen)'
	cmp_ok "${peak:-999999}" -lt 49152 'slow readers: the gateway holds little'
	: >"$NET/ends.log"
	background "${ALLOW[@]}" -- python3 relay.py slow_server 60000000
	sleep 2
	peak=$(sed -n 's/^VmHWM:[[:blank:]]*\([0-9]*\) kB/\1/p' "/proc/$(gateway)/status")
	finish
	is "$out" waited 'a slow server slows the client down'
	is "$(cat "$NET/ends.log")" 'sink 60000000' 'and gets all'
	cmp_ok "${peak:-999999}" -lt 24576 'a slow server: the gateway holds little'
}

many() {
	relay digests 500
	is "$out" 500 '500 connections at once: each gets its own'
	is "$(logged egress.connect verdict=allow) $(logged egress.close how=closed)" '500 500' '500 connections: all are logged'
	run "${ALLOW[@]}" -s limits.open-files=4096 -- python3 relay.py half_open "$half_open" 443
	is "$out" "$half_open 0
True
soon" "$half_open connections without a word: others are served"
	run "${ALLOW[@]}" -s limits.open-files=4096 -- python3 relay.py half_open "$half_open" 7008
	is "$out" "$half_open 0
True
soon" "$half_open silent connections: others are served"
}

limits() {
	local line

	run "${ALLOW[@]}" -s egress.max-bytes=1M -- sh -c '
		curl -s http://web.test:8080/bulk/20000000 | wc -c; curl -s http://web.test:8080/ || echo closed'
	cmp_ok "$(head -n 1 <<<"$out")" -le 1048576 'max-bytes: no more than that'
	cmp_ok "$(head -n 1 <<<"$out")" -gt 0 'max-bytes: and not nothing'
	like "$out" 'closed$' 'max-bytes: nothing after it'
	is "$(event limit.hit limit) $(event limit.hit value)" 'egress.max-bytes 1048576' 'max-bytes: an event says so'
	like "$err" '; reached: egress\.max-bytes; ' 'max-bytes: and stderr'
	is "$(logged egress.error) $(event egress.close how)" '0 limit' 'max-bytes: and the connection'\''s end'
	is "$(logged egress.connect verdict=deny)" 1 'max-bytes: the next connection is denied in the log'
	cmp_ok "$(event run.end egress_received_bytes)" -le 1048576 'max-bytes: run.end counts them'
	for _ in 1 2 3; do
		run "${ALLOW[@]}" -s egress.max-bytes=1M -- sh -c '
			curl -si http://web.test:8080/bulk/20000000 2>/dev/null | (sleep 0.5; cat) | wc -c'
		is "$(head -n 1 <<<"$out")" "$(event run.end egress_received_bytes)" 'max-bytes: what was counted was delivered'
		is "$(($(event run.end egress_received_bytes) + $(event run.end egress_sent_bytes)))" 1048576 'max-bytes: to the byte'
	done
	run "${ALLOW[@]}" -s egress.max-connections=3 -- python3 relay.py connections 5
	is "$(grep -c '^ping' <<<"$out")" 3 'max-connections: so many and no more'
	like "$out" 'then ping' 'max-connections: as many again when they are closed'
	is "$(logged egress.connect verdict=deny)" 2 'max-connections: the others are in the log'
	run --allow silent.test:7001 -s egress.connect-timeout=1s -- python3 relay.py reach silent.test 7001
	like "$out" ' soon$' 'connect-timeout: a server that does not answer'
	like "$(event egress.connect reason)" 'not reached: .*timed out' 'connect-timeout: it is logged'
	run --allow unanswered.test:7001 --allow web.test:7001 --setenv VIA socks -s egress.connect-timeout=1s -- sh -c '
		python3 relay.py reach unanswered.test 7001 & python3 relay.py reach web.test 7001; wait'
	like "$out" '^reply [0-9]+ soon$' 'connect-timeout: a name server that does not answer'
	like "$out" '^ping soon$' 'connect-timeout: other names meanwhile'
}

# Descriptors run out.
descriptors() {
	local before after

	# shellcheck disable=SC2016
	(
		ulimit -n 256
		exec "$AB" run --allow web.test -- sh -c '
			for i in 1 2 3; do python3 flood.py hold 127.0.0.1 18255 150 4 & done; sleep 1; echo held; wait
			curl -s -m 5 http://web.test/'
	) </dev/null >"$T/out" 2>"$T/err" &
	pid=$!
	own "$pid"
	until_true 10 grep -q held "$T/out"
	before=$(gateway_ticks)
	sleep 2
	after=$(gateway_ticks)
	finish
	isnt "$before" '' '(the gateway is seen)'
	cmp_ok "$((${after:-9999} - ${before:-0}))" -lt 50 'no descriptors: the gateway waits, and does not spin'
	like "$out" 'hello web.test' 'no descriptors: it serves when there are some again'
}
# Processor time of the gateway of the run in the background, in ticks.
gateway_ticks() {
	local stat

	read -r stat <"/proc/$(gateway)/stat" || return
	# shellcheck disable=SC2086
	set -- ${stat##*) }
	echo "$((${12} + ${13}))"
}

# The gateway's own end closes the network, and nothing else.
death() {
	local g resolver p

	# shellcheck disable=SC2016
	background "${ALLOW[@]}" -- sh -c '
		curl -s http://web.test/
		python3 relay.py silence 3 2>/dev/null || echo cut
		for u in http://web.test/ http://203.0.113.10/ http://127.0.0.1:18255/; do curl -s -m 3 $u && echo open; done
		echo on; exit 3'
	until_true 10 grep -q hello "$T/out"
	until_true 5 has_gateway
	g=$(gateway)
	resolver=$(resolver)
	isnt "$g" '' '(there is a gateway)'
	isnt "$resolver" '' '(and its resolver)'
	sleep 0.5
	kill -KILL "$g"
	finish
	is "$status $out" '3 hello web.test
cut
on' 'the gateway killed: connections and network end, the command goes on'
	is "$(event egress.error process) $(event egress.error signal)" 'gateway 9' 'the gateway killed: an event'
	until_true 3 ended "$resolver"
	ok $? 'the gateway killed: its resolver is gone too'

	background "${ALLOW[@]}" -- sh -c 'curl -s http://web.test/; python3 relay.py silence 60'
	until_true 10 grep -q hello "$T/out"
	g=$(gateway)
	resolver=$(resolver)
	disown "$pid"
	kill -KILL "$pid"
	for p in $g $resolver; do
		until_true 5 ended "$p"
		ok $? 'the supervisor killed: nothing of the gateway is left'
	done
	capture "$AB" prune # the control group that eBPF programs were on
	is "$status" 0 'the supervisor killed: prune takes the rest'

	background "${ALLOW[@]}" -- sh -c 'curl -s http://web.test/; sleep 1'
	until_true 10 grep -q hello "$T/out"
	g=$(gateway)
	resolver=$(resolver)
	finish
	for p in $g $resolver; do
		until_true 1 ended "$p"
		ok $? 'after the run nothing of the gateway is left'
	done
	isnt "$g" '' '(it was there)'

	background "${ALLOW[@]}" -- sh -c 'curl -s http://203.0.113.10/ && sleep 1'
	until_true 5 has_gateway
	sleep 0.5
	is "$(resolver)" '' 'a run that asks for no name has no resolver'
	finish
}

tests() {
	cp "$SCRATCH/tests/lib/net/relay.py" "$SCRATCH/tests/lib/net/flood.py" .
	BOX_SECONDS=40
	ends
	slow
	many
	limits
	descriptors
	death
}

# A connection on which nothing is said, for both users beside all the other tests.
silence_begin() {
	cp "$SCRATCH/tests/lib/net/relay.py" .
	timeout -s KILL 150 "$AB" run "${ALLOW[@]}" -- python3 relay.py silence 90 </dev/null >"$T/silence" 2>&1 &
}

silence_end() {
	until_true 150 grep -q . "$T/silence"
	is "$(cat "$T/silence")" after '90 seconds of silence end nothing'
}

if net_start; then
	for_each_user silence_begin
	for_each_user tests
	for_each_user silence_end
fi
done_testing
