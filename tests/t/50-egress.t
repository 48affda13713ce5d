#!/bin/bash
# Cases 62 to 66: what a name rule opens and what stays closed, for programs that know nothing of it.
. "$(dirname "$0")/../lib/net.sh"

# Programs that fetch a URL and print what came: `python3 get.py URL`, `node get.mjs URL`, `java Get URL`.
clients() {
	cat >get.py <<-'PY'
		import sys, urllib.request
		sys.stdout.write(urllib.request.urlopen(sys.argv[1], timeout=10).read().decode())
	PY
	cat >get.mjs <<-'JS'
		try {
			process.stdout.write(await (await fetch(process.argv[2])).text());
		} catch (e) {
			console.error(e.cause?.code ?? e);
			process.exit(1);
		}
	JS
	cat >Get.java <<-'JAVA'
		public class Get {
			public static void main(String[] a) throws Exception {
				System.out.write(new java.net.URL(a[0]).openStream().readAllBytes());
				System.out.flush();
			}
		}
	JAVA
	! have javac || javac Get.java || fail 'javac'
}

# closed RULE COMMAND...: works outside, fails in the box with that rule, soon.
closed() {
	local name=$1 rule=$2 from

	shift 2
	outside "$@"
	is "$status" 0 "$name: (the probe works outside)"
	from=$(now_ms)
	run --allow "$rule" -- "$@"
	isnt "$status" 0 "$name: fails in the box"
	cmp_ok $(($(now_ms) - from)) -lt 5000 "$name: within seconds"
}

programs() {
	local words program

	clients
	for words in 'python3 get.py' 'node get.mjs' 'java Get'; do
		program=${words%% *}
		if ! have "$program" || { [ "$program" = java ] && ! [ -e Get.class ]; }; then
			skip "$program" "case 63a: $program"
			continue
		fi
		# shellcheck disable=SC2086 # a program and its script
		run --allow web.test -- $words http://web.test/
		is "$status $out" '0 hello web.test' "case 63a: $program reaches the allowed name"
		is "$(logged egress.connect verdict=allow name=web.test port=80 via=gateway rule=--allow) $(logged egress.close)" '1 1' \
			"case 62: $program: the connection is logged, and its end"
		# shellcheck disable=SC2086
		closed "case 63a: $program" web.test $words http://denied.test/
		cmp_ok "$(logged egress.dns verdict=deny name=denied.test)" -ge 1 "case 63a: $program: it is logged"
		like "$err" 'agentbox: .*denied' "case 63a: $program: and said at the end"
	done
}

names() {
	: >"$NET/dns.log"
	run --allow alias.test -- curl -sS http://alias.test/
	is "$out" 'hello alias.test' 'case 63d: the alias works'
	cmp_ok "$(asked alias.test)" -ge 1 'case 63d: (the resolver was asked for it)'
	closed 'case 63d: the name that the alias stands for' alias.test curl -sS http://target.test/
	closed 'case 63d: another port of the alias' alias.test curl -sS http://alias.test:8080/

	: >"$NET/dns.log"
	outside getent ahosts denied.test
	isnt "$(asked denied.test)" 0 'case 63e: (outside the name server is asked)'
	: >"$NET/dns.log"
	run --allow web.test -- sh -c 'for n in denied.test aGVsbG8.denied.test secret.web.test; do getent ahosts $n; done; getent ahosts web.test'
	like "$out" '^198\.1[89]\.' 'case 63e: (the allowed name resolves)'
	is "$(sort -u "$NET/dns.log")" web.test 'case 63e: no other name ever reached a name server'
	is "$(logged egress.dns verdict=deny name=agvsbg8.denied.test qtype=A)" 1 'case 63e: the attempt is logged'
	run --allow '*.web.test' -- curl -sS http://www.web.test/ http://web.test/
	is "$out" 'hello www.web.test' 'a rule for the names below: they work, the name itself does not'
}

