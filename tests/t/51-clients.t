#!/bin/bash
# Real clients through the gateway: by capture, knowing nothing of it, and again with the proxy port in the usual variables.
. "$(dirname "$0")/../lib/net.sh"

PROXY=127.0.0.1:18255
CA=/workspace/scratch/ca.pem

clients() {
	cat >urllib_get.py <<-'PY'
		import sys, urllib.request
		for url in sys.argv[1:]:
		    sys.stdout.write(urllib.request.urlopen(url, timeout=10).read().decode())
	PY
	cat >asyncio_get.py <<-'PY'
		import asyncio, ssl, sys
		async def get(port, tls):
		    r, w = await asyncio.open_connection("web.test", port, ssl=tls)
		    w.write(b"GET / HTTP/1.1\r\nHost: web.test\r\nConnection: close\r\n\r\n")
		    print((await r.read()).decode().splitlines()[-1])
		    w.close()
		async def main():
		    await asyncio.gather(get(80, None), get(443, ssl.create_default_context(cafile=sys.argv[1])))
		asyncio.run(main())
	PY
	cat >get.mjs <<-'JS'
		import http from 'http';
		import https from 'https';
		import http2 from 'http2';
		async function text(stream) {
			let all = '';
			for await (const part of stream)
				all += part;
			return all;
		}
		const get = (module, url) => new Promise((done, no) => module.get(url, r => done(text(r))).on('error', no));
		async function two(url) {
			const session = http2.connect(url);
			const all = await text(session.request({':path': '/'}));
			session.close();
			return all;
		}
		const [how, ...urls] = process.argv.slice(2);
		for (const url of urls) {
			if (how === 'fetch')
				process.stdout.write(await (await fetch(url)).text());
			else if (how === 'http2')
				process.stdout.write(await two(url));
			else
				process.stdout.write(await get(url.startsWith('https') ? https : http, url));
		}
	JS
	cat >Get.java <<-'JAVA'
		public class Get {
			public static void main(String[] a) throws Exception {
				for (String url : a)
					System.out.write(new java.net.URL(url).openStream().readAllBytes());
				System.out.flush();
			}
		}
	JAVA
	! have javac || javac Get.java || fail 'javac'
	! have keytool || keytool -importcert -noprompt -alias ca -file "$NET/ca.pem" -keystore trust.p12 -storepass changeit >/dev/null 2>&1
	# A repository as plain files of the web server.
	if [ "$(id -u)" -eq 0 ] || ! [ -d "$NET/git" ]; then
		mkdir -p "$NET/git"
		git clone -q --bare . "$NET/git/far.git"
		git -C "$NET/git/far.git" update-server-info
		chmod -R a+rX "$NET/git"
	fi
}

# with VIA COMMAND...: in a box where web.test and h2.test are allowed; VIA is how the client gets there.
with() {
	local via=$1 options=(--allow web.test --allow h2.test --ro-bind "$NET/ca.pem" "$CA")

	shift
	options+=(--setenv SSL_CERT_FILE "$CA" --setenv NODE_EXTRA_CA_CERTS "$CA" --setenv GIT_SSL_CAINFO "$CA")
	case $via in
	proxy) options+=(--setenv http_proxy "http://$PROXY" --setenv https_proxy "http://$PROXY" --setenv HTTPS_PROXY "http://$PROXY") ;;
	socks) options+=(--setenv ALL_PROXY "socks5h://$PROXY") ;;
	esac
	run "${options[@]}" -- "$@"
}

# client NAME VIA EVENT-VIA WANTED COMMAND...: its output, and that the log says how it came.
client() {
	local name=$1 via=$2 logged_via=$3 want=$4

	shift 4
	if ! have "$1" || { [ "$1" = java ] && ! [ -e Get.class ]; }; then
		skip "$1" "$name by $via"
		return
	fi
	with "$via" "$@"
	is "$status $out" "0 $want" "$name by $via"
	cmp_ok "$(logged egress.connect verdict=allow "via=$logged_via")" -ge 1 "$name by $via: the log says how"
	is "$(logged egress.connect verdict=deny)" 0 "$name by $via: nothing was denied"
}

both='hello web.test
hello web.test'

curls() {
	local via logged_via

	for via in capture proxy socks; do
		logged_via=${via/capture/gateway}
		client "curl, HTTP/1.1" $via "$logged_via" 'hello web.test' curl -sS http://web.test/
		client "curl, TLS" $via "$logged_via" 'hello web.test' curl -sS https://web.test/
		have node || { skip node "curl, HTTP/2 by $via"; continue; }
		client "curl, HTTP/2, TLS 1.2" $via "$logged_via" 'http/2.0 h2.test' curl -sS --tls-max 1.2 https://h2.test/
		client "curl, HTTP/2, TLS 1.3" $via "$logged_via" 'http/2.0 h2.test' curl -sS --tlsv1.3 https://h2.test/
		client "curl, HTTP/1.1 over TLS 1.3" $via "$logged_via" 'http/1.1 h2.test' curl -sS --http1.1 --tlsv1.3 https://h2.test/
		client "git, https" $via "$logged_via" 'refs/heads/main' \
			sh -c 'git clone -q https://web.test/git/far.git /tmp/far && git -C /tmp/far for-each-ref --format="%(refname)" refs/heads'
	done
}

