#!/bin/bash
# Descriptors and streams: cases 19, 21, 23, 26, 27; directories as descriptors (CVE-2024-21626); --keep-fd.
. "$(dirname "$0")/../lib/lib.sh"

inherited() {
	local i

	echo secret >"$T/secret"
	outside sh -c 'cat <&7' 7<"$T/secret"
	is "$status $out" '0 secret' 'case 19: outside an inherited descriptor is readable'
	run -- sh -c 'cat <&7' 7<"$T/secret"
	isnt "$status" 0 'case 19: in the box it is not there'
	like "$err" '[Bb]ad file descriptor|Bad fd' 'case 19: bad descriptor'
	unlike "$out" secret 'case 19: nothing of it was read'
	(
		for i in 3 4 5 9 15 64 200; do eval "exec $i<\"\$T/secret\""; done
		run -- ls /proc/self/fd
		printf '%s\n' "$out" >"$T/fds"
	)
	is "$(grep -vx 3 "$T/fds" | tr '\n' ' ')" '0 1 2 ' 'case 19: only the three streams (and the directory that ls reads)'
	# Root sees their numbers, as the directory is its own; what they are nobody sees.
	run -- sh -c 'for i in 0 1 2 3 4 5 6 7 8 9; do readlink /proc/1/fd/$i; cat <"/proc/1/fd/$i"; done 2>/dev/null | wc -c'
	is "$out" 0 'case 19: the descriptors of pid 1 cannot be looked at'
}

kept() {
	echo kept >"$T/kept"
	run --keep-fd 7 -- sh -c 'cat <&7; cat <&8' 7<"$T/kept" 8<"$T/secret"
	is "$out" kept '--keep-fd passes the one, and not the other'
	run --keep-fd 5 --keep-fd 200 --keep-fd 5 -- bash -c 'cat <&5; cat <&200' 5<"$T/kept" 200<"$T/kept"
	is "$status $out" "0 kept
kept" '--keep-fd is repeatable, in any order'
	: >"$T/written"
	run --keep-fd 9 -- sh -c 'echo in >&9' 9>>"$T/written"
	is "$status $(cat "$T/written")" '0 in' '--keep-fd of a file that is written'
	run --keep-fd 77 -- true
	is "$status" 125 '--keep-fd of a descriptor that is not open: 125'
	like "$err" '77' 'and it is named'
	run --keep-fd 1 -- true
	is "$status" 125 '--keep-fd 1: 125'
	run --keep-fd x -- true
	is "$status" 125 '--keep-fd x: 125'

	run --keep-fd 7 -- true 7<"$T"
	is "$status" 125 'A4: --keep-fd of a directory: refused'
	like "$err" 'director' 'A4: the message says why'
	is "$(event run.end reason)" refused 'A4: and the record says refused'
	run -- true 7<"$T"
	is "$status" 0 'A4: a directory that is not kept is closed'
	capture_stdin "$T" -- true
	is "$status" 125 'A4: a directory as standard input: refused'
	like "$err" 'standard input' 'A4: standard input is named'
	capture_stdin "$T/secret" -- cat
	is "$status $out" '0 secret' 'a file as standard input is passed'
}

# capture_stdin FILE options...: run with that as standard input.
capture_stdin() {
	local file=$1

	shift
	box "$@" <"$file" >"$T/out" 2>"$T/err"
	status=$?
	out=$(cat "$T/out")
	err=$(cat "$T/err")
}

own_descriptors() {
	local i

	for i in 1 2 3 4 5; do echo "$i" >"$repo/closed$i"; done
	run -s filesystem.deny=closed1 -s filesystem.deny=closed2 -s filesystem.deny=closed3 -s filesystem.deny=closed4 \
		-s filesystem.deny=closed5 -- bash -c 'for i in 1 2 3 4 5; do cat closed$i && exit 1; done 2>/dev/null; exit 0'
	is "$status" 0 'case 21: several denied files'
	rm "$repo"/closed?
	run -- bash -c 'exec 3>&1; echo hi | cat >&3'
	is "$status $out" '0 hi' 'case 21: descriptor 3 is the command'\''s to use'
	run -- bash -c 'exec 3>&1 4>&1 5>&1 6>&1 7>&1 8>&1 9>&1; echo hi | cat >&9'
	is "$status $out" '0 hi' 'case 21: and 4 to 9'
	run -- bash -c 'exec 3>&1; echo hi | cat >&3' 3>/dev/null 4>/dev/null 5>/dev/null
	is "$status $out" '0 hi' 'case 21: also where the caller has them open'

	box -- perl -e 'print STDERR readlink("/proc/self/fd/$_"), "\n" for 0, 1' <&- >&- 2>"$T/err"
	status=$?
	is "$status $(tr '\n' ' ' <"$T/err")" '0 /dev/null /dev/null ' 'closed streams become /dev/null'
	box -- sh -c 'echo x >&2; echo y' 2>&- >"$T/out"
	is "$? $(cat "$T/out")" '0 y' 'and a closed stderr'
}