rebinding() {
	local name

	for name in loopback zero private lan nat metadata own cname-in; do
		closed "case 63f: $name.test" "$name.test" curl -sS "http://$name.test/"
		cmp_ok "$(logged egress.connect verdict=deny "name=$name.test")" -ge 1 "case 63f: $name.test: it is logged"
	done
	for name in loopback6 ula mapped nat64; do
		run --allow "$name.test" -- curl -sS "http://$name.test/"
		isnt "$status" 0 "case 63f: $name.test"
		cmp_ok "$(logged egress.connect verdict=deny "name=$name.test")" -ge 1 "case 63f: $name.test: it is logged"
	done
	run --allow mixed.test -- curl -sS http://mixed.test/
	is "$out" 'hello mixed.test' 'case 63f: of a private and a public address the public one is taken'
	is "$(logged egress.connect address=203.0.113.10 verdict=allow)" 1 'case 63f: and logged'
	# What opens them is a rule for the address, beside the one for the name.
	run --allow private.test --allow 10.1.2.3 -- curl -sS http://private.test/
	is "$out" 'hello private.test' 'case 63f: an address rule opens it'
	run -s egress.addresses=real --allow loopback.test --allow metadata.test -- curl -sS http://loopback.test/ http://metadata.test/
	is "$out" '' 'case 63f: with the real addresses too'
}

addresses() {
	local literal

	# AnyIP: these are answered in the namespace of the test, where the probes run outside.
	for literal in 203.0.113.20 2130706433 0x7f.1 0177.0.0.1 127.1 '[::1]' '[::ffff:203.0.113.20]' '[::ffff:127.0.0.1]' \
		203.0.113.10 '[2001:db8::10]' 169.254.169.254 10.1.2.3; do
		closed "case 64: $literal" web.test curl -sS -g "http://$literal/"
	done
	closed 'case 64: another port of the name' web.test curl -sS http://web.test:8080/
	is "$(logged egress.connect verdict=deny name=web.test port=8080)" 1 'case 64: it is logged, with the name'
	run --allow web.test -- python3 -c 'import socket; print(socket.socket().connect_ex(("web.test", 8080)))'
	is "$out" 111 'case 64: it is refused, not dropped'
	run -- curl -sS http://web.test/
	isnt "$status" 0 'case 64: no rule at all'
	run -s egress.mode=gateway -- curl -sS http://web.test/ http://203.0.113.10/ 'http://[2001:db8::10]/'
	is "$(printf '%s\n' "$out" | grep -c hello)" 0 'case 64: an empty list allows nothing (CVE-2025-66479)'
	cmp_ok "$(logged egress.connect verdict=deny)" -ge 2 'case 64: an empty list: all is logged'
	run --allow 203.0.113.0/24 -- curl -sS http://203.0.113.20/
	is "$out" 'hello 203.0.113.20' 'a rule for a network opens it'
	is "$(logged egress.connect verdict=allow address=203.0.113.20 name=null)" 1 'case 62: it is logged without a name'
	run --allow 203.0.113.10 -- curl -sS -g 'http://[::ffff:203.0.113.10]/'
	like "$out" '^hello' 'case 64: the v4-mapped form is the address'
	run --allow '[2001:db8::/32]' -- curl -sS -g 'http://[2001:db8::10]/'
	like "$out" '^hello' 'a rule for an IPv6 network'
	run --allow six.test -- curl -sS http://six.test/
	is "$out $(event egress.connect address)" 'hello six.test 2001:db8::10' 'a name with an IPv6 address only'
	run -s egress.addresses=real --allow web.test -- curl -sS -6 http://web.test/
	is "$out $(event egress.connect address)" 'hello web.test 2001:db8::10' 'addresses = real: by IPv6'
	run -s egress.addresses=real --allow web.test -- sh -c 'getent ahostsv4 web.test; curl -sS -4 http://web.test/'
	like "$out" '^203\.0\.113\.10 ' 'addresses = real: the program sees it'
	like "$out" '^hello web' 'addresses = real: by IPv4'
	closed 'addresses = real: an address of no allowed name' web.test curl -sS http://203.0.113.20/
	run --allow '*' -- curl -sS http://web.test/ http://203.0.113.20/ http://private.test/ http://127.0.0.1/ http://10.1.2.3/ http://198.51.100.7/
	is "$out" 'hello web.test
hello 203.0.113.20' 'a rule for all: public addresses and no others'
	run --allow '*' -s egress.deny=denied.test -- curl -sS http://denied.test/
	isnt "$status" 0 'a deny rule is stronger'
	run --allow @host:8090 -- curl -sS http://host.agentbox.internal:8090/
	is "$out" 'hello host.agentbox.internal:8090' 'the loopback of the host, where a rule names it'
	run --allow @host:8090 -- curl -sS http://host.agentbox.internal:8080/ http://127.0.0.1:8090/
	is "$out" '' 'the loopback of the host: no other port, and not as 127.0.0.1'
}

