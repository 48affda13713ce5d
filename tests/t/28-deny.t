#!/bin/bash
# filesystem.deny: literal, glob, absent, link, by the host's and by the box's path; thousands of rules.
. "$(dirname "$0")/../lib/lib.sh"

# closed NAME PATH [options]: not to be read, listed, written or replaced in the box, and readable outside.
closed() {
	local name=$1 path=$2 host=$3

	shift 3
	outside sh -c 'cat "$1" || ls "$1"' sh "$host"
	is "$status" 0 "$name: (readable outside)"
	run "$@" --setenv P "$path" -- sh -c '
		cat "$P" && echo READ; ls "$P"/ && echo LISTED; echo evil >>"$P" && echo WRITTEN; echo evil >"$P/x" && echo CREATED
		rm -rf "$P" && echo REMOVED; perl -e "rename shift, shift and print q(MOVED)" "$P" "$P.moved"
		mkdir fresh; perl -e "rename q(fresh), shift and print q(REPLACED)" "$P"; chmod 0777 "$P" && echo CHMOD; test -e "$P" && echo there'
	unlike "$out" 'SECRET|READ|LISTED|WRITTEN|CREATED|REMOVED|MOVED|REPLACED' "$name: closed"
	like "$out" there "$name: and there"
}

files() {
	local mode

	for mode in overlay write read; do
		mkdir -p keys/deep conf
		echo SECRET | tee keys/a.pem keys/b.pem keys/deep/c.pem conf/.env .env top.key >keys/plain
		closed "a file ($mode)" top.key top.key -s "workspace.repo-mode=$mode" -s filesystem.deny=top.key
		closed "a directory ($mode)" keys keys -s "workspace.repo-mode=$mode" -s filesystem.deny=keys
		closed "a file in a directory ($mode)" keys/deep/c.pem keys/deep/c.pem -s "workspace.repo-mode=$mode" -s filesystem.deny=keys/deep/c.pem
		closed "a glob ($mode)" keys/b.pem keys/b.pem -s "workspace.repo-mode=$mode" -s 'filesystem.deny=keys/*.pem'
		closed "a glob at any depth ($mode)" keys/deep/c.pem keys/deep/c.pem -s "workspace.repo-mode=$mode" -s 'filesystem.deny=**/*.pem'
		run -s "workspace.repo-mode=$mode" -s 'filesystem.deny=keys/*.pem' -- cat keys/plain keys/deep/c.pem
		is "$status $(echo $out)" '0 SECRET SECRET' "a glob closes no more than it says ($mode)"
		run -s "workspace.repo-mode=$mode" -s 'filesystem.deny=**/.env' -- sh -c 'cat .env conf/.env'
		isnt "$status" 0 "**/NAME ($mode)"
		unlike "$out" SECRET "**/NAME: here and below ($mode)"
		git clean -qfdx
	done
}

# What agentbox.ini(5), Globs, says: which of these files stay open under a pattern.
globs() {
	local pattern open

	mkdir -p a/b/.x d/e
	ln -s a link
	echo SECRET | tee .env a/.env a/b/k.pem a/b/.x/k.pem k.pem >d/e/f
	while read -r pattern open; do
		run -s "filesystem.deny=$pattern" -- sh -c 'for f in .env a/.env a/b/k.pem a/b/.x/k.pem k.pem d/e/f; do
			cat "$f" >/dev/null 2>&1 && echo "$f"; done; echo x >a/made.pem; cat a/made.pem'
		is "$(echo $out)" "$open x" "deny = $pattern"
	done <<-'END'
		.env a/.env a/b/k.pem a/b/.x/k.pem k.pem d/e/f
		*/.env .env a/b/k.pem a/b/.x/k.pem k.pem d/e/f
		**/.env a/b/k.pem a/b/.x/k.pem k.pem d/e/f
		.* a/.env a/b/k.pem a/b/.x/k.pem k.pem d/e/f
		*env a/.env a/b/k.pem a/b/.x/k.pem k.pem d/e/f
		*.pem .env a/.env a/b/k.pem a/b/.x/k.pem d/e/f
		**/*.pem .env a/.env d/e/f
		a/?/k.pem .env a/.env a/b/.x/k.pem k.pem d/e/f
		a/**/k.pem .env a/.env k.pem d/e/f
		a/b/** .env a/.env k.pem d/e/f
		link/** .env k.pem d/e/f
		l*/.env .env a/.env a/b/k.pem a/b/.x/k.pem k.pem d/e/f
		[!a-c] .env a/.env a/b/k.pem a/b/.x/k.pem k.pem
		[d-z]/e .env a/.env a/b/k.pem a/b/.x/k.pem k.pem
	END
	rm -rf .env a d k.pem link
}

