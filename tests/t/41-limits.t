#!/bin/bash
# What a command may use: cases 13, 17 and 18; what runs wild (processes, memory, disk, CPU, time) ends with its reason, the host
# stays usable, and no control group is left.
. "$(dirname "$0")/../lib/lib.sh"

# Allocates so many MiB and touches them; forks until it is refused (or 60 times) and says how often it was not.
hog='my $x = ""; vec($x, (shift) << 20, 8) = 1; print "held\n"'
forks='for (1 .. 60) { my $p = fork; last if !defined $p; if (!$p) { sleep 30; exit } push @p, $p } print @p + 0, "\n"; kill KILL => @p'

reason() { event run.end reason; }
# What the last run said of limits: "limit.hit limits.memory", each once.
said() { events | sed -n 's/.*"type":"\(limit\.[a-z]*\)","limit":"\([a-z.-]*\)".*/\1 \2/p' | sort -u | xargs; }
# At once, whatever ran before.
usable() {
	local start

	start=$(now_ms)
	run -- true
	is "$status" 0 "$1: a command runs"
	cmp_ok $(($(now_ms) - start)) -lt 3000 "$1: at once"
}

# Control groups of runs of this test.
leftovers() {
	local dir

	find /sys/fs/cgroup -type d -name 'agentbox-*' 2>/dev/null | while read -r dir; do
		[ ! -d "$AGENTBOX_STATE/runs/${dir##*/agentbox-}" ] || echo "$dir"
	done
}
no_leftovers() { [ -z "$(leftovers)" ]; }

# May this user bound memory here? As `doctor` says.
bounded() {
	"$AB" doctor --json | python3 -c 'import json, sys
for m in json.load(sys.stdin)["mechanisms"]:
    if m["name"] == sys.argv[1]:
        sys.exit(m["state"] != "present")
sys.exit(1)' "$1"
}

four_ways() {
	local reasons

	run -- sh -c 'exit 137'
	is "$status $(event run.end exit_code) $(event run.end signal)" '137 137 null' 'case 18: exit 137'
	reasons=$(reason)
	run -- sh -c 'kill -9 $$'
	is "$status $(event run.end exit_code) $(event run.end signal)" '137 null 9' 'case 18: kill -9'
	reasons="$reasons $(reason)"
	outside perl -e "$hog" 120
	is "$status $out" '0 held' 'case 18: (120 MiB can be had outside)'
	run --memory 64M -- perl -e "$hog" 120
	if bounded limits.memory; then
		is "$status $(event run.end exit_code) $(event run.end signal)" '137 null 9' 'case 18: more memory than the limit'
		is "$out" '' 'case 18: was not had'
		is "$(said)" 'limit.hit limits.memory' 'case 18: with limit.hit'
		is "$(event limit.hit value)" 67108864 'case 18: of this size'
		cmp_ok "$(event run.end peak_memory)" -le 67108864 'case 18: and a peak no higher'
		reasons="$reasons $(reason)"
	else
		is "$status $out" '0 held' 'memory cannot be bounded for this user: the command runs'
		like "$(event run.start mechanisms.cgroup.not_bounded)" '"limits.memory": ".+"' 'and run.start says so, and why'
		like "$err" '^agentbox: note: limits.memory is not kept here: .+cgroup = require' 'and a line to the caller'
		run -q --memory 64M -- true
		is "$status $err" '0 ' 'not with -q'
		isnt "$(reason)" oom 'and the reason is not made up'
		run --memory 64M -s limits.cgroup=require -- echo RAN
		is "$status $out" '125 ' 'cgroup = require: refused'
		like "$err" 'limits.*memory.*cgroup = require: .+' 'in words'
		reasons="$reasons oom"
	fi
	run --timeout 500ms -s limits.grace=0s -- sleep 30
	is "$status" 124 'case 18: the time is used up'
	like "$err" '^agentbox: reached: limits\.wall-time; agentbox log [^ ]+ --denied$' 'and stderr says which limit that was'
	is "$reasons $(reason)" 'exited signaled oom timeout' 'case 18: four runs, four reasons'
}

