# shellcheck shell=bash
# For the tests of egress: servers, names and addresses of the test's own, in a network and mount namespace that the whole test
# file runs in. Nothing leaves it. Sourced instead of lib.sh, as the first thing:
#
#	. "$(dirname "$0")/../lib/net.sh"
#	tests() { run --allow web.test -- curl -s http://web.test/; is "$out" 'hello web.test' '...'; }
#	net_start && for_each_user tests
#	done_testing
#
# The documentation ranges count as public. They, and the private ranges that names are made to point to, are local by a route
# and not by an address: the servers answer there, and yet they are not addresses of this host, which are closed to names.
# 198.51.100.7 is one. What names there are: net/serve.py.

net_addresses() {
	local net

	ip link set lo up || return
	echo 0 >/proc/sys/net/ipv4/ip_unprivileged_port_start || return
	ip addr add 198.51.100.7/32 dev lo || return
	# In a user namespace there is one group only.
	echo '0 2147483647' >/proc/sys/net/ipv4/ping_group_range || echo '0 0' >/proc/sys/net/ipv4/ping_group_range
	for net in 203.0.113.0/24 192.0.2.0/24 10.0.0.0/8 192.168.0.0/16 169.254.0.0/16 100.64.0.0/10; do
		ip route add local "$net" dev lo || return
	done
	if ip -6 addr add 2001:db8:ffff::1/128 dev lo nodad 2>/dev/null; then
		ip -6 route add local 2001:db8::/32 dev lo || return
		ip -6 route add local fd00:1::/64 dev lo || return
	fi
	# What answers nothing at all.
	nft -f - <<-'NFT'
		table ip silence {
			chain input { type filter hook input priority 0; ip daddr 192.0.2.99 drop; }
		}
	NFT
}

# The resolver asks the test's own name server, and no other file.
net_names() {
	echo 'nameserver 127.0.0.1' >"$NET/resolv.conf"
	printf 'passwd: files\ngroup: files\nhosts: files dns\n' >"$NET/nsswitch.conf"
	printf '127.0.0.1 localhost\n203.0.113.10 file.test\n' >"$NET/hosts"
	chmod 0644 "$NET"/*.conf "$NET/hosts"
	mount --bind "$NET/resolv.conf" "$(readlink -f /etc/resolv.conf)" || return
	mount --bind "$NET/nsswitch.conf" /etc/nsswitch.conf || return
	mount --bind "$NET/hosts" /etc/hosts || return
	# ssh wants a name for whoever runs it.
	getent passwd 12345 >/dev/null && return
	{ cat /etc/passwd && echo 'tester:x:12345:12345::/tmp:/bin/sh'; } >"$NET/passwd" && chmod 0644 "$NET/passwd" || return
	mount --bind "$NET/passwd" /etc/passwd
}

# The whole file once more, in the namespaces. A user becomes root of a user namespace for it, and itself again in another.
net_enter() {
	if [ "$(id -u)" -eq 0 ]; then
		NET_STAGE=setup exec unshare -n -m --propagation private bash "$0"
	fi
	NET_STAGE=$(id -u):$(id -g) exec unshare -r -n -m --propagation private bash "$0"
}

# In the namespaces, as their root.
net_setup() {
	NET=$(mktemp -d "${TMPDIR:-/tmp}/agentbox-net.XXXXXX") || exit 1
	chmod 0755 "$NET"
	export NET
	if ! { net_addresses && net_names; } >"$NET/setup.log" 2>&1; then
		sed 's/^/# /' "$NET/setup.log"
		rm -rf "$NET"
		echo 'Bail out! the namespace of the test cannot be set up'
		exit 1
	fi
	local user=$NET_STAGE

	export NET_STAGE=ready
	case $user in *:*) exec unshare -U --map-user "${user%:*}" --map-group "${user#*:}" bash "$0" ;; esac
}

case ${NET_STAGE-} in
'')
	if ! unshare -r -n -m true 2>/dev/null; then
		echo '1..0 # SKIP network namespaces'
		exit 0
	fi
	net_enter
	;;
ready) ;;
*) net_setup ;;
esac
NET_FILES=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/net
# shellcheck source=tests/lib/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# A certificate authority, and one certificate for all names of the test.
net_certificates() {
	(
		cd "$NET" || exit
		openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj '/CN=agentbox test CA' -keyout ca.key -out ca.pem
		openssl req -newkey rsa:2048 -nodes -subj /CN=web.test -keyout server.key -out server.csr
		# OpenSSL takes no *.test: a label must stand before the last two.
		printf 'subjectAltName=DNS:%s.test' web >ext
		printf ',DNS:%s.test' www.web h2 four six denied alias target loopback private metadata own >>ext
		openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile ext -out server.pem
		chmod 0644 ./*.pem server.key
	) >/dev/null 2>&1
}

# net_start: the servers; true when they answer. $NET is for all users to read; dns.log in it has what the name server was asked,
# http.log what came to the web server, ends.log how other connections ended.
net_start() {
	[ -z "${TEST_CHILD-}" ] || return 0
	trap 'net_stop; rm -rf "$NET"; remove_scratch' EXIT
	net_certificates || fail 'the certificates of the test'
	python3 "$NET_FILES/serve.py" "$NET" >"$NET/serve.log" 2>&1 &
	net_server=$!
	if have node; then
		node "$NET_FILES/serve.js" "$NET" >"$NET/node.log" 2>&1 &
		net_node=$!
	fi
	if until_true 10 net_answers; then
		chmod 0666 "$NET"/{dns,http,ends}.log # a test empties them
		return 0
	fi
	sed 's/^/# /' "$NET"/*.log
	fail 'the servers of the test'
}
net_server='' net_node=''

net_stop() {
	# shellcheck disable=SC2086 # there may be one or two
	kill -KILL $net_server $net_node && wait $net_server $net_node
} 2>/dev/null

net_answers() {
	[ -e "$NET/up" ] && { [ -z "$net_node" ] || [ -e "$NET/node-up" ]; }
}

# asked NAME: how often the name server was asked for it.
asked() { grep -cixF -- "$1" "$NET/dns.log"; }

# logged TYPE [FIELD=VALUE]...: how many events of the last run are like that. A value is compared as text, null is "null".
logged() { events | python3 "$SCRATCH/tests/lib/net/logged.py" "$@"; }
