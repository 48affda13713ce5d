#!/bin/bash
# Who the command is: cases 31, 32, 35; capabilities, namespaces, passwd and group, host name, pid 1.
. "$(dirname "$0")/../lib/lib.sh"

privilege() {
	run -- cat /proc/self/status
	is "$(grep -c '^Cap[A-Za-z]*:.0000000000000000$' "$T/out")" 5 'all five capability sets are empty'
	like "$out" 'NoNewPrivs:.1' 'case 35: NoNewPrivs is 1'
	like "$out" 'Seccomp:.2' 'a seccomp filter is in force'
	run -- python3 -c 'import os; os.setgroups([5])'
	isnt "$status" 0 'case 35: setgroups fails'
	like "$err" 'PermissionError' 'case 35: with a plain error'
	outside unshare -Ur python3 -c 'import os; print(open("/proc/self/setgroups").read())'
	is "$status" 0 'case 35: (the probe'\''s python works outside)'
	run -- python3 -c '
import os
for name, call in (("setuid", lambda: os.setuid(4242)), ("setgid", lambda: os.setgid(4242)), ("chroot", lambda: os.chroot("/tmp")),
                   ("nice", lambda: os.nice(-5)), ("sethostname", lambda: __import__("socket").sethostname("x"))):
    try:
        call()
        print(name, "done")
    except OSError as e:
        print(name, e.strerror)
'
	is "$(grep -c done "$T/out")" 0 'case 35: no other user, group, root, priority or host name'
	is "$(wc -l <"$T/out")" 5 'case 35: each was tried'
	if have sudo; then
		run -- sudo -n true
		isnt "$status" 0 'case 35: sudo fails'
		cmp_ok "$status" -ne 137 'case 35: at once'
		like "$err" 'sudo|setuid|privilege' 'case 35: with a plain error'
	else
		skip sudo 'case 35: sudo fails'
	fi
	if have ping; then
		run -- ping -c 1 -W 1 127.0.0.1
		isnt "$status" 0 'case 35: ping fails'
	else
		skip ping 'case 35: ping fails'
	fi
	# A set-user-id program of the host's is not one in the box.
	if [ -u /usr/bin/su ] || [ -u /bin/su ]; then
		run -- sh -c 'exec su -c id root </dev/null'
		unlike "$out" 'uid=0\(root\)' 'case 35: su gives nothing'
	else
		skip su 'case 35: su gives nothing'
	fi
}

groups_of_root() {
	local f=$T/group-only

	# Only root may take a group that it is not in.
	[ "$(id -u)" -eq 0 ] || return 0
	echo secret >"$f"
	chown 4243:4242 "$f"
	chmod 0640 "$f"
	outside setpriv --reuid 4244 --regid 4244 --groups 4242 cat "$f"
	is "$status $out" '0 secret' 'case 31: outside a member of the group reads the file'
	capture setpriv --groups 4242 timeout -s KILL 20 "$AB" run --ro-bind "$f" /workspace/scratch/f -- \
		sh -c 'cat /workspace/scratch/f; echo "groups $(id -G)"'
	unlike "$out" secret 'case 31: in the box of a root with that group it is not readable'
	like "$out" 'groups 0$' 'case 31: and the group is gone'
	run --ro-bind "$f" /workspace/scratch/f -- cat /workspace/scratch/f
	isnt "$status" 0 'case 31: nor for a root without it, as the box has no capability'
}

ownership() {
	mkdir -p "$T/pack"
	echo x >"$T/pack/file"
	tar -C "$T" --owner=4242 --group=4242 -cf "$repo/x.tar" pack
	run -- sh -c 'cd "$TMPDIR" && tar -xf /workspace/repo/x.tar && cat pack/file'
	is "$status $out" '0 x' 'case 32: a tar of files owned by 4242 unpacks'
	run -- sh -c 'tar -xf x.tar && cat pack/file'
	is "$status $out" '0 x' 'case 32: in the repository, too'
	rm "$repo/x.tar"
	run -s workspace.repo-mode=write -- sh -c 'echo x >made; mkdir made.d'
	is "$(stat -c '%u:%g' "$repo/made" "$repo/made.d" | uniq)" "$(id -u):$(id -g)" 'what is written belongs to the caller'
	rm -r "$repo/made" "$repo/made.d"
	run -- sh -c 'umask; touch made; stat -c %a made'
	is "$(echo $out)" '0022 644' 'the umask is the caller'\''s'
}

