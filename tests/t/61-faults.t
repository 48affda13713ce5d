#!/bin/bash
# System calls of the setup and of the end failing, one at a time, in the supervisor, pid 1, the command's process before it is
# the command, the gateway and its resolver: either nothing runs (125, a message with object and reason, a valid record,
# nothing is left), or the command is confined as without the fault. FAULTS=all: every one, for some minutes (`make faults`);
# otherwise the first of each kind and some of the others.
. "$(dirname "$0")/../lib/net.sh"

# What is tried and how it is judged: tests/lib/faults.py. It prints TAP, but for numbers and users.
faults() {
	local name=$1 stride=$2 line
	local -a how=(--stride "$stride") connect=()

	shift 2
	[ "${FAULTS-}" != all ] || how=()
	case $name in gateway | host) connect=(--connect file.test) ;; esac
	while IFS= read -r line; do
		case $line in
		'ok '*) pass "${line#ok }" ;;
		'not ok '*) fail "${line#not ok }" ;;
		*) printf '%s\n' "$line" ;;
		esac
	done < <(python3 "$SCRATCH/tests/lib/faults.py" ${how[@]+"${how[@]}"} ${connect[@]+"${connect[@]}"} "$name" "$PROBES/fault" \
		"$AB" "$T" "$PROBES/confined" "$@" || echo "not ok $name: faults.py came to its end")
}

tests() {
	rm -f "$T/out" "$T/err"
	faults overlay 13 -s limits.open-files=100
	faults gateway 37 --allow file.test:9
	if [ "$(id -u)" -eq 0 ] && box -q -s egress.mode=host -- true 2>/dev/null; then
		faults host 61 -s egress.mode=host --allow file.test:9
	fi
	[ "$(id -u)" -eq 0 ] || [ "${FAULTS-}" = all ] || return 0
	faults write 61 -s workspace.repo-mode=write -s filesystem.deny=README -s output.capture=yes
	faults read 61 -s workspace.repo-mode=read -s filesystem.deny=src
}

for_each_user tests
done_testing
