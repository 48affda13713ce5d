#!/bin/bash
# The record: events, run.json, --event-fd, --status-fd, the hash chain, changes, artifacts, reasons, lost runs and prune.
. "$(dirname "$0")/../lib/lib.sh"

# json EXPRESSION: Python's on `e`, the list of all events on stdin.
json() {
	python3 -c '
import json, sys
e = [json.loads(line) for line in sys.stdin]
types = [x["type"] for x in e]
def first(t): return next((x for x in e if x["type"] == t), None)
def every(t): return [x for x in e if x["type"] == t]
print('"$1"')'
}

events_of_a_run() {
	local id dir

	run -- sh -c 'echo "$AGENTBOX_RUN"; echo new >made; echo x >>README; rm src/main.c; echo out >/workspace/artifacts/result; exit 3'
	id=$out
	dir=$(run_dir)
	is "$(basename "$dir")" "$id" 'AGENTBOX_RUN is the id of the newest run'
	is "$(stat -c %a "$dir" "$AGENTBOX_STATE" | xargs)" '700 700' 'the state is for the caller only'
	like "$(ls "$dir" | xargs)" '^artifacts events.jsonl run.json' 'run.json, events.jsonl, artifacts'
	unlike "$(ls -A "$dir" | xargs)" 'repo|work|skeleton' 'and no layer is left'
	is "$(events | json 'types[:2] + types[-1:]')" "['run.start', 'box.ready', 'run.end']" 'run.start, box.ready, ... run.end'
	is "$(events | json 'sorted(set(types))')" \
		"['artifact', 'box.ready', 'command.exit', 'fs.changes', 'run.end', 'run.start']" 'and the types of what happened'
	is "$(events | json '[x["seq"] for x in e] == list(range(len(e))) and all(x["v"] == 1 and x["run"] == "'"$id"'" for x in e)')" True \
		'seq without gaps, v, run'
	is "$(events | json 'all(__import__("re").fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z", x["time"]) for x in e) and
		[x["time"] for x in e] == sorted(x["time"] for x in e)')" True 'times in order, to the nanosecond'
	is "$(python3 -c '
import hashlib, json, sys
prev = "0" * 64
for line in open(sys.argv[1], "rb"):
    if json.loads(line)["prev"] != prev: print("broken")
    prev = hashlib.sha256(line.rstrip(b"\n")).hexdigest()
print("end")' "$dir/events.jsonl")" end 'prev is the SHA-256 of the line before, zeros first'
	is "$(event run.start argv.0) $(event run.start cwd) $(event run.start repo)" "sh /workspace/repo $repo" 'run.start: argv, cwd, repo'
	is "$(event run.start repo_commit)" "$(git rev-parse HEAD)" 'run.start: the commit'
	is "$(event run.start uid) $(event run.start kernel)" "$(id -u) $(uname -r)" 'run.start: uid, kernel'
	is "$(event run.start profile) $(event run.start profile_file)" "default $AGENTBOX_PROFILES/default.ini" 'run.start: the profile'
	like "$(event run.start profile_sha256)" '^[0-9a-f]{64}$' 'run.start: its digest'
	like "$(event run.start mechanisms)" '"seccomp": \{"in_force": true' 'run.start: the mechanisms in force'
	is "$(events | json 'all(m["in_force"] or m.get("why") for m in first("run.start")["mechanisms"].values())')" True \
		'run.start: each that is not says why'
	is "$(event command.exit exit_code) $(event command.exit signal) $(event command.exit core)" '3 null false' 'command.exit'
	is "$(event run.end reason) $(event run.end exit_code) $(event run.end status)" 'exited 3 3' 'run.end'
	cmp_ok "$(event run.end wall_ms)" -ge 0 'run.end: wall_ms'
	is "$(event fs.changes created_paths) $(event fs.changes modified_paths) $(event fs.changes deleted_paths)" \
		'["made"] ["README"] ["src/main.c"]' 'fs.changes: created, modified, deleted'
	is "$(event artifact path) $(event artifact size) $(event artifact sha256)" \
		"result 4 $(printf 'out\n' | sha256sum | cut -d' ' -f1)" 'artifact: path, size, digest'
	is "$(cat "$dir/artifacts/result")" out 'and the artifact itself'
	is "$(ls -A | xargs) $(cat README)" '.git README src hello' 'the repository is as it was'
	is "$(run_field state) $(run_field reason) $(run_field exit_code) $(run_field argv.0)" 'ended exited 3 sh' 'run.json'
	run -- true
	capture "$AB" log "$id" --json
	is "$(printf '%s\n' "$out" | head -n 1 | json 'first("run.start")["argv"][0]')" sh 'log RUN'
	capture "$AB" log "${id%??}" --type run.end --json
	is "$(printf '%s\n' "$out" | json 'types')" "['run.end']" 'log by a prefix, --type'
	capture "$AB" log "$id"
	is "$status" 0 'log for people'
	like "$out" 'exited' 'says how it ended'
	capture "$AB" log no-such-run
	isnt "$status" 0 'log of no run'
	# What is in the command line is data.
	run -- sh -c ': "$1"' sh "$(printf 'a\n{"type":"forged"}\033]0;x\007\377')"
	is "$(events | json 'types.count("forged")')" 0 'bytes in argv cannot forge an event'
	capture "$AB" log last
	unlike "$out" "$(printf '\033')" 'or reach the terminal'
}

