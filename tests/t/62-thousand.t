#!/bin/bash
# Many starts, one after the other: nothing grows, and the last are as fast as the first. STARTS=1000 for more of them.
. "$(dirname "$0")/../lib/lib.sh"
: "${STARTS:=300}"

# Of the host: what a run could leave, one line a kind.
counted() {
	local f n=0

	for f in /proc/[0-9]*/exe; do
		[ "$(readlink "$f")" = "$AB" ] && n=$((n + 1))
	done 2>/dev/null
	echo "processes $n"
	echo "mounts $(grep -cF "$SCRATCH" /proc/self/mountinfo)"
	echo "control groups $(find /sys/fs/cgroup -type d -name "agentbox-*" 2>/dev/null | while read -r f; do
		[ ! -e "$AGENTBOX_STATE/runs/${f##*/agentbox-}" ] || echo x
	done | wc -l)"
	echo "files in the state directory beside the runs $(find "$AGENTBOX_STATE" -mindepth 1 -maxdepth 1 ! -name runs | wc -l)"
	echo "files of the user in /tmp $(find /tmp /dev/shm -maxdepth 1 -user "$(id -u)" -name '*agentbox*' ! -path "$SCRATCH" \
		! -name 'agentbox-test.*' ! -name 'agentbox-net.*' ! -name 'agentbox-bench.*' | wc -l)"
	echo "eBPF programs $(bpf_programs)"
}

# Those of runs of this file cannot be told from other tests' by name: their number is what a loop would drive up.
bpf_programs() {
	local n

	if [ "$(id -u)" -eq 0 ] && have bpftool && n=$(bpftool -j prog show 2>/dev/null | jq length 2>/dev/null); then
		echo $(((n + 50) / 100)) hundreds
	else
		echo 'not counted'
	fi
}

# starts N OPTIONS...: that many, as fast as they go; a line each: microseconds. A shell's fork and exec are in it, alike for all.
starts() {
	local i from times=$1

	shift
	for ((i = 0; i < times; i++)); do
		from=${EPOCHREALTIME/[.,]/}
		"$AB" run -q "$@" -- true </dev/null >>"$T/out" 2>&1 || echo "start $i: status $?" >>"$T/failed"
		echo $((${EPOCHREALTIME/[.,]/} - from))
	done
}
median() { sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }

grows() {
	local name=$1 first last

	shift
	rm -f "$T/failed"
	: >"$T/out"
	starts 10 "$@" >/dev/null # caches
	counted >"$T/before"
	ls "/proc/$$/fd" >"$T/fd-before"
	starts "$STARTS" "$@" >"$T/times"
	ls "/proc/$$/fd" >"$T/fd-after"
	until_true 3 same_as_before
	is "$(cat "$T/after")" "$(cat "$T/before")" "$name: $STARTS starts leave nothing"
	is "$(cat "$T/fd-after")" "$(cat "$T/fd-before")" "$name: no descriptor comes back to the caller"
	is "$(cat "$T/failed" 2>/dev/null)" '' "$name: each ended with 0"
	is "$(cat "$T/out")" '' "$name: and said nothing"
	is "$(ls "$AGENTBOX_STATE/runs" | wc -l)" $((STARTS + 10)) "$name: a record of each"
	first=$(head -n 50 "$T/times" | median)
	last=$(tail -n 50 "$T/times" | median)
	diag "$name: the first fifty took $first us, the last $last us (medians)"
	# Half as much again, and what a busy machine adds. Where it is more, other work may be the reason: then it is not seen twice.
	if [ $((last * 2)) -gt $((first * 3 + 2000)) ]; then
		last=$(starts 50 "$@" | median)
	fi
	cmp_ok $((last * 2)) -le $((first * 3 + 2000)) "$name: the last fifty as fast as the first"
	rm -rf "$AGENTBOX_STATE/runs"
}
same_as_before() {
	counted >"$T/after"
	cmp -s "$T/before" "$T/after"
}

# What one supervisor holds does not grow with what its box does: descriptors while a command makes thousands of processes.
holds() {
	local before after

	# shellcheck disable=SC2016
	background -s limits.wall-time=60s -- sh -c 'echo up; i=0; while [ $i -lt 2000 ]; do /bin/true; i=$((i+1)); done; echo done; sleep 60'
	until_true 10 grep -q up "$T/out"
	before=$(ls "/proc/$pid/fd" | wc -l)
	until_true 20 grep -q done "$T/out"
	ok $? '(2,000 processes in one box)'
	after=$(ls "/proc/$pid/fd" | wc -l)
	cmp_ok "$after" -le "$before" 'the supervisor holds no more descriptors than before'
	kill -TERM "$pid"
	finish
	rm -rf "$AGENTBOX_STATE/runs"
}

tests() {
	grows box
	STARTS=$((STARTS / 3)) grows gateway --allow @host:9 --memory 64M
	holds
}

for_each_user tests
done_testing
