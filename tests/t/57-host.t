#!/bin/bash
# egress.mode = host: the host's network under eBPF filters. What may be reached and what not, listening, what is refused
# before the command runs, what is counted and told, and that nothing is left.
. "$(dirname "$0")/../lib/net.sh"

H=(-s egress.mode=host)

names() {
	run "${H[@]}" --allow web.test -- curl -sS http://web.test/ https://web.test/ --cacert ca.pem
	is "$status $out" $'0 hello web.test\nhello web.test' 'an allowed name: HTTP and TLS'
	run "${H[@]}" --allow web.test --allow six.test -- sh -c 'curl -4sS http://web.test/; curl -6sS http://six.test/'
	is "$out" $'hello web.test\nhello six.test' 'by IPv4 and by IPv6'
	is "$(event run.start mechanisms.ebpf.in_force) $(event run.start mechanisms.network.in_force)" 'true false' 'the log says what is in force'
	unlike "$(event box.ready namespaces)" net 'and that the network is not the box'\''s own'
	is "$(logged egress.dns verdict=allow name=web.test)" 1 'questions are logged'
	is "$(logged egress.connect verdict=allow via=ebpf name=web.test comm=curl protocol=tcp port=80 rule=--allow)" 1 \
		'a connection is logged with its name, rule and process'
	is "$(logged egress.connect verdict=allow address=2001:db8::10 name=six.test pid=null)" 0 'and with its pid'
	run "${H[@]}" --allow web.test -- sh -c 'curl -sS -m 5 http://denied.test/; curl -sS -m 5 http://203.0.113.20/; curl -sS -m 5 http://web.test:8080/'
	is "$out" '' 'what is not allowed: no name, no address, no other port'
	is "$(logged egress.dns verdict=deny name=denied.test)" 2 'the denied name is logged'
	is "$(asked denied.test)" 0 'and is never looked up'
	is "$(logged egress.connect verdict=deny via=ebpf address=203.0.113.20 port=80 'reason=no rule allows it' comm=curl)" 1 \
		'the address too'
	is "$(logged --count egress.connect verdict=deny via=ebpf name=web.test port=8080 'reason=no rule allows this port of it')" 2 \
		'the port too, with the name'
	like "$err" '203\.0\.113\.20:80' 'the summary names them'
	run "${H[@]}" --allow '*.test:80' -s egress.deny=web.test -- sh -c 'curl -sS http://www.web.test/; curl -sS -m 5 http://web.test/'
	is "$out" 'hello www.web.test' 'deny wins'
	run "${H[@]}" --allow '*.test:80' -s egress.deny=203.0.113.10 -- curl -sS -m 5 http://www.web.test/
	is "$out" '' 'an address that is denied is denied for names'
	is "$(logged egress.connect verdict=deny 'reason=a deny rule names it' rule=--set name=www.web.test)" 1 'and the event has the rule'
	# The address of web.test is denied.test's no more than before, whatever was answered.
	run "${H[@]}" --allow '*.test' -- python3 -c 'import socket
for name in "private", "lan", "nat", "metadata", "ula", "loopback", "loopback6", "zero", "mapped", "own":
    for f in socket.getaddrinfo(name + ".test", 80, type=socket.SOCK_STREAM):
        s = socket.socket(f[0])
        s.settimeout(2)
        try:
            s.connect(f[4])
            print(name, "connected to", f[4])
        except OSError as e:
            print(name, e.strerror)'
	is "$(cut -d' ' -f 2- <<<"$out" | sort -u)" 'Operation not permitted' \
		'names that resolve to special ranges, the loopback and this host: refused by the call'
	is "$(wc -l <<<"$out")" 10 '(ten of them)'
	is "$(logged egress.connect verdict=deny name=own.test 'reason=the address is this host'\''s own, which only an address rule or @host opens')" 1 \
		'an address of this host: the event says so'
	is "$(logged egress.connect verdict=deny name=private.test 'reason=the address lies in a special range, which only an address rule opens')" 1 \
		'a private one too'
	is "$(logged egress.connect verdict=allow)" 0 'nothing was let through'
}