absent() {
	local before

	before=$(ls -A | xargs)
	for mode in overlay write; do
		run -s "workspace.repo-mode=$mode" -s filesystem.deny=absent -s filesystem.deny=no/such/place -- \
			sh -c 'echo x >absent && echo MADE; mkdir absent && echo MADE; mkdir -p no/such/place && echo x >no/such/place/f && echo MADE; ln -s README absent/x && echo MADE; cat absent no/such/place; echo end'
		is "$status $(echo $out)" '0 end' "a name that is not there cannot come into being ($mode)"
		run -s "workspace.repo-mode=$mode" -s filesystem.deny=src/absent -- sh -c 'echo x >src/absent && echo MADE; echo y >src/new && cat src/new; mv src other && echo MOVED; mkdir -p src2/d && echo end'
		is "$status $(echo $out)" '0 y end' "nor in a directory that is ($mode)"
		is "$(ls -A | grep -v src2 | xargs)" "$before" "and nothing appeared on the host ($mode)"
		rm -rf src2 src/new
	done
	run -s workspace.repo-mode=read -s filesystem.deny=absent -- true
	is "$status" 0 'in a project that is read-only an absent name needs nothing'
}

names() {
	mkdir -p "$T/data/in" real
	echo SECRET | tee "$T/data/in/key" >real/key
	closed 'by the host'\''s path, granted elsewhere' /workspace/scratch/d/in/key "$T/data/in/key" \
		-s "filesystem.write=$T/data:/workspace/scratch/d" -s "filesystem.deny=$T/data/in/key"
	closed 'by the box'\''s path' /workspace/scratch/d/in/key "$T/data/in/key" \
		-s "filesystem.write=$T/data:/workspace/scratch/d" -s filesystem.deny=/workspace/scratch/d/in/key
	closed 'a repository file by the host'\''s path' real/key real/key -s "filesystem.deny=$repo/real/key"
	closed 'a repository file by the box'\''s path' real/key real/key -s filesystem.deny=/workspace/repo/real/key
	run -s "filesystem.write=$T/data:/workspace/scratch/a" -s "filesystem.read=$T/data:/workspace/scratch/b" \
		-s "filesystem.deny=$T/data/in/key" -- sh -c 'cat /workspace/scratch/?/in/key'
	unlike "$out" SECRET 'two grants of one directory: closed in both'
	run --ro-bind "$T/data/in/key" /workspace/scratch/k -s "filesystem.deny=$T/data/in/key" -- cat /workspace/scratch/k
	unlike "$out" SECRET 'deny wins over a grant of the file itself'
	run --ro-bind "$T/data" /workspace/scratch/d -s "filesystem.deny=$T/data" -- cat /workspace/scratch/d/in/key
	unlike "$out" SECRET 'and over one of its directory'
	# Links: as the name of the rule, on the way, and to what it names.
	ln -s real/key link
	ln -s real linkdir
	ln -s key real/link
	closed 'a link by its own name' real/key real/key -s filesystem.deny=link
	closed 'through a linked directory' real/key real/key -s filesystem.deny=linkdir/key
	run -s filesystem.deny=real/key -- sh -c 'cat link linkdir/key real/link'
	unlike "$out" SECRET 'what leads there by links is closed as well'
	echo key >.envrc
	run -s workspace.repo-mode=write -s filesystem.deny=.envrc -- sh -c 'cat .envrc; echo x >.envrc; mv .envrc y; rm -f .envrc; echo ran'
	is "$status $out $(cat .envrc)" '0 ran key' 'a path that is denied and protected'
	rm .envrc
	run -s filesystem.deny=link -- sh -c 'rm -f link; ln -s real/key link2; cat link2; cp real/key c; cat c; true'
	unlike "$out" SECRET 'nor is it read by a new link'
	ln -s /etc/passwd etc
	run -s filesystem.deny=etc -- cat etc
	isnt "$status" 0 'a link out of the project is closed itself'
	run -s filesystem.deny=/usr/bin/perl -- /usr/bin/perl -e 1
	is "$status" 126 'a program of the host'\''s: not executable'
	run -s filesystem.deny=/bin/perl -- /usr/bin/perl -e 1
	isnt "$status" 0 'by its name through merged /usr, too'
	run -s filesystem.deny=/etc/ssl -- ls /etc/ssl
	isnt "$status" 0 '/etc/ssl'
	run -s filesystem.deny=/tmp/x -s filesystem.deny=/proc/meminfo -- sh -c 'echo x >/tmp/x && echo MADE; cat /proc/meminfo && echo READ; echo end'
	is "$status $out" '0 end' 'in the box'\''s own /tmp and /proc'
	mkdir -p "$T/home/.ssh"
	echo SECRET >"$T/home/.ssh/id"
	run -s 'filesystem.read=~' -s 'filesystem.deny=~/.ssh' -- sh -c 'ls -A "$1"; cat "$1/.ssh/id"' sh "$HOME"
	like "$out" 'gitconfig' '~ is the caller'\''s home'
	unlike "$out" SECRET 'and ~/.ssh closed in it'
	run -- sh -c 'ls "$1"; cat "$1"/*/*' sh "$AGENTBOX_STATE"
	is "$out" '' 'the record of the runs is not shown'
	run --ro-bind "$T" /workspace/scratch/t -- ls /workspace/scratch/t/state
	isnt "$status" 0 'whatever is granted above it'
	rm -rf "$T/data" "$T/home/.ssh"
	git clean -qfdx
}