memory() {
	run --memory 64M -s limits.cgroup=off -- perl -e "$hog" 120
	is "$status $out" '0 held' 'cgroup = off: runs, and is not bounded'
	like "$(event run.start mechanisms.cgroup.not_bounded)" '"limits.memory": ".*cgroup = off' 'and says so'
	bounded limits.memory || return
	run --memory 64M -- sh -c 'perl -e "$1" 120; echo "$?"' sh "$hog"
	is "$status $out $(reason)" '0 137 exited' 'a memory hog that is a child: the main program goes on'
	is "$(said)" 'limit.hit limits.memory' 'and limit.hit is said'
	run --memory 100M -- perl -e "$hog" 85
	is "$status $(said)" '0 limit.warn limits.memory' 'limit.warn at 80 % of the memory'
	cmp_ok "$(event limit.warn used)" -ge 83886080 'with what was used'
	run --memory 100M -- perl -e "$hog" 40
	is "$status $(said)" '0 ' 'and not at less'
	run --memory 64M -s workspace.scratch-size=1G -- sh -c 'head -c 200M /dev/zero >/workspace/scratch/f'
	is "$(said)" 'limit.hit limits.memory' 'what is written to scratch is memory of the box, too'
	usable 'after the memory hogs'
}

# Case 13: what has been waited for is no longer counted.
processes() {
	run -s limits.processes=50 -- perl -MPOSIX=:sys_wait_h -e 'for (1 .. 80) { my $p = fork; die "$_: $!" if !defined $p; POSIX::_exit(0) if !$p;
		1 while waitpid($p, WNOHANG) == 0; } print "all\n"'
	is "$status $out" '0 all' 'case 13: 80 processes, one after the other, under a limit of 50'
	outside perl -e "$forks"
	is "$out" 60 '(outside, 60 processes can be had at a time)'
	run -s limits.processes=30 -- perl -e "$forks"
	is "$status $out" '0 29' '30 processes: 29 children and no more'
	if bounded limits.processes; then
		is "$(event run.end processes)" 30 'as run.end counts them'
		is "$(event limit.warn limit) $(event limit.warn value)" 'limits.processes 30' 'limit.warn at 80 % of the processes'
		run -s limits.processes=60 -- perl -e '$SIG{CHLD} = "IGNORE"; for (1 .. 10) { fork or exit }'
		is "$status $(said)" '0 ' 'and not at less'
	else
		like "$(event run.start mechanisms.cgroup.not_bounded)" '"limits.processes": ".+"' 'by RLIMIT_NPROC alone, and run.start says so'
	fi
	run -s limits.processes=40 --timeout 1s -s limits.grace=100ms -- perl -e 'fork while 1'
	is "$status $(reason)" '124 timeout' 'a fork bomb ends with the time'
	usable 'after the fork bomb'
	run -s limits.processes=40 --timeout 1s -s limits.grace=0s -- perl -e '$SIG{TERM} = "IGNORE"; setpgrp; while (1) { fork; setpgrp }'
	is "$status $(reason)" '124 timeout' 'one that ignores TERM and leaves its group, too'
}

