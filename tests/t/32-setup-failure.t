#!/bin/bash
# Each way in which a box cannot be set up: 125, one message with the object, the reason and what to do, and nothing left.
. "$(dirname "$0")/../lib/lib.sh"

# All names in the scratch directory but for the record and what the test itself writes.
everything() { find "$T" \( -path "$AGENTBOX_STATE" -o -path "$T/out" -o -path "$T/err" \) -prune -o -print | sort; }

# refused NAME OBJECT ADVICE run-arguments...: ADVICE is a regexp of what the message has after the object.
refused() {
	local name=$1 object=$2 advice=$3 before after runs

	shift 3
	before=$(everything)
	run "$@"
	after=$(everything)
	is "$status" 125 "$name: 125"
	is "$(grep -c '^agentbox: ' "$T/err") $(wc -l <"$T/err")" '1 1' "$name: one line"
	like "$err" "$object" "$name: names the object"
	like "$err" "$advice" "$name: and says what to do"
	unlike "$out" RAN "$name: the command did not run"
	is "$after" "$before" "$name: nothing is left"
	runs=$(ls "$AGENTBOX_STATE/runs" 2>/dev/null | tail -n 1)
	[ -z "$runs" ] || is "$(ls -A "$AGENTBOX_STATE/runs/$runs" | grep -Evx 'artifacts|events.jsonl|run.json|.run.json.new' | xargs)" '' "$name: but the record"
}

