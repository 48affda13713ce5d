#!/bin/bash
# npm install through the gateway, from whatever registry npm is configured to use, by a rule for its host. The host is read from
# npm and shown nowhere.

# Before lib.sh, which sets another home: the registry of whoever runs the tests, for both users.
if [ -z "${TEST_CHILD-}" ] && command -v npm >/dev/null 2>&1 && command -v curl >/dev/null 2>&1; then
	NPM_REGISTRY=$(npm config get registry 2>/dev/null)
	NPM_CAFILE=$(npm config get cafile 2>/dev/null)
	export NPM_REGISTRY NPM_CAFILE
	curl -s -o /dev/null -f -m 10 "${NPM_REGISTRY%/}/is-number" || NPM_REGISTRY=
fi
. "$(dirname "$0")/../lib/lib.sh"
BOX_SECONDS=90

# What is printed where a test fails does not name it.
hide_host() {
	out=${out//"$host"/HOST} err=${err//"$host"/HOST}
	sed -i "s/${host//./\\.}/HOST/g" "$T/out" "$T/err"
}

tests() {
	local host port rules=() address option

	if [ -z "${NPM_REGISTRY-}" ]; then
		skip 'a package registry' 'npm install of one package'
		return
	fi
	host=${NPM_REGISTRY#*://}
	host=${host%%/*}
	port=443
	[ "${NPM_REGISTRY%%:*}" = https ] || port=80
	case $host in *:*) port=${host##*:} host=${host%:*} ;; esac
	rules=(--allow "$host:$port")
	option=(--setenv npm_config_registry "$NPM_REGISTRY" --setenv npm_config_update_notifier false)
	case ${NPM_CAFILE-} in /*) option+=(--ro-bind "$NPM_CAFILE" /workspace/scratch/ca.pem --setenv npm_config_cafile /workspace/scratch/ca.pem) ;; esac
	# One with a private address, as a mirror of one's own has, needs a rule for that too.
	for address in $(getent ahosts "$host" | awk '$2 == "STREAM" { print $1 }'); do
		case $address in
		*:*) rules+=(--allow "[$address]:$port") ;;
		*) rules+=(--allow "$address:$port") ;;
		esac
	done

	run "${rules[@]}" "${option[@]}" -- \
		sh -c 'npm install --no-audit --no-fund --silent is-number && node -e "console.log(require(\"is-number\")(5))"'
	hide_host
	is "$status $out" '0 true' 'npm install of one package'
	is "$(events | grep -c '"egress.connect".*"verdict":"deny"')" 0 'npm install: nothing was denied'
	cmp_ok "$(events | grep -c '"egress.connect".*"verdict":"allow"')" -ge 1 'npm install: its connections are logged'
	run --allow web.test "${option[@]}" -- sh -c 'npm install --no-audit --no-fund --silent --fetch-retries=0 is-number'
	hide_host
	isnt "$status" 0 'npm install without a rule fails'
	cmp_ok "$(events | grep -c '"egress.dns".*"verdict":"deny"')" -ge 1 'npm install without a rule: it is logged'
}

for_each_user tests
done_testing
