#!/bin/bash
# The filter of system calls: what it refuses without killing (cases 58, 59), by policy, by name and by group, and what of it is told.
. "$(dirname "$0")/../lib/lib.sh"

P=/workspace/scratch/p
# attack [OPTIONS] -- NAME...: tests/t/probes/attack.c in a box; $out has "NAME: ok" or "NAME: ERRNO".
attack() {
	local options=()

	while [ "$1" != -- ]; do
		options+=("$1")
		shift
	done
	shift
	run --ro-bind "$PROBES" "$P" ${options[@]+"${options[@]}"} -- "$P/attack" "$@"
}

# What works for anybody outside, and what a box answers by default.
refused='keyctl: EPERM add_key: EPERM personality: EPERM setuid_file: EPERM setuid_create: EPERM udplite: EPROTONOSUPPORT netlink_audit: EPROTONOSUPPORT'

by_default() {
	outside "$PROBES/attack" keyctl add_key personality setuid_file setuid_create udplite netlink_audit unshare_user
	is "$(grep -c ': ok$' "$T/out")" 8 '(outside these calls work)'
	attack -- keyctl add_key personality setuid_file setuid_create udplite netlink_audit
	is "$(echo $out)" "$refused" 'default: refused'
	attack -- int80 x32
	is "$status $(echo $out)" '0 int80: SIGSYS x32: SIGSYS' 'calls of other ABIs are killed'
	attack -s syscalls.policy=strict -- int80 x32
	is "$(echo $out)" 'int80: SIGSYS x32: SIGSYS' 'under strict, too'
	# Numbers that no kernel has yet, and one that is the newest: ENOSYS kills nobody.
	run -- perl -e 'for (500, 1000, 0x3fffffff) { $! = 0; syscall($_, 0); print "$! " }'
	is "$out" 'Function not implemented Function not implemented Function not implemented ' 'numbers yet to come: ENOSYS'
	run -- python3 -c 'import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
print(libc.syscall(435, None, 0), os.strerror(ctypes.get_errno()))
print(libc.unshare(0x400), libc.unshare(0x200))'
	is "$(echo $out)" '-1 Function not implemented 0 0' 'clone3 is ENOSYS, unshare of files and fs works'
}

# Case 58: real programs take a refused io_uring, and threads start.
case_58() {
	attack -- io_uring
	is "$status $out" '0 io_uring: ENOSYS' 'case 58: io_uring is refused without killing'
	outside "$PROBES/attack" io_uring
	if [ "$(cat /proc/sys/kernel/io_uring_disabled 2>/dev/null || echo 0)" = 0 ]; then
		is "$out" 'io_uring: ok' 'case 58: (outside it works)'
	fi
	run -- python3 -c 'import threading
t = [threading.Thread(target=lambda: done.append(1)) for i in range(20)]; done = []
[x.start() for x in t]; [x.join() for x in t]; print(len(done))'
	is "$status $out" '0 20' 'case 58: threads start'
	if have node; then
		run -- node -e 'console.log(Object.keys(require("os").networkInterfaces()).join())'
		is "$status" 0 'case 58: node: os.networkInterfaces()'
		run -- node -e 'require("fs").readFile("README", "utf8", (e, s) => { if (e) throw e; new (require("worker_threads").Worker)(
			"process.exit(0)", {eval: true}).on("exit", c => console.log(s.trim(), c)) })'
		is "$status $out" '0 hello 0' 'case 58: node: files by its thread pool, and a worker'
	else
		skip node 'case 58: node'
	fi
}

# Case 59: a memory limit that is no limit of address space.
case_59() {
	local wasm='new WebAssembly.Memory({initial: 1}); console.log("made")'

	if have node; then
		run --memory 512M -- node -e "$wasm"
		is "$status $out" '0 made' 'case 59: WebAssembly under a memory limit of 512M'
		outside prlimit --as=$((512 << 20)) node -e "$wasm"
		isnt "$status" 0 'case 59: (a limit of address space breaks it)'
	else
		skip node 'case 59: WebAssembly'
	fi
	if have java; then
		run --memory 512M -- java -Xmx64m -version
		is "$status" 0 'case 59: java under a memory limit of 512M'
	else
		skip java 'case 59: java'
	fi
}