tests() {
	local mount

	mkdir -p "$T/d"
	echo f >"$T/f"
	refused 'a source that is missing' "$T/no-such" 'No such file' --ro-bind "$T/no-such" /workspace/scratch/x -- echo RAN
	is "$(event run.end reason)" refused 'the record says refused'
	refused 'a writable one' "$T/no-such" 'No such file' --bind "$T/no-such" /workspace/scratch/x -- echo RAN
	refused 'a source below a file' "$T/f/x" 'Not a directory' --bind "$T/f/x" /workspace/scratch/x -- echo RAN
	refused 'an input that is missing' "$T/no-such" 'No such file' --input "$T/no-such" -- echo RAN
	refused 'an input without a name' '--input' 'NAME' --input "$T/d:a/b" -- echo RAN
	refused 'two inputs of one name' "--input README:x and --input $T/f:x" '/workspace/input/x; write SRC:NAME' \
		--input README:x --input "$T/f:x" -- echo RAN
	refused 'two whose own names are the same' "--input $T/f and --input $T/d/../f" 'SRC:NAME' --input "$T/f" --input "$T/d/../f" -- echo RAN
	refused 'artifacts that are missing' '--artifacts out' 'make it first: mkdir -p out$' --artifacts out -- echo RAN
	refused 'a repository that is missing' "$T/no-such" 'No such file|not a directory' --repo "$T/no-such" -- echo RAN
	refused 'a repository that is a file' "$T/f" 'directory' --repo "$T/f" -- echo RAN
	refused 'the root as the repository' '/' 'repo' --repo / -- echo RAN
	refused 'a directory that the box has not' /no/such '--chdir' --chdir /no/such -- echo RAN
	is "$(event run.end reason)" setup-failed 'the record says setup-failed'
	refused 'a directory that is a file' /workspace/repo/README '--chdir' --chdir /workspace/repo/README -- echo RAN
	refused 'a place that the host would have to get' /workspace/repo/new/x 'exist' --bind "$T/d" /workspace/repo/new/x -- echo RAN
	refused 'and one in /usr' /usr/new 'exist' --bind "$T/d" /usr/new -- echo RAN
	refused 'a place that is no path' '--bind' 'absolute path' --bind "$T/d" relative -- echo RAN
	refused 'the root as the place' '--bind' 'absolute path' --bind "$T/d" / -- echo RAN
	refused 'a directory onto a file' /workspace/repo/README '[;:]' --bind "$T/d" /workspace/repo/README -- echo RAN
	refused 'a file onto a directory' /workspace/repo/src '[;:]' --bind "$T/f" /workspace/repo/src -- echo RAN
	refused 'a link where there is something' /workspace/repo '[;:]' --symlink x /workspace/repo/README -- echo RAN
	refused 'a host name that is too long' 'host ?name' '64' --hostname "$(printf '%070d' 0)" -- echo RAN
	refused 'a root that is missing' "$T/no-such" 'No such file' -s "filesystem.root=$T/no-such" -- echo RAN
	refused 'a grant of the record' "$AGENTBOX_STATE" 'AGENTBOX_STATE' --bind "$AGENTBOX_STATE" /workspace/scratch/x -- echo RAN
	refused 'and of what holds it' "$AGENTBOX_STATE" 'AGENTBOX_STATE' -s "filesystem.write=$T:/workspace/scratch/x" -- echo RAN

	# The state directory.
	mkdir -m 0700 "$repo/state"
	for mode in overlay write; do
		AGENTBOX_STATE=$repo/state refused "a state directory in the repository ($mode)" "$repo/state" 'AGENTBOX_STATE' \
			-s "workspace.repo-mode=$mode" -- echo RAN
		rm -rf "$repo/state/runs"
	done
	rm -rf "$repo/state"
	AGENTBOX_STATE=$T/f/state refused 'a state directory below a file' "$T/f" 'Not a directory|not a directory' -- echo RAN
	mkdir -m 0755 "$T/open"
	AGENTBOX_STATE=$T/open refused 'a state directory that others can read' "$T/open" '0?700' -- echo RAN
	rm -r "$T/open"
	mkdir -m 0700 "$T/own"
	touch "$T/own/runs"
	AGENTBOX_STATE=$T/own refused 'a state directory whose runs are a file' "state directory $T/own: Not a directory" \
		'; set AGENTBOX_STATE' -- echo RAN
	capture env AGENTBOX_STATE="$T/own" "$AB" ps
	is "$status" 125 'and so it is for ps'
	like "$err" "state directory $T/own: " 'with the name'
	rm "$T/own/runs"
	if [ "$(id -u)" -ne 0 ]; then
		chmod 0500 "$T/own"
		AGENTBOX_STATE=$T/own refused 'one that cannot be written to' "create runs/ in the state directory $T/own: Permission" \
			'; set AGENTBOX_STATE' -- echo RAN
		mkdir -m 0700 "$T/own2" && mkdir -m 0500 "$T/own2/runs"
		AGENTBOX_STATE=$T/own2 refused 'nor its runs' "create the run's directory in the state directory $T/own2: Permission" \
			'; set AGENTBOX_STATE' -- echo RAN
		rm -r "$T/own2"
		AGENTBOX_STATE=/usr/state refused 'a state directory that cannot be made' /usr 'denied|Read-only' -- echo RAN
	fi
	rmdir "$T/own"

	# A user who may make no namespaces: in a namespace with none left.
	# shellcheck disable=SC2016
	mount=$(unshare -Ur sh -c 'echo 0 >/proc/sys/user/max_user_namespaces && exec "$0" run -- echo RAN' "$AB" 2>&1)
	is $? 125 'no namespaces to be had: 125'
	like "$mount" 'agentbox: .*(namespaces).*doctor' 'says what and where to look'
	unlike "$mount" RAN 'the command did not run'
	# A limit on processes of the caller's that is too low even for pid 1.
	if [ "$(id -u)" -ne 0 ]; then
		run -s limits.processes=1 -- echo RAN
		like "$status" '^(0|125)$' 'limits.processes=1: runs, or is refused'
		[ "$status" -eq 0 ] || like "$err" 'limits.processes' 'with its name'
	fi

	# Root and state on an overlay: see case 49 in 24-files.t. A chroot: its root is no mount point.
	if [ "$(id -u)" -eq 0 ] && have chroot; then
		capture chroot / "$AB" run --repo "$repo" -- echo fine
		is "$status $out" '0 fine' 'chroot / is no chroot'
	fi
	rm -rf "$T/d" "$T/f"
}

for_each_user tests
done_testing
