#!/bin/bash
# agentbox doctor: what this host can enforce for this user, in text and as JSON, its exit status, and what it says where a mechanism is missing.
. "$(dirname "$0")/../lib/lib.sh"

# What a box needs, and what it can do without, as doctor names them.
needed='state directory,clone3,openat2,seccomp,user namespaces,id maps,namespaces,mounts,read-only trees,/proc'
besides='overlay,gateway plumbing,landlock,limits.memory,limits.processes,limits.cpus,delegation,ebpf,host network,libraries'

# json EXPRESSION: of doctor's object `d`, mechanisms by name in `m`, from $T/json.
json() {
	python3 -c 'import json, sys
d = json.load(open(sys.argv[1]))
m = {x["name"]: x for x in d["mechanisms"]}
print(eval(sys.argv[2]))' "$T/json" "$1" 2>&1
}

# shape NAME: the text and the JSON of the same moment agree, and each row is whole.
shape() {
	capture "$@" "$AB" doctor --json
	cp "$T/out" "$T/json"
	code=$status
	is "$(json 'sorted(d)')" "['agentbox', 'kernel', 'mechanisms', 'ok', 'uid']" "$name: the object"
	is "$(json 'd["kernel"]')" "$(uname -r)" "$name: the kernel"
	is "$(json '[x["name"] for x in d["mechanisms"] if sorted(x) != ["detail", "mend", "name", "needed", "state"] or x["state"] not in ("present", "partial", "missing") or not x["detail"]]')" \
		'[]' "$name: each row has its fields"
	is "$(json '",".join(x["name"] for x in d["mechanisms"] if x["needed"])')" "$needed" "$name: what every box needs"
	is "$(json "sorted(set('$besides'.split(',')) - set(m))")" '[]' "$name: and the rest is looked for"
	is "$(json '[x["name"] for x in d["mechanisms"] if x["state"] == "present" and x["mend"]]')" '[]' "$name: nothing to mend where it is present"
	# Where one thing hides the next there is one advice, at the first.
	is "$(json '[x["name"] for x in d["mechanisms"] if x["state"] != "present" and not x["mend"] and x["detail"] != "not tried, as what stands above is missing"]')" \
		'[]' "$name: an advice for all that is not"
	is "$(json 'd["ok"] == all(x["state"] != "missing" for x in d["mechanisms"] if x["needed"])')" True "$name: ok says whether all needed is there"
	is "$(json 'int(not d["ok"])')" "$code" "$name: and so does the status"
	capture "$@" "$AB" doctor
	is "$status" "$code" "$name: the same status without --json"
	is "$(sed -n 's/^\(present\|partial\|missing\) .*/\1/p' "$T/out" | xargs)" "$(json '" ".join(x["state"] for x in d["mechanisms"])')" "$name: the same rows in the text"
	is "$(grep -c '^ *-> ' "$T/out")" "$(json 'len([1 for x in d["mechanisms"] if x["mend"]])')" "$name: and the same advice"
	is "$err" '' "$name: nothing on stderr"
}

here_and_now() {
	name=here
	shape env
	is "$code" 0 'all that is needed is there'
	is "$(json 'd["uid"]')" "$(id -u)" 'the uid'
	like "$out" '^All that every box needs is there\.$' 'in words'
	# It is believed only where a box says the same.
	run --memory 64M -s limits.cgroup=require -- true
	is "$status" "$([ "$(json 'm["limits.memory"]["state"]')" = present ] && echo 0 || echo 125)" 'limits.memory: as a run has it'
	run -s limits.processes=20 -s limits.cgroup=require -- true
	is "$status" "$([ "$(json 'm["limits.processes"]["state"]')" = present ] && echo 0 || echo 125)" 'limits.processes: as a run has it'
	run -- true
	is "$(event run.start mechanisms.landlock.in_force)" "$([ "$(json 'm["landlock"]["state"]')" = missing ] && echo false || echo true)" 'landlock: as a run has it'
	if [ "$(id -u)" -ne 0 ] && [ "$(json 'm["limits.memory"]["state"]')" = missing ]; then
		like "$(json 'm["limits.memory"]["detail"]')" 'writable|mounted|controller' 'why memory cannot be bounded'
		isnt "$(json 'm["ebpf"]["state"]')" present 'eBPF is for root'
	fi
	is "$(ls -A "$T/state" | grep -v -Fx -e runs -e tasks -e reserve | xargs)" '' 'it leaves nothing in the state directory'
	capture "$AB" doctor extra
	is "$status" 125 'an operand: refused'
	capture "$AB" doctor --jsn
	is "$status" 125 'an unknown option: refused'
	like "$err" 'did you mean --json' 'with the nearest right one'
	capture sh -c '"$0" doctor >/dev/full' "$AB"
	isnt "$status" 0 'an output that cannot be written is no success'
}

# In a user namespace of the test's own, where no other can be made: the sysctl holds for what is beneath it.
without_userns() {
	# shellcheck disable=SC2016
	none=(unshare -Ur sh -c 'echo 0 >/proc/sys/user/max_user_namespaces && exec "$0" "$@"')
	outside unshare -Ur true
	is "$status" 0 '(user namespaces can be had)'
	outside "${none[@]}" unshare -Ur true
	isnt "$status" 0 '(and not with max_user_namespaces = 0)'
	name='max_user_namespaces = 0'
	shape "${none[@]}"
	is "$code" 1 'status 1'
	is "$(json 'm["user namespaces"]["state"]')" missing 'user namespaces are missing'
	like "$(json 'm["user namespaces"]["mend"]')" 'user\.max_user_namespaces' 'and the sysctl is named'
	like "$out" '^missing +user namespaces' 'in the text, too'
	like "$out" '^Something that every box needs is missing' 'and the end of it'
	is "$(json '[x["state"] for x in d["mechanisms"] if x["name"] in ("clone3", "openat2", "seccomp", "state directory")]')" \
		"['present', 'present', 'present', 'present']" 'what does not hang on it is told'
	capture "${none[@]}" "$AB" run -- echo RAN
	is "$status $out" '125 ' 'a run is refused'
	like "$err" 'agentbox doctor' 'and names doctor'
	# A box is such a place too.
	run --ro-bind "$AB" /workspace/scratch/ab -- /workspace/scratch/ab doctor --json
	is "$status" 1 'in a box: status 1'
	cp "$T/out" "$T/json"
	like "$(json 'm["user namespaces"]["mend"]') $(json 'm["clone3"]["mend"]')" 'nested-namespaces' 'in a box: and the key is named'
}

state_directory() {
	: >"$T/file"
	capture env -u AGENTBOX_STATE HOME="$T/file" "$AB" doctor --json
	cp "$T/out" "$T/json"
	is "$status $(json 'm["state directory"]["state"]')" '1 missing' 'where HOME is no directory: the state directory is missing'
	like "$(json 'm["state directory"]["mend"]')" 'AGENTBOX_STATE' 'and how to name one'
	capture env AGENTBOX_STATE="$T/file" "$AB" doctor --json
	cp "$T/out" "$T/json"
	is "$status $(json 'm["state directory"]["state"]')" '1 missing' 'one that is a file, too'
	mkdir -m 0777 "$T/open"
	capture env AGENTBOX_STATE="$T/open" "$AB" doctor
	is "$status" 1 'one that is open to others, too'
	rm -r "$T/file" "$T/open"
}

tests() {
	here_and_now
	without_userns
	state_directory
}

for_each_user tests
done_testing