# How often a call was refused, as the last run's log tells; counts of several events are added.
denied() { events | python3 -c 'import collections, json, sys
count = collections.Counter()
for line in sys.stdin:
    e = json.loads(line)
    if e["type"] == "syscall.denied":
        count[e["name"]] += e["count"]
print(" ".join("%s:%d" % (k, count[k]) for k in sorted(count)))'; }

logged() {
	attack -s syscalls.log=yes -- keyctl keyctl keyctl add_key personality io_uring vsock
	is "$(echo $out)" 'keyctl: EPERM keyctl: EPERM keyctl: EPERM add_key: EPERM personality: EPERM io_uring: ENOSYS vsock: EAFNOSUPPORT' \
		'log = yes: the program gets the same answers'
	is "$(denied)" 'add_key:1 io_uring_setup:1 keyctl:3 personality:1 socket:1' 'and each is told with name and count'
	is "$(event run.end denied)" "$(events | grep -c '"syscall.denied"')" 'run.end counts the events'
	like "$err" '^agentbox: [0-9]+ denied or cut' 'one line on stderr says so'
	capture "$AB" log last --denied
	like "$out" 'syscall\.denied.*keyctl' '`log --denied` shows it'
	attack -s syscalls.log=no -- keyctl
	is "$(denied)" '' 'log = no: nothing'
	run -s syscalls.log=yes -- true
	is "$(denied) $(event run.end denied)" ' 0' 'log = yes, and nothing refused: nothing'
	# What every program of today tries first (clone3, openat2) is no news.
	run -s syscalls.log=yes -- python3 -c 'import threading; t = threading.Thread(target=print); t.start(); t.join()'
	is "$status $(denied)" '0 ' 'nor for threads'
	attack -s syscalls.log=yes -s syscalls.policy=strict -- keyctl ptrace_init
	like "$(denied)" 'keyctl:1 .*ptrace:1' 'under strict, too'
	attack -s syscalls.log=yes -s syscalls.allow=keyctl -- keyctl add_key
	is "$(echo $out) $(denied)" 'keyctl: ok add_key: EPERM add_key:1' 'what the author then allows is not refused'
	attack -s syscalls.log=yes -- $(yes keyctl | head -n 300)
	is "$(denied)" keyctl:300 '300 times is one name and a count'
	cmp_ok "$(events | grep -c '"syscall.denied"')" -le 20 'and few events'
}

policies() {
	run -- sh -c 'grep -E "^(Seccomp|NoNewPrivs):" /proc/self/status'
	is "$(echo $out)" 'NoNewPrivs: 1 Seccomp: 2' 'default: a filter'
	run -s syscalls.policy=off -- sh -c 'grep -E "^(Seccomp|NoNewPrivs):" /proc/self/status'
	is "$(echo $out)" 'NoNewPrivs: 1 Seccomp: 0' 'off: none'
	is "$(event run.start mechanisms.seccomp.in_force)" false 'and run.start says so'
	attack -s syscalls.policy=off -- keyctl personality
	is "$(echo $out)" 'keyctl: ok personality: ok' 'off: what it would have refused works'
	attack -s syscalls.policy=off -- unshare_user mount_tmpfs ptrace_init proc1_mem core_pattern sysctl_hostname mknod_disk remount_rw setns_init
	is "$(grep -c ': ok$' "$T/out")" 0 'off: the other walls stand'
	run -s syscalls.policy=strict -- sh -c 'ipcmk -M 64'
	isnt "$status" 0 'strict: no System V memory'
	run -- sh -c 'ipcmk -M 64'
	is "$status" 0 '(default: open)'
	is "$(event run.start mechanisms.seccomp.policy)" default '(as run.start says)'
	run -s syscalls.policy=strict -s syscalls.allow=@ipc -- sh -c 'ipcmk -M 64'
	is "$status" 0 'strict with allow = @ipc: open'
	is "$(event run.start mechanisms.seccomp.policy)" strict 'as run.start says'
	if have strace; then
		run -s syscalls.policy=strict -- strace -o /dev/null true
		isnt "$status" 0 'strict: no ptrace'
		run -s syscalls.policy=strict -s syscalls.allow=@debug -- strace -o /dev/null true
		is "$status" 0 'strict with allow = @debug: strace works'
	else
		skip strace 'strict: ptrace'
	fi
	run -s syscalls.policy=lax -- true
	is "$status" 125 'no such policy: refused'
}

names() {
	local traced='import ctypes, os; libc = ctypes.CDLL(None, use_errno=True); print(libc.ptrace(0, 0, 0, 0), os.strerror(ctypes.get_errno()))'

	attack -s syscalls.allow=keyctl -- keyctl add_key
	is "$(echo $out)" 'keyctl: ok add_key: EPERM' 'allow by name: this and no other'
	attack -s syscalls.allow=@keyring -- keyctl add_key
	is "$(echo $out)" 'keyctl: ok add_key: ok' 'allow by group'
	attack -s syscalls.allow=@keyring -s syscalls.deny=keyctl -- keyctl add_key
	is "$(echo $out)" 'keyctl: EPERM add_key: ok' 'deny wins over allow'
	attack -s syscalls.deny=keyctl -s syscalls.allow=@keyring -- keyctl add_key
	is "$(echo $out)" 'keyctl: EPERM add_key: ok' 'wherever it stands'
	attack -s syscalls.allow=@socket-families -- udplite
	is "$out" 'udplite: ok' 'a check is opened by its name'
	attack -s syscalls.allow=@personality -- personality
	is "$out" 'personality: ok' 'another'
	run -s syscalls.deny=symlinkat -s syscalls.deny=symlink -- sh -c 'ln -s a b; ln README c && echo linked'
	is "$out" linked 'deny by name: no symlinks, but links'
	like "$err" 'Operation not permitted' 'with EPERM'
	run -s syscalls.deny=@debug -- python3 -c "$traced"
	is "$out" '-1 Operation not permitted' 'deny by group: no ptrace'
	outside python3 -c "$traced"
	is "$out" '0 Success' '(outside ptrace works)'
	run -s syscalls.deny=@network -- perl -MSocket -e 'print socket(my $s, AF_UNIX, SOCK_STREAM, 0) ? "made" : "$!"'
	is "$out" 'Operation not permitted' 'deny = @network: no sockets, and the command runs'
	run -s syscalls.deny=wait4 --timeout 5s -- echo ran
	is "$status $out" '0 ran' 'what pid 1 needs is not denied to it'
}

# A word that names nothing is a fault with its place and the nearest right one; nothing runs.
unknown() {
	printf '%s\n' '[syscalls]' 'allow = ptrce' 'allow = @debgu' '# none' 'deny = openatt' 'deny = @keyrings' 'deny = @no-such-group-at-all' \
		'deny = @setuid-bits' 'allow = mount' 'allow = uselib' >"$T/names.ini"
	capture "$AB" check "$T/names.ini"
	is "$status" 1 'check: unknown names are faults'
	is "$(grep -c "names.ini:[0-9]*: " <<<"$out$err")" 6 'six of them'
	for want in '2: .syscalls. allow: ptrce: .*did you mean ptrace\?' '3: .*@debgu: .*did you mean @debug\?' '5: .syscalls. deny: openatt: .*did you mean openat\?' \
		'6: .*@keyrings: .*did you mean @keyring\?' '7: .*@no-such-group-at-all: no such' '8: .*@setuid-bits'; do
		like "$out$err" "names.ini:$want" "check: ${want%%:*}"
	done
	run -p "$T/names.ini" -- echo RAN
	is "$status $out" '125 ' 'run refuses'
	like "$err" 'names.ini:2: .*did you mean ptrace' 'with the place'
	run -s syscalls.deny=ptrce -- echo RAN
	is "$status $out" '125 ' '--set, too'
	like "$err" 'did you mean ptrace' 'in words'
	printf '[syscalls]\nallow = uselib\ndeny = @debug\npolicy = strict\n' >"$T/names.ini"
	capture "$AB" check "$T/names.ini"
	is "$status" 0 'right names are none'
	rm "$T/names.ini"
}

setuid_bits() {
	local try='touch s; chmod 4755 s; chmod u+s s; install -m 4755 README i; chmod 2755 s && echo setgid; find . -perm -4000'

	outside sh -c "cd $T && cp repo/README . && { $try; }; rm -f s i README"
	like "$out" '^./i$' '(outside a file can be made set-user-id)'
	run -- sh -c "$try"
	is "$out" setgid 'no file is made set-user-id; set-group-id is open'
	run -s workspace.repo-mode=write -- sh -c "$try; rm -f s i"
	is "$out" setgid 'in write mode, too'
	run -s syscalls.allow=@setuid-bits -- sh -c 'touch s; chmod 4755 s; stat -c %a s'
	is "$out" 4755 'allow = @setuid-bits opens it'
	run -- perl -e 'use Fcntl; print sysopen(my $f, "n", O_CREAT | O_WRONLY, 04755) ? "made" : "$!"; print -e "n" ? " there" : ""'
	is "$out" 'Operation not permitted' 'nor opened so'
}

# As uid 0 of the box chown says yes and does nothing (programs that unpack as root ask for it); as another it is the kernel's.
fake_chown() {
	run -s identity.uid=0 -s identity.gid=0 -- sh -c 'touch f && chown 4242:4243 f && chown -h 1 f && stat -c %u:%g f; mkdir d && chown -R 7:7 d && stat -c %u:%g d'
	is "$status $(echo $out)" '0 0:0 0:0' 'uid 0: chown says yes and does nothing'
	run -s identity.uid=0 -s identity.gid=0 -s syscalls.allow=@chown -- chown 4242 README
	isnt "$status" 0 'allow = @chown: the kernel answers'
	run -s identity.uid=1000 -s identity.gid=1000 -- sh -c 'touch f; chown 4242 f'
	isnt "$status" 0 'another uid: refused by the kernel'
	is "$(stat -c %u README)" "$(id -u)" 'nothing of it reached the host'
}

tests() {
	by_default
	case_58
	case_59
	logged
	policies
	names
	unknown
	setuid_bits
	fake_chown
}

for_each_user tests
done_testing
