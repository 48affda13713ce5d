#!/bin/bash
# egress.ebpf: the second wall beside the gateway, whose a connection is, where it is refused, and that nothing of it is left.
. "$(dirname "$0")/../lib/net.sh"

probe_files() {
	# dial.py TCP|UDP ADDRESS PORT...: one attempt each, and how it ended.
	cat >dial.py <<-'PY'
		import socket, sys
		def dial(kind, address, port):
		    s = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, kind)
		    s.settimeout(2)
		    if kind == socket.SOCK_DGRAM:
		        s.sendto(b"ping", (address, port))
		    else:
		        s.connect((address, port))
		        s.sendall(b"ping")
		    return "ok" if s.recv(100) == b"ping" else "other"
		kinds = {"tcp": socket.SOCK_STREAM, "udp": socket.SOCK_DGRAM}
		for place in sys.argv[1:]:
		    kind, address, port = place.split("/")
		    try:
		        print(dial(kinds[kind], address, int(port)))
		    except OSError as e:
		        print("timeout" if isinstance(e, TimeoutError) else e.strerror)
	PY
}

# dial PLACE...: in the box, as the last of $options say.
dial() { run ${options[@]+"${options[@]}"} -- python3 dial.py "$@"; }

wall() {
	local options=(--allow web.test -s egress.ebpf=require)

	outside python3 dial.py tcp/203.0.113.20/7001 tcp/::ffff:203.0.113.20/7001 tcp/2001:db8::20/7001 udp/203.0.113.20/443
	is "$out" $'ok\nok\nok\nok' '(outside all of it comes through)'
	dial tcp/203.0.113.20/7001 tcp/::ffff:203.0.113.20/7001 tcp/2001:db8::20/7001 udp/203.0.113.20/443 udp/::ffff:203.0.113.20/123
	is "$status $out" $'0 Operation not permitted\nOperation not permitted\nOperation not permitted\nOperation not permitted\nOperation not permitted' \
		'TCP and UDP, IPv4, mapped and IPv6: refused by the call'
	is "$(event run.start mechanisms.ebpf.in_force)" true 'the log says that the programs are in force'
	is "$(logged egress.connect verdict=deny via=ebpf comm=python3 protocol=tcp address=203.0.113.20 port=7001 'reason=no rule allows it')" 1 \
		'a refused connection is logged once, with the process; mapped is the same'
	is "$(logged egress.connect verdict=deny via=ebpf comm=python3 protocol=tcp address=2001:db8::20)" 1 'by IPv6 too'
	is "$(logged egress.connect verdict=deny via=ebpf comm=python3 protocol=udp)" 2 'UDP too'
	is "$(logged egress.connect via=ebpf pid=null)" 0 'each with its pid'
	is "$(event run.end denied)" 4 'they count as denied'
	like "$err" '203\.0\.113\.20:7001' 'the summary names them'

	run "${options[@]}" -- sh -c 'echo $$; exec python3 dial.py tcp/203.0.113.20/7001'
	is "$(logged egress.connect via=ebpf)" 1 '(one attempt)'
	like "$(event egress.connect pid)" '^[0-9]+$' 'the pid is a number'

	# A datagram to an allowed name goes nowhere either, and the log has the name.
	run "${options[@]}" -- python3 -c 'import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
try:
    s.sendto(b"ping", ("web.test", 443))
except OSError as e:
    print(e.strerror)'
	is "$out" 'Operation not permitted' 'UDP to the allowed name is refused'
	is "$(logged egress.connect verdict=deny via=ebpf protocol=udp name=web.test port=443)" 1 'and logged with the name'

	options=(--allow 203.0.113.20:7001 -s egress.ebpf=require)
	dial tcp/203.0.113.20/7001 tcp/203.0.113.20/7002 tcp/203.0.113.21/7001
	is "$out" $'ok\nOperation not permitted\nOperation not permitted' 'an address rule opens the address and the port'
	is "$(logged egress.connect via=ebpf port=7002 'reason=no rule allows this port of it')" 1 'another port: the reason says so'
	options+=(-s egress.deny=203.0.113.0/24)
	dial tcp/203.0.113.20/7001
	is "$out" 'Operation not permitted' 'deny wins'
	is "$(logged egress.connect via=ebpf 'reason=a deny rule names it' rule=--set)" 1 'and the event has the rule'
	options=(--allow 198.51.100.7:7001 -s egress.ebpf=require)
	dial tcp/198.51.100.7/7001
	is "$out" ok '(an address of this host, by an address rule)'
	options+=(-s egress.deny=@host)
	dial tcp/198.51.100.7/7001
	is "$out" 'Operation not permitted' 'deny = @host wins there'
	is "$(logged egress.connect verdict=deny via=ebpf address=198.51.100.7 'reason=a deny rule names it' rule=--set)" 1 'and is logged'
	options=(--allow @host:8090 -s egress.deny=@host:8090 -s egress.ebpf=require)
	dial tcp/198.18.0.1/8090
	is "$out" 'Operation not permitted' 'and at the address that stands for @host'
	options=(--allow '*:7001' -s egress.ebpf=require)
	dial tcp/203.0.113.20/7001 tcp/10.1.2.3/7001 tcp/192.168.1.1/7001 tcp/169.254.169.254/7001
	is "$out" $'ok\nOperation not permitted\nOperation not permitted\nOperation not permitted' '`*` opens no special range'
}