chain() {
	local dir

	run -- true
	dir=$(run_dir)
	capture "$AB" log last --verify
	is "$status" 0 'log --verify: whole'
	cp "$dir/events.jsonl" "$T/events"
	sed -i '2s/init_pid/init_pod/' "$dir/events.jsonl"
	capture "$AB" log last --verify
	isnt "$status" 0 'log --verify: a changed line is found'
	like "$out$err" '(line|seq|event) ?[0-9]' 'with its place'
	sed 2d "$T/events" >"$dir/events.jsonl"
	capture "$AB" log last --verify
	isnt "$status" 0 'a removed line'
	sed '$d' "$T/events" >"$dir/events.jsonl"
	capture "$AB" log last --verify
	isnt "$status" 0 'a missing end'
	head -c -10 "$T/events" >"$dir/events.jsonl"
	capture "$AB" log last --verify
	isnt "$status" 0 'a torn line'
	cp "$T/events" "$dir/events.jsonl"
	capture "$AB" log last --verify
	is "$status" 0 'and whole again'
	run -- sh -c 'echo "{}" >>/workspace/logs/events.jsonl; truncate -s 0 /workspace/logs/events.jsonl; rm -f /workspace/logs/events.jsonl; true'
	capture "$AB" log last --verify
	is "$status" 0 'the command cannot touch it'
}

copies() {
	local option

	box --event-fd 7 --status-fd 8 -- sh -c 'exit 4' 7>"$T/copy" 8>"$T/status" </dev/null >"$T/out" 2>"$T/err"
	is $? 4 '--event-fd and --status-fd'
	is "$(cat "$T/copy")" "$(cat "$(run_dir)/events.jsonl")" '--event-fd gets every event, byte for byte'
	is "$(wc -l <"$T/status")" 1 '--status-fd gets one line'
	is "$(json 'e[0]["reason"], e[0]["exit_code"]' 2>/dev/null <<<"$(sed 's/^{/{"type":"x",/' "$T/status")")" "exited 4" 'the end alone'
	is "$(box --event-fd 3 -- echo out 3>&1 >/dev/null | json 'types[-1]')" run.end '--event-fd into a pipe'
	run --event-fd 1 -- true
	is "$status" 125 '--event-fd 1, which is the command'\''s: 125'
	run --event-fd 77 -- true
	is "$status" 125 'a descriptor that is not open: 125'
	# A reader that is gone, or does not read, is no reason to hang or to fail the command.
	box --event-fd 7 -- sh -c 'exit 5' 7> >(exit 0) >"$T/out" 2>"$T/err" </dev/null
	is $? 5 'a reader of the events that is gone does not change the status'
	is "$(event run.end reason)" exited 'or the record'
	box --status-fd 8 -- sh -c 'exit 5' 8> >(exit 0) >"$T/out" 2>"$T/err" </dev/null
	is $? 5 'nor one of the status'
	is "$(grep -c '^agentbox: cannot write to --status-fd 8: Broken pipe' "$T/err")" 1 'but it is said once'
	# A pipe that is full: nobody reads it, and both ends are this command's.
	capture timeout -k 2 -s KILL "$BOX_SECONDS" perl -MFcntl -MPOSIX -e '$^F = 99; pipe my $r, my $w or die;
		fcntl $w, F_SETFL, O_WRONLY | O_NONBLOCK; 1 while syswrite $w, "x" x 4096; fcntl $w, F_SETFL, O_WRONLY;
		POSIX::dup2(fileno $w, 8) and exec @ARGV' \
		"$AB" run --status-fd 8 -- sh -c 'exit 5'
	is "$status" 5 'a pipe of the status that nobody empties is not waited for'
	like "$err" 'cannot write to --status-fd 8: it is full' 'and it is said'
	for option in --event-fd --status-fd; do
		capture box "$option" 7 -- echo RAN 7</dev/null
		is "$status $out" '125 ' "$option: a descriptor that is open for reading only: 125"
		like "$err" "$option 7: open for reading only" 'in words'
	done
	run --event-fd 7 -- sh -c 'ls /proc/self/fd; echo x >&7' 7>"$T/copy"
	unlike "$out" '^7$' 'the descriptor is not in the box'
}