# Without what it needs, nothing runs. In a namespace where nf_tables is not to be had: see 40-vm.t for a kernel without it.
missing() {
	run --allow web.test -s egress.mode=host -s egress.ebpf=off -- touch "$T/ran"
	is "$status $(test -e "$T/ran" && echo ran)" '125 ' 'case 64: a mode that cannot be enforced is refused'
	outside unshare -U -r sh -c 'echo 0 >/proc/sys/user/max_net_namespaces && exec "$0" run --allow web.test -- touch ran' "$AB"
	is "$status $(test -e ran && echo ran)" '125 ' 'case 64: no network namespace to be had: nothing runs'
	# A socket of the host's network is one wherever it is used, and can be connected to something else.
	cat >again.py <<-'PY'
		import ctypes, socket
		s = socket.socket(fileno=0)
		assert ctypes.CDLL(None).connect(0, bytes(16), 16) == 0
		s.connect(("203.0.113.20", 80))
		s.sendall(b"GET / HTTP/1.1\r\nHost: again\r\n\r\n")
		print(s.recv(12).decode())
	PY
	timeout 20 python3 again.py 0<>/dev/tcp/127.0.0.1/8090 >"$T/out"
	is "$(cat "$T/out")" 'HTTP/1.1 200' '(outside, standard input can be connected anew)'
	for mode in none gateway; do
		timeout 20 "$AB" run -q -s egress.mode=$mode -- sh -c 'touch ran; python3 again.py' 0<>/dev/tcp/127.0.0.1/8090 >"$T/out" 2>"$T/err"
		is "$? $(cat "$T/out" && ls ran 2>/dev/null)" '125 ' "mode = $mode: a network socket as standard input is refused"
		like "$(cat "$T/err")" 'standard input is a network socket' 'in words'
	done
	# Each gateway needs descriptors and processes; without them it cannot start.
	outside bash -c 'ulimit -n 8; exec "$0" run --allow web.test -- touch ran' "$AB"
	is "$status $(test -e ran && echo ran)" '125 ' 'case 64: a gateway that cannot start: nothing runs'
}

streams() {
	run --allow web.test:25,2222 -- python3 -c '
import socket
for port in 25, 2222:
    s = socket.create_connection(("web.test", port), 10); f = s.makefile("rwb")
    print(f.readline().decode().strip())
    f.write(b"EHLO\r\n"); f.flush(); print(f.readline().decode().strip())'
	is "$out" '220 smtp.test ready
250 EHLO
220 smtp.test ready
250 EHLO' 'case 66: the server speaks first'

	cat >upgrade.py <<-'PY'
		import socket, sys
		name, port = sys.argv[1], int(sys.argv[2])
		s = socket.create_connection((name, port), 10)
		s.sendall(f"GET /chat HTTP/1.1\r\nHost: {name}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\n"
		          "Sec-WebSocket-Version: 13\r\n\r\n".encode())
		data = b""
		while b"first" not in data:
		    got = s.recv(4096)
		    if not got: sys.exit("closed: " + repr(data))
		    data += got
		print(data.split(b"\r\n")[0].decode())
		# Nothing that looks like HTTP, and a Host that would not be let through if it were.
		for text in b"\x81\x03abc", b"GET / HTTP/1.1\r\nHost: denied.test\r\n\r\n":
		    s.sendall(text)
		    want, data = len(text), b""
		    while len(data) < want:
		        data += s.recv(4096) or sys.exit("closed")
		    print(data)
	PY
	outside python3 upgrade.py web.test 80
	is "$status" 0 'case 66: (outside the upgrade works)'
	local want=$out port
	for port in 80 8080; do
		run --allow "web.test:$port" -- python3 upgrade.py web.test "$port"
		is "$out" "$want" "case 66: WebSocket after 101 on port $port"
	done

	if [ -n "$(command -v node)" ]; then
		run --allow h2.test:80,8081 -- curl -sS --http2-prior-knowledge http://h2.test:8081/ http://h2.test/
		is "$out" 'http/2.0 h2.test:8081
http/2.0 h2.test' 'case 66: the preface of HTTP/2 goes through, inspected on port 80 or not'
		run --allow h2.test:80,8081 -- curl -sS --http2-prior-knowledge -H 'Host: denied.test' http://h2.test/
		isnt "$status" 0 'A13: the authority of HTTP/2 is compared with the name'
	else
		skip node 'case 66: HTTP/2'
	fi
}

