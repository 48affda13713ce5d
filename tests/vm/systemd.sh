# Runs in the machine that tests/vm/boot starts, as a service of real systemd: control groups of a user whose login's own group is
# root's. Prints TAP; /test/count is where script.sh stopped.
# SPDX-License-Identifier: LGPL-2.1-or-later
cat >/test/login <<'EOF'
n=$(cat /test/count)
ok() { # ok DESCRIPTION: by the status of the command before it
	status=$?
	n=$((n + 1))
	if [ $status -eq 0 ]; then echo "ok $n - systemd: $1"; else echo "not ok $n - systemd: $1"; fi
}
is() { # is GOT WANT DESCRIPTION
	[ "$1" = "$2" ] || echo "# got \"$1\", want \"$2\""
	[ "$1" = "$2" ]
	ok "$3"
}
event() { agentbox log --json last | grep "\"type\":\"$1\""; }
reason() { event run.end | sed 's/.*"reason":"\([a-z-]*\)".*/\1/'; }
way() { event run.start | sed -n 's/.*"cgroup":{"in_force":true,"way":"\([a-z0-9]*\)".*/\1/p'; }
slice=/sys/fs/cgroup/user.slice/user-12345.slice
groups() { find /sys/fs/cgroup -name 'agentbox-*' | wc -l; }
# systemd is told of an empty group by inotify, and removes it.
none_left() {
	i=0
	while [ "$(groups)" -ne 0 ] && [ $i -lt 100 ]; do
		sleep 0.1
		i=$((i + 1))
	done
	is "$(groups) $(systemctl --user list-units --all --plain --no-legend 'agentbox-*' | wc -l)" '0 0' "$1"
}
# How many `sleep 100` there are; agentbox's own line does not begin so.
sleepers() { ps | grep -c 'login *sleep 100$'; }
started() {
	i=0
	while [ "$(sleepers)" -eq 0 ] && [ $i -lt 100 ]; do
		sleep 0.1
		i=$((i + 1))
	done
	[ "$(sleepers)" -eq 1 ]
	ok "(the command of the next test runs)"
}

export HOME=/home/login XDG_RUNTIME_DIR=/run/user/12345
unset DBUS_SESSION_BUS_ADDRESS
mkdir -p ~/repo && cd ~/repo || exit 1

is "$(id -u) $(cat /proc/self/cgroup)" "12345 0::/user.slice/user-12345.slice/session-1.scope" "a user in a session's scope"
! mkdir $slice/session-1.scope/x 2>/dev/null && ! mkdir $slice/x 2>/dev/null
ok "(who can make no group there)"

agentbox run -q -s limits.memory=32M -s limits.cgroup=require -- tail -c 99999999 /dev/zero
is "$?/$(reason)/$(way)" 137/oom/systemd "memory hog: reason oom, in a group of systemd's"
event limit.hit | grep -q '"limit":"limits.memory"'
ok "limit.hit"
event run.end | grep '"cpu_ms":[0-9]' | grep -q '"peak_memory":[1-9]'
ok "peak memory and CPU time are in the record"
none_left "no group is left"
is "$(agentbox run -q -s limits.processes=20 -s limits.cgroup=require -- sh -c 'i=0; while [ $i -lt 40 ]; do sleep 5 & i=$((i+1)); done' 2>&1 | grep -c "can't fork")" 1 \
	"the limit of processes holds"
event run.end | grep -q '"processes":20'
ok "and the most at one time is in the record"
agentbox run -q -s limits.wall-time=2s -s limits.grace=500ms -s limits.processes=64 -- sh -c 'b() { b | b & }; b; sleep 60' 2>/dev/null
is "$?/$(reason)/$(way)" 124/timeout/systemd "a fork bomb ends with the time"
none_left "and nothing of it is left"

# All limits; and the supervisor is killed.
agentbox run -q -s limits.memory=64M -s limits.processes=30 -s limits.cpus=0.2 -s limits.cgroup=require -- sleep 100 &
pid=$!
started
group=$(echo $slice/user@12345.service/app.slice/agentbox-*.scope/agentbox-*)
is "$(cat "$group/memory.max" "$group/memory.swap.max" "$group/pids.max" "$group/cpu.max" 2>/dev/null | xargs)" '67108864 0 31 20000 100000' \
	"memory, swap, processes and cpus are bounded"
