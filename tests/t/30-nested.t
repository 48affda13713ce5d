#!/bin/bash
# A run inside a run: by the profile, refused in words without; a nested namespace regains nothing.
. "$(dirname "$0")/../lib/lib.sh"

nested=(-s syscalls.nested-namespaces=yes)

# inner OPTIONS -- COMMAND: within a box that has OPTIONS of its own in $outer, another one.
inner() {
	run "${outer[@]}" --ro-bind "$SCRATCH/bin" /workspace/scratch/bin --ro-bind "$SCRATCH/profiles" /workspace/scratch/profiles \
		--setenv AGENTBOX_PROFILES /workspace/scratch/profiles --setenv AGENTBOX_STATE /workspace/scratch/state -- \
		/workspace/scratch/bin/agentbox run "$@"
}

tests() {
	debugging
	without
	if [ "$(id -u)" -eq 0 ]; then
		# What root owns on the host would be open to namespaces of the command's own.
		run "${nested[@]}" -- true
		is "$status" 125 'root: nested-namespaces is refused'
		like "$err" 'nested-namespaces.*another user' 'in words'
		return
	fi
	within
	case_57
	rm closed
}

# A debugger of one's own children works, and of nothing else.
debugging() {
	if have strace; then
		run -- sh -c 'strace -f -o trace true && grep -c execve trace'
		like "$status $out" '^0 [1-9]' 'case 57: strace of a child'
		sleep 60 &
		own $!
		run -- strace -o /dev/null -p $!
		isnt "$status" 0 'case 57: strace -p of a process of the host'
		own_kill
		run -- timeout -s KILL 5 strace -o /dev/null -p 1
		isnt "$status" 0 'case 57: and of pid 1'
	else
		skip strace 'case 57: strace'
	fi
	if have gdb; then
		run -- gdb -nx -batch -ex run -ex 'print 6 * 7' true
		like "$out" 'exited normally' 'case 57: gdb runs a program'
	else
		skip gdb 'case 57: gdb'
	fi
}

without() {
	outer=(-s syscalls.nested-namespaces=no)
	inner -- true
	is "$status" 125 'without the key an inner run is refused'
	like "$err" '^agentbox: .*(nested-namespaces|doctor)' 'in words'
	is "$(grep -c '^agentbox:' "$T/err")" 1 'in one message'
	run -- unshare -Ur true
	isnt "$status" 0 'case 57: unshare -Ur is refused by default'
}

within() {
	local mode

	for mode in overlay/overlay overlay/read read/overlay read/read; do
		outer=("${nested[@]}" -s "workspace.repo-mode=${mode%/*}")
		inner -s "workspace.repo-mode=${mode#*/}" -- sh -c 'cat README; id -un; echo boxed >new; cat new; rm -f new; exit 5'
		is "$status" 5 "a run in a run ($mode): the status"
		case $mode in
		*read) is "$(echo $out)" 'hello agent' "and the work ($mode)" ;;
		*) is "$(echo $out)" 'hello agent boxed' "and the work ($mode)" ;;
		esac
		is "$(ls -A | xargs)" '.git README src' "nothing reached the host ($mode)"
	done
	# What is protected in write mode would not hold where the command makes namespaces of its own.
	run "${nested[@]}" -s workspace.repo-mode=write -- true
	is "$status" 125 'write mode with protected names: refused'
	like "$err" 'nested-namespaces = no' 'in words'
	outer=("${nested[@]}")
	inner -- sh -c 'kill -TERM $$'
	is "$status" 143 'a run in a run: a signal'
	inner -- sh -c 'cat /proc/1/comm; ls -d /proc/[0-9]* | wc -l; grep CapEff /proc/self/status; hostname; touch /usr/x'
	like "$out" 'agentbox-init' 'with a pid 1 of its own'
	like "$out" 'CapEff:.0000000000000000' 'and without capabilities'
	inner -s filesystem.deny=README -- cat README
	unlike "$out" hello 'the inner profile'\''s deny holds'
	echo SECRET >closed
	outer=("${nested[@]}" -s filesystem.deny=closed)
	for mode in overlay read; do
		outer=("${nested[@]}" -s "workspace.repo-mode=$mode" -s filesystem.deny=closed)
		inner -s workspace.repo-mode=read -- sh -c 'cat closed; cat README'
		is "$out" hello "and the outer one's is not regained ($mode)"
	done
	inner -- cat closed
	is "$status" 125 'an overlay over it is refused by the kernel'
	like "$err" 'repo-mode' 'and the way out named'
}

case_57() {
	local mode attack=/workspace/scratch/p/attack

	run "${nested[@]}" -- unshare -Ur true
	is "$status" 0 'case 57: and works by the profile'
	run "${nested[@]}" -- unshare -Urmpf sh -c 'mount -t proc -o ro none /proc && ls -d /proc/[0-9]* | wc -l'
	is "$status" 0 'case 57: with a /proc of its own '
	for mode in overlay read; do
		run "${nested[@]}" -s "workspace.repo-mode=$mode" -s filesystem.deny=closed -s filesystem.deny=/usr/share/doc -- unshare -Urm sh -c '
			umount closed; umount -l closed; umount /workspace/repo; umount -l /workspace/repo; umount -R /usr/share/doc
			mount -o remount,rw,bind /usr; mount -o remount,rw /; touch /usr/x && echo WROTE
			mkdir -p /tmp/m && mount --bind /workspace/repo /tmp/m && cat /tmp/m/closed
			mount --rbind /workspace /tmp/m && cat /tmp/m/repo/closed; mount -t overlay -o lowerdir=/workspace/repo:/tmp,userxattr none /tmp/m && cat /tmp/m/closed
			umount /.nested; ls /.nested; umount /proc/sys; echo x >/proc/sys/kernel/core_pattern && echo SYSCTL
			mount -t proc none /tmp/m && echo x >/tmp/m/sys/kernel/core_pattern && echo SYSCTL
			mount -t proc none /tmp/m && echo h >/tmp/m/sysrq-trigger && echo SYSRQ
			cat closed; chroot /proc/1/root cat closed; mount -t sysfs none /tmp/m && ls /tmp/m/class/net/ | grep -v lo; nsenter -t 1 -m true && echo ENTERED; echo ran' 2>&1
		like "$out" '^ran$' "case 57: attempts in a nested namespace ($mode)"
		unlike "$out" 'SECRET|^(WROTE|SYSCTL|SYSRQ|ENTERED)$' "case 57: regain nothing that is denied or read-only ($mode)"
		is "$(cat closed)" SECRET "case 57: the denied file is whole ($mode)"
	done
	outside unshare -Urm sh -c 'mkdir -p "$0/m" && mount --bind . "$0/m" && cat "$0/m/closed"' "$T"
	like "$out" SECRET 'case 57: (outside such a bind shows the file)'
	run "${nested[@]}" --ro-bind "$PROBES" /workspace/scratch/p -- sh -c "cd /tmp && $attack nested_umount_proc nested_remount_rw ptrace_init proc1_mem proc1_root \
		setns_init handle keyctl bpf io_uring core_pattern sysctl_hostname vsock packet alg raw mknod_disk setuid_file"
	is "$(grep -c ': ok$' "$T/out") $(wc -l <"$T/out")" '0 18' 'what else is closed stays so'
	rmdir "$T/m"
}

for_each_user tests
done_testing