# best OPTIONS...: the least of five starts of true, in microseconds: of the clock, and of the CPU.
best() {
	local i t cpu clock=999999999 least=999999999 TIMEFORMAT='%U %S'

	for i in 1 2 3 4 5; do
		t=${EPOCHREALTIME/[.,]/}
		cpu=$({ time box "$@" -- true </dev/null >/dev/null 2>&1; } 2>&1) || return 1
		t=$((${EPOCHREALTIME/[.,]/} - t))
		cpu=$(awk '{ printf "%d", ($1 + $2) * 1000000 }' <<<"$cpu")
		[ "$clock" -le "$t" ] || clock=$t
		[ "$least" -le "$cpu" ] || least=$cpu
	done
	echo "$clock $least"
}

many() {
	local rules zero half full zero_cpu half_cpu full_cpu

	mkdir many
	seq -f 'many/%g' 2000 | xargs touch
	for rules in 0 1000 2000; do
		{
			printf '[profile]\nextends = default\n[filesystem]\n'
			[ "$rules" -eq 0 ] || seq -f "deny = $repo/many/%g" "$rules"
		} >"$T/$rules.ini"
	done
	run -p "$T/2000.ini" -- sh -c 'for i in 1 77 1000 1999 2000; do cat many/$i && exit 1; done 2>/dev/null; exit 0'
	is "$status" 0 '2,000 files are closed'
	read -r zero zero_cpu < <(best -p "$T/0.ini")
	read -r half half_cpu < <(best -p "$T/1000.ini")
	read -r full full_cpu < <(best -p "$T/2000.ini")
	diag "starts: $zero us ($zero_cpu of CPU) without rules, $half ($half_cpu) with 1,000, $full ($full_cpu) with 2,000"
	# On a machine that does other things the clock says what those take, too; the time on the CPU does not.
	[ "$full" -lt 100000 ] || full=$full_cpu
	cmp_ok "$full" -lt 100000 '2,000 rules start in under 0.1 s'
	# Twice the rules, twice the cost; a quadratic one would be four times. 10 ms for what the measure is off by.
	cmp_ok $((full_cpu - zero_cpu)) -lt $((3 * (half_cpu > zero_cpu ? half_cpu - zero_cpu : 0) + 10000)) 'and the cost is linear'
	run -s 'filesystem.deny=many/*' -- sh -c 'cat many/1 many/2000'
	isnt "$status" 0 'as are 2,000 of one glob'
	rm -r many "$T"/*.ini
}

tests() {
	files
	globs
	absent
	names
	many
}

for_each_user tests
done_testing
