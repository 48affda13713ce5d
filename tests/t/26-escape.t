#!/bin/bash
# Attacks from inside: A1 to A8 and A11 by tests/t/probes/attack.c, the same tried outside; A2, A3, A4, A5, A10, A15.
. "$(dirname "$0")/../lib/lib.sh"

# What has to work in a box, and so is no attack.
allowed=' kill_init tcp udp6 netlink_route '
# What works for anybody outside on any host that can run a box; and for root only. From these alone a refusal means something.
anybody='unshare_user clone_user keyctl add_key personality setuid_file setuid_create tcp udp6 netlink_route udp_send sendmmsg nested_mount'
root_only='chroot unshare_mount unshare_net fsopen open_tree handle syslog raw raw_icmp mknod_null core_pattern sysctl_hostname perf'
# With a pid 1 and mounts of one's own, in a user namespace outside.
own_namespace='ptrace_init vm_readv_init proc1_mem proc1_root proc1_fd proc1_environ proc1_exe_read cwd_of_init pidfd_getfd_init
	setns_init mount_tmpfs mount_proc move_mount fsopen chroot'

attacks() {
	local name answer profile worked bad
	local attack=$PROBES/attack

	worked=" $("$attack" $anybody $([ "$(id -u)" -ne 0 ] || echo $root_only) 2>/dev/null | sed -n 's/: ok$//p' | xargs) "
	for name in $anybody $([ "$(id -u)" -ne 0 ] || echo $root_only); do
		case $worked in *" $name "*) ;; *) bad="${bad-} $name" ;; esac
	done
	is "${bad-}" '' '(outside, each of these attempts works)'
	# shellcheck disable=SC2016
	outside unshare -Urmpf --mount-proc sh -c '"$0" "$@"; :' "$attack" $own_namespace
	is "$(grep -v ': ok$' "$T/out")" '' '(and these in a namespace of one'\''s own)'

	for profile in default repo-fix review; do
		run -p "$profile" --ro-bind "$PROBES" /workspace/scratch/p -- sh -c 'cd /tmp; p=/workspace/scratch/p/attack; $p $($p list)'
		is "$status" 0 "attacks under $profile: all tried"
		cmp_ok "$(wc -l <"$T/out")" -ge 90 'and answered'
		bad=
		while IFS=': ' read -r name answer; do
			case $allowed in
			*" $name "*) [ "$answer" = ok ] || bad="$bad $name:$answer" ;;
			*) [ "$answer" != ok ] || bad="$bad $name" ;;
			esac
		done <"$T/out"
		is "$bad" '' "A1, A4-A8, A11: refused, each and every one ($profile)"
	done
	is "$(sed -n 's/^\(int80\|x32\): //p' "$T/out" | sort -u | xargs)" SIGSYS 'A8: other ABIs are killed'
	is "$(sed -n 's/^io_uring: //p' "$T/out")" ENOSYS 'A8: io_uring is refused without killing'
	is "$(sed -n 's/^\(core_pattern\|sysctl_hostname\): //p' "$T/out" | sort -u | xargs | grep -Ec '^(EROFS|EACCES|EACCES EROFS)$')" 1 \
		'A11: sysctls are read-only'
	is "$(sha256sum <"$AB")" "$(sha256sum <"$SCRATCH/bin/agentbox.before")" 'A5: the program is what it was'
	run -- sh -c 'exec 9</proc/1/exe; echo >/proc/self/fd/9; cat /proc/1/environ /proc/1/maps /proc/1/stack; ls /proc/1/root/ /proc/1/cwd/'
	is "$out" '' 'A5+A6: nothing of pid 1 is shown to a shell'
}

