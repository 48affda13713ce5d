#!/bin/bash
# `why connect HOST:PORT` says beforehand what a run then does, and by which line.
. "$(dirname "$0")/../lib/net.sh"

profile() {
	cat >"$T/p.ini" <<-'INI'
		[profile]
		extends = default
		[egress]
		mode = gateway
		allow = web.test
		allow = *.web.test:80
		allow = four.test:8000-8100
		allow = 203.0.113.20:80
		allow = 10.0.0.0/8:8080
		allow = [2001:db8::/32]:8080
		allow = @host:8090
		allow = denied.test:*
		deny = denied.test:8080
		deny = 10.1.2.4
	INI
	# Each line: the destination, the verdict, the line of the profile that is named (or words, where there is none).
	cat >"$T/table" <<-'TABLE'
		web.test:80 allowed 5
		web.test:443 allowed 5
		WEB.test.:80 allowed 5
		web.test:8080 denied 5
		www.web.test:80 allowed 6
		www.web.test:443 denied 6
		four.test:8080 allowed 7
		four.test:80 denied 7
		203.0.113.20:80 allowed 8
		203.0.113.20:8080 denied 8
		203.0.113.10:80 denied no rule
		10.1.2.3:8080 allowed 9
		10.1.2.3:80 denied 9
		10.1.2.4:8080 denied 14
		[2001:db8::10]:8080 allowed 10
		[2001:db8::10]:80 denied 10
		[::ffff:203.0.113.20]:80 allowed 8
		[::ffff:203.0.113.10]:80 denied no rule
		host.agentbox.internal:8090 allowed 11
		host.agentbox.internal:8080 denied 11
		denied.test:80 allowed 12
		denied.test:8080 denied 13
		target.test:80 denied no rule
		evilweb.test:80 denied no rule
		169.254.169.254:80 denied no rule
		198.51.100.7:80 denied no rule
	TABLE
	# All of them in one run. Where there is no hello, it was not let through. 443: any TLS is enough.
	cat >try.py <<-'PY'
		import socket, ssl, sys
		for line in sys.stdin:
		    host, port = line.split()[0].rsplit(":", 1)
		    name = host.strip("[]")
		    try:
		        s = socket.create_connection((name, int(port)), 5)
		        if port == "443":
		            context = ssl.create_default_context()
		            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
		            s = context.wrap_socket(s, server_hostname=name)
		        s.sendall(f"GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
		        data = b""
		        while more := s.recv(4096):
		            data += more
		        print("allowed" if b"hello" in data else "denied")
		    except OSError:
		        print("denied")
	PY
}

# Rules that are right and do not do what they seem to.
notes() {
	printf '[profile]\nextends = default\n[egress]\nallow = a.test\n' >p.ini
	capture "$AB" check ./p.ini
	is "$status" 0 'allow without a mode: no fault'
	like "$err" 'note: \./p\.ini:[0-9]+: \[egress\] allow does nothing with mode = none' 'but noted'
	run -p ./p.ini -- true
	like "$err" 'allow does nothing with mode = none' 'and when it runs'
	run -q -p ./p.ini -- true
	is "$status $err" '0 ' 'not with -q'
	run -p ./p.ini -s egress.mode=none -- true
	is "$status $err" '0 ' 'nor where somebody wrote none'
	for rule in 127.0.0.1:80 localhost '[::1]:9' 127.0.0.0/8; do
		run --allow "$rule" -- true
		like "$err" 'note: --allow: .*own loopback.*@host' "$rule is noted"
	done
	run --allow 10.0.0.1:80 --allow @host:9 --allow '[fe80::1]' -- true
	is "$status $err" '0 ' 'other addresses are not'
}

# What comes with agentbox.
shipped() {
	local f p

	for f in "$AGENTBOX_PROFILES"/*.ini; do
		p=$(basename "$f" .ini)
		capture "$AB" check "$p"
		is "$status $out$err" '0 ' "profile $p: no fault"
		[ "$p" = base ] && continue
		run -p "$p" -- sh -c 'echo ran; getent hosts web.test || curl -sS http://203.0.113.10/ || curl -sS -g "http://[2001:db8::10]/"'
		is "$out" ran "profile $p: runs, and reaches nothing that it does not name"
	done
	capture "$AB" why -p npm connect registry.npmjs.org:443
	is "$status" 0 'profile npm: the registry is allowed'
	capture "$AB" why -p npm connect registry.npmjs.org:80
	is "$status" 1 'profile npm: over TLS only'
	capture "$AB" why -p repo-fix connect github.com:22
	is "$status" 0 'profile repo-fix: the sources'
	capture "$AB" why -p docs-research connect docs.python.org:443
	is "$status" 0 'profile docs-research: documentation'
}

tests() {
	local where verdict line n_line=0 really real

	profile
	timeout -s KILL 60 "$AB" run -p "$T/p.ini" -- python3 try.py <"$T/table" >"$T/really" 2>"$T/err"
	mapfile -t real <"$T/really"
	is "${#real[@]}" "$(wc -l <"$T/table")" '(all were tried)'
	while read -r where verdict line; do
		really=${real[n_line]}
		n_line=$((n_line + 1))
		is "$really" "$verdict" "the run: $where"
		capture "$AB" why -p "$T/p.ini" connect "$where"
		like "$out" "^$verdict: " "why: $where: $verdict"
		is "$status" "$([ "$verdict" = allowed ] && echo 0 || echo 1)" "why: $where: the status says it too"
		case $line in
		[0-9]*) like "$out" "p\.ini:$line( |\$|[^0-9])" "why: $where: by line $line" ;;
		*) like "$out" "$line" "why: $where: $line" ;;
		esac
	done <"$T/table"
	capture "$AB" why connect web.test:80
	like "$status $out" '^1 denied: ' 'why: a profile without a network'
	for where in web.test web.test: web.test:0 web.test:65536 web.test:http '' :80 '[::1:80' 'web.test:80:80' 'a b:80' 'b\u00fccher.test:80'; do
		capture "$AB" why -p "$T/p.ini" connect "$where"
		is "$status" 125 "why: no destination: '$where'"
	done
	: >"$NET/dns.log"
	capture "$AB" why -p "$T/p.ini" connect secret.web.test:80
	is "$(cat "$NET/dns.log")" '' 'why asks no name server'
	notes
	shipped
}

net_start && for_each_user tests
done_testing