changes() {
	mkdir -p d1/sub d2
	for i in 1 2 3; do echo "$i" >d1/f$i; done
	echo s >d1/sub/s
	ln -s README link
	run -- sh -c 'mkdir -p n/e/w && echo x >n/e/w/f; mv d1/f1 d2/f1; rm -r d1/sub; chmod 0600 d1/f2; ln -sf src link; mkfifo pipe; ln README hard; rm -rf d2 2>/dev/null; mkdir d2; echo x >d2/g'
	is "$status" 0 'a run that changes much'
	is "$(event fs.changes created_paths)" '["d2/g", "hard", "n/", "n/e/", "n/e/w/", "n/e/w/f", "pipe"]' 'fs.changes: created'
	is "$(event fs.changes deleted_paths)" '["d1/f1", "d1/sub"]' 'fs.changes: deleted'
	like "$(event fs.changes modified_paths)" '"d1/f2", ("d2/", )?"link"' 'fs.changes: modified'
	is "$(event fs.changes cut)" false 'and not cut'
	rm -rf d1 d2 link
	run -- sh -c 'i=0; while [ $i -lt 300 ]; do : >f$i; i=$((i + 1)); done; mkdir -p a; mkfifo a/p; chmod 0 a'
	is "$(event fs.changes created) $(events | json 'len(first("fs.changes")["created_paths"])')" "$(if [ "$(id -u)" -eq 0 ]; then echo 302; else echo 301; fi) 100" \
		'counts are whole, the paths the first 100'
	is "$(event fs.changes cut)" true 'and it says so'
	ended_cleanly
	run -- true
	is "$(event fs.changes created) $(event fs.changes modified) $(event fs.changes deleted)" '0 0 0' 'nothing changed: zeros'
	run -s workspace.repo-mode=read -- true
	is "$(event fs.changes type)" absent 'no overlay, no fs.changes'
	run -- sh -c 'printf x >"$(printf "a\nb\377")"'
	is "$(event fs.changes created)" 1 'a name that is no UTF-8'
	like "$(event fs.changes created_paths)" 'a\\nb' 'is escaped'
}

# The run's directory holds nothing but the record, whatever the box left.
ended_cleanly() { is "$(ls -A "$(run_dir)" | grep -Evx 'artifacts|events.jsonl|run.json|.run.json.new|stdout|stderr' | xargs)" '' 'and nothing but the record is left'; }