# A2: a destination that leads through a link which the repository has planted.
planted() {
	local target made=$T/made

	mkdir -p "$made" "$T/source"
	echo source >"$T/source/f"
	for target in "$made" /oldroot/tmp /tmp /proc/self/fd/3 /proc/self/fd/5 /proc/1/root / .. ../../etc; do
		ln -sfn "$target" e
		for bind in --bind --ro-bind; do
			run "$bind" "$T/source" /workspace/repo/e/x -- sh -c 'ls /tmp /etc/x /x 2>/dev/null; true'
			is "$status" 125 "A2: a mount through a planted link to $target is refused"
			like "$err" 'symbolic link|/workspace/repo/e' 'A2: in words'
		done
		run --tmpfs /workspace/repo/e/x -- true
		is "$status" 125 'A2: a tmpfs, too'
		is "$(ls -A "$made" | xargs)" '' 'A2: nothing was made there'
		rm e
	done
	mkdir e
	run --bind "$T/source" /workspace/repo/e -- cat e/f
	is "$status $out" '0 source' 'A2: through a directory it works'
	run --bind "$T/source" /workspace/repo/new/x -- true
	is "$status" 125 'A2: a place that the host would have to get is refused'
	is "$(ls -A | xargs)" '.git README e src' 'A2: and not made'
	rmdir e
	# The link is the last component.
	ln -s "$made" e
	run --bind "$T/source" /workspace/repo/e -- true
	is "$status $(ls -A "$made" | xargs)" '125 ' 'A2: nor onto a link itself'
	rm e
	# /workspace/scratch and /tmp of the box itself: links that an option makes are as bad.
	run --symlink / /workspace/scratch/l --bind "$T/source" /workspace/scratch/l/etc -- true
	is "$status" 125 'A2: nor through a link made by --symlink'
	rm -r "$made" "$T/source"
}

# A3: what is bound is what was looked at. Whichever of the two is found, what is denied in it is not read.
swapped() {
	local i seen=0 refused=0 leaked=0 other=0

	mkdir -p "$T/a" "$T/b" "$T/sw"
	echo mine >"$T/a/f"
	echo SECRET | tee "$T/b/f" >"$T/b/secret"
	perl -e 'chdir shift; my ($a, $b) = @ARGV; while (getppid() != 1) {
		rename($a, "sw/d"); rename("sw/d", $a); symlink($b, "sw/d"); unlink("sw/d") }' "$T" "$T/a" "$T/b" &
	own $!
	for i in {1..100}; do
		run -q -s "filesystem.deny=$T/b/secret" -s "filesystem.deny=$T/b/f" --ro-bind "$T/sw/d" /workspace/scratch/s -- \
			sh -c 'cat /workspace/scratch/s/f /workspace/scratch/s/secret; true'
		case $status:$out in
		*SECRET*) leaked=$((leaked + 1)) ;;
		0:*) seen=$((seen + 1)) ;;
		125:*) refused=$((refused + 1)) ;;
		*) other=$((other + 1)) && diag "status $status: $err" ;;
		esac
	done
	own_kill
	is "$leaked" 0 'A3: a source that is swapped with a link during 100 starts: what is denied behind the link is never read'
	is "$other" 0 "A3: each run works ($seen) or is refused ($refused)"
	cmp_ok "$refused" -gt 0 'A3: (the swapping was seen)'
	rm -rf "$T/a" "$T/b" "$T/sw"
}

directories() {
	run --chdir /proc/self/fd/9 -- true 9<"$T"
	is "$status" 125 'A4: --chdir /proc/self/fd/9 is refused'
	run --keep-fd 9 --chdir /proc/self/fd/9 -- true 9<"$T/out"
	is "$status" 125 'A4: of a kept descriptor, too'
	run --chdir /proc/1/cwd -- ls
	is "$status" 125 'A4: --chdir /proc/1/cwd'
	capture sh -c 'cd /proc/self/fd/9 && exec "$@"' sh "$AB" run -- pwd 9<"$T/home"
	unlike "$out" 'proc' 'A4: started in /proc/self/fd/9'
	ln -s /proc/self/fd/9 d
	run --chdir /workspace/repo/d -- true 9<"$T"
	is "$status" 125 'A4: through a link in the repository'
	rm d
	run --ro-bind "$PROBES" /workspace/scratch/p -- /workspace/scratch/p/attack leaked_dir leaked_fd 3<"$T" 4</ 64<"$repo"
	is "$(echo $out)" 'leaked_dir: EBADF leaked_fd: EBADF' 'A4: no directory is left open'
	outside "$PROBES/attack" leaked_dir 3<"$T" 4</ 64<"$repo"
	is "$out" 'leaked_dir: ok' 'A4: (outside it would be)'
}

