#!/bin/bash
# Which commands: commands.allow for what `run` starts, refused before anything runs; commands.exec for what anything in the box starts.
. "$(dirname "$0")/../lib/lib.sh"

# refused NAME OPTIONS... -- COMMAND: 125, nothing ran, and it is in the record.
refused() {
	local name=$1

	shift
	run "$@"
	is "$status $out" '125 ' "$name: refused"
	like "$err" 'commands.allow' "$name: in words"
	is "$(event run.end reason) $(event box.ready init_pid)" 'refused absent' "$name: before there is a box"
	is "$(event command.refused rule | sed 's|.*/||')" "$rule" "$name: with an event and its place"
}

prefixes() {
	local git=(-s 'commands.allow=git diff') rule=--set

	run "${git[@]}" -- git diff
	is "$status" 0 'git diff, where git diff is allowed'
	run "${git[@]}" -- git diff --stat HEAD
	is "$status" 0 'git diff --stat HEAD: it begins like it'
	is "$(event command.refused argv)" absent 'no event'
	refused 'git push' "${git[@]}" -- git push
	is "$(event command.refused argv)" '["git", "push"]' 'git push: as it was asked for'
	refused 'gitx diff' "${git[@]}" -- gitx diff
	refused 'git difftool' "${git[@]}" -- git difftool
	refused 'git' "${git[@]}" -- git
	refused 'git -c x=y diff' "${git[@]}" -- git -c x=y diff
	refused '/usr/bin/git diff' "${git[@]}" -- /usr/bin/git diff
	refused '"git diff" as one word' "${git[@]}" -- 'git diff'
	refused 'sh' "${git[@]}" -- sh -c 'git diff'
	refused 'in case' "${git[@]}" -- git DIFF
	# A wrapper that is allowed may start anything: exec is what bounds that.
	run -s 'commands.allow=env' -- env sh -c 'echo started'
	is "$out" started 'what an allowed program starts is not bounded by allow'
	run "${git[@]}" -s 'commands.allow=echo' -- echo two
	is "$out" two 'one of several'
	run "${git[@]}" --dry-run -- git push
	is "$status" 125 '--dry-run: refused, too'
	run -s commands.allow=none -- true
	is "$status" 0 'none: no list, all may be'
}

quotes() {
	local rule=q.ini:2

	printf '%s\n' '[commands]' "allow = sh -c 'echo a  b'" 'allow = printf "x y" \ z' 'allow = echo ""' >"$T/q.ini"
	capture "$AB" check "$T/q.ini"
	is "$status" 0 'quotes in entries'
	run -p "$T/q.ini" -- sh -c 'echo a  b'
	is "$status $out" '0 a b' 'single quotes: one word'
	refused 'another script' -p "$T/q.ini" -- sh -c 'echo a b'
	run -p "$T/q.ini" -- printf 'x y' ' z' more
	is "$status $out" '0 x y' 'double quotes and a backslash'
	run -p "$T/q.ini" -- echo '' x
	is "$status $out" '0  x' 'an empty word'
	refused 'echo x' -p "$T/q.ini" -- echo x
	printf '%s\n' '[commands]' "allow = sh -c 'echo" >"$T/q.ini"
	capture "$AB" check "$T/q.ini"
	is "$status" 1 'a quote that is not closed: a fault'
	like "$out$err" 'q.ini:2: .*not closed' 'with its place'
	run -p "$T/q.ini" -- sh -c echo
	is "$status" 125 'and refused'
	rm "$T/q.ini"
}

