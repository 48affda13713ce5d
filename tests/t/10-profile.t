#!/bin/sh
# The profile language as a user meets it: check, show, the golden key table, the manual made from it.
# $AGENTBOX is the binary under test.
set -u

here=$(cd "$(dirname "$0")/../.." && pwd)
: "${AGENTBOX:=$here/build/agentbox}"
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
export AGENTBOX_PROFILES="$here/profiles" HOME="$t/home" XDG_CONFIG_HOME="$t/config"
unset AGENTBOX_PROFILE
n=0

# ok NAME: the status of the command before it.
ok() {
	if [ "$2" -eq 0 ]; then r=ok; else r='not ok'; fi
	n=$((n + 1))
	echo "$r $n - $1"
}

# same NAME WANT GOT, both files, neither empty.
same() {
	[ -s "$2" ] && diff -u "$2" "$3" >"$t/diff" 2>&1
	r=$?
	[ $r -eq 0 ] || head -40 "$t/diff" | sed 's/^/# /'
	ok "$1" $r
}

# run STATUS COMMAND...: runs it into $t/out and $t/err; true where the status is that.
run() {
	want=$1
	shift
	"$@" >"$t/out" 2>"$t/err"
	got=$?
	[ $got -eq "$want" ] || {
		echo "# status $got, not $want: $*"
		sed 's/^/# /' "$t/err"
		return 1
	}
}

