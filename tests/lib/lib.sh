# shellcheck shell=bash
# What all tests/t/2*.t and 3*.t share: TAP, a scratch directory that is removed at the end, and the same tests run as root
# and as an unprivileged user. Sourced by bash.
#
#	. "$(dirname "$0")/../lib/lib.sh"
#	tests() { run -- sh -c 'exit 7'; is "$status" 7 'case 2: exit 7'; }
#	for_each_user tests
#	done_testing
#
# for_each_user starts the file once more as the other user, from a copy in the scratch directory, so that a test function
# is plain shell and all in it (signals, /proc, files) happens as that user.
set -u
umask 022
export LC_ALL=C.UTF-8

here=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
OTHER_UID=12345
BOX_SECONDS=20

# --- TAP ---

# The counts go through files: a test function runs as another process for the other user.
diag() { printf '%s\n' "$@" | sed 's/^/# /'; }

note() {
	n=$((n + 1))
	printf '%s %d - %s (%s)%s\n' "$1" "$n" "$2" "$who" "${3:+ # $3}"
}

# ok STATUS NAME: passes where STATUS is 0. What the last `run` printed is shown where it does not.
ok() {
	if [ "$1" -eq 0 ]; then
		note ok "$2"
		return 0
	fi
	note 'not ok' "$2"
	failed=$((failed + 1))
	[ -f "$T/out" ] && diag "status $status, stdout:" "$(head -c 2000 "$T/out")" "stderr:" "$(head -c 2000 "$T/err")"
	return 1
}