attacks() {
	run --allow web.test -s egress.ebpf=require -- python3 attack.py sockets raw plumbing
	is "$status" 0 '(the probe came to its end)'
	is "$(grep ': ok$' <<<"$out")" '' 'A9: no way of sending comes through'
	unlike "$out" timeout 'A9: nothing is left to wait for'
	is "$(sed -n 's/^sendmmsg: //p; s/^fastopen 203.0.113.20: //p' <<<"$out" | sort -u)" 'Operation not permitted' \
		'A9: sendmmsg and TCP fast open: refused by the call'
	is "$(logged egress.connect verdict=allow)" 0 'A9: nothing was let through'
	is "$(logged egress.error)" 0 'A9: and no record was lost'
}

attribution() {
	run --allow web.test -s egress.ebpf=require -- curl -sS http://web.test/
	is "$status $out" '0 hello web.test' 'the allowed name is reached'
	is "$(logged egress.connect verdict=allow via=gateway name=web.test comm=curl)" 1 'the gateway'\''s event has the process'
	is "$(logged egress.connect pid=null)" 0 'with its pid'
	run --allow web.test -s egress.ebpf=require -- sh -c 'for p in 1 2 3; do
		curl -sS http://web.test/ & python3 -c "import urllib.request as u; print(u.urlopen(\"http://web.test/\").read().decode(), end=\"\")" &
	done; wait'
	is "$(logged egress.connect verdict=allow comm=curl) $(logged egress.connect verdict=allow comm=python3)" '3 3' \
		'of many at once, each has its own'
	# More than are told before the gateway tells of the first; what the ring has room for.
	run --allow 203.0.113.10:7001 -s egress.ebpf=require -- python3 -c 'import socket
for _ in range(2000):
    s = socket.create_connection(("203.0.113.10", 7001))
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    s.close()'
	is "$(logged egress.connect verdict=allow comm=python3) $(logged egress.connect pid=null)" '2000 0' 'of 2,000 in a row, too'
	run --allow web.test -s egress.ebpf=require -- curl -sS -x http://127.0.0.1:18255 http://web.test/
	is "$out $(logged egress.connect verdict=allow via=proxy comm=curl)" 'hello web.test 1' 'through the proxy port too'
	run --allow web.test -s egress.ebpf=require -s egress.addresses=real -- curl -sS http://web.test/
	is "$out $(logged egress.connect verdict=allow comm=curl)" 'hello web.test 1' 'and with real addresses'
	run --allow web.test -s egress.ebpf=require -- curl -sS http://web.test:81/
	isnt "$status" 0 '(another port of the name)'
	is "$(logged egress.connect verdict=deny name=web.test port=81 comm=curl)" 1 'what the network refused has the process too'
}