bulk() {
	local size=100000000 want port

	python3 -c '
import hashlib, sys
n = int(sys.argv[1]); block = hashlib.sha256(b"pattern").digest() * 2048
with open("big", "wb") as f:
    while n > 0: f.write(block[:n]); n -= len(block)' $size
	want=$(sha256sum <big)
	want=${want%% *}
	for port in 80 8080; do
		run --allow "web.test:$port" -- sh -c "curl -sS http://web.test:$port/bulk/$size | sha256sum"
		is "${out%% *}" "$want" "case 66: 100 MB from port $port"
		cmp_ok "$(event egress.close received_bytes)" -ge $size "case 62: port $port: and they were counted"
		run --allow "web.test:$port" -- curl -sS -T big -H 'Expect: 100-continue' "http://web.test:$port/put"
		is "$out" "$want" "case 66: 100 MB to port $port, with Expect: 100-continue"
		cmp_ok "$(event egress.close sent_bytes)" -ge $size "case 62: port $port: and they were counted"
	done
	run --allow web.test --ro-bind "$NET/ca.pem" /workspace/scratch/ca.pem -- \
		sh -c "curl -sS --cacert ../scratch/ca.pem https://web.test/bulk/$size | sha256sum"
	is "${out%% *}" "$want" 'case 66: 100 MB over TLS'
	rm big
}

# git over ssh to a daemon of the test's own, with keys of its own.
over_ssh() {
	local d=$T/ssh url port=$((20000 + $(id -u) % 10000))

	if ! have sshd || ! have ssh-keygen; then
		skip sshd 'case 66: git over ssh'
		return
	fi
	mkdir -m 0700 "$d"
	ssh-keygen -q -t ed25519 -N '' -f "$d/host"
	ssh-keygen -q -t ed25519 -N '' -f "$d/key"
	cp "$d/key.pub" "$d/authorized"
	cat >"$d/config" <<-CONF
		Port $port
		HostKey $d/host
		AuthorizedKeysFile $d/authorized
		PidFile none
		StrictModes no
		UsePAM no
		PasswordAuthentication no
	CONF
	mkdir -p /run/sshd 2>/dev/null
	git init -q --bare "$T/far.git"
	/usr/sbin/sshd -D -e -f "$d/config" 2>"$d/log" &
	own $!
	if ! until_true 5 grep -q 'Server listening' "$d/log"; then
		skip sshd 'case 66: git over ssh (the daemon does not start here)'
		return
	fi
	export GIT_SSH_COMMAND="ssh -i ../scratch/ssh/key -o UserKnownHostsFile=/dev/null -o StrictHostKeyChecking=no -o BatchMode=yes -o LogLevel=ERROR"
	url=ssh://$(id -un)@web.test:$port$T/far.git
	run --allow "web.test:$port" --ro-bind "$d" /workspace/scratch/ssh --setenv GIT_SSH_COMMAND "$GIT_SSH_COMMAND" -- \
		sh -c 'git push -q "$0" HEAD:refs/heads/main && git ls-remote "$0"' "$url"
	if grep -q 'No user exists for uid' <<<"$err"; then
		skip 'a name for the user' 'case 66: git over ssh'
	else
		like "$out" 'refs/heads/main' 'case 66: git over ssh'
	fi
	unset GIT_SSH_COMMAND
	own_kill
}

tests() {
	programs
	names
	rebinding
	addresses
	missing
	streams
	over_ssh
	bulk
}

net_start && for_each_user tests
done_testing