others() {
	local via logged_via

	for via in capture proxy; do
		logged_via=${via/capture/gateway}
		client wget $via "$logged_via" "$both" wget -q -O - --ca-certificate=$CA http://web.test/ https://web.test/
		client 'busybox wget' $via "$logged_via" 'hello web.test' busybox wget -q -O - http://web.test/
		client 'python3 urllib' $via "$logged_via" "$both" python3 urllib_get.py http://web.test/ https://web.test/
		client 'python3 asyncio' $via gateway "$both" python3 asyncio_get.py $CA
		client 'node fetch' $via gateway "$both" node get.mjs fetch http://web.test/ https://web.test/
		client 'node http and https' $via gateway "$both" node get.mjs http http://web.test/ https://web.test/
	done
	client 'node http2' capture gateway 'http/2.0 h2.test:443' node get.mjs http2 https://h2.test/
	client java capture gateway "$both" java -Djavax.net.ssl.trustStore=trust.p12 -Djavax.net.ssl.trustStorePassword=changeit Get \
		http://web.test/ https://web.test/
	client java proxy proxy "$both" java -Djavax.net.ssl.trustStore=trust.p12 -Djavax.net.ssl.trustStorePassword=changeit \
		-Dhttp.proxyHost=127.0.0.1 -Dhttp.proxyPort=18255 -Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=18255 Get \
		http://web.test/ https://web.test/
	client java socks socks "$both" java -Djavax.net.ssl.trustStore=trust.p12 -Djavax.net.ssl.trustStorePassword=changeit \
		-DsocksProxyHost=127.0.0.1 -DsocksProxyPort=18255 Get http://web.test/ https://web.test/

	local ask='printf "GET / HTTP/1.1\r\nHost: web.test\r\nConnection: close\r\n\r\n" | openssl s_client -quiet -verify_return_error -verify_hostname web.test -CAfile "$0" "$@" 2>/dev/null | tail -n 1'
	for via in -tls1_2 -tls1_3; do
		client "openssl s_client $via" capture gateway 'hello web.test' sh -c "$ask" $CA -connect web.test:443 $via
		client "openssl s_client $via" proxy proxy 'hello web.test' sh -c "$ask" $CA -proxy $PROXY -connect web.test:443 -servername web.test $via
	done
}

# The client sees in its own protocol that it may not, and why.
refusals() {
	with capture curl -sS http://web.test:80/ -H 'Host: denied.test'
	like "$out" '^agentbox: web\.test:80 denied: ' '403 says why'
	with proxy curl -sS -w '%{http_code}' http://denied.test/
	like "$out" '^agentbox: denied\.test:80 denied: .*403$|403$' 'an absolute URL by the proxy: 403'
	like "$out" 'allow = denied\.test:80' 'and the rule that would allow it'
	with proxy curl -sS https://denied.test/
	like "$err" '403' 'CONNECT: 403'
	is "$(logged egress.connect verdict=deny name=denied.test port=443 via=proxy)" 1 'and logged'
	with socks curl -sS http://denied.test/
	like "$err" 'SOCKS5.*\(2\)' 'SOCKS 5: not allowed by the ruleset'
	is "$(logged egress.connect verdict=deny name=denied.test port=80 via=socks)" 1 'and logged'
	run --allow web.test --setenv http_proxy "http://$PROXY" -- curl -sS http://203.0.113.20/
	like "$out" '^agentbox: 203\.0\.113\.20:80 denied' 'an address at the proxy port is asked the same policy'
	: >"$NET/dns.log"
	run --allow loopback.test --setenv ALL_PROXY "socks5h://$PROXY" -- curl -sS http://loopback.test/
	isnt "$status" 0 'SOCKS 5: a name that leads to the loopback'
	with socks curl -sS http://denied.test/
	is "$(asked denied.test)" 0 'SOCKS 5: a denied name is never looked up'
}

# getaddrinfo with AI_ADDRCONFIG finds nothing where there is no address but the loopback's.
addrconfig() {
	run --allow web.test -- python3 -c '
import socket
for host, family in (("web.test", socket.AF_UNSPEC), ("web.test", socket.AF_INET), ("203.0.113.10", socket.AF_UNSPEC),
                     ("2001:db8::10", socket.AF_UNSPEC), ("localhost", socket.AF_UNSPEC)):
    print(host, len(socket.getaddrinfo(host, 80, family, socket.SOCK_STREAM, 0, socket.AI_ADDRCONFIG)) > 0)'
	is "$(grep -c True <<<"$out")" 5 'AI_ADDRCONFIG: names and addresses of both families'
	run -- python3 -c 'import socket; print(len(socket.getaddrinfo("localhost", 80, 0, socket.SOCK_STREAM, 0)))'
	is "$status" 0 'without a network localhost still has an address'
}

tests() {
	clients
	curls
	others
	refusals
	addrconfig
}

net_start && for_each_user tests
done_testing