streams() {
	local start end

	is "$(printf a | box -- wc -c)" 1 'case 23: stdin is delivered once'
	start=$(now_ms)
	box -- true < <(exec sleep 15)
	is $? 0 'case 23: a stdin that stays open is not waited for'
	cmp_ok $(($(now_ms) - start)) -lt 3000 'case 23: but left at once'
	printf abcdef >"$T/in"
	is "$({
		box -- dd bs=1 count=2 status=none
		cat
	} <"$T/in")" abcdef 'case 23: what the command does not read is left to the caller'
	is "$(seq 200000 | box -- md5sum)" "$(seq 200000 | md5sum)" 'case 23: a megabyte through stdin is whole'
	is "$(box -- seq 200000 | md5sum)" "$(seq 200000 | md5sum)" 'case 23: and through stdout'

	# The supervisor does not hold the caller's pipe open.
	start=$(now_ms)
	"$AB" run -- sh -c 'echo first; exec >&-; sleep 4' </dev/null 2>/dev/null | {
		cat >/dev/null
		now_ms >"$T/end"
	}
	end=$(cat "$T/end")
	cmp_ok $((end - start)) -lt 3500 'a reader sees the end of stdout when the command closes it'

	capture timeout -s KILL 20 perl -MPOSIX -e '$SIG{PIPE} = $SIG{INT} = $SIG{TERM} = $SIG{QUIT} = "IGNORE";
		sigprocmask(SIG_BLOCK, POSIX::SigSet->new(SIGTERM, SIGUSR1, SIGPIPE)); exec @ARGV' \
		"$AB" run -- grep -E 'Sig(Ign|Blk)' /proc/self/status
	is "$status $(printf '%s' "$out" | tr -s '\t\n' ' ')" '0 SigBlk: 0000000000000000 SigIgn: 0000000000000000' \
		'case 26: nothing is ignored or blocked, whatever the caller does'
	outside perl -e '$SIG{PIPE} = "IGNORE"; exec @ARGV' grep SigIgn /proc/self/status
	unlike "$out" '0000000000000000' 'case 26: outside an ignored SIGPIPE is inherited (the probe sees it)'
	start=$(now_ms)
	is "$(box -- yes 2>/dev/null | head -n 1)" y 'case 26: yes | head -1 ends'
	cmp_ok $(($(now_ms) - start)) -lt 5000 'case 26: at once'
	box -- sh -c 'yes | head -n 1; exit 3' >/dev/null
	is $? 3 'case 26: and within the box'
}

dev() {
	run -- bash -c 'cat <(echo x) >/dev/null && echo y >/dev/stderr'
	is "$status $err" '0 y' 'case 27: process substitution and /dev/stderr (a file)'
	is "$(box -- bash -c 'cat <(echo x) >/dev/null && echo y >/dev/stderr' 2>&1 >/dev/null | cat)" y 'case 27: the same into a pipe'
	run -- bash -c 'echo a >/dev/stdout; echo b >/dev/fd/1; echo c >/proc/self/fd/1'
	is "$status" 0 'case 27: /dev/stdout, /dev/fd/1, /proc/self/fd/1'
	is "$(printf q | box -- cat /dev/stdin)" q 'case 27: /dev/stdin (a pipe)'
	printf q >"$T/in"
	capture_stdin "$T/in" -- cat /dev/stdin
	is "$status $out" '0 q' 'case 27: /dev/stdin (a file)'
	run -- sh -c 'head -c 3 /dev/zero | wc -c; head -c 3 /dev/urandom | wc -c; echo x >/dev/null; head -c 1 /dev/zero >/dev/full'
	is "$(echo $out)" '3 3' 'case 27: zero, urandom and null work'
	like "$err" 'No space left' 'case 27: and full is full'
	run -- sh -c 'ls /dev; ls -d /dev/[!fnprstuz]*'
	unlike "$out" 'vda|sda|mem|kmsg|kvm|fuse|disk|net|loop' 'case 27: no device of the host'
	run -- perl -e 'open(my $f, "<", "/dev/ptmx") or die "ptmx: $!"; print "ok\n"'
	is "$status $out" '0 ok' 'case 27: a terminal can be made'
	run -- sh -c 'echo x >/dev/shm/f && cat /dev/shm/f'
	is "$status $out" '0 x' 'case 27: /dev/shm'
	run -- sh -c 'mknod /tmp/n c 1 3'
	isnt "$status" 0 'a device cannot be made'
	run -- sh -c 'rm -f /dev/null; echo x >/dev/new'
	isnt "$status" 0 '/dev cannot be changed'
}

tests() {
	inherited
	kept
	own_descriptors
	streams
	dev
}

for_each_user tests
done_testing
