# Runs in the machine that tests/vm/boot starts, as root with busybox's sh: cgroup v2 and the oldest kernel. Prints TAP.
# SPDX-License-Identifier: LGPL-2.1-or-later
n=0
ok() { # ok DESCRIPTION: by the status of the command before it
	status=$?
	n=$((n + 1))
	if [ $status -eq 0 ]; then echo "ok $n - vm: $1"; else echo "not ok $n - vm: $1"; fi
}
is() { # is GOT WANT DESCRIPTION
	[ "$1" = "$2" ] || echo "# got \"$1\", want \"$2\""
	[ "$1" = "$2" ]
	ok "$3"
}
reason() { agentbox log --json last | grep '"type":"run.end"' | sed 's/.*"reason":"\([a-z-]*\)".*/\1/'; }
groups() { find /sys/fs/cgroup -name 'agentbox-*' | wc -l; }

mkdir -p /tmp/repo
cd /tmp/repo || exit 1
# A delegated place, as a login manager would make one: the caller's group has processes, so its parent gets the children.
mkdir /sys/fs/cgroup/caller
echo $$ >/sys/fs/cgroup/caller/cgroup.procs

case $(uname -r) in 6.1.*) true ;; *) false ;; esac
ok "the kernel is 6.1"

is "$(agentbox run -- sh -c 'echo hello > x; cat x')" hello "a box runs"
is "$(agentbox run -- sh -c 'exit 55'; echo $?)" 55 "the status is the command's"
[ ! -e x ]
ok "overlay: nothing in the repo"
is "$(agentbox run -- cat /proc/self/status | grep -E 'Cap(Inh|Prm|Eff|Bnd|Amb)|NoNewPrivs' | awk '{print $2}' | sort -u | tr '\n' ' ')" \
	"0000000000000000 1 " "no capabilities, no new privileges"

agentbox run -q -s limits.memory=32M -s limits.cgroup=require -- sh -c 'head -c 104857600 /dev/zero | tail -c 99999999 >/dev/null; exit $?' \
	2>/dev/null
agentbox log --json last | grep -q '"limit":"limits.memory"'
ok "v2: memory hog: limit.hit"
agentbox run -q -s limits.memory=32M -- tail -c 99999999 /dev/zero
is "$?/$(reason)" 137/oom "v2: the command killed for memory: reason oom"
is "$(groups)" 0 "v2: no group is left"
agentbox log --json last | grep '"type":"run.end"' | grep -q '"peak_memory":[1-9]'
ok "v2: peak memory is in the record"
is "$(agentbox run -q -s limits.processes=20 -- sh -c 'i=0; while [ $i -lt 40 ]; do sleep 5 & i=$((i+1)); done' 2>&1 | grep -c "can't fork")" 1 \
	"v2: the limit of processes holds"
agentbox run -q -s limits.processes=50 -- sh -c 'i=0; while [ $i -lt 80 ]; do true & wait; i=$((i+1)); done'
is $? 0 "case 13: the limit of processes counts those that live (v2)"
agentbox run -q -s limits.wall-time=2s -s limits.grace=500ms -s limits.processes=64 -- sh -c 'b() { b | b & }; b; sleep 60' 2>/dev/null
is "$?/$(reason)" 124/timeout "v2: a fork bomb ends with the time"
is "$(groups)" 0 "v2: and nothing of it is left"
agentbox run -q -s limits.cpus=0.2 -s limits.cgroup=require -- sh -c 'i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done'
agentbox log --json last | grep '"type":"run.end"' | grep -q '"cpu_ms":[0-9]'
ok "v2: cpus, and CPU time in the record"
agentbox run -q -s limits.memory=64M -- sh -c 'kill -9 $$'
is "$?/$(reason)" 137/signaled "case 18: killed, but not for memory"

# A supervisor that dies leaves its group; prune takes it.
agentbox run -q -s limits.memory=64M -- sleep 100 &
pid=$!
sleep 1
kill -9 $pid
sleep 1
is "$(ps | grep -c '[s]leep 100')" 0 "kill -9 of the supervisor ends the box"
agentbox prune >/dev/null
is "$(groups)" 0 "v2: prune removes the group"