# A10: a library that says where it was loaded.
loader() {
	local so=$T/preload.so

	if ! have gcc; then
		skip gcc 'A10: LD_PRELOAD'
		return
	fi
	cat >"$T/preload.c" <<'END'
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
__attribute__((constructor)) static void loaded(void)
{
	char exe[4096] = "", line[5000];
	int fd = open(LOG, O_WRONLY | O_CREAT | O_APPEND, 0600);

	if (readlink("/proc/self/exe", exe, sizeof(exe) - 1) < 0)
		return;
	snprintf(line, sizeof(line), "%s uid=%d pid=%d\n", exe, getuid(), getpid());
	if (fd < 0 || write(fd, line, __builtin_strlen(line)) < 0)
		return;
	close(fd);
}
END
	gcc -shared -fPIC -DLOG="\"$T/preloaded\"" -o "$so" "$T/preload.c" || return
	: >"$T/preloaded"
	capture env LD_PRELOAD="$so" true
	like "$(cat "$T/preloaded")" '/true ' 'A10: (outside the library is loaded)'
	cp "$so" "$repo/preload.so"
	capture env LD_PRELOAD="$so" LD_LIBRARY_PATH="$T" LD_AUDIT="$so" GCONV_PATH="$T" "$AB" run -s "environment.pass=LD_*" \
		-s environment.pass=GCONV_PATH --bind "$T" "$T" -s "environment.set=A=b" -- sh -c 'env; cat /proc/self/maps /proc/1/maps 2>/dev/null'
	unlike "$out" 'LD_|GCONV_PATH|preload.so' 'A10: loader variables do not reach the command, even by a pattern that fits'
	LD_PRELOAD="$so" background -- sh -c 'echo up; exec sleep 30'
	until_true 5 grep -q up "$T/out"
	like "$(cat "/proc/$pid/maps")" 'agentbox' "A10: (the supervisor's memory can be looked at)"
	unlike "$(cat "/proc/$pid/maps" "/proc/$(run_field init_pid)/maps" 2>/dev/null)" 'preload.so' \
		'A10: nor is the library in the supervisor or in pid 1'
	kill -TERM "$pid"
	finish
	rm -f "$repo/preload.so" "$T"/preload*
}

setuid() {
	local copy=$SCRATCH/bin/agentbox-setuid

	if [ "$(id -u)" -eq 0 ]; then
		cp "$AB" "$copy"
		chown "$OTHER_UID" "$copy"
		chmod 4755 "$copy"
		capture "$copy" run -- true
		if findmnt -no OPTIONS -T "$copy" | grep -q nosuid; then
			skip suid 'A15: set-user-id'
		else
			is "$status" 125 'A15: set-user-id: refused'
			like "$err" 'setuid' 'A15: in words'
		fi
		chown root "$copy"
		chmod 4755 "$copy"
	elif [ -u "$copy" ] && ! findmnt -no OPTIONS -T "$copy" | grep -q nosuid; then
		for command in run check show ps log prune doctor help --version; do
			capture "$copy" "$command"
			is "$status" 125 "A15: set-user-id root: $command is refused"
			like "$err" 'setuid' 'A15: in words'
		done
	else
		skip suid 'A15: set-user-id root'
	fi
}

tests() {
	[ "$(id -u)" -ne 0 ] || cp "$AB" "$SCRATCH/bin/agentbox.before"
	[ -e "$SCRATCH/bin/agentbox.before" ] || cp "$AB" "$SCRATCH/bin/agentbox.before"
	if [ -x "$PROBES/attack" ]; then
		attacks
	else
		fail 'tests/t/probes/attack.c was built (make check-box does it)'
	fi
	planted
	swapped
	directories
	loader
	setuid
}

for_each_user tests
done_testing
