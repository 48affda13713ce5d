#!/bin/bash
# The environment: from nothing, by the profile; case 62 (no trace of what is not passed); A10 (loader variables).
. "$(dirname "$0")/../lib/lib.sh"

value=sEcReT$RANDOM$RANDOM

tests() {
	local name

	printf '%s\n' "$value" >"$T/value"
	export TOKEN="$value" LANG=C.UTF-8 LC_TIME=C NPM_TOKEN="$value" NPM_CONFIG_COLOR=never EDITOR=vi

	run -- env
	is "$(cut -d= -f1 "$T/out" | grep -Ev '^(LANG|LC_.*|PWD|_|SHLVL|OLDPWD)$' | sort | xargs)" \
		'AGENTBOX AGENTBOX_RUN HOME LOGNAME PATH TMPDIR USER' 'from nothing: what the box sets itself'
	like "$out" '^LC_TIME=C$' 'and what the default profile passes'
	like "$out" '^HOME=/workspace/scratch/home$' 'HOME'
	like "$out" '^TMPDIR=/workspace/scratch/tmp$' 'TMPDIR'
	like "$out" '^AGENTBOX=1$' 'AGENTBOX=1'
	like "$out" "^AGENTBOX_RUN=$(basename "$(run_dir)")\$" 'AGENTBOX_RUN'
	outside env
	like "$out" "TOKEN=$value" '(outside the token is there)'

	run -s environment.pass=EDITOR -s 'environment.pass=NPM_CONFIG_*' -- env
	like "$out" '^EDITOR=vi$' 'pass = NAME'
	like "$out" '^NPM_CONFIG_COLOR=never$' 'pass = PREFIX*'
	unlike "$out" "$value" 'and no more than that'
	run -s environment.pass=EDIT -s 'environment.pass=*DITOR' -- env
	unlike "$out" '^EDITOR' 'a prefix needs its *, and * stands at the end only'
	run -s 'environment.pass=*' -- env
	like "$out" "^TOKEN=$value" 'pass = * passes all'
	run -s environment.pass=none -s environment.pass=EDITOR -- env
	unlike "$out" '^LC_TIME=' 'none empties the inherited list'
	run -s environment.set=EDITOR=ed -s 'environment.set=EMPTY=' -s 'environment.set=EQ=a=b c' -s environment.pass=EDITOR -- env
	like "$out" '^EDITOR=ed$' 'set wins over pass'
	like "$out" '^EMPTY=$' 'an empty value'
	like "$out" '^EQ=a=b c$' 'a value with = and blanks'
	run -s environment.set=A=1 --setenv A 2 --setenv B 3 --unsetenv LANG --setenv AGENTBOX 0 --setenv AGENTBOX_RUN x -- env
	like "$out" '^A=2$' '--setenv wins over set'
	like "$out" '^B=3$' '--setenv'
	unlike "$out" '^LANG=' '--unsetenv'
	like "$out" '^AGENTBOX=1$' 'AGENTBOX says the truth'
	unlike "$out" '^AGENTBOX_RUN=x' 'AGENTBOX_RUN, too'
	run --setenv A 1 --setenv B 1 --unsetenv A --unsetenv B --setenv B 2 --unsetenv NOSUCH -- env
	unlike "$out" '^A=' '--setenv A 1 --unsetenv A: the later wins'
	like "$out" '^B=2$' 'and the other way round'
	run -s environment.set=A=1 --unsetenv A -- env
	unlike "$out" '^A=' '--unsetenv removes what the profile sets'
	for name in '' A=B; do
		run --unsetenv "$name" -- true
		is "$status" 125 "--unsetenv '$name': 125"
	done
	run --setenv A=B c -- true
	is "$status" 125 '--setenv with = in the name: 125'
	# shellcheck disable=SC2016
	run --setenv X '$HOME' -- sh -c 'echo "$X"'
	is "$out" '$HOME' '--setenv takes a value as it stands'
	run -s environment.set=PATH=/nowhere -- sh -c true
	is "$status" 127 'the PATH of the box is where the command is looked for'
	run -s environment.set=PATH=/workspace/repo/tools -- /bin/sh -c true
	is "$status" 0 '(and an absolute one needs none)'

	# Case 62: not in any memory that the box can look at, and not in any argv outside.
	run -- sh -c 'cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline | tr "\0" "\n"; cat /proc/1/auxv'
	unlike "$out" "$value" 'case 62: a variable that is not passed is in no environ and no cmdline of the box'
	like "$out" 'AGENTBOX=1' 'case 62: (environs were read)'
	run -- perl -e '
		open my $m, "<", "/proc/1/mem" or exit 0;
		open my $l, "<", "/proc/1/maps"; while (<$l>) { /^(\w+)-(\w+) r/ or next; seek $m, hex $1, 0; read $m, my $b, hex($2) - hex $1; print $b }'
	unlike "$out" "$value" 'case 62: nor in the memory of pid 1'
	background -s environment.pass=TOKEN -- sh -c 'echo up; exec sleep 20'
	until_true 5 grep -q up "$T/out"
	is "$(cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\0' '\n' | grep -cf "$T/value")" 0 'case 62: a passed one is in no argv outside'
	is "$(grep -c "$value" "$(run_dir)/run.json" "$(run_dir)/events.jsonl" | grep -vc ':0')" 0 'case 62: nor in the record'
	kill -TERM "$pid"
	finish
	run --dry-run -s environment.pass=TOKEN -- true
	like "$out" 'TOKEN' '--dry-run names the variables'
	unlike "$out" "$value" 'and not their values'

	# A10
	capture env LD_PRELOAD= LD_DEBUG=none LD_BIND_NOW=1 LD_LIBRARY_PATH="$T" GLIBC_TUNABLES=glibc.malloc.check=1 GCONV_PATH="$T" LOCPATH="$T" \
		MALLOC_TRACE="$T/trace" "$AB" run -s 'environment.pass=*' -- env
	unlike "$out" '^(LD_|GLIBC_TUNABLES|GCONV_PATH|LOCPATH|MALLOC_TRACE)' 'A10: loader variables are not passed, even by *'
	like "$out" '^EDITOR=vi' 'A10: (the rest is)'
	run -s environment.set=LD_BIND_NOW=1 -- sh -c 'echo "$LD_BIND_NOW"'
	is "$out" 1 'A10: but a profile may set one: it acts in the box'
	capture env -i PATH="$PATH" HOME="$HOME" AGENTBOX_STATE="$AGENTBOX_STATE" AGENTBOX_PROFILES="$AGENTBOX_PROFILES" "$AB" run -- true
	is "$status" 0 'a caller with next to no environment'
	capture env -u HOME "$AB" run -- sh -c 'cd && pwd'
	is "$status $out" '0 /workspace/scratch/home' 'and one without HOME'
}

for_each_user tests
done_testing