# --- the installed profiles ---
for p in "$here"/profiles/*.ini; do
	name=$(basename "$p" .ini)
	run 0 "$AGENTBOX" check "$name" && [ ! -s "$t/out" ] && [ ! -s "$t/err" ]
	ok "profile $name is clean and built" $?
	# show prints a profile that loads and shows the same.
	run 0 "$AGENTBOX" show -p "$name" && grep -v '^#' "$t/out" >"$t/a" && cp "$t/out" "$t/shown.ini" &&
		run 0 "$AGENTBOX" show -p "$t/shown.ini" && grep -v '^#' "$t/out" >"$t/b" && cmp -s "$t/a" "$t/b"
	ok "profile $name printed reads back to the same" $?
	# The README's table: name, project, network.
	"$AGENTBOX" show -p "$name" | awk '/^repo-mode = / { r = $3 } /^mode = / { m = $3 } END { print r, m }' >"$t/want"
	awk -v name="$name" '$1 == name { print $2, $3 == "none" ? $3 : "gateway" }' "$here/README" >"$t/got"
	same "profile $name stands in the README with what it opens" "$t/want" "$t/got"
done

run 0 "$AGENTBOX" show -p review && grep -qx 'repo-mode = read' "$t/out"
ok "review does not write to the project" $?
run 0 "$AGENTBOX" show && grep -qx 'mode = none' "$t/out" && grep -qx 'repo-mode = overlay' "$t/out"
ok "default has no network and an overlay" $?

# --- the table, and what is made from it ---
run 0 "$AGENTBOX" show --keys
same "show --keys is tests/golden/keys.txt (a change of the language is a change of that file)" \
	"$here/tests/golden/keys.txt" "$t/out"
run 0 "$here/scripts/man-keys" "$AGENTBOX" "$here/man/agentbox.ini.5"
same "the manual's key section is made from the table (scripts/man-keys)" "$here/man/agentbox.ini.5" "$t/out"
run 0 "$here/scripts/fuzz-dict" "$AGENTBOX"
same "the fuzzer's dictionary is made from the table (scripts/fuzz-dict)" "$here/tests/fuzz/profile.dict" "$t/out"

# --- check ---
cat >"$t/bad.ini" <<'EOF'
[profile]
extends = nosuch
[egress]
alow = a
[egres]
[limits]
memory = 12X
grace = 1s
grace = 2s
EOF
cat >"$t/want" <<EOF
$t/bad.ini:2: [profile] extends: nosuch: no such profile in $t, $here/profiles, $t/config/agentbox/profiles,
$t/bad.ini:4: [egress] alow: no such key; did you mean allow?
$t/bad.ini:5: [egres]: no such section; did you mean [egress]?
$t/bad.ini:7: [limits] memory: \`12X\` is no size; write a whole number with K, M, G or T behind it, as 512M
$t/bad.ini:9: [limits] grace: given twice, first in line 8; take one of them out
EOF
run 1 "$AGENTBOX" check "$t/bad.ini"
ok "check of a profile with faults is 1" $?
# Which folders a missing profile was looked for in ends with those of the system.
sed 's|\(config/agentbox/profiles,\).*|\1|' "$t/out" >"$t/got"
same "all faults in one go, each with file and line" "$t/want" "$t/got"

run 1 "$AGENTBOX" check base "$t/bad.ini" review && [ "$(wc -l <"$t/out")" -eq 5 ]
ok "one bad profile among good ones is 1, and the good ones say nothing" $?
run 1 "$AGENTBOX" check "$t/none.ini" && grep -q "cannot read the profile $t/none.ini: No such file" "$t/out"
ok "a profile that cannot be read is a fault" $?
run 1 "$AGENTBOX" check reviw && grep -qx 'reviw: no such profile; did you mean review?' "$t/out"
ok "a mistyped profile gets the nearest" $?
printf '[limits]\nmemory = 1G\n' >"$t/fix.ini"
(cd "$t" && "$AGENTBOX" show -p fix.ini) >"$t/out" 2>&1
[ $? -eq 125 ] && grep -qx 'agentbox: fix.ini: no such profile; did you mean ./fix.ini?' "$t/out"
ok "a file in the directory is named with its /" $?
(cd "$t" && "$AGENTBOX" show -p fix) >"$t/out" 2>&1
[ $? -eq 125 ] && grep -q 'did you mean ./fix.ini?' "$t/out"
ok "without its .ini, too" $?
(cd "$t" && "$AGENTBOX" show -p ./fix.ini) >"$t/out" 2>&1
ok "and so it is found" $?
printf '[profile]\nextends = fix.ini\n' >"$t/ext.ini"
run 1 "$AGENTBOX" check "$t/ext.ini" && grep -q 'fix.ini: no such profile; did you mean ./fix.ini?' "$t/out"
ok "beside the file that extends it" $?
rm "$t/fix.ini" "$t/ext.ini"
for words in 'run -p' 'run --profile' 'why -p'; do
	# shellcheck disable=SC2086
	run 125 "$AGENTBOX" $words '' read /etc && grep -q -e '--profile: no name' "$t/err"
	ok "$words '': a fault, and not the default" $?
done
run 125 "$AGENTBOX" show -p '' && grep -q -e '--profile: no name' "$t/err"
ok "show -p '': too" $?
AGENTBOX_PROFILE='' "$AGENTBOX" show >"$t/out" 2>"$t/err"
ok 'an empty $AGENTBOX_PROFILE is none' $?
run 125 "$AGENTBOX" check
ok "check without a profile is 125" $?

# inih would take the tail of an overlong line for a line of its own.
{
	echo '[filesystem]'
	printf 'read = /x%*s\n' 191 ''
	echo '[egress]'
	printf '# %*sallow = *\n' 197 ''
} >"$t/padded.ini"
run 1 "$AGENTBOX" check "$t/padded.ini" && [ "$(grep -c '199 are the most' "$t/out")" -eq 2 ]
ok "overlong lines are faults" $?
printf '[limits]\r\nmemory = 1G\r\n' >"$t/crlf.ini"
run 0 "$AGENTBOX" show -p "$t/crlf.ini" && grep -qx 'memory = 1G' "$t/out"
ok "CRLF ends a line" $?

printf '[output]\nhead = 1K\n' >"$t/alone.ini"
run 1 "$AGENTBOX" check "$t/alone.ini" && grep -q 'alone.ini:2: \[output\] head: output is neither cut nor stored' "$t/out"
ok "a cut of output that is not captured is a fault" $?

# --- show ---
run 0 "$AGENTBOX" show -p "$t/crlf.ini" -s limits.memory=2G -s filesystem.read=/opt &&
	grep -qx -B1 'memory = 2G' "$t/out" && grep -qx -A1 -e '# --set' "$t/out" && grep -qx 'read = /opt' "$t/out"
ok "--set overrides and adds, and is named as the origin" $?
run 125 "$AGENTBOX" show -p "$t/bad.ini" && [ "$(grep -c '^/' "$t/err")" -eq 5 ] && [ ! -s "$t/out" ]
ok "show of a profile with faults is 125, with all of them" $?
run 125 "$AGENTBOX" show -s limits.memry=1G && grep -q 'did you mean memory?' "$t/err"
ok "--set of an unknown key is 125 and names the nearest" $?
run 0 env AGENTBOX_PROFILE=review "$AGENTBOX" show && grep -qx 'name = review' "$t/out"
ok "AGENTBOX_PROFILE names the profile" $?
if command -v python3 >/dev/null; then
	run 0 "$AGENTBOX" show --json -s limits.cpus=1.5 && python3 -c '
import json, sys
p = json.load(open(sys.argv[1]))
assert p["limits"]["cpus"] == {"value": 1.5, "from": "--set"}, p["limits"]["cpus"]
assert p["environment"]["pass"]["value"][0] == "LANG"
' "$t/out"
	ok "show --json is JSON" $?
else
	n=$((n + 1))
	echo "ok $n # SKIP needs python3"
fi
if [ -w /dev/full ]; then
	"$AGENTBOX" show --keys >/dev/full 2>"$t/err"
	[ $? -eq 125 ] && grep -q 'cannot write to standard output' "$t/err"
	ok "output that cannot be written is said" $?
else
	n=$((n + 1))
	echo "ok $n # SKIP needs /dev/full"
fi

# A file in the current folder is not a profile by its name alone.
mkdir "$t/repo" && printf '[limits]\nmemory = 7M\n' >"$t/repo/default.ini"
(cd "$t/repo" && run 0 "$AGENTBOX" show && ! grep -q 'memory = 7M' "$t/out")
ok "a default.ini in the current folder is not loaded" $?

echo "1..$n"