addresses() {
	run "${H[@]}" --allow 203.0.113.20:80 --allow 198.51.100.7:80 --allow '[2001:db8::10]:80' -- \
		curl -sS http://203.0.113.20/ http://198.51.100.7/ 'http://[2001:db8::10]/'
	is "$out" $'hello 203.0.113.20\nhello 198.51.100.7\nhello [2001:db8::10]' 'address rules, of this host'\''s own too'
	run "${H[@]}" --allow '*:80' -- python3 hostattack.py local
	is "$(grep ': ok$' <<<"$out")" '' '`*` opens neither the loopback, nor this host, nor special ranges'
	outside python3 hostattack.py local
	is "$(grep -vc ': ok$' <<<"$out")" 0 '(outside all of them answer)'
	run "${H[@]}" --allow @host:8090 -- python3 hostattack.py local
	is "$(sed -n 's/: ok$//p' <<<"$out")" $'local 127.0.0.1\nlocal ::1\nlocal mapped' '@host opens the two addresses of the loopback and its port'
	run "${H[@]}" --allow @host:8090 -- curl -sS http://host.agentbox.internal:8090/ http://host.agentbox.internal:8080/
	is "$out" 'hello host.agentbox.internal:8090' 'by its name too, and no other port'
	run "${H[@]}" --allow @host:8090 -s egress.deny=127.0.0.1:8090 -- python3 hostattack.py local
	is "$(grep ': ok$' <<<"$out")" '' 'deny of the loopback'\''s address'
	run "${H[@]}" --allow 198.51.100.7:8090 --allow 127.0.0.0/8:8090 -s egress.deny=@host -- python3 hostattack.py local
	is "$(grep ': ok$' <<<"$out")" '' 'deny = @host wins over address rules'
	is "$(logged egress.connect verdict=deny address=198.51.100.7 'reason=a deny rule names it' rule=--set)" 1 'and the event has the rule'

	# Translated by the host: both ends must be allowed.
	printf 'table ip translate {\n chain o {\n type nat hook output priority -100;\n ip daddr 203.0.113.77 dnat to 203.0.113.10;\n }\n}\n' |
		nft -f -
	outside curl -sS -m 3 http://203.0.113.77/
	is "$out" 'hello 203.0.113.77' '(an address that the host translates)'
	run "${H[@]}" --allow 203.0.113.77:80 -- curl -sS -m 2 http://203.0.113.77/
	is "$out" '' 'what it becomes must be allowed'
	is "$(logged egress.connect verdict=deny address=203.0.113.10 port=80 comm=curl)" "$(logged egress.connect)" 'and is what the log has'
	run "${H[@]}" --allow 203.0.113.10:80 -- curl -sS -m 2 http://203.0.113.77/
	is "$out" '' 'and what it was'
	run "${H[@]}" --allow 203.0.113.77:80 --allow 203.0.113.10:80 -- curl -sS -m 2 http://203.0.113.77/
	is "$out" 'hello 203.0.113.77' 'with both it is reached'
	nft delete table ip translate

	# An address that comes up during the run is this host's own from then on.
	background -q "${H[@]}" --allow '*:80' -- sh -c 'curl -sS http://203.0.113.30/ && echo 1; for i in $(seq 100); do
		curl -sS -m 1 http://203.0.113.30/ >/dev/null 2>&1 || break; sleep 0.05; done; echo "closed $i"'
	until_true 10 grep -q '^1' "$T/out"
	ip addr add 203.0.113.30/32 dev lo
	finish
	ip addr del 203.0.113.30/32 dev lo
	like "$out" '^closed [0-9]{1,2}$' 'an address that becomes this host'\''s own is closed from then on'
}

datagrams() {
	run "${H[@]}" --allow web.test:443 -- python3 hostattack.py quic
	is "$out" 'quic: ok' 'UDP to an allowed name, both ways'
	is "$(logged egress.connect verdict=allow via=ebpf name=web.test protocol=udp port=443 comm=python3)" 1 \
		'is logged once, and not for each datagram'
	run "${H[@]}" --allow web.test:123 -- python3 hostattack.py quic
	is "$out" '' 'at the rule'\''s ports alone'
}

