#!/bin/bash
# Attacks A9 (sockets), A12 (names), A13 (one name for the rule and another for the server) and A14 (DNS), from a box where
# web.test may be reached: net/attack.py, which prints how each ended.
. "$(dirname "$0")/../lib/net.sh"

LONG=$(printf '%063d.%063d.%063d.%056d.test' 0 0 0 0 | sed 's/0/a/1; s/\.0/.b/; s/\.0/.c/; s/\.0/.d/; :1; s/a0/aa/; s/b0/bb/; s/c0/cc/; s/d0/dd/; t1')

# attack GROUP...: in the box. attack_outside GROUP...: the same without it.
attack() {
	run --allow web.test --allow "$LONG" --allow xn--bcher-kva.test -- python3 attack.py "$@"
	is "$status" 0 "(the probe of $* came to its end)"
}
attack_outside() {
	outside python3 attack.py "$@"
	is "$status" 0 "(the probe of $* came to its end outside)"
}

# ended NAME: how that attempt ended. all_ok: all came through. none_ok CASE [NAME-OF-ONE-THAT-DOES]...: none of them did.
ended() { sed -n "s/^$1: //p" <<<"$out"; }
all_ok() {
	is "$(grep -v ': ok$' <<<"$out")" '' "$1: (outside all of it comes through)"
}
none_ok() {
	local name=$1 line good=()

	shift
	good=("$@")
	while IFS= read -r line; do
		if printf '%s\n' ${good[@]+"${good[@]}"} | grep -Fxq -- "${line%: *}"; then
			is "${line##*: }" ok "$name: ${line%: *} (allowed)"
		else
			isnt "${line##*: }" ok "$name: ${line%: *}"
		fi
	done <<<"$out"
}

sockets() {
	attack_outside sockets
	all_ok A9
	attack sockets raw
	none_ok A9
	unlike "$out" 'timeout' 'A9: nothing is left to wait for'
	cmp_ok "$(logged egress.connect verdict=deny protocol=udp address=203.0.113.20 port=443)" -ge 1 'A9: UDP is logged'
	is "$(logged egress.connect verdict=deny protocol=udp port=443 name=web.test)" 1 'A9: UDP to the allowed name: logged with it'
	cmp_ok "$(logged egress.connect verdict=deny protocol=tcp address=2001:db8::20 port=7001)" -ge 1 'A9: TCP by IPv6 is logged'
	is "$(logged egress.connect verdict=allow)" 0 'A9: nothing was let through'
	if [ "$(id -u)" -eq 0 ]; then
		attack_outside raw
		all_ok A9
	fi
	run --allow '*' -- python3 attack.py sockets raw
	is "$(grep -E '^(udp|sendmmsg|udplite|ping|raw|packet|transparent).*: ok$' <<<"$out")" '' 'A9: a rule for all names is for TCP only'
	attack plumbing
	none_ok 'the box'\''s own plumbing'
	is "$(ended 'proxy loop')" 403 'the proxy port leads not to itself'
}

names() {
	local way good=()

	: >"$NET/http.log"
	: >"$NET/dns.log"
	for way in connect socks url; do
		good+=("$way plain" "$way trailing dot" "$way case" "$way longest" "$way punycode")
	done
	# Blanks around a Host are no part of it (RFC 9110 5.5).
	good+=('host plain' 'host trailing dot' 'host case' 'host blank' 'host tab' 'sni plain' 'sni trailing dot' 'sni case')
	attack names
	none_ok A12 "${good[@]}"
	is "$(grep -cvE "^GET (web\.test\.?[[:blank:]]*|WeB\.tEsT|xn--bcher-kva\.test|$LONG) /$" "$NET/http.log")" 0 \
		'A12: the server has seen no other name'
	is "$(sort -u "$NET/dns.log")" "$(printf '%s\n' web.test xn--bcher-kva.test "$LONG" | sort)" \
		'A12: the name server was asked for those only, in one form'
	is "$(logged egress.error)" 0 'A12: the gateway lives'
}

fronting() {
	local name

	attack_outside fronting
	for name in sni 'no sni' host 'second request' 'second request at once' 'smuggled, after a body' 'smuggled, in the body of a GET' \
		'smuggled, folded'; do
		is "$(ended "$name")" ok "A13: (outside: $name)"
	done
	: >"$NET/http.log"
	attack fronting
	none_ok A13 'second request, same host' 'hello in pieces' 'hello in records'
	is "$(ended host)" 403 'A13: another Host: 403'
	is "$(ended sni)" alert 'A13: another name in the hello: an alert'
	is "$(ended 'no sni')" alert 'A13: no name in the hello: an alert'
	is "$(ended 'second request')" 403 'A13: the second request for another Host: 403'
	is "$(ended 'second request at once')" 403 'A13: both requests at once: 403'
	is "$(ended 'second url')" 'one answer' 'A13: a second URL on a proxy'\''s connection is not taken for the first host'
	unlike "$(cat "$NET/http.log")" 'denied|evil' 'A13: the server has seen none of it'
	cmp_ok "$(events | grep '"egress.connect".*"verdict":"deny"' | grep -c 'denied\.test')" -ge 4 'A13: the log has the name that was tried'
	is "$(logged egress.error)" 0 'A13: the gateway lives'
	run --allow web.test -s egress.inspect=no -- python3 attack.py fronting
	is "$(ended sni) $(ended host)" 'ok ok' 'A13: (egress.inspect = no lets both through)'
}

