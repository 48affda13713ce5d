#!/bin/bash
# Kernels without nft_tproxy, and without nf_tables at all: the same is open, the same is closed, soon and logged.
. "$(dirname "$0")/../lib/net.sh"

# on_kernel WHAT: $AB from now on runs where WHAT is not there (probes/without.c).
on_kernel() {
	printf '#!/bin/sh\nexec "%s" "%s" "%s" "$@"\n' "$PROBES/without" "$1" "$SCRATCH/bin/agentbox" >"$T/on-$1"
	chmod 0755 "$T/on-$1"
	AB=$T/on-$1
}

# soon NAME OUTCOME COMMAND...: fails in words that match OUTCOME, within three seconds.
soon() {
	local name=$1 outcome=$2 from

	shift 2
	from=$(now_ms)
	run --allow web.test --allow 203.0.113.10:80 -s egress.ebpf=off -- "$@"
	isnt "$status" 0 "$name: fails"
	like "$out$err" "$outcome" "$name: as it should"
	cmp_ok $(($(now_ms) - from)) -lt 3000 "$name: soon"
}

kernel() {
	local k="no $1" client

	on_kernel "$1"
	for client in 'curl -sS' 'wget -qO -' 'python3 get.py'; do
		# shellcheck disable=SC2086 # a program and its words
		run --allow web.test -- $client http://web.test/
		is "$status $out" '0 hello web.test' "$k: ${client%% *} by name"
		is "$(logged egress.connect verdict=allow name=web.test port=80 via=gateway) $(logged egress.close)" '1 1' \
			"$k: ${client%% *}: logged"
	done
	run --allow web.test --ro-bind "$NET/ca.pem" /workspace/scratch/ca.pem -- curl -sS --cacert /workspace/scratch/ca.pem https://web.test/
	is "$status $out" '0 hello web.test' "$k: TLS"
	run --allow 203.0.113.10:80 -- curl -sS http://203.0.113.10/
	is "$status $out" '0 hello 203.0.113.10' "$k: by address"
	run --allow web.test -- curl -sS --proxy http://127.0.0.1:18255 http://web.test/
	is "$status $out" '0 hello web.test' "$k: by the proxy port"
	run "${SIX[@]}" -- curl -sS "http://[2001:db8::10]/"
	is "$status" 0 "$k: by an IPv6 address"
	run --allow web.test:80,7000-7010 -- python3 relay.py digests 40
	is "$out" 40 "$k: 40 connections at once: each gets its own"

	outside curl -sS http://denied.test/
	is "$status" 0 "$k: (the denied name is there outside)"
	soon "$k: a denied name" 'resolve' curl -sS http://denied.test/
	cmp_ok "$(logged egress.dns verdict=deny name=denied.test)" -ge 1 "$k: a denied name: logged"
	soon "$k: a port that no rule names" 'refused|connect to' curl -sS http://203.0.113.10:8080/
	is "$(logged egress.connect verdict=deny address=203.0.113.10 port=8080 via=filter protocol=tcp)" 1 "$k: a port that no rule names: logged"
	soon "$k: an address that no rule names" 'refused|connect to|reset|Empty' curl -sS http://203.0.113.11/
	is "$(logged egress.connect verdict=deny address=203.0.113.11 port=80)" 1 "$k: an address that no rule names: logged"
	soon "$k: UDP" 'refused|not permitted' python3 -c '
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.connect(("203.0.113.10", 443))
s.settimeout(10)
s.send(b"x")
s.recv(1)'
	cmp_ok "$(logged egress.connect verdict=deny address=203.0.113.10 port=443 protocol=udp)" -ge 1 "$k: UDP: logged"
	run --allow web.test -- python3 -c '
import socket
l = socket.create_server(("127.0.0.1", 8081))
s = socket.create_connection(("127.0.0.1", 8081))
l.accept()[0].send(b"own")
print(s.recv(3).decode())'
	is "$out" own "$k: the box'\''s own loopback works"
}

tests() {
	cp "$SCRATCH/tests/lib/net/relay.py" .
	cat >get.py <<-'PY'
		import sys, urllib.request
		sys.stdout.write(urllib.request.urlopen(sys.argv[1], timeout=10).read().decode())
	PY
	SIX=(--allow '[2001:db8::10]:80')
	outside curl -sS 'http://[2001:db8::10]/'
	[ "$status" -eq 0 ] || SIX=(--allow web.test)
	AB=$SCRATCH/bin/agentbox
	export WITHOUT_LOG="$T/answered"
	: >"$WITHOUT_LOG"
	kernel tproxy
	cmp_ok "$(wc -l <"$WITHOUT_LOG")" -ge 10 '(tproxy was asked for and was not there)'
	capture "$AB" doctor
	like "$out" 'gateway plumbing .*by redirection' 'no tproxy: doctor says so'
	kernel nftables
	capture "$AB" doctor
	like "$out" 'gateway plumbing .*a listener a port' 'no nftables: doctor says so'

	# A listener a port is no way for very many.
	run --allow web.test:1-2000 -- true
	is "$status" 125 'no nftables: more ports than there can be listeners: refused'
	like "$err" 'more than 64 ports' 'no nftables: more ports than there can be listeners: in words'
	run --allow web.test:7000-7063 -- python3 relay.py digests 3
	is "$out" 3 'no nftables: as many as there can be'
	run --allow web.test:7001 -- python3 -c 'import socket; socket.create_server(("0.0.0.0", 7001))'
	like "$err" 'in use' '(and it is a listener at the port that does it)'
}

if net_start; then
	for_each_user tests
fi
done_testing