executed() {
	local only_sh=(-s commands.exec=sh)

	printf '#!/bin/sh\necho script\n' >s.sh
	printf '#!/usr/bin/perl\nprint "perl\\n"\n' >s.pl
	chmod 755 s.sh s.pl
	run -- sh -c './s.sh; ./s.pl; ls README; cp /bin/echo e; ./e copied'
	is "$(echo $out)" 'script perl README copied' '(without a list all of these start)'

	run "${only_sh[@]}" -- sh -c 'echo started'
	is "$status $out" '0 started' 'exec = sh: sh starts'
	run "${only_sh[@]}" -- ls
	is "$status $out" '126 ' 'ls does not: 126'
	is "$(event run.end reason)" not-executable 'reason not-executable'
	like "$err" 'commands.exec' 'in words'
	is "$(event command.refused argv)" '["ls"]' 'with an event'
	run "${only_sh[@]}" -- sh -c 'ls; echo "$?"; /usr/bin/perl -e 1; echo "$?"; env true; echo "$?"; ./s.sh; echo "$?"; ./s.pl; echo "$?"'
	is "$(echo $out)" '126 126 126 126 126' 'nor anything from within'
	is "$(grep -c 'Permission denied' "$T/err")" 5 'Permission denied'
	run -s commands.exec=sh -s commands.exec=ls -s commands.exec=/usr/bin/wc -- sh -c 'ls README; wc -l <README; id'
	is "$(echo $out)" 'README 1' 'listed by name and by path: these and no others'

	run -s commands.exec=/workspace/repo/s.sh -- ./s.sh
	is "$status $out" '126 ' 'a script without its interpreter: 126'
	run -s commands.exec=/workspace/repo/s.sh "${only_sh[@]}" -- ./s.sh
	is "$status $out" '0 script' 'with it: starts'
	run -s commands.exec=/workspace/repo/s.sh "${only_sh[@]}" -- sh -c './s.sh; ./s.pl'
	is "$out" script 'and no other script'
	run "${only_sh[@]}" -- sh ./s.sh
	is "$out" script 'an interpreter that is listed reads what it is given'

	run -s commands.exec=bash -s commands.exec=cp -s commands.exec=ln -s commands.exec=chmod -- bash -c '
		cp /bin/echo bash; ./bash COPY; cp /bin/echo "$HOME/sh"; "$HOME/sh" HOME; cp /bin/echo /tmp/e; /tmp/e TMP; ln -s /bin/echo l; ./l LINK
		cp /bin/bash b; ./b -c "echo SHELL"; cp /bin/echo /workspace/artifacts/e; /workspace/artifacts/e ART; cp /bin/echo /dev/shm/e && /dev/shm/e SHM
		exec 9</bin/echo; /proc/self/fd/9 FD'
	is "$out" '' 'copies and links under any name, in any place: refused'
	run "${only_sh[@]}" --keep-fd 7 -- sh -c '/proc/self/fd/7 FD' 7</bin/echo
	unlike "$out" FD 'nor by a kept descriptor'
	if [ -e /lib64/ld-linux-x86-64.so.2 ]; then
		# What the manual says that it does not bound: the linker maps what it is told to, and Landlock sees no mapping.
		run "${only_sh[@]}" -- sh -c '/lib64/ld-linux-x86-64.so.2 /bin/echo LINKER'
		[ "$out" != LINKER ] || grep -q 'dynamic linker' "$SCRATCH/manual"
		ok $? 'the dynamic linker starts nothing, or the manual says that it does'
	fi
	refusals
	rm s.sh s.pl
}

refusals() {
	local memfd='import os
fd = os.memfd_create("x", 0); os.write(fd, open("/bin/echo", "rb").read()); os.execve(fd, ["echo", "ANONYMOUS"], {})'

	outside python3 -c "$memfd"
	is "$out" ANONYMOUS '(outside an anonymous file can be executed)'
	run -s commands.exec=/usr/bin/python3 -- python3 -c "$memfd"
	is "$status $out" '1 ' 'an anonymous file cannot'
	like "$err" 'not implemented' 'memfd_create is ENOSYS'
	run -s commands.exec=/usr/bin/python3 -- python3 -c "${memfd/ 0/ 8}"
	is "$status $out" '1 ' 'nor one that is sealed against it'
	like "$err" 'PermissionError' 'it can be made, not executed'
	run -- python3 -c "$memfd"
	is "$out" ANONYMOUS '(without a list it can)'
	run -s commands.exec=./s.sh -- true
	is "$status" 125 'a relative path is refused'
	like "$err" 'absolute path' 'in words'
	run -s commands.exec=sh -s syscalls.nested-namespaces=yes -- sh -c 'echo RAN'
	is "$status $out" '125 ' 'with nested-namespaces it cannot be kept: refused'
	run -s commands.exec=sh -s commands.allow=sh -- sh -c 'echo both; ls'
	is "$out" both 'allow and exec together'
}

tests() {
	prefixes
	quotes
	if "$AB" doctor | grep -q '^missing *landlock'; then
		run -s commands.exec=sh -- sh -c 'echo RAN'
		is "$status $out" '125 ' 'without Landlock exec is refused'
		skip landlock 'commands.exec'
	else
		executed
	fi
}

[ -n "${TEST_CHILD-}" ] || cp "$here/man/agentbox.ini.5" "$SCRATCH/manual"
for_each_user tests
done_testing