pass() { ok 0 "$1"; }
fail() {
	ok 1 "$1"
	shift
	[ $# -eq 0 ] || diag "$@"
	return 1
}

# is GOT WANT NAME
is() {
	[ "$1" = "$2" ]
	ok $? "$3" || diag "got (+), want (-):" "$(diff -u <(printf '%s\n' "$2") <(printf '%s\n' "$1") | sed 1,3d | head -n 40)"
}

isnt() {
	[ "$1" != "$2" ]
	ok $? "$3" || diag "got what must not be: $1"
}

# like TEXT EXTENDED-REGEXP NAME; unlike the same.
like() {
	printf '%s\n' "$1" | grep -Eq -- "$2"
	ok $? "$3" || diag "got: $1" "does not match: $2"
}

unlike() {
	! printf '%s\n' "$1" | grep -Eq -- "$2"
	ok $? "$3" || diag "got: $1" "matches: $2"
}

# cmp_ok A OPERATOR B NAME: integers, as test(1) compares them.
cmp_ok() {
	test "$1" "$2" "$3"
	ok $? "$4" || diag "$1 is not $2 $3"
}

# skip FEATURE NAME: the runner compares the features with those that it expects to miss.
skip() { note ok "$2" "SKIP $1"; }

have() { command -v "$1" >/dev/null 2>&1; }

done_testing() {
	[ -n "${TEST_CHILD-}" ] && exit 0
	echo "1..$n"
	[ "$failed" -eq 0 ]
	exit
}

# --- the scratch directory ---

# Everything a test makes is in it. Directories of mode 0 (overlay work directories) must not survive it.
remove_scratch() {
	local code=$?

	trap '' EXIT
	own_kill
	[ "$(id -u)" -eq 0 ] || chmod -R u+rwx "$SCRATCH" 2>/dev/null
	rm -rf --one-file-system "$SCRATCH"
	exit "$code"
}

# Processes that a test started in the background and named with `own`: ended with the test, or by own_kill before.
owned=()
own() { owned+=("$1"); }
own_kill() {
	local p

	for p in ${owned[@]+"${owned[@]}"}; do
		kill -KILL "$p" && wait "$p"
	done
	owned=()
} 2>/dev/null

# A place for the user that runs now: $T, in it home, state and repo (a small git repository with one commit).
user_setup() {
	if [ "$(id -u)" -eq 0 ]; then who=root; else who="uid $(id -u)"; fi
	T=$SCRATCH/$(id -u)
	mkdir -p "$T"
	chmod 0755 "$T"
	cd "$T" || exit 1
	mkdir -p home state
	chmod 0700 state
	export HOME="$T/home" AGENTBOX_STATE="$T/state" AGENTBOX_PROFILES="$SCRATCH/profiles"
	export GIT_CONFIG_NOSYSTEM=1
	printf '[init]\n\tdefaultBranch = main\n' >home/.gitconfig
	make_repo repo
	repo=$T/repo
	status=0
	cd repo || exit 1
}

# make_repo DIR: a git repository with a file, a directory and one commit.
make_repo() {
	mkdir -p "$1/src"
	git -C "$1" init -q
	git -C "$1" config user.name Test
	git -C "$1" config user.email test@example.org
	echo hello >"$1/README"
	echo 'int main(void) { return 0; }' >"$1/src/main.c"
	git -C "$1" add -A
	git -C "$1" commit -q -m first
}

# --- users ---

# for_each_user FUNCTION: once as root and once as an unprivileged user; where prove runs unprivileged, as that user only.
for_each_user() {
	if [ -n "${TEST_CHILD-}" ]; then
		[ "$TEST_CHILD" = "$1" ] || return 0
		user_setup
		trap own_kill EXIT
		"$1"
		echo "$n $failed" >"$T/count"
		exit 0
	fi
	user_setup
	"$1"
	own_kill
	if [ "$(id -u)" -ne 0 ]; then
		diag "as uid $(id -u) only: run as root to test both"
		return 0
	fi
	as_user env TEST_CHILD="$1" TEST_N="$n" TEST_FAILED="$failed" bash "$SCRATCH/tests/t/$(basename "$0")"
	if [ -s "$SCRATCH/$OTHER_UID/count" ]; then
		read -r n failed <"$SCRATCH/$OTHER_UID/count"
		rm "$SCRATCH/$OTHER_UID/count"
	else
		who="uid $OTHER_UID"
		note 'not ok' 'the tests as another user did not come to their end'
		failed=$((failed + 1))
	fi
}

# as_user CMD...: as an unprivileged user without groups, in a directory of its own. For root only.
as_user() {
	setpriv --reuid "$OTHER_UID" --regid "$OTHER_UID" --clear-groups \
		env HOME="$SCRATCH/$OTHER_UID/home" AGENTBOX_STATE="$SCRATCH/$OTHER_UID/state" "$@"
}

# --- the box ---

# box [options of run] [--] COMMAND...: bounded, in the current directory, streams untouched.
box() { timeout -k 2 -s KILL "$BOX_SECONDS" "$AB" run "$@"; }

# run [options] [--] COMMAND...: the same with stdin empty; $status, $out, $err are what came of it.
run() { capture box "$@"; }

# outside COMMAND...: the probe without a box, so that a denial inside says something.
outside() { capture timeout -k 2 -s KILL "$BOX_SECONDS" "$@"; }

# The shell's own word on a killed child goes nowhere.
capture() {
	"$@" </dev/null >"$T/out" 2>"$T/err"
	status=$?
	out=$(tr -d '\0' <"$T/out")
	err=$(tr -d '\0' <"$T/err")
} 2>/dev/null

# allowed_outside NAME COMMAND...: the probe works here. denied NAME COMMAND...: it fails in the box, which itself works.
allowed_outside() {
	local name=$1

	shift
	outside "$@"
	is "$status" 0 "$name: the probe works outside"
}

# events [RUN]: the events of a run (the last one) as JSON lines.
events() { "$AB" log "${1:-last}" --json; }

# event TYPE FIELD [RUN]: that field of the first event of the type, as text; "absent" where there is none. FIELD: a.b.c
event() { events "${3:-last}" | python3 "$SCRATCH/tests/lib/field.py" "$1" "$2"; }

# run_field FIELD [RUN]: a field of run.json.
run_dir() { printf '%s/runs/%s\n' "$AGENTBOX_STATE" "${1:-$(ls "$AGENTBOX_STATE/runs" | tail -n 1)}"; }
run_field() { python3 "$SCRATCH/tests/lib/field.py" - "$1" <"$(run_dir ${2+"$2"})/run.json"; }

# --- processes ---

# mark: a number of seconds that no other process sleeps.
mark() { printf '3%02d.%d%05d\n' $((RANDOM % 100)) $$ "$RANDOM"; }

# sleeper MARK: the pids of what sleeps that long, on this host. alive MARK, gone MARK: is there one?
sleeper() {
	local f words

	for f in /proc/[0-9]*/cmdline; do
		mapfile -d '' words <"$f"
		if [ "${words[0]-}" = sleep ] && [ "${words[1]-}" = "$1" ]; then
			f=${f%/cmdline}
			echo "${f#/proc/}"
		fi
	done 2>/dev/null
}
alive() { [ -n "$(sleeper "$1")" ]; }
gone() { [ -z "$(sleeper "$1")" ]; }

# background [options] [--] COMMAND...: a run in the background, unbounded until `finish`; $pid is the supervisor's.
background() {
	"$AB" run "$@" </dev/null >"$T/out" 2>"$T/err" &
	pid=$!
	own "$pid"
}

# A zombie has ended: whoever is its parent by now may take its time.
ended() {
	local state

	{ read -r state <"/proc/${1:-$pid}/stat"; } 2>/dev/null || return 0
	case ${state##*) } in Z* | X*) return 0 ;; esac
	return 1
}

# finish: waits for it; one that hangs is killed. $status, $out, $err as after `run`.
finish() {
	until_true "$BOX_SECONDS" ended || kill -KILL "$pid"
	wait "$pid" 2>/dev/null
	status=$?
	out=$(tr -d '\0' <"$T/out")
	err=$(tr -d '\0' <"$T/err")
} 2>/dev/null

# until_true SECONDS COMMAND...: true as soon as the command is.
until_true() {
	local end=$((SECONDS + $1 + 1))

	shift
	while ! "$@"; do
		[ "$SECONDS" -lt "$end" ] || return 1
		sleep 0.02
	done
}

# now_ms: of the clock.
now_ms() { echo $((${EPOCHREALTIME/[.,]/} / 1000)); }

# --- start ---

if [ -n "${TEST_CHILD-}" ]; then
	n=$TEST_N
	failed=$TEST_FAILED
	SCRATCH=$here
else
	: "${AGENTBOX:=$here/build/agentbox}" "${BUILD:=$here/build}"
	n=0
	failed=0
	SCRATCH=$(mktemp -d "${TMPDIR:-/tmp}/agentbox-test.XXXXXX") || exit 1
	trap remove_scratch EXIT
	trap 'exit 1' HUP INT TERM
	chmod 0711 "$SCRATCH"
	mkdir -p "$SCRATCH/bin" "$SCRATCH/probes" "$SCRATCH/tests/t"
	cp "$AGENTBOX" "$SCRATCH/bin/agentbox" || exit 1
	cp -r "$here/profiles" "$SCRATCH/profiles"
	cp -r "$here/tests/lib" "$SCRATCH/tests/lib"
	cp "$0" "$SCRATCH/tests/t/"
	cp "$BUILD"/tests/probes/* "$SCRATCH/probes/" 2>/dev/null
	chmod -R go+rX "$SCRATCH/bin" "$SCRATCH/probes" "$SCRATCH/tests" "$SCRATCH/profiles"
	mkdir -m 0755 "$SCRATCH/$OTHER_UID"
	[ "$(id -u)" -ne 0 ] || chown "$OTHER_UID:$OTHER_UID" "$SCRATCH/$OTHER_UID"
fi
AB=$SCRATCH/bin/agentbox
PROBES=$SCRATCH/probes
# A shell's or a language's own directories of the caller's are no part of the tests.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
# AGENTBOX=1 is what a box says of itself.
unset AGENTBOX AGENTBOX_PROFILE AGENTBOX_TASK XDG_STATE_HOME XDG_CONFIG_HOME TMPDIR
