#!/bin/bash
# Every command block of the README, run as it stands: blocks of ```sh and ```python in a small project, those of
# ```sh checkout in this tree. Lines that begin with #> are what the block prints, among other things, in that order.
# `sudo` is a stand-in and DESTDIR a scratch directory; scripts/test, which runs this test, is not run once more.
set -u

here=$(cd "$(dirname "$0")/../.." && pwd)
: "${AGENTBOX:=$here/build/agentbox}" "${BUILD:=$here/build}"
t=$(mktemp -d "${TMPDIR:-/tmp}/agentbox-readme.XXXXXX")
trap 'rm -rf "$t"' EXIT
mkdir -m 0700 "$t/home" "$t/bin" "$t/project" "$t/dest"
cp "$AGENTBOX" "$t/bin/agentbox"
printf '#!/bin/sh\nexec "$@"\n' >"$t/bin/sudo"
chmod +x "$t/bin/sudo"
# Of make, which runs this, nothing is to reach the make of a block.
unset MAKEFLAGS MFLAGS MAKEOVERRIDES MAKELEVEL AGENTBOX_PROFILE AGENTBOX_STATE XDG_STATE_HOME XDG_CONFIG_HOME
export HOME="$t/home" PATH="$t/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin" BUILD DESTDIR="$t/dest"
export AGENTBOX_PROFILES="$here/profiles" GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_COUNT=1
export GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0='*'

cd "$t/project" || exit 1
git init -q .
printf 'all:\ncheck:\n\t@echo checked\n' >Makefile
git add Makefile
git -c user.name=Test -c user.email=test@example.org commit -q -m first

# block-NN.KIND for every fence, numbered by its line.
awk -v dir="$t" '
	/^```/ && out { close(out); out = ""; next }
	/^```/ {
		kind = substr($0, 4)
		gsub(/ /, "-", kind)
		out = sprintf("%s/block-%03d.%s", dir, NR, kind)
		printf "" >out
		next
	}
	out { print >out }
	END { if (out) { print "# a block is not closed"; exit 1 } }
' "$here/README" || exit 1

n=0
for block in "$t"/block-*; do
	n=$((n + 1))
	name=${block##*/block-}
	case $name in
	*.sh) (cd "$t/project" && bash -eu "$block") ;;
	*.python) (cd "$t/project" && python3 "$block") ;;
	*.sh-checkout)
		sed 's|^scripts/test\b|test -x scripts/test|' "$block" >"$t/run"
		(cd "$here" && bash -eu "$t/run")
		;;
	*)
		echo "what is a block of ${name#*.}?" >&2
		false
		;;
	esac </dev/null >"$t/out" 2>"$t/err"
	status=$?
	# What is said to be printed is printed, in that order.
	missing=$(awk '
		NR == FNR { if (sub(/^#> /, "")) want[++wants] = $0; next }
		at < wants && $0 == want[at + 1] { at++ }
		END { if (at < wants) print want[at + 1] }
	' "$block" "$t/out")
	if [ "$status" -eq 0 ] && [ -z "$missing" ]; then
		echo "ok $n - README line ${name%%.*}: ${name#*.}"
	else
		echo "# status $status${missing:+, not printed: $missing}"
		tail -n 30 "$t/out" | sed 's/^/# out: /'
		tail -n 30 "$t/err" | sed 's/^/# err: /'
		echo "not ok $n - README line ${name%%.*}: ${name#*.}"
	fi
done
echo "1..$n"