disk() {
	outside sh -c 'head -c 20M /dev/zero >"$0/f" && rm "$0/f"' "$T"
	is "$status" 0 '(20 MiB can be written outside)'
	run -s workspace.scratch-size=16M -s filesystem.tmp-size=8M -- sh -c '
		for f in /workspace/scratch/f /tmp/f; do head -c 20M /dev/zero >$f; echo "$?"; stat -c %s $f; done; rm /tmp/f; echo again >/tmp/g; cat /tmp/g'
	is "$(sed -n '1p;3p;5p' "$T/out" | xargs)" '1 1 again' 'disk fillers of scratch and /tmp fail, and the box goes on'
	is "$(grep -c 'No space left on device' "$T/err")" 2 'with ENOSPC'
	cmp_ok "$(sed -n 2p "$T/out")" -le 16777216 'scratch at its size'
	cmp_ok "$(sed -n 2p "$T/out")" -ge 16000000 'and not before'
	cmp_ok "$(sed -n 4p "$T/out")" -le 8388608 '/tmp at its size'
	cmp_ok "$(sed -n 4p "$T/out")" -ge 8000000 'and not before'
	is "$(reason)" exited 'reason exited'
	run -s limits.file-size=1M -- sh -c 'exec head -c 20M /dev/zero >/workspace/artifacts/f'
	is "$status $(reason) $(event run.end signal)" '153 limit 25' 'a filler of artifacts under file-size: SIGXFSZ, reason limit'
	is "$(said) $(event limit.hit value)" 'limit.hit limits.file-size 1048576' 'with limit.hit'
	is "$(event artifact size)" 1048576 'and the file has that size'
	run -s limits.file-size=1M -- sh -c 'head -c 20M /dev/zero >f; echo "$?"; ls -s --block-size=1 f >/dev/null; stat -c %s f; head -c 1M /dev/zero >g && echo whole'
	is "$(echo $out) $(reason)" '153 1048576 whole exited' 'in the project the same; the main program goes on'
	usable 'after the disk fillers'
}

cpu() {
	run -s limits.cpu-time=1s --timeout 15s -- sh -c 'while :; do :; done'
	is "$status $(reason) $(event run.end signal)" '152 limit 24' 'a CPU spinner: SIGXCPU, reason limit'
	is "$(said) $(event limit.hit value)" 'limit.hit limits.cpu-time 1000' 'with limit.hit'
	run -s limits.cpu-time=1s --timeout 15s -- sh -c 'trap "" XCPU; while :; do :; done'
	is "$status $(reason) $(event run.end signal)" '137 limit 9' 'one that ignores SIGXCPU: SIGKILL a second later, reason limit'
	if bounded limits.cpus; then
		run -s limits.cpus=0.2 -- timeout 1 sh -c 'while :; do :; done'
		cmp_ok "$(event command.exit user_ms)" -le 600 'limits.cpus = 0.2: a spinner of a second has a part of it'
		isnt "$(event run.start mechanisms.cgroup.in_force)" false 'by a control group'
	else
		run -s limits.cpus=0.2 -- true
		like "$(event run.start mechanisms.cgroup.not_bounded)" '"limits.cpus": ".+"' 'limits.cpus cannot be had, and run.start says so'
		run -s limits.cpus=0.2 -s limits.cgroup=require -- echo RAN
		is "$status $out" '125 ' 'and with cgroup = require refused'
	fi
	usable 'after the CPU spinners'
}

# Case 17: everything ends with the time, not the shell alone.
wall_time() {
	local a b c

	a=$(mark) b=$(mark) c=$(mark)
	run --timeout 1s -s limits.grace=300ms -- bash -c "(while :; do echo x; sleep 0.05; done) >/workspace/scratch/w & sleep $a & setsid sleep $b & sleep $c | cat"
	is "$status $(reason)" '124 timeout' 'case 17: a pipeline with a background writer'
	is "$(sleeper "$a")$(sleeper "$b")$(sleeper "$c")" '' 'case 17: nothing of it is left'
	is "$(said)" 'limit.hit limits.wall-time limit.warn limits.wall-time' 'limit.warn and limit.hit'
	is "$(event limit.warn value) $(event limit.hit value)" '1000 1000' 'of that limit'
	cmp_ok "$(event limit.warn used)" -ge 800 'the warning at 80 %'
	cmp_ok "$(event limit.warn used)" -lt 1000 'and before it is used up'
	cmp_ok "$(event limit.hit used)" -ge 1000 'the other when it is'
	run --timeout 500ms -s limits.grace=400ms -- sh -c "trap '' TERM; sleep $a & sleep $b; sleep $c"
	is "$status $(reason) $(event run.end signal)" '124 timeout 9' 'case 17: who ignores TERM is killed after the grace'
	is "$(sleeper "$a")$(sleeper "$b")$(sleeper "$c")" '' 'case 17: with all that it started'
	cmp_ok "$(event run.end wall_ms)" -ge 900 'case 17: and not before'
	cmp_ok "$(event run.end wall_ms)" -lt 5000 'case 17: soon'
	run --timeout 500ms -s limits.grace=5s -- sh -c 'trap "echo cleaned; exit 3" TERM; while :; do sleep 0.05; done'
	is "$status $out $(reason)" '124 cleaned timeout' 'the grace is for cleaning up'
	cmp_ok "$(event run.end wall_ms)" -lt 3500 'and no longer than that takes'
	run --timeout 30s -- true
	is "$status $(said)" '0 ' 'a run within its time says nothing'
}