# The ids of the programs on the last run's groups.
programs() {
	local group

	for group in $(python3 -c 'import json, sys; print(*json.load(sys.stdin)["cgroups"])' <"$(run_dir)/run.json"); do
		bpftool -j cgroup show "$group" 2>/dev/null
	done | python3 -c 'import json, re, sys; print(*re.findall(r"\"id\":(\d+)", sys.stdin.read()))'
}
has_programs() { [ "$(programs | wc -w)" -eq 6 ]; }
no_program() {
	local id

	for id in "$@"; do
		! bpftool prog show id "$id" >/dev/null 2>&1 || return 1
	done
}

leftovers() {
	local m ids

	if ! have bpftool; then
		skip bpftool 'what is left of the programs'
		return
	fi
	m=$(mark)
	background -q --allow web.test -s egress.ebpf=require -- sleep "$m"
	until_true 10 alive "$m"
	has_programs
	ok $? 'six programs are on the run'\''s control group'
	ids=$(programs)
	kill -KILL "$(sleeper "$m")"
	finish
	# shellcheck disable=SC2086 # numbers
	until_true 5 no_program $ids
	ok $? 'with the end of the run they are gone'
	m=$(mark)
	background -q --allow web.test -s egress.ebpf=require -- sleep "$m"
	until_true 10 alive "$m"
	ids=$(programs)
	is "$(wc -w <<<"$ids")" 6 '(six again)'
	kill -KILL "$pid"
	finish
	# shellcheck disable=SC2086
	until_true 5 no_program $ids
	ok $? 'after kill -9 of the supervisor too'
	until_true 5 gone "$m"
	ok $? 'and with them the box'
	capture "$AB" prune
	is "$status" 0 'prune removes the group'
}

refused() {
	local options=(-q --allow web.test)

	run "${options[@]}" -s egress.ebpf=off -- python3 dial.py tcp/203.0.113.20/7001
	is "$(event run.start mechanisms.ebpf.in_force) $(event run.start mechanisms.ebpf.why)" 'false egress.ebpf = off' 'off: the log says so'
	is "$out $(logged egress.connect verdict=deny address=203.0.113.20 via=ebpf)" 'Connection refused 0' 'off: the network alone refuses'
	run -- true
	like "$(event run.start mechanisms.ebpf.why)" 'egress\.mode = none' 'no network: the log says so'
	run "${options[@]}" -s egress.ebpf=require -s limits.cgroup=off -- touch ran
	is "$status" 125 'require without control groups: refused'
	[ ! -e ran ]
	ok $? 'and nothing ran'
}

without_privilege() {
	run -q --allow web.test -s egress.ebpf=require -- touch ran
	is "$status $(event run.end reason)" '125 refused' 'require without privilege: refused'
	like "$err" 'ebpf = require.*(CAP_BPF and CAP_NET_ADMIN|built without eBPF)' 'in words'
	[ ! -e ran ] && is "$(logged command.exit)" 0 'and nothing ran'
	run -q --allow web.test -- curl -sS http://web.test/
	is "$status $out" '0 hello web.test' 'auto: the gateway is there all the same'
	is "$(event run.start mechanisms.ebpf.in_force)" false 'auto: not in force'
	like "$(event run.start mechanisms.ebpf.why)" 'CAP_BPF and CAP_NET_ADMIN|built without eBPF' 'auto: and the log says why'
	run -q --allow web.test -- python3 dial.py tcp/203.0.113.20/7001
	is "$out" 'Connection refused' 'auto: what is denied stays denied'
}

tests() {
	probe_files
	cp "$NET_FILES/attack.py" .
	if [ "$(id -u)" -ne 0 ]; then
		without_privilege
		return
	fi
	run -q --allow web.test -s egress.ebpf=require -- true
	if [ "$status" -ne 0 ]; then
		diag "$err"
		skip ebpf 'eBPF programs'
		return
	fi
	wall
	attacks
	attribution
	leftovers
	refused
}

net_start && for_each_user tests
done_testing
