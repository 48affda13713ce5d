#!/bin/bash
# Every system call of the setup failing, one at a time: either nothing runs (125, a message with the reason, nothing is
# left), or the box is the same as without the fault. strace makes the calls fail and lets go of the command at its execve.
. "$(dirname "$0")/../lib/lib.sh"

# What a box is made of and what the supervisor needs for it. Not here: calls of the C library's own start and heap, and what
# only reads. unlinkat, wait4, waitid and close are what takes the box down.
CALLS='clone3 openat2 open_tree mount_setattr move_mount fsopen fsconfig fsmount pivot_root umount2 mount sethostname prctl capset
	capget seccomp landlock_create_ruleset landlock_add_rule landlock_restrict_self socketpair mkdir mkdirat symlinkat flock
	prlimit64 pidfd_open signalfd4 timerfd_create timerfd_settime epoll_create1 epoll_ctl vfork execve setsid fchdir chdir
	close_range renameat2 memfd_create fallocate rt_sigaction sendmsg recvmsg dup2 fcntl openat poll'
# With a gateway: its sockets, its rules, its processes.
NET_CALLS='clone socket bind listen setsockopt sendto recvfrom sendmsg recvmsg landlock_create_ruleset landlock_restrict_self
	seccomp prctl capset close_range dup2 epoll_create1'

# What the command sees of its box. The limits, the mounts and their flags, identity, capabilities, filter.
# shellcheck disable=SC2016
LOOK='echo RAN; grep -E "^(NoNewPrivs|Seccomp|Cap...|Uid|Gid|Groups)" /proc/self/status; hostname; cut -d" " -f5,6 /proc/self/mountinfo
	ulimit -a; ulimit -Ha; ls -A / /dev /etc /workspace; cat README; echo x >README; echo x >/workspace/repo/src/new; ls -l /proc/self/fd | wc -l
	for n in /proc/self/ns/*; do readlink $n; done | cut -d: -f1; cat /proc/net/dev | wc -l; trap; pwd'

# Is anything reached that no rule allows? The loopback answers a connection to a closed port by a refusal.
DIAL='python3 -c "import socket
for family, address in (socket.AF_INET, \"127.0.0.1\"), (socket.AF_INET6, \"::1\"):
    s = socket.socket(family)
    try:
        print(s.connect_ex((address, 9)))
        print(socket.socket(family, socket.SOCK_DGRAM).sendto(b\"x\", (address, 9)))
    except OSError as e:
        print(e)"'

# What is left of a run on the host: processes, control groups, mounts, files beside the record.
left() {
	local f

	for f in /proc/[0-9]*/exe; do
		[ "$(readlink "$f")" = "$AB" ] && echo "process $f $(tr '\0' ' ' <"${f%exe}cmdline")"
	done 2>/dev/null
	find /sys/fs/cgroup -maxdepth 6 -type d -name 'agentbox-*' 2>/dev/null | while read -r f; do
		[ ! -e "$AGENTBOX_STATE/runs/${f##*/agentbox-}" ] || echo "control group $f"
	done
	grep -F "$T/" /proc/self/mountinfo
	find "$AGENTBOX_STATE/runs" -mindepth 1 -maxdepth 1 -name '.*'
	find "$AGENTBOX_STATE/runs" -mindepth 2 -maxdepth 2 ! -name artifacts ! -name events.jsonl ! -name run.json ! -name .run.json.new ! -name "repo-*"
}
nothing_left() { [ -z "$(left)" ]; }

# fault CALL N options...: the Nth CALL of each process fails with EPERM. False where there are no so many.
fault() {
	local call=$1 nth=$2

	shift 2
	timeout -k 2 -s KILL "$BOX_SECONDS" strace -f -b execve -o "$T/strace" -e "trace=$call" -e "inject=$call:error=EPERM:when=$nth" \
		"$AB" run -q --hostname faulty -s limits.open-files=100 "$@" -- sh -c "$LOOK" </dev/null >"$T/out" 2>"$T/err"
	status=$?
	grep -q INJECTED "$T/strace"
}

# judge CALL: what is wrong with how that went, in words.
judge() {
	local ran=''

	grep -qx RAN "$T/out" && ran=yes
	case $status in
	125)
		[ -z "$ran" ] || echo 'it ran, and 125'
		grep -q '^agentbox: ..*' "$T/err" || echo 'no message'
		grep -Eq 'not permitted|EPERM|[Pp]ermission|refuse|forbid|not have|canceled|was killed|cannot|it ended|no Landlock' "$T/err" || echo 'no reason in the message'
		;;
	0)
		cmp -s "$T/plain" "$T/out" || { echo 'it ran in another box:' && diff "$T/plain" "$T/out" | head -n 5; }
		;;
	126) [ "$1$ran" = execve ] || echo "status 126${ran:+, it ran}" ;;
	# Of a pid 1 that cannot tell how the command ended, no more is known than that it is gone.
	137) case $1 in sendmsg | poll) ;; *) echo "status 137${ran:+, it ran}" ;; esac ;;
	*) echo "status $status${ran:+, it ran}" ;;
	esac
	until_true 2 nothing_left || { echo 'left:' && left; }
}

# first CALL: the first of them to fail. fcntl's first three ask whether there are streams to say anything on.
first() { if [ "$1" = fcntl ]; then echo 4; else echo 1; fi; }

# faults NAME CALLS options...: the first calls of each name one by one, then some of the others; as another user fewer.
faults() {
	local name=$1 calls=$2 call nth word tried=0 survived bad each=2 stride=13

	shift 2
	[ "$(id -u)" -eq 0 ] || each=1 stride=23
	rm -rf "$AGENTBOX_STATE/runs"
	capture "$AB" run -q --hostname faulty -s limits.open-files=100 "$@" -- sh -c "$LOOK"
	is "$status" 0 "$name: (the box without a fault)"
	cp "$T/out" "$T/plain"
	like "$(cat "$T/plain")" '^RAN' "$name: (the command says what it sees)"
	for call in $calls; do
		nth=$(first "$call") bad='' survived=0
		while fault "$call" "$nth" "$@"; do
			tried=$((tried + 1))
			[ "$status" -ne 0 ] || survived=$((survived + 1))
			word=$(judge "$call")
			[ -z "$word" ] || bad="$bad$call $nth: $word
$(head -n 3 "$T/err")
"
			rm -rf "$AGENTBOX_STATE/runs"
			nth=$((nth < each ? nth + 1 : nth + stride))
			[ "$nth" -lt 70 ] || break
		done
		rm -f "$T/out" # it is in $bad
		[ -z "$bad" ]
		ok $? "$name: $call fails (up to call $nth, $survived of them without harm)" || diag "$bad"
	done
	cmp_ok "$tried" -gt 15 "$name: $tried faults"
}

tests() {
	faults box "$CALLS"
	faults gateway "$NET_CALLS" --allow @host:9 -s workspace.repo-mode=write -s filesystem.deny=README
	# On the host's network a box that runs in spite of a fault must be as closed as without it: LOOK tries the loopback.
	if [ "$(id -u)" -eq 0 ] && "$AB" run -q -s egress.mode=host -- true 2>/dev/null; then
		LOOK="$LOOK; $DIAL"
		faults host "$NET_CALLS bpf clone3 socketpair pidfd_open" -s egress.mode=host
	fi
}

if ! have strace || ! strace -o /dev/null true 2>/dev/null; then
	echo '1..0 # SKIP strace'
	exit 0
fi
for_each_user tests
done_testing