# limited LIMITS OPTIONS...: the caller has these limits, for bash's ulimit.
limited() {
	local set=$1

	shift
	capture timeout -s KILL "$BOX_SECONDS" bash -c 'ulimit $1 || exit 99; shift; exec "$@"' bash "$set" "$AB" run "$@"
}

# A lower hard limit of the caller's holds; what the profile asks above it breaks nothing.
clamped() {
	limited '-n 100' -s limits.open-files=4096 -- sh -c 'ulimit -n'
	is "$status $out" '0 100' 'ulimit -n 100 under open-files = 4096: the caller'\''s limit'
	limited '-n 100' -- sh -c 'ulimit -n'
	is "$status $out" '0 100' 'and without any'
	limited '-n 100' -s limits.open-files=64 -- bash -c 'ulimit -n; ulimit -Hn'
	is "$status $(echo $out)" '0 64 64' 'a lower one of the profile'
	limited '-n 100 -f 4096 -t 20 -c 0' -s limits.open-files=4096 -s limits.file-size=1G -s limits.cpu-time=1h -s limits.core-size=1G -s limits.processes=100000 -- \
		bash -c 'ulimit -n; ulimit -f; ulimit -t; ulimit -c'
	is "$status $(echo $out)" '0 100 4096 20 0' 'all of them'
	limited '-n 100' --dry-run -s limits.open-files=4096 -- true
	like "$out" 'open-files.*100.*4096' '--dry-run says what the limit will be, and what was asked'
	for p in default repo-fix review; do
		limited '-n 100' -p "$p" -- sh -c 'echo ran'
		is "$status $out" '0 ran' "under profile $p"
	done
	run -s limits.open-files=50 -- perl -e 'while (open(my $f, "<", "/dev/null")) { push @f, $f } print scalar(@f) + 3, " $!\n"'
	is "$out" '50 Too many open files' 'open-files = 50: so many and no more'
	run -- bash -c 'ulimit -c; ulimit -Hc'
	is "$(echo $out)" '0 0' 'no core files without being asked'
}

# A crash of the supervisor leaves its groups, and prune takes them away.
crash() {
	local m before

	m=$(mark)
	no_leftovers
	ok $? 'no control group of any run is left' || diag "$(leftovers)"
	background -s limits.processes=40 -- perl -e 'fork || exec "sleep", @ARGV; while (1) { fork; setpgrp }' "$m"
	until_true 5 alive "$m"
	kill -KILL "$pid"
	finish
	until_true 5 gone "$m"
	ok $? 'a fork bomb whose supervisor is killed ends with it'
	m=$(mark)
	background --memory 64M -s limits.processes=20 -s limits.cpus=1 -- sleep "$m"
	until_true 5 alive "$m"
	ok $? '(a run is there)'
	if bounded limits.memory; then
		isnt "$(leftovers)" '' '(with control groups)'
	fi
	kill -KILL "$pid"
	finish
	until_true 5 gone "$m"
	ok $? 'kill -9 of the supervisor: the box ends'
	if bounded limits.memory; then
		isnt "$(leftovers)" '' '(the groups are left)'
	fi
	# By name, as leftovers() goes by the runs.
	before=$(leftovers)
	capture "$AB" prune --older 0s
	is "$status $(ls "$AGENTBOX_STATE/runs")" '0 ' 'prune removes the runs'
	is "$(for m in $before; do [ ! -d "$m" ] || echo "$m"; done)" '' 'and their control groups'
}

tests() {
	four_ways
	memory
	processes
	disk
	cpu
	wall_time
	clamped
	crash
}

for_each_user tests
done_testing