dns() {
	attack_outside other_server
	is "$(grep -c 'NOERROR 1 203' <<<"$out")" 6 'A14: (outside the other name server tells all)'
	: >"$NET/dns.log"
	attack other_server
	is "$(grep denied: <<<"$out" | grep -vc ': NXDOMAIN$')" 0 'A14: another name server, UDP and TCP: the same answers: no'
	is "$(grep allowed: <<<"$out" | grep -c ': NOERROR 1 198\.1[89]\.')" 3 'A14: another name server: the same answers: yes'
	is "$(sort -u "$NET/dns.log")" web.test 'A14: it was not asked'
	: >"$NET/dns.log"
	attack dns
	is "$(grep -E '^[A-Z]+ denied: ' <<<"$out" | grep -cvE ': (NXDOMAIN|NOTIMP)$')" 0 'A14: TXT, ANY, AXFR ... of a denied name'
	is "$(grep -E '^[A-Z]+ allowed' <<<"$out" | grep -cvE ': (NOERROR|NOTIMP)$')" 0 'A14: TXT, ANY, AXFR ... of an allowed name: nothing'
	local name
	for name in loop 'two pointers' 'label and loop' forward 'label type' 'no end' empty 'many questions' 'no question'; do
		is "$(ended "$name")" FORMERR "A14: $name"
	done
	for name in 'nul label' 'dot in a label' root; do
		is "$(ended "$name")" NXDOMAIN "A14: $name"
	done
	for name in 'an answer' short '64 KiB by udp' '64 KiB by tcp' 'length that lies' notify update; do
		unlike "$(ended "$name")" NOERROR "A14: $name"
	done
	like "$(ended 'still there')" '^NOERROR 1 198\.1[89]\.' 'A14: after all that it answers'
	# What random bytes make of a name may be web.test again.
	is "$(sort -u "$NET/dns.log")" web.test 'A14: nothing of it went further'
	is "$(logged egress.error)" 0 'A14: the gateway lives'
	attack resolver_address
	none_ok 'A14: DNS over HTTPS and TLS'
	is "$(logged egress.connect verdict=deny port=443) $(logged egress.connect verdict=deny port=853)" '1 1' \
		'A14: they are logged (the box'\''s own address is as its loopback)'
}

# counted TYPE [FIELD=VALUE]...: as logged, and an event that stands for several counts as so many.
counted() { events | python3 "$SCRATCH/tests/lib/net/logged.py" --count "$@"; }

# What the box does without end neither hides what else it does nor fills the disk.
floods() {
	: >"$NET/http.log"
	# shellcheck disable=SC2016
	run --allow web.test -- sh -c '
		curl -s -o /dev/null http://web.test/
		python3 flood.py same 3 & python3 flood.py names 3 & sleep 0.5
		for i in 1 2 3 4 5 6 7 8 9 10; do
			curl -s -m 5 --resolve web.test:80:198.18.0.2 -o /dev/null -w "%{http_code} " http://web.test/$i
			curl -s -m 5 --resolve d.test:80:203.0.113.20 http://d.test/
		done
		wait'
	like "$out" '^(200 ){10}' 'flood of questions: connections go on'
	is "$(logged egress.connect verdict=allow) $(logged egress.close)" '11 11' 'flood of questions: the log has all that was allowed'
	is "$(counted egress.connect verdict=deny address=203.0.113.20)" 10 'flood of questions: and all that was denied'
	cmp_ok "$(logged egress.dns)" -le 10000 'flood of questions: the log is bounded'
	cmp_ok "$(counted egress.dns name=same.test)" -gt 100 'flood of questions: equal ones are counted'
	cmp_ok "$(logged egress.dns name=same.test)" -le 2000 'flood of questions: and are few events'
	like "$(event egress.error reason)" '^[0-9]+ more questions' 'flood of questions: what is not in the log is said'
	is "$(logged egress.error)" 1 'flood of questions: once'
	run --allow web.test -- python3 flood.py connects 198.18.0.9 80 3000
	is "$(counted egress.connect verdict=deny)" 3000 'flood of refused connections: all are counted'
	cmp_ok "$(logged egress.connect)" -le 40 'flood of refused connections: and are few events'
	run --allow web.test:7001 -s limits.open-files=4096 -- python3 flood.py hold web.test 7001 1000
	is "$out" 1000 '(1,000 connections are open when the command ends)'
	is "$(logged egress.connect verdict=allow) $(logged egress.close)" '1000 1000' 'the end of the run: all that is open is in the log'
	is "$(event run.end egress_sent_bytes)" 10000 'the end of the run: with all that was sent'
}

host_rules() {
	local rule

	for rule in 127.0.0.1:7001 127.0.0.0/8 '[::1]:7001' '*' @host; do
		run --allow @host:7001 -s "egress.deny=$rule" -- python3 flood.py hold host.agentbox.internal 7001 1
		is "$(logged egress.connect verdict=allow)" 0 "deny = $rule: @host is closed"
	done
	run --allow 127.0.0.1:7001 -s egress.deny=@host -- curl -s -m 5 -x socks5://127.0.0.1:18255 http://127.0.0.1:7001/
	is "$(logged egress.connect verdict=allow) $(logged egress.connect verdict=deny)" '0 1' 'deny = @host: the loopback'\''s address is closed'
}

tests() {
	cp "$SCRATCH/tests/lib/net/attack.py" "$SCRATCH/tests/lib/net/flood.py" .
	floods
	host_rules
	sockets
	names
	fronting
	dns
}

net_start && for_each_user tests
done_testing