# The eBPF programs pass this kernel's verifier, and do what they are for.
if [ -e /bin/test_bpf ]; then
	is "$(agentbox run -q --allow 203.0.113.10:443 -s egress.ebpf=require -- \
		busybox nc -w 1 203.0.113.9 443 2>&1 </dev/null | grep -c 'Operation not permitted')" 1 "eBPF: a connection is refused"
	agentbox log --json last | grep '"type":"egress.connect"' | grep '"via":"ebpf"' | grep '"comm":"nc"\|"comm":"busybox"' |
		grep -q '"address":"203.0.113.9"'
	ok "eBPF: and is in the log, with the process"
	# And so do those of mode = host, which is refused here: what keeps it from this kernel is not they.
	ln -sf busybox /bin/ip
	test_bpf >/tmp/out 2>&1
	is $? 0 "the programs of both modes, against the policy that they were made of"
	grep -q '^# mode = host: [0-9]* allowed .* and [0-9]* denied attempts compared' /tmp/out
	ok "(they were attached)"
	grep '^# ' /tmp/out
	# Without Landlock's scopes the abstract sockets of the host's network would be open.
	agentbox run -q -s egress.mode=host -- touch /tmp/ran 2>/tmp/out
	is "$?/$(reason)$(ls /tmp/ran 2>/dev/null)" 125/refused "mode = host is refused on this kernel, before anything runs"
	grep -q 'abstract UNIX sockets.*Landlock.*has no scopes' /tmp/out
	ok "and says why"
	agentbox doctor | grep -q '^missing  host network'
	ok "and so does doctor"
fi

# An unprivileged user. No delegation: what is asked and cannot be bounded is said, or refused.
as_user() { su user -c "cd ~ && mkdir -p repo && cd repo && PATH=/bin AGENTBOX_PROFILES=/profiles $*"; }
is "$(as_user 'agentbox run -- id -u')" 1000 "a user's box runs"
as_user 'agentbox run -s limits.memory=32M -s limits.cgroup=require -- true' 2>/tmp/out
is $? 125 "user: cgroup = require is refused without delegation"
grep -q "memory cannot be bounded" /tmp/out
ok "user: and says which limit"
as_user 'agentbox run -s limits.memory=32M -- true'
is $? 0 "user: cgroup = auto runs"
# Delegated, as systemd does for a user: the directory and its files are the user's.
mkdir -p /sys/fs/cgroup/user/session
echo '+memory +pids +cpu' >/sys/fs/cgroup/cgroup.subtree_control
chown -R user /sys/fs/cgroup/user
cat >/tmp/delegated <<'EOF'
echo $$ >/sys/fs/cgroup/user/session/cgroup.procs
su user -c "cd ~/repo && PATH=/bin AGENTBOX_PROFILES=/profiles agentbox run -q -s limits.memory=32M -s limits.cgroup=require -- tail -c 99999999 /dev/zero"
echo $?
EOF
is "$(sh /tmp/delegated 2>/tmp/out | tail -n 1)" 137 "user: limits hold in a delegated tree"
[ ! -s /tmp/out ] || sed 's/^/# /' /tmp/out

# The gateway, on this kernel with all its modules, then without nft_tproxy, then without nf_tables.
mkdir /tmp/www
echo served >/tmp/www/file
busybox ifconfig lo up
busybox httpd -p 127.0.0.1:8080 -h /tmp/www
# To @host by its address: busybox's wget, linked statically, finds no name here.
echo "printf 'GET /file HTTP/1.0\r\n\r\n' | busybox nc -w 5 198.18.0.1 8080" >/tmp/fetch
gateway() { # gateway NAME HOW: HOW is what doctor says
	agentbox doctor | grep 'gateway plumbing' | grep -q "$2"
	ok "$1: doctor says how"
	is "$(agentbox run -q --allow @host:8080 -s egress.ebpf=off --ro-bind /tmp/fetch /workspace/input/fetch -- sh /workspace/input/fetch 2>&1 | tail -n 1)" served "$1: a page through the gateway"
	is "$(as_user 'agentbox run -q --allow @host:8080 --ro-bind /tmp/fetch /workspace/input/fetch -- sh /workspace/input/fetch' | tail -n 1)" served "$1: and for a user"
	is "$(agentbox run -q --allow @host:8080 -s egress.ebpf=off -- busybox nc -w 3 203.0.113.9 443 2>&1 </dev/null | grep -c refused)" 1 \
		"$1: a connection is refused"
	agentbox log --json last | grep '"type":"egress.connect"' | grep '"via":"filter"' | grep -q '"address":"203.0.113.9"'
	ok "$1: and is in the log"
}
unload() { # unload PATTERN: the modules, and what stands on them
	i=0
	while lsmod | grep -Eq "^$1" && [ $i -lt 50 ]; do
		lsmod | awk -v p="^$1" '$1 ~ p {print $1}' | while read -r m; do rmmod "$m" 2>/dev/null; done
		sleep 0.1 # networks of boxes that ended hold them for a moment
		i=$((i + 1))
	done
	find /lib/modules -name '*.ko*' | grep -E "/$1[^/]*$" | while read -r m; do rm "$m"; done
}
gateway "nftables" "listeners and nf_tables in a network namespace$"
unload nft_tproxy
gateway "no nft_tproxy" "by redirection"
unload '(nft_|nf_tables|nfnetlink)'
gateway "no nf_tables" "a listener a port"

agentbox doctor >/tmp/out
ok "doctor finds all that a box needs"
if [ -e /test/systemd ]; then
	echo "$n" >/test/count # it goes on from there
else
	echo "1..$n"
fi