artifacts() {
	local start
	local a=/workspace/artifacts

	echo SECRET >"$T/secret"
	start=$(now_ms)
	run --setenv S "$T/secret" -- sh -c "cd $a"'
		mkfifo fifo; ln -s "$S" link; ln -s /dev/zero zero; mkdir -p d/e; echo f >d/e/f; truncate -s 1T sparse
		python3 -c "import socket; socket.socket(socket.AF_UNIX).bind(\"sock\")"; echo x >closed; chmod 0 closed; echo last >z'
	is "$status" 0 'artifacts of every kind'
	cmp_ok $(($(now_ms) - start)) -lt 5000 'a FIFO and a sparse terabyte do not stall the end'
	is "$(events | json 'sorted((x["path"], x["kind"]) for x in every("artifact") if "sha256" not in x and x["path"] != "closed")')" \
		"[('fifo', 'fifo'), ('link', 'symlink'), ('sock', 'socket'), ('sparse', 'file'), ('zero', 'symlink')]" \
		'what is no regular file has no digest, nor has a terabyte'
	is "$(events | json 'all(x.get("reason") for x in every("artifact") if "sha256" not in x)')" True 'each says why'
	is "$(events | json '[x["size"] for x in every("artifact") if x["path"] == "d/e/f"][0], [x["size"] for x in every("artifact") if x["path"] == "sparse"][0]')" \
		'2 1099511627776' 'sizes'
	is "$(events | json 'sum("SECRET" in str(x) or x.get("sha256") == "'"$(sha256sum <"$T/secret" | cut -d' ' -f1)"'" for x in e)')" 0 \
		'no link was followed'
	start=$(now_ms)
	run -- sh -c "cd $a && seq 12000 | xargs touch"
	is "$status" 0 '12,000 artifacts'
	cmp_ok "$(events | json 'len(every("artifact"))')" -le 10000 'are listed up to a bound'
	is "$(event run.end artifacts.cut)" true 'and the record says that there are more'
	cmp_ok $(($(now_ms) - start)) -lt 15000 'in bounded time'
	run -- python3 -c '
import os
os.chdir("/workspace/artifacts")
for i in range(300):
    os.mkdir("d" * 100)
    os.chdir("d" * 100)'
	is "$status" 0 'a very deep tree'
	is "$(event run.end reason)" exited 'does not hurt'
	capture "$AB" prune --older 0s
	is "$status" 0 'prune removes it, too'
	is "$(ls "$AGENTBOX_STATE/runs" | wc -l)" 0 'all of it'
	mkdir "$T/taken"
	run --artifacts "$T/taken" -- sh -c "echo x >$a/f"
	is "$(cat "$T/taken/f") $(event artifact path)" 'x f' '--artifacts DIR'
	run --artifacts "$T/no-such" -- true
	is "$status" 125 'that is absent: 125'
	run --artifacts "$T/state" -- true
	is "$status" 125 'that is the record itself: 125'
	rm -r "$T/taken" "$T/secret"
}

# name STATUS REASON: of the last run.
ended_as() { is "$status $(event run.end reason) $(run_field reason)" "$1 $2 $2" "reason: $2"; }

reasons() {
	local id run_log

	run -- sh -c 'exit 0'
	ended_as 0 exited
	run -- sh -c 'kill -KILL $$'
	ended_as 137 signaled
	run -- sh -c 'exit 137'
	ended_as 137 exited
	run --timeout 300ms -s limits.grace=200ms -- sleep 30
	ended_as 124 timeout
	is "$(event limit.hit limit)" limits.wall-time 'with limit.hit'
	is "$(event limit.warn limit)" limits.wall-time 'and limit.warn before'
	run --timeout 300ms -s limits.grace=300ms -- sh -c 'trap "" TERM; while :; do sleep 0.1; done'
	ended_as 124 timeout
	is "$(event run.end exit_code)" null 'killed after the grace'
	run --timeout 300ms -- sh -c 'trap "exit 0" TERM; while :; do sleep 0.1; done'
	ended_as 124 timeout
	run -- /no/such
	ended_as 127 not-found
	run -- /etc/passwd
	ended_as 126 not-executable
	run --chdir /no/such -- true
	ended_as 125 setup-failed
	like "$(event run.end message)" '/no/such' 'with a message'
	is "$(event command.exit type)" absent 'and no command.exit'
	run --ro-bind /no/such /workspace/scratch/x -- true
	ended_as 125 refused
	like "$(event run.end message)" '/no/such' 'with a message'
	run_log=$("$AB" log last --verify)
	like "$run_log" 'chain whole' 'and a valid record, though much was not known yet'
	is "$(event run.start mechanisms.seccomp.in_force)" false 'in which nothing is said to be in force'
	background -- sh -c 'echo up; exec sleep 30'
	until_true 5 grep -q up "$T/out"
	capture "$AB" stop last
	is "$status" 0 'stop'
	finish
	is "$(event run.end reason)" cancelled 'reason: cancelled'
	background -- sh -c 'echo up; exec sleep 30'
	until_true 5 grep -q up "$T/out"
	kill -KILL "$pid"
	finish
	id=$(basename "$(run_dir)")
	capture "$AB" ps --all --json
	is "$(printf '%s\n' "$out" | tail -n 1 | python3 "$SCRATCH/tests/lib/field.py" - state)" lost 'reason: lost, by ps'
	capture "$AB" log "$id"
	is "$status" 0 'a lost run'\''s log is readable'
	capture "$AB" ps
	unlike "$out" "$id" 'ps without --all does not show it'
	capture "$AB" prune --dry-run
	like "$out" "$id" 'prune --dry-run names it'
	is "$(ls "$AGENTBOX_STATE/runs" | grep -c "$id")" 1 'and leaves it'
	capture "$AB" prune
	is "$status $(ls "$AGENTBOX_STATE/runs" | grep -c "$id")" '0 0' 'prune reclaims it'
	for i in 1 2 3; do run -- true; done
	capture "$AB" prune --keep 2
	is "$(ls "$AGENTBOX_STATE/runs" | wc -l)" 2 'prune --keep 2'
}