attacks() {
	local mark

	mark=$RANDOM
	run "${H[@]}" --allow web.test --allow 203.0.113.10:443 --allow '[2001:db8::10]:443' -- \
		python3 hostattack.py elsewhere,routes
	is "$(grep ': ok$' <<<"$out")" '' 'no way of sending leads elsewhere'
	is "$(grep -c 'Operation not permitted$' <<<"$out")" "$(wc -l <<<"$out")" 'the caller is told so at once'
	is "$(logged egress.connect verdict=allow address=203.0.113.20) $(logged egress.connect verdict=allow address=2001:db8::20)" '0 0' \
		'nothing was let through'
	outside python3 hostattack.py elsewhere
	is "$(grep -v ': ok$' <<<"$out")" '' '(outside each of them comes through)'
	outside python3 hostattack.py routes
	is "$(grep -v ': timeout$' <<<"$out")" '' '(outside what is routed by its source is sent, and nobody answers)'
	outside python3 hostattack.py multicast
	is "$(grep -c ': ok$' <<<"$out")" 7 '(outside multicast groups can be joined)'
	run "${H[@]}" --allow '*' -- python3 hostattack.py multicast
	is "$(grep -c 'Operation not permitted$' <<<"$out")" 7 'no report of a multicast group leaves: none can be joined'
	is "$(logged egress.connect verdict=deny via=ebpf protocol=2 comm=python3) $(logged egress.connect verdict=deny via=ebpf protocol=icmpv6)" '1 1' \
		'which is logged'
	run "${H[@]}" --allow web.test -- python3 attack.py sockets raw
	is "$(grep ': ok$' <<<"$out" | grep -vx 'udp web.test: ok')" '' 'A9: likewise'

	python3 hostattack.py serve_abstract "$mark" >"$T/abstract" &
	own $!
	until_true 5 grep -q up "$T/abstract"
	outside python3 hostattack.py families "$mark"
	is "$(sed -n 's/: ok$//p' <<<"$out" | grep abstract)" $'abstract stream\nabstract datagram' '(outside the abstract sockets can be reached)'
	ip address del 192.0.2.200/32 dev lo
	ip route del 192.0.2.201/32 dev lo
	run "${H[@]}" --allow '*' -- python3 hostattack.py families "$mark"
	is "$(grep ': ok$' <<<"$out")" '' 'no abstract socket of the host, no other family or protocol, no change of its network'
	is "$(ip addr show dev lo | grep -c 192.0.2.20)" 0 '(the address is not there)'
	own_kill
}

listening() {
	run "${H[@]}" --allow '*' -- python3 hostattack.py ports
	is "$(sed 's/.*: //' <<<"$out" | sort -u)" $'Operation not permitted\nmay' 'no port of the host can be bound; one that the kernel chooses can'
	is "$(logged egress.connect verdict=deny via=ebpf port=7755 'reason=ports of this host are not the box'\''s to listen on')" 8 'each is logged'
	outside python3 hostattack.py ports
	is "$(sed 's/.*: //' <<<"$out" | sort -u)" $'may\nok' '(outside they can)'
	for place in outside box; do
		rm -f ports
		if [ $place = box ]; then
			background -q "${H[@]}" --allow '*' -s workspace.repo-mode=write -- python3 hostattack.py listeners ports
		else
			python3 hostattack.py listeners "$PWD/ports" >"$T/out" &
			pid=$!
		fi
		until_true 10 test -s ports
		# shellcheck disable=SC2046 # two numbers
		talked=$(python3 hostattack.py talk $(cat ports))
		finish
		[ $place = box ] && is "$(grep ': ok$' <<<"$talked$out")" '' 'what listens in the box hears nothing of the host'
		[ $place = outside ] && is "$talked $out" $'talked: ok heard datagram: ok\nheard stream: ok' '(outside it does)'
	done
}

groups() {
	python3 -c 'import json, sys; print(*json.load(sys.stdin)["cgroups"])' <"$(run_dir)/run.json"
}
# Is none of these control groups there?
no_group() {
	local group

	for group in "$@"; do
		[ ! -e "$group" ] || return 1
	done
}
sweeper() { pgrep -P "$pid" -f '^agentbox-sweeper'; }

no_process() { ! pgrep -f "hostattack.py hand $1" >/dev/null; }

