#!/bin/bash
# Case 48: the mount table of the host changes while boxes start. In a mount namespace of the test's own.
. "$(dirname "$0")/../lib/lib.sh"

STARTS=100

tests() {
	local flags=-m

	[ "$(id -u)" -eq 0 ] || flags=-Urm
	mkdir -p "$T/m" sub
	export AB T repo STARTS
	# shellcheck disable=SC2016
	capture timeout -k 2 -s KILL 60 unshare $flags bash -c '
		mount -t tmpfs none "$T/m" && umount "$T/m" || exit 99
		(while [ -d /proc/$$ ] && mount -t tmpfs none "$T/m" && mkdir "$T/m/n" && mount -t tmpfs none "$T/m/n"; do
			umount "$T/m/n"; umount "$T/m"; echo x; done) >"$T/loops" &
		for ((i = 0; i < STARTS; i++)); do
			timeout -s KILL 20 "$AB" run -q -- true || echo "status $?"
		done
		kill $!; wait; echo end'
	is "$status $out" '0 end' "case 48: $STARTS starts while the host mounts and unmounts: all 0"
	is "$err" '' 'case 48: without a word'
	cmp_ok "$(wc -l <"$T/loops")" -ge 20 "case 48: (mounts changed $(wc -l <"$T/loops") times)"
	# In the very repository: what is mounted there is looked for, and may be gone by then.
	# shellcheck disable=SC2016
	capture timeout -k 2 -s KILL 60 unshare $flags bash -c '
		(while [ -d /proc/$$ ] && mount -t tmpfs none "$repo/sub"; do umount "$repo/sub"; done) &
		for ((i = 0; i < STARTS / 2; i++)); do
			timeout -s KILL 20 "$AB" run -q -- sh -c "echo x >sub/f; echo x >f" || echo "status $?"
		done
		kill $!; wait; echo end'
	is "$(grep -Evx 'status (125|1|2)' "$T/out" | sort -u | xargs)" end 'case 48: in the repository: each run works or is refused'
	is "$(ls -A . sub | xargs)" '.: .git README src sub sub:' 'case 48: and the repository is not written'
	rmdir "$T/m" sub
}

for_each_user tests
done_testing