# full_disk: the state directory's disk is filled while the command runs, and then events are to be written.
full_disk() {
	local begin=$SECONDS map=()

	[ "$(id -u)" -eq 0 ] || map=(--map-root-user)
	mkdir "$T/tiny"
	# shellcheck disable=SC2016
	capture unshare -m ${map[@]+"${map[@]}"} timeout -k 2 -s KILL 40 sh -c '
		mount -t tmpfs -o size=8m tiny "$1" && mkdir -m 0700 "$1/state" || exit 99
		export AGENTBOX_STATE="$1/state"
		mkfifo "$1/go"
		"$2" run --allow @host:9 -- bash -c "read; echo went; for p in {100..200}; do echo >/dev/tcp/192.0.2.1/\$p; done; echo on; sleep 30" <"$1/go" &
		exec 3>"$1/go"
		until grep -q "box.ready" "$1"/state/runs/*/events.jsonl 2>/dev/null; do sleep 0.02; done
		cat /dev/zero >"$1/fill" 2>/dev/null
		echo >&3
		wait $!
		echo "status $?"
		cat "$1"/state/runs/*/run.json && echo
		"$2" log last --verify >/dev/null && echo whole' sh "$T/tiny" "$AB"
	like "$out" '^went$' 'a full disk: (the command runs)'
	like "$out" '^status 125$' 'a full disk: the run fails'
	cmp_ok "$((SECONDS - begin))" -lt 25 'a full disk: at once'
	like "$out" '"reason": "failed"' 'a full disk: the reason is not one of the time before the command'
	like "$err" 'the command was ended: .*(is used up|No space left)' 'a full disk: and the message what it was'
	like "$out" '^whole$' 'a full disk: the record is whole to its end'
}

damaged() {
	local id

	run -- true
	id=$(run_field id)
	echo '{' >"$(run_dir)/run.json"
	capture "$AB" log "$id" --verify
	is "$status" 1 'a damaged run.json: log --verify finds it'
	like "$err" "run $id: run.json: line .: not a JSON object; whether the log's end is missing cannot be told" 'in words'
	capture "$AB" ps --all
	is "$status" 0 'ps goes on'
	like "$err" "run $id: run.json: line .: not a JSON object; how it ended is not known" 'and says it'
	like "$out" "$id +- +- +lost" 'beside the run'
	"$AB" prune --keep 0 >/dev/null 2>&1
	[ ! -e "$AGENTBOX_STATE/runs/$id" ]
	ok $? 'prune removes it'
}

summary() {
	run -- true
	is "$err" '' 'nothing to say: nothing is said'
	run -v -- true
	like "$err" "$(basename "$(run_dir)")" '-v names the run'
	run -q --timeout 200ms -s limits.grace=0s -- sleep 9
	is "$err" '' '-q: nothing'
	run --timeout 200ms -s limits.grace=0s -- sleep 9
	like "$err" 'time' 'a timeout is said'
	run --dry-run -- echo hi
	is "$status" 0 '--dry-run'
	like "$out" '/workspace/scratch' 'prints the plan'
	unlike "$out" '^hi$' 'and runs nothing'
	like "$out" 'overlay +rw /workspace/repo' 'with each mount'
	AGENTBOX_STATE=$T/no-such run --dry-run -- true
	is "$status $(ls -d "$T/no-such" 2>/dev/null)" '0 ' '--dry-run makes nothing'
	chmod 0755 "$AGENTBOX_STATE"
	run -- true
	is "$status" 125 'a state directory that others can read: refused'
	chmod 0700 "$AGENTBOX_STATE"
}

tests() {
	events_of_a_run
	chain
	damaged
	copies
	changes
	artifacts
	reasons
	full_disk
	summary
}

for_each_user tests
done_testing