is "$(cat /proc/$pid/cgroup) $(wc -l <"${group%/*}/holder/cgroup.procs")" "0::/user.slice/user-12345.slice/session-1.scope 1" \
	"the supervisor stays in the session, and holds the scope by a process in it"
kill -9 $pid
none_left "kill -9 of the supervisor: no group is left, without prune"
is "$(sleepers)" 0 "and no process"
agentbox prune >/dev/null
ok "prune finds nothing amiss"

# What asks for no group stays where it is.
agentbox run -q -- sleep 100 &
started
is "$(cat /proc/$!/cgroup)" "0::/user.slice/user-12345.slice/session-1.scope" "a run without limits asks for no group"
kill $!
wait $!

# The ways to systemd: the bus (above), and without it.
mv $XDG_RUNTIME_DIR/bus $XDG_RUNTIME_DIR/bus.away
agentbox run -q -s limits.memory=32M -s limits.cgroup=require -- true
is "$?/$(way)" 0/systemd "without a bus: by the manager's own socket"
mv $XDG_RUNTIME_DIR/bus.away $XDG_RUNTIME_DIR/bus
DBUS_SESSION_BUS_ADDRESS=unix:path=/nowhere XDG_RUNTIME_DIR= agentbox run -q -s limits.memory=32M -s limits.cgroup=require -- true
is "$?/$(way)" 0/systemd "with neither variable of use: /run/user/UID"
dbus-daemon --session --nofork --nopidfile --address=unix:path=$HOME/other-bus 2>/dev/null &
other=$!
i=0
while [ ! -S $HOME/other-bus ] && [ $i -lt 100 ]; do
	sleep 0.1
	i=$((i + 1))
done
DBUS_SESSION_BUS_ADDRESS=unix:path=$HOME/other-bus agentbox run -q -s limits.memory=32M -s limits.cgroup=require -- true
is "$?/$(way)" 0/systemd "a bus without systemd on it: the next place"
kill $other
mkdir -p ~/empty
XDG_RUNTIME_DIR=~/empty agentbox run -s limits.memory=32M -s limits.cgroup=require -- true 2>~/err
is "$?/$(grep -c 'no socket of systemd --user' ~/err)" 125/1 "no way: cgroup = require is refused, and says why"
XDG_RUNTIME_DIR=~/empty agentbox run -q -s limits.memory=32M -- true
is "$?/$(event run.start | grep -c 'limits.memory":"[^"]*no socket of systemd --user')" 0/1 "cgroup = auto: runs, and says why"
agentbox doctor | grep -q '^present  delegation  *systemd --user gives'
ok "doctor: systemd --user gives groups"
XDG_RUNTIME_DIR=~/empty agentbox doctor >~/out
is "$(grep -A 1 '^missing  delegation .*no socket of systemd' ~/out | grep -c -- '-> .*XDG_RUNTIME_DIR')" 1 "doctor: or why not, and how to mend it"

# A terminal's scope, in a slice that this user may write and systemd --user turns controllers on and off in.
cat >~/terminal <<'END'
agentbox run -q -s limits.cpus=0.2 -s limits.cgroup=require -- sleep 100 &
i=0
while ! ps | grep -q 'login *sleep 100$' && [ $i -lt 100 ]; do
	sleep 0.1
	i=$((i + 1))
done
systemctl --user daemon-reload
systemd-run --user -q --scope true
cat $1/user@12345.service/app.slice/agentbox-*.scope/agentbox-*/cpu.max
kill $!
wait $!
END
is "$(systemd-run --user -q --scope --unit=terminal sh ~/terminal $slice)/$(way)" "20000 100000/systemd" \
	"in a terminal's scope: the limit of cpus outlives a daemon-reload"
systemd-run --user -q --scope --unit=terminal2 agentbox run -q -s limits.memory=64M -s limits.cgroup=require -- true
is "$?/$(way)" 0/v2 "and what the slice has anyway is used without asking"
# A service: it is stopped with all that it started.
systemd-run --user -q --unit=service -p WorkingDirectory=$HOME/repo -E PATH=$PATH -E AGENTBOX_PROFILES=$AGENTBOX_PROFILES \
	agentbox run -q -s limits.cpus=0.5 -s limits.cgroup=require -- sleep 100
started
is "$(way)" systemd "a run in a service has a scope besides"
systemctl --user stop service
is "$(sleepers)" 0 "and ends with the service"

# A manager that does not answer.
manager=$(ps | sed -n 's/^ *\([0-9]*\) login .*systemd --user$/\1/p')
kill -STOP "$manager"
agentbox run -q -s limits.memory=32M -s limits.cgroup=require -- true 2>~/err
is "$?/$(grep -c 'systemd --user at .* timed out' ~/err)" 125/1 "a manager that is stopped: refused within some seconds, and says why"
kill -CONT "$manager"
none_left "nothing is left"
echo "1..$n"
EOF
PATH=/bin:/usr/bin timeout 200 systemd-run -q --scope --unit=session-1 --slice=user-12345.slice --uid=12345 --gid=12345 sh /test/login
