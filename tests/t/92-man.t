#!/bin/sh
# agentbox(1) against what the binary says of itself: every command and every option, with its letter and its words, stands
# in the manual under its command, and nothing else does. $AGENTBOX is the binary under test.
set -u

here=$(cd "$(dirname "$0")/../.." && pwd)
: "${AGENTBOX:=$here/build/agentbox}"
page=$here/man/agentbox.1
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
n=0

# same NAME: $t/want and $t/got are the same and not empty.
same() {
	n=$((n + 1))
	if [ -s "$t/want" ] && diff -u "$t/want" "$t/got" >"$t/diff"; then
		echo "ok $n - $1"
	else
		sed 's/^/# /' "$t/diff"
		echo "not ok $n - $1"
	fi
}

# "  name   text" of the list of commands.
"$AGENTBOX" help | sed -n 's/^  \([a-z]*\)  .*/\1/p' >"$t/commands"

sort "$t/commands" >"$t/want"
sed -n 's/^\.Ss \([a-z]*\)$/\1/p' "$page" | sort >"$t/got"
same "each command has its part"

sed -n 's/^\.Cm \([a-z]*\)$/\1/p' "$page" | sed -n "1,$(wc -l <"$t/commands")p" >"$t/got"
cp "$t/commands" "$t/want"
same "the synopsis has the commands in the order of the table"

# "-p, --profile NAME|PATH" of help COMMAND, and ".It Fl p , Fl -profile Ar NAME|PATH" of the manual.
while read -r command; do
	{
		echo "$command"
		"$AGENTBOX" help "$command" | sed -n 's/^  \(-., \|    \)\(--[a-z-]*\( [^ ][^ ]*\)*\).*/\1\2/p' | sed 's/^ *//'
	} >"$t/want"
	{
		echo "$command"
		sed -n "/^\.Ss $command\$/,/^\.S[sh] /p" "$page" |
			sed -n 's/^\.It Fl \(. , \)*\(.*\)/\1\2/p' |
			sed 's/^\(.\) , /-\1, /; s/Fl -/--/; s/^-\([a-z][a-z]\)/--\1/; s/ Ar / /g'
	} >"$t/got"
	same "the options of $command"
done <"$t/commands"

# The synopsis of each command names no option that it does not have.
while read -r command; do
	"$AGENTBOX" help "$command" >"$t/help"
	for option in $(sed -n '/^\.Sh SYNOPSIS/,/^\.Sh DESC/p' "$page" |
		sed -n "/^\.Cm $command\$/,/^\.Nm\$/p" | grep -o -e '-[a-z][a-z-]*'); do
		grep -q -e "-$option\b" "$t/help" || echo "$command -$option"
	done
done <"$t/commands" >"$t/got"
n=$((n + 1))
if [ -s "$t/got" ]; then
	sed 's/^/# no such option: /' "$t/got"
	echo "not ok $n - the synopsis has options that are there"
else
	echo "ok $n - the synopsis has options that are there"
fi

# --help and -h of a command say what `help COMMAND` says, before and (where options may stand there) behind the operands.
while read -r command; do
	"$AGENTBOX" help "$command" >"$t/want"
	"$AGENTBOX" "$command" --help >"$t/got" 2>&1 && "$AGENTBOX" "$command" -h >>"$t/got" 2>&1 && echo good >>"$t/got"
	{
		cat "$t/want" "$t/want"
		echo good
	} >"$t/twice"
	mv "$t/twice" "$t/want"
	same "$command --help, $command -h"
done <"$t/commands"
"$AGENTBOX" help stop >"$t/want"
"$AGENTBOX" stop nosuch --grace 1s --help >"$t/got" 2>&1
same "stop RUN --grace 1s --help"
echo "1..$n"