names() {
	local name

	run -- sh -c 'id -un; id -gn; whoami; getent passwd agent | cut -d: -f3,6; hostname; cat /etc/hostname; test -w "$HOME" && echo home'
	is "$(echo $out)" "agent agent agent $(id -u):/workspace/scratch/home agentbox agentbox home" 'user, group, home and host name'
	run -s identity.uid=1000 -s identity.gid=1001 -s identity.user=dev -s identity.hostname=ci -- \
		sh -c 'id -u; id -g; id -un; id -G; hostname; touch made && stat -c %u:%g made'
	is "$(echo $out)" '1000 1001 dev 1001 ci 1000:1001' 'as the profile says'
	run -s identity.uid=0 -s identity.gid=0 -- sh -c 'id -u; grep CapEff /proc/self/status'
	like "$out" '^0' 'uid 0 in the box'
	like "$out" 'CapEff:.0000000000000000' 'has no capability either'
	run --hostname box1 -- hostname
	is "$out" box1 '--hostname'
	run --hostname "$(printf '%065d' 0)" -- true
	is "$status" 125 'one of 65 characters: 125'
	for name in '' 'a b' 'x_y' '-a' 'a..b' "$(printf 'a\n127.0.0.1 evil')"; do
		run --hostname "$name" -- true
		is "$status" 125 "none that identity.hostname could not be: 125 (${name@Q})"
		run -s "identity.hostname=$name" -- true
		is "$status" 125 "(nor can it: ${name@Q})"
	done
	run -s identity.hostname=a --hostname b -- hostname
	is "$out" b 'it wins over --set'
	run -- sh -c 'cat /etc/passwd /etc/group'
	unlike "$out" 'root:x:0:0:root:/root:/bin/bash|www-data|messagebus' 'no user of the host'\''s is named'
	run -- sh -c 'cat /etc/shadow /etc/sudoers /etc/ssh/sshd_config /etc/machine-id'
	is "$out" '' 'and nothing of /etc that names users, keys or the machine'
	run -- sh -c 'ls / ; ls /home /root /mnt /srv /sys /boot /opt 2>/dev/null'
	unlike "$out" 'home|root|mnt|srv|sys|boot' 'nor any other directory of the host'\''s'
}

namespaces() {
	local kind m

	for kind in user mnt pid net ipc uts cgroup; do
		run -- readlink "/proc/self/ns/$kind"
		like "$out" "^$kind:" "the box has a $kind namespace"
		isnt "$out" "$(readlink "/proc/self/ns/$kind")" "that is not the caller's ($kind)"
	done
	m=$(mark)
	sleep "$m" &
	own $!
	until_true 5 alive "$m"
	ok $? '(the probe process is there)'
	run -- sh -c "cat /proc/[0-9]*/cmdline | tr '\\0' ' '; echo; ls -d /proc/[0-9]*"
	unlike "$out" "$m" 'no process of the host'\''s is seen'
	run -- sh -c "kill -0 $!"
	isnt "$status" 0 'or can be signalled'
	own_kill
	run -- sh -c 'cat /proc/1/comm; ps -o pid= -o args= 1'
	like "$out" 'agentbox-init' 'pid 1 is agentbox-init'
	unlike "$out" "$SCRATCH" 'whose arguments say nothing of the host'
	run -- sh -c 'kill -KILL 1; kill -TERM 1; kill -STOP 1; sleep 0.1; echo alive; exit 3'
	is "$status $out" '3 alive' 'and which the command cannot end'
	run -- ls /sys/class/net
	isnt "$status" 0 'no /sys'
	run -- cat /proc/net/dev
	is "$(grep -c : "$T/out")" 1 'one network interface:'
	like "$out" ' lo:' 'the loopback'
	run -- python3 -c '
import socket
s = socket.socket(); s.bind(("127.0.0.1", 0)); s.listen()
c = socket.create_connection(s.getsockname()); print("connected")'
	is "$out" connected 'which is up'
}

tests() {
	privilege
	groups_of_root
	ownership
	names
	namespaces
}

for_each_user tests
done_testing