# Sockets that another run was given: they are the host's network's, and outlive the run that opened them.
handed() {
	local how taker group dir=$T/handed

	mkdir -p "$dir"
	for how in outside ended killed; do
		rm -f "$dir"/*
		if [ $how = outside ]; then
			python3 hostattack.py take "$dir/s" >"$T/taken" 2>&1 &
		else
			timeout 30 "$AB" run -q -s egress.mode=none -s "filesystem.write=$dir" -- python3 hostattack.py take "$dir/s" >"$T/taken" 2>&1 &
		fi
		taker=$!
		own $taker
		until_true 10 test -S "$dir/s"
		sleep 0.2
		if [ $how = outside ]; then
			python3 hostattack.py hand "$dir/s" &
			pid=$!
			own $pid
		else
			background -q "${H[@]}" --allow web.test:80 --allow 203.0.113.10:7001 -s "filesystem.write=$dir" -- python3 hostattack.py hand "$dir/s"
		fi
		until_true 10 grep -q '^taken 6' "$T/taken"
		if [ $how = killed ]; then
			group=$(groups)
			kill -KILL "$pid"
		else
			touch "$dir/s.go"
		fi
		finish
		until_true 5 no_process "$dir/s"
		if [ $how = killed ]; then
			# shellcheck disable=SC2086 # paths
			until_true 5 no_group $group
			ok $? 'after kill -9 of the supervisor the control group is gone, while a socket of it lives'
		fi
		touch "$dir/s.over"
		wait $taker
		is "$(sed -n 1p "$T/taken") $(wc -l <"$T/taken")" 'taken 6 7' "(sockets were handed on: $how)"
		case $how in
		outside) is "$(grep -c ': ok$' "$T/taken")" 6 '(outside each of them leads where it is told to)' ;;
		ended) is "$(grep ': ok$' "$T/taken")" '' 'a socket that outlives its run leads nowhere' ;;
		killed) is "$(grep ': ok$' "$T/taken" | grep -v ' 203.0.113.10:')" '' 'after kill -9 of the supervisor nowhere but where the rules say' ;;
		esac
	done
	capture "$AB" prune
}

# The name server is at an address of the host, where others can send to.
askers() {
	local ask server='' how

	ask='import socket, sys
query = b"\x12\x34\x01\0\0\1\0\0\0\0\0\0\6forged\4test\0\0\1\0\1"
server = (sys.argv[1], 53)
for how, kind in ("udp", socket.SOCK_DGRAM), ("tcp", socket.SOCK_STREAM):
    s = socket.socket(socket.AF_INET, kind)
    s.settimeout(2)
    try:
        s.connect(server)
        s.sendall(query if how == "udp" else b"\0" + bytes([len(query)]) + query)
        print(how, "answered" if s.recv(512) else "closed")
    except OSError as e:
        print(how, "closed" if isinstance(e, ConnectionError) else e)'
	run "${H[@]}" --allow web.test -- sh -c 'python3 -c "$0" "$(sed -n "s/^nameserver //p" /etc/resolv.conf)"' "$ask"
	is "$(echo $out)" 'udp answered tcp answered' '(in the box the name server answers)'
	is "$(logged egress.dns verdict=deny name=forged.test)" 2 '(and the questions are in the log)'
	background -q "${H[@]}" --allow web.test -- sh -c 'cat /etc/resolv.conf; sleep 6; getent hosts web.test'
	until_true 10 grep -q nameserver "$T/out"
	server=$(sed -n 's/^nameserver //p' "$T/out")
	is "$(echo $(python3 -c "$ask" "$server"))" 'udp timed out tcp closed' 'a program of the host is not answered'
	finish
	like "$out" 'web\.test' '(the box is, all the while)'
	is "$(logged egress.dns name=forged.test)" 0 'nor are its questions in the log'
}

# What cannot hold is refused, before anything runs.
refused() {
	local what i

	for what in '-s egress.ebpf=off' '-s limits.cgroup=off' '-s syscalls.policy=off' '-s syscalls.allow=@socket-families' \
		'-s egress.max-connections=5' '-s egress.inspect=yes' '-s filesystem.write=/sys/fs/cgroup'; do
		# shellcheck disable=SC2086 # words
		run -q "${H[@]}" --allow web.test $what -- touch ran
		is "$status $(ls ran 2>/dev/null)" '125 ' "refused: ${what#-s }"
		like "$err" 'mode = host' 'in words'
	done
	timeout 20 "$AB" run -q "${H[@]}" -- touch ran 0<>/dev/tcp/127.0.0.1/8090 2>"$T/err"
	is "$? $(ls ran 2>/dev/null)" '125 ' 'refused: a network socket as standard input'
	timeout 20 "$AB" run -q "${H[@]}" --keep-fd 7 -- touch ran 7<>/dev/tcp/127.0.0.1/8090 2>"$T/err"
	is "$? $(ls ran 2>/dev/null)" '125 ' 'refused: one that is kept'
	like "$(cat "$T/err")" 'descriptor 7 is a network socket' 'in words'
	python3 -c 'import socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(("0.0.0.0", 53)); print("up", flush=True); time.sleep(30)' >"$T/53" &
	own $!
	until_true 5 grep -q up "$T/53"
	run -q "${H[@]}" -- touch ran
	is "$status $(ls ran 2>/dev/null)" '125 ' 'refused: another name server at all addresses'
	like "$err" 'port 53 of the loopback' 'in words'
	own_kill
	# More addresses of this host than are looked at would be open to names.
	for i in $(seq 33); do seq -f "addr add 100.$((63 + i)).%g.1/32 dev lo" 0 250; done | ip -batch -
	run -q "${H[@]}" --allow web.test -- touch ran
	is "$status $(ls ran 2>/dev/null)" '125 ' 'refused: more than 8,192 addresses of this host'
	run -q --allow web.test -- touch ran
	is "$status $(ls ran 2>/dev/null)" '125 ' 'with the gateway too'
	for i in $(seq 33); do seq -f "addr del 100.$((63 + i)).%g.1/32 dev lo" 0 250; done | ip -batch -
	printf '[egress]\nmode = host\nconnect-timeout = 5s\nmax-connections = 5\n' >p.ini
	capture "$AB" check ./p.ini
	like "$status $out" '^1 .*p.ini:4: .*max-connections' 'check: a bound that cannot hold is a fault'
	like "$err" 'note: .*p.ini:3: .*connect-timeout' 'check: what does nothing is noted'
}

limits() {
	run "${H[@]}" --allow web.test -s egress.max-bytes=1M -- curl -sS -m 5 -o /dev/null http://web.test/bulk/4000000
	isnt "$status" 0 'max-bytes: a transfer that is larger does not come to its end'
	is "$(logged limit.warn limit=egress.max-bytes) $(logged limit.hit limit=egress.max-bytes)" '1 1' 'the limit is told, and before it that it is near'
	cmp_ok "$(event run.end egress_received_bytes)" -gt 500000 'the end of the run has what was received'
	cmp_ok "$(($(event run.end egress_received_bytes) + $(event run.end egress_sent_bytes)))" -le 1048576 'not more than the limit'
	run "${H[@]}" --allow web.test -s egress.max-bytes=2M -- sh -c 'curl -sS -m 3 -o /dev/null http://web.test/bulk/4000000; curl -4sS -m 3 http://web.test/'
	is "$out" '' 'and nothing passes from there on'
	is "$(logged egress.connect verdict=deny 'reason=the bytes are used up (egress.max-bytes)' name=web.test)" 1 'which the event says'
	run "${H[@]}" --allow web.test -- curl -sS -o /dev/null http://web.test/bulk/4000000
	is "$status" 0 '(without it)'
	cmp_ok "$(event run.end egress_received_bytes)" -gt 4000000 'what was received is counted'
	cmp_ok "$(event run.end egress_received_packets)" -gt 10 'and in how many packets'
	cmp_ok "$(event run.end egress_sent_packets)" -gt 3 'and what was sent'
	is "$(logged limit.warn)" 0 'no limit, no warning'
	# More connections than the ring of the other mode has room for.
	run "${H[@]}" --allow 203.0.113.10:7001 -- python3 -c 'import socket
for _ in range(9000):
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    s.connect(("203.0.113.10", 7001))
    s.close()'
	is "$status $(logged egress.connect verdict=allow port=7001) $(logged egress.error)" '0 9000 0' 'of 9,000 connections in a row each is in the log'
}

# The ids of the programs on the last run's groups.
programs() {
	local group

	for group in $(groups); do
		bpftool -j cgroup show "$group" 2>/dev/null
	done | python3 -c 'import json, re, sys; print(*re.findall(r"\"id\":(\d+)", sys.stdin.read()))'
}
no_program() {
	local id

	for id in "$@"; do
		! bpftool prog show id "$id" >/dev/null 2>&1 || return 1
	done
}

leftovers() {
	local m ids group round sweeping

	background -q "${H[@]}" --allow web.test -- sleep 1
	until_true 5 sweeper >/dev/null
	sweeping=$(sweeper)
	finish
	isnt "$sweeping" '' '(a run has a sweeper)'
	ended "$sweeping"
	ok $? 'which goes with it'
	if have bpftool; then
		m=$(mark)
		background -q "${H[@]}" --allow web.test -- sleep "$m"
		until_true 10 alive "$m"
		ids=$(programs)
		sweeping=$(sweeper)
		is "$(wc -w <<<"$ids")" 10 'ten programs are on the run'\''s control group'
		kill -KILL "$pid"
		finish
		until_true 5 gone "$m"
		ok $? 'after kill -9 of the supervisor the box is gone'
		is "$(ss -Hlun 'src 127.64.0.0/10 and sport = 53' | wc -l)" 0 'and its name server'
		# shellcheck disable=SC2086 # numbers
		until_true 5 no_program $ids
		ok $? 'and the programs'
		group=$(groups)
		isnt "$group" '' '(it had a control group)'
		# shellcheck disable=SC2086 # paths
		no_group $group
		ok $? 'and the control group'
		until_true 5 ended "$sweeping"
		ok $? 'and who removed it'
	else
		skip bpftool 'what is left of the programs'
	fi
	# Both killed: prune does it.
	m=$(mark)
	background -q "${H[@]}" -s limits.processes=64 --allow web.test -- sleep "$m"
	until_true 10 alive "$m"
	group=$(groups)
	kill -KILL "$(sweeper)" "$pid"
	finish
	until_true 5 gone "$m"
	# shellcheck disable=SC2086 # paths
	! no_group $group
	ok $? '(where the sweeper is killed as well the control group stays)'
	capture "$AB" prune
	# shellcheck disable=SC2086 # paths
	no_group $group
	ok $? 'prune removes it'
	m=$(mark)
	background -q "${H[@]}" -s limits.processes=64 --allow web.test -- sh -c "sleep $m & setsid sleep $m; wait"
	until_true 10 alive "$m"
	group=$(groups)
	kill -KILL "$pid"
	finish
	# shellcheck disable=SC2086 # paths
	until_true 5 no_group $group
	ok $? 'with limits too, all its groups are gone'
	# While the supervisor is killed, the box goes on trying: the filters must be there to its last moment.
	: >"$NET/ends.log"
	for round in 1 2 3 4 5 6; do
		m=$(mark)
		background -q "${H[@]}" --allow web.test -- sh -c "for i in 1 2 3 4; do python3 -c 'import socket
while True:
    s = socket.socket()
    try:
        s.connect((\"203.0.113.20\", 7005))
        s.sendall(b\"through\\n\")
        s.recv(10)
    except OSError:
        pass
    s.close()' & done; sleep $m"
		until_true 10 alive "$m"
		sleep 0.2
		kill -KILL "$pid"
		finish
		until_true 5 gone "$m"
	done
	is "$(cat "$NET/ends.log")" '' 'nothing comes through while the supervisor is being killed'
	capture "$AB" prune
	# The name server too: what was known stays, and nothing new can come.
	background -q "${H[@]}" --allow web.test -- sh -c 'curl -sS http://web.test/; echo 1; for i in $(seq 100); do
		curl -sS -m 1 http://web.test/ >/dev/null 2>&1 || break; sleep 0.05; done; echo "closed $i"'
	until_true 10 grep -q '^1' "$T/out"
	pkill -KILL -P "$pid" agentbox-gate
	finish
	like "$out" 'closed [0-9]{1,2}$' 'where the name server is killed the network is closed'
	is "$(logged egress.error process=gateway signal=9)" 1 'and the log says so'
}

plans() {
	run "${H[@]}" --dry-run -- true
	like "$out" '^network +the host.s, under eBPF filters' 'the plan says it'
	capture "$AB" why -s egress.mode=host -s egress.allow=@host:80 connect 127.0.0.1:80
	is "$status" 0 'why: the loopback is @host'
	capture "$AB" why -s egress.mode=gateway -s egress.allow=@host:80 connect 127.0.0.1:80
	is "$status" 1 'why: with the gateway it is the box'\''s own'
	capture "$AB" doctor
	like "$out" '^present +host network' 'doctor has a line for it'
}

without_privilege() {
	run -q "${H[@]}" --allow web.test -- touch ran
	is "$status $(event run.end reason)" '125 refused' 'without privilege: refused'
	like "$err" 'mode = host.*(CAP_BPF and CAP_NET_ADMIN|built without eBPF)' 'in words'
	[ ! -e ran ] && is "$(logged command.exit)" 0 'and nothing ran'
	capture "$AB" doctor
	like "$out" '^missing +host network' 'doctor says so'
}

tests() {
	cp "$NET_FILES/attack.py" "$NET_FILES/hostattack.py" "$NET/ca.pem" .
	if [ "$(id -u)" -ne 0 ]; then
		without_privilege
		return
	fi
	run -q "${H[@]}" -- true
	if [ "$status" -ne 0 ]; then
		diag "$err"
		skip host-network 'egress.mode = host'
		return
	fi
	names
	addresses
	datagrams
	attacks
	listening
	handed
	askers
	refused
	limits
	leftovers
	plans
}

net_start && for_each_user tests
done_testing
