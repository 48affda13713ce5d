#!/bin/bash
# Protected paths and what stays on the host: cases 36, 37, 38, 39; nested repositories and submodules; kill -9.
. "$(dirname "$0")/../lib/lib.sh"

write=(-s workspace.repo-mode=write)

# The names and kinds of everything in a directory, and what the files hold.
snapshot() { (cd "$1" && find . -printf '%y %m %p %l\n' | sort && find . -type f -print0 | sort -z | xargs -0 sha256sum); }

existing() {
	local p

	mkdir -p .vscode .husky
	echo '{}' >.vscode/tasks.json
	echo true >.envrc
	snapshot . >"$T/before"
	cat >"$T/try.sh" <<'END'
# Not mv: where a rename fails it copies.
ren() { perl -e 'exit !rename($ARGV[0], $ARGV[1])' "$1" "$2"; }
for p in .git/config .git/hooks/pre-commit .vscode/tasks.json .envrc .husky/pre-push .vscode/new .git/hooks/new; do
	echo evil >"$p" && echo "WROTE $p"
	echo evil >>"$p" && echo "APPENDED $p"
	test -e "$p" && rm -f "$p" && echo "REMOVED $p"
	echo evil >tmp$$ && mv -f tmp$$ "$p" && echo "REPLACED $p"
	ln -f README "$p" && echo "LINKED $p"
	ln -sf README "$p" && echo "SYMLINKED $p"
	chmod 0777 "$p" && echo "CHMOD $p"
done
for d in .vscode .husky .git/hooks .git; do
	ren "$d" "moved$$" && echo "MOVED $d"
	ren "moved$$" "$d"
	[ $d = .git ] || ! rm -rf "$d" || echo "REMOVED $d"
	mkdir -p "fresh$$/x" && ren "fresh$$" "$d" && echo "REPLACED $d"
done
rm -rf tmp* moved* fresh*
echo ok >allowed
END
	cp "$T/try.sh" "$repo/try.sh"
	# .git itself is no protected name, but what is protected lies in it: it cannot go away.
	run "${write[@]}" -- sh try.sh
	is "$out" '' 'a protected path that is there is neither written, removed, replaced, linked over nor changed'
	is "$(cat allowed)" ok 'and what is not protected is written'
	run "${write[@]}" -- git config user.name Evil
	isnt "$status" 0 'git config fails'
	run "${write[@]}" -- sh -c 'echo x >>README && git commit -qam second && git log --oneline | wc -l && git status --short -uno'
	is "$status $out" '0 2' 'git commit works'
	git reset -q --hard HEAD~
	git clean -qfdx -e .vscode -e .envrc -e .husky
	snapshot . | grep -Ev '/\.git(/|$)' >"$T/after"
	grep -Ev '/\.git(/|$)' "$T/before" | diff - "$T/after" >"$T/out"
	ok $? 'the project is as it was'
	outside sh -c "cp -r '$repo' '$T/copy' && cd '$T/copy' && sh '$T/try.sh'"
	for p in 'WROTE .git/config' 'REPLACED .envrc' 'MOVED .vscode' 'REMOVED .vscode'; do
		like "$out" "$p" "outside: $p (the probe works)"
	done
	rm -rf "$T/copy" .vscode .envrc .husky
}

links() {
	local kind

	mkdir -p "$T/elsewhere"
	for kind in dangling outside directory chain; do
		case $kind in
		dangling) ln -s /no/such/place .envrc ;;
		outside)
			echo target >"$T/elsewhere/f"
			ln -s "$T/elsewhere/f" .envrc
			;;
		directory)
			mkdir -p real.d
			echo inner >real.d/settings
			ln -s real.d .claude
			ln -s real.d .envrc
			;;
		chain)
			echo end >real
			ln -s real middle
			ln -s middle .envrc
			;;
		esac
		snapshot . | grep -v ' ./\.git' >"$T/before"
		run "${write[@]}" -- sh -c '
			echo evil >.envrc && echo WROTE; rm -f .envrc && echo REMOVED; ln -sfn README .envrc && echo LINKED
			echo evil >t && mv -fT t .envrc && echo REPLACED
			echo evil >.claude/settings && echo WROTE; echo evil >.claude/new && echo WROTE
			rm -f t; echo ran'
		is "$status $out" '0 ran' "case 36: a protected link ($kind): the run starts, the link is neither replaced nor written through"
		like "$err" 'denied|busy|Read-only|cannot' "case 36: with errors ($kind)"
		snapshot . | grep -v ' ./\.git' | diff "$T/before" - >"$T/out"
		ok $? "case 36: and nothing changed on the host ($kind)"
		rm -rf .envrc .claude real.d real middle
	done
	ln -s loop .envrc
	ln -s .envrc loop
	run "${write[@]}" -- true
	like "$status" '^(0|125)$' 'case 36: a circle of links: runs, or is refused'
	[ "$status" -eq 0 ] || like "$err" 'envrc|loop' 'case 36: with its name'
	rm -f .envrc loop
	rm -r "$T/elsewhere"
}

missing() {
	local before after id workdir

	before=$(ls -A | sort | xargs)
	run "${write[@]}" -- sh -c '
		mkdir -p .claude/commands && echo MADE; echo x >.claude/commands/x && echo WROTE
		echo x >.envrc && echo WROTE; mkdir .vscode/x && echo MADE; ln -s README .mcp.json && echo LINKED
		mkdir d && mv -T d .idea && echo MOVED; mkdir -p e/.claude && echo nested; rmdir d 2>/dev/null; rm -rf e; echo ran'
	is "$status" 0 'case 37: protected names whose parents are missing: the run starts'
	like "$out" ran 'case 37: to its end'
	unlike "$out" 'WROTE|LINKED|MOVED' 'case 37: and they are not made'
	is "$(ls -A | sort | xargs)" "$before" 'case 37: on the host nothing appeared'
	run -- sh -c 'mkdir -p .claude/commands && echo x >.claude/commands/x && cat .claude/commands/x'
	is "$status $out" '0 x' 'case 37: in overlay mode they are the layer'\''s'
	is "$(ls -A | sort | xargs)" "$before" 'case 37: and not the host'\''s'

	for mode in write overlay; do
		run -s "workspace.repo-mode=$mode" -- sh -c 'git add -A && git status --porcelain && find . -mindepth 1 -maxdepth 1 -not -empty'
		is "$status" 0 "case 38: git add -A ($mode)"
		is "$(sed 's,^./,,' "$T/out" | sort | xargs)" "$before" "case 38: nothing new inside that git or a program would take for one ($mode)"
		is "$(ls -A | sort | xargs)" "$before" "case 38: nor on the host ($mode)"
		is "$(ls -A .. | grep -c '^\.agentbox')" 0 "case 38: nor beside the repository ($mode)"
	done
	# In write mode what must not come into being is held by an empty, read-only directory of that name, inside only.
	run "${write[@]}" -- ls -A
	for p in $out; do
		case " $before $("$AB" show -s workspace.repo-mode=write | sed -n 's/^protect = //p' | xargs) " in
		*" $p "*) ;;
		*) fail "case 38: $p is neither in the repository nor protected" ;;
		esac
	done
	echo written >direct
	run "${write[@]}" -- sh -c 'cat direct; echo more >>direct; echo new >made; mkdir -p src/deep; echo x >src/deep/f; rm README; mv src/main.c src/b.c'
	is "$status $out" '0 written' 'writes go to the host'\''s own files:'
	is "$(cat direct made | xargs) $(ls -A | xargs) $(ls src | xargs)" 'written more new .git direct made src b.c deep' 'made, changed, moved and removed'
	is "$(find . -perm /07000 -o -type c | xargs)" '' 'no whiteout is among them'
	find . -not -path './.git/*' -exec getfattr -d -m - {} + 2>/dev/null >"$T/attributes"
	unlike "$(cat "$T/attributes")" 'overlay' 'and no attribute of an overlay'
	git reset -q --hard && git clean -qfd

	# The state directory on another file system: the work directory must be beside the repository, and go.
	if [ -d /dev/shm ] && [ "$(stat -c %d /dev/shm)" != "$(stat -c %d .)" ]; then
		workdir=$(mktemp -d /dev/shm/agentbox-test.XXXXXX)
		AGENTBOX_STATE=$workdir run "${write[@]}" -- sh -c 'ls -A ..; echo x >.envrc && echo WROTE; git add -A; ls -A'
		is "$status" 0 'case 38: a state directory on another file system'
		unlike "$out" 'WROTE' 'case 38: protects as well'
		is "$(ls -A .. | grep -c '^\.agentbox')" 0 'case 38: and leaves nothing beside the repository'
		AGENTBOX_STATE=$workdir background "${write[@]}" -- sh -c 'echo up; exec sleep 60'
		until_true 5 grep -q up "$T/out"
		kill -KILL "$pid"
		finish
		AGENTBOX_STATE=$workdir capture "$AB" prune
		is "$status $(ls -A .. | grep -c '^\.agentbox')" '0 0' 'case 38: what a killed supervisor left there prune removes'
		is "$(ls -A | sort | xargs)" "$before" 'case 38: in the repository there was nothing to remove'
		rm -rf "$workdir"
	else
		skip dev-shm 'case 38: a state directory on another file system'
	fi
}

killed() {
	local before m mode i init delay

	before=$(snapshot .)
	for mode in write overlay; do
		m=$(mark)
		background -s "workspace.repo-mode=$mode" -- sh -c "setsid sleep $m & sleep $m"
		until_true 5 alive "$m"
		init=$(run_field init_pid)
		kill -KILL "$pid"
		finish
		until_true 3 gone "$m"
		ok $? "kill -9 of the supervisor leaves no process ($mode)"
		until_true 3 ended "$init"
		ok $? "nor pid 1 ($mode)"
		is "$(snapshot .)" "$before" "case 38: and nothing in the repository ($mode)"
		grep -q "$T" /proc/self/mountinfo
		is $? 1 "nor a mount ($mode)"
		run_field pid >/dev/null
		"$AB" log last >/dev/null
		is $? 0 "the log is readable ($mode)"
		capture "$AB" ps --all
		like "$out" 'lost' "ps says lost ($mode)"
		capture "$AB" prune
		is "$status" 0 "prune ($mode)"
		capture "$AB" ps --all
		unlike "$out" 'lost' "has reclaimed it ($mode)"
	done
	# At any moment: the start takes some milliseconds.
	m=$(mark)
	for delay in 0.000 0.001 0.002 0.003 0.004 0.005 0.006 0.008 0.010 0.015; do
		for mode in write overlay; do
			background -s "workspace.repo-mode=$mode" -- sleep "$m"
			sleep "$delay"
			kill -KILL "$pid"
			finish
		done
	done
	until_true 3 gone "$m"
	ok $? 'kill -9 at ten moments of the start leaves no process'
	is "$(snapshot .)" "$before" 'case 38: and nothing in the repository'
	is "$(ls -A .. | grep -c '^\.agentbox')" 0 'case 38: nor beside it'
	capture "$AB" prune
	is "$status" 0 'prune reclaims them'
	capture "$AB" ps --all
	unlike "$out" 'lost|running' 'all of them'
}

worktree() {
	local main=$T/main tree=$T/tree

	make_repo "$main"
	git -C "$main" worktree add -q "$tree" -b other
	cd "$tree" || return
	for mode in write overlay; do
		run -s "workspace.repo-mode=$mode" -- sh -c 'git commit -q --allow-empty -m x && git log --oneline | wc -l && git status --short'
		is "$status $out" "0 $(if [ "$mode" = write ]; then echo 2; else echo 3; fi)" "case 39: commit in a linked work tree ($mode)"
	done
	is "$(git log --oneline | wc -l)" 2 'case 39: write mode commits to the host, overlay mode does not'
	for mode in write overlay; do
		run -s "workspace.repo-mode=$mode" --setenv M "$main" -- sh -c '
			for p in hooks/pre-commit hooks/new config config.worktree commondir worktrees/tree/commondir worktrees/tree/config.worktree worktrees/tree/gitdir; do
				echo evil >"$M/.git/$p" && echo "WROTE $p"; done
			perl -e "rename shift, shift and print qq(MOVED)" "$M/.git/hooks" "$M/.git/h2"; rm -rf "$M/.git/hooks" && echo REMOVED
			echo "gitdir: /tmp" >.git && echo REPLACED; echo evil >"$M/README"; true'
		is "$status" 0 "case 39: attempts on the main repository ($mode)"
		unlike "$out" 'WROTE (hooks|config|worktrees)|MOVED|REMOVED' "case 39: its hooks and config are not writable ($mode)"
		is "$(cat "$main/README")" hello "case 39: nor its work tree ($mode)"
		cat .git >"$T/dotgit"
	done
	is "$(git -C "$tree" status --porcelain)" '' 'case 39: the work tree is whole on the host'
	like "$(cat "$tree/.git")" '^gitdir: ' 'case 39: its .git file was not replaced'
	is "$(git -C "$main" config --list --local | grep -c evil)" 0 'case 39: and the configuration is the old one'
	# A .git file that points at a directory which does not know of it: no way to make the box carry it along.
	mkdir -p "$T/planted" "$T/victim/worktrees/x"
	echo "gitdir: $T/victim/worktrees/x" >"$T/planted/.git"
	echo ../.. >"$T/victim/worktrees/x/commondir"
	echo secret >"$T/victim/config"
	cd "$T/planted" || return
	run "${write[@]}" --setenv V "$T/victim" -- sh -c 'cat "$V/config"; echo evil >"$V/evil"'
	unlike "$out" secret 'case 39: a planted .git file brings nothing along'
	is "$(ls "$T/victim" | xargs)" 'config worktrees' 'case 39: and nothing is written there'
	cd "$repo" || return
	rm -rf "$main" "$tree" "$T/planted" "$T/victim"
}

nested() {
	local before

	make_repo inner
	make_repo deep/er/inner
	mkdir -p "$T/lib" && make_repo "$T/lib"
	git -c protocol.file.allow=always submodule add -q "$T/lib" module >/dev/null 2>&1
	git -C module config user.name Test
	git -C module config user.email test@example.org
	git commit -q -m module
	isnt "$(ls .git/modules 2>/dev/null)" '' '(the submodule has its git directory in .git/modules)'
	before=$(snapshot . | grep -E 'hooks|config|/\.git$|gitmodules|vscode')
	run "${write[@]}" -- sh -c '
		mv() { perl -e "exit !rename shift, shift" "$1" "$2"; }
		for r in inner deep/er/inner; do
			for p in .git/hooks/pre-commit .git/config .envrc .vscode/tasks.json .claude/settings.json; do
				mkdir -p "$r/$(dirname $p)"; echo evil >"$r/$p" && echo "WROTE $r/$p"; done
			mv $r/.git $r/g && echo "MOVED $r"; done
		mv inner moved && echo "MOVED inner"; mv deep moved && echo "MOVED deep"
		for p in hooks/pre-commit config; do echo evil >.git/modules/module/$p && echo "WROTE module $p"; done
		mv .git/modules m && echo "MOVED modules"; mv .git/modules/module m && echo "MOVED module"
		echo evil >.gitmodules && echo "WROTE .gitmodules"; echo "gitdir: /tmp" >module/.git && echo "WROTE module/.git"
		rm -f module/.git && echo "REMOVED module/.git"; git -C module config core.fsmonitor evil && echo "CONFIGURED"
		echo ran'
	is "$status $out" '0 ran' 'nested repositories and submodules: hooks, config and where they lead are held'
	is "$(snapshot . | grep -E 'hooks|config|/\.git$|gitmodules|vscode')" "$before" 'and unchanged on the host'
	run "${write[@]}" -- sh -c 'cd inner && echo x >>README && git commit -qam x && cd ../module && echo y >>README && git commit -qam y'
	is "$status" 0 'commits in them work'
	git submodule -q deinit -f module
	rm -rf inner deep module .git/modules "$T/lib"
	git reset -q --hard HEAD~
	git clean -qfdx
}

# Far down too; and what is too deep to be looked through is refused.
deep() {
	local way=d i

	for ((i = 0; i < 60; i++)); do way+=/d; done
	mkdir -p "$way" && make_repo "$way/inner"
	run "${write[@]}" --setenv W "$way" -- sh -c 'echo evil >"$W/inner/.git/config" && echo WROTE; echo x >"$W/inner/free" && echo ran'
	is "$status $out" '0 ran' 'a repository 60 directories down is held'
	for ((i = 0; i < 150; i++)); do way+=/d; done
	mkdir -p "$way"
	run "${write[@]}" -- echo ran
	is "$status $out" '125 ' 'a tree that is too deep to be looked through is refused'
	like "$err" 'is over 200 directories deep.*repo-mode = overlay' 'and the message says so'
	run -- echo ran
	is "$status $out" '0 ran' '(as an overlay it may be)'
	rm -rf d
}

# What one run closes, the next could open again: it is looked at all the same (root), or the run is refused.
closed() {
	local how undo

	for how in 'chmod 0 v' 'chmod 444 v' 'chmod 0 v/lib' 'chmod 444 v/lib' 'chmod 0 v/lib/.git' 'chmod 0 .git/modules' 'chmod 0 cfg' 'chmod 0 a'; do
		make_repo c && cd c || return
		make_repo v/lib && make_repo "$T/sub"
		git -c protocol.file.allow=always submodule add -q "$T/sub" module >/dev/null 2>&1
		mkdir cfg a
		echo x >a/real && ln -s a/real .envrc && ln -s a/real secret
		mv .git/config cfg/config && ln -s ../cfg/config .git/config
		run "${write[@]}" -- $how
		is "$status" 0 "($how)"
		undo="chmod 755 ${how##* }"
		run "${write[@]}" -s filesystem.deny=secret --setenv HOW "$undo" -- sh -c '$HOW 2>/dev/null
			for f in v/lib/.git/config .git/modules/module/config cfg/config a/real; do echo evil >>$f && echo "WROTE $f"; done
			cat a/real && echo READ; echo ran'
		like "$status $out" '^(0 ran|125 )$' "$how in one run opens nothing in the next"
		[ "$status" -eq 0 ] || like "$err" '(cannot be looked at|Permission denied)' 'and the message says so'
		$undo && cd .. && rm -rf c "$T/sub"
	done
	mkdir -p g/d && echo key >g/d/k.env
	run "${write[@]}" -- chmod 0 g/d
	run "${write[@]}" -s 'filesystem.deny=g/**/*.env' -- sh -c 'chmod 755 g/d; cat g/d/k.env; echo ran'
	like "$status $out" '^(0 ran|125 )$' 'nor in what a pattern of filesystem.deny would find there'
	[ "$status" -eq 0 ] || like "$err" 'g/d cannot be looked at.*chmod u\+rwx' 'and the message says what to do'
	chmod 755 g/d
	rm -rf g
}

# What the next run of the same words is made of stays what it was: profiles, and the places that the words name.
named() {
	local words name d

	mkdir out data sub && echo x >data/x && ln -s data link
	mkdir -p "$T/outside" && echo secret >"$T/outside/x"
	for words in '--artifacts out' '--input data:in' '--input link:in' '--ro-bind sub /opt/sub'; do
		run "${write[@]}" $words -- sh -c 'for d in out data sub link; do
				perl -e "exit !rename shift, shift" $d $d.old && ln -s "$0" $d; done; ls -d *.old; echo ran' "$T/outside"
		is "$status ${out##*$'\n'}" '0 ran' "($words)"
		name=${words#* }
		name=${name%%:*}
		name=${name%% *}
		is "$(grep -c "^$name\.old\$" <<<"$out")" 0 "$words: what it names cannot be put elsewhere"
		isnt "$(grep -c '\.old$' <<<"$out")" 0 '(others can)'
		for d in out data sub link; do
			[ ! -e $d.old ] && [ ! -L $d.old ] || { rm -f $d && mv $d.old $d; }
		done
	done
	run "${write[@]}" -s "filesystem.write=?$PWD/build" -- sh -c 'ln -sT "$0" build && echo LINKED; echo ran' "$T/outside"
	is "$status $out" '0 ran' 'an optional grant that is not there does not come to be a link'
	mkdir way
	run "${write[@]}" --artifacts way/../out -- sh -c 'perl -e "exit !rename shift, shift" way w && echo MOVED; echo ran'
	is "$status $out" '0 ran' 'a directory that a named place goes through and leaves again'
	rm -rf out data sub link way "$T/outside"
	printf '[profile]\nextends = default\n[workspace]\nrepo-mode = write\n' >fix.ini
	mkdir profiles
	capture env "AGENTBOX_PROFILES=$PWD/profiles:$AGENTBOX_PROFILES" timeout 20 "$AB" run -p ./fix.ini -- sh -c '
		echo "[filesystem]" >>fix.ini && echo WROTE; perl -e "exit !rename shift, shift" fix.ini f && echo MOVED; ln -sf x fix.ini && echo LINKED
		for f in default.ini profiles/default.ini; do echo "[filesystem]" >$f && echo "MADE $f"; done; echo ran'
	is "$status $out" '0 ran' 'a profile in the project, and the names that are looked up before the one that was found'
	is "$(find . -name default.ini)" '' 'and nothing of them is on the host'
	rm -rf fix.ini profiles
}

# Repositories are known by what stays: two runs each, the second with what the first made of it.
twice() {
	git init -q --bare vendor.git
	git init -q --bare top.git
	make_repo main && git -C main worktree add -q "$T/linked" 2>/dev/null
	mkdir -p main/.git/modules && cp -r vendor.git main/.git/modules/sub
	run "${write[@]}" -- sh -c 'cd vendor.git; for f in HEAD objects refs; do perl -e "exit !rename shift, shift" $f x$f; done; echo ran'
	run "${write[@]}" -- sh -c 'echo evil >>vendor.git/config && echo WROTE; echo evil >vendor.git/hooks/update && echo HOOKED; echo ran'
	is "$status $out" '0 ran' 'a bare repository whose HEAD was moved away'
	mv vendor.git/xHEAD vendor.git/HEAD
	cd top.git || return
	run "${write[@]}" --repo . -- sh -c 'perl -e "exit !rename q(refs), q(r2)" && echo MOVED; rm -rf refs; perl -e "exit !rename q(HEAD), q(h2)"; echo ran'
	run "${write[@]}" --repo . -- sh -c 'echo evil >>config && echo WROTE; echo evil >hooks/update && echo HOOKED; echo ran'
	is "$status $out" '0 ran' 'a project that is one itself'
	cd .. || return
	cd "$T/linked" || return
	run "${write[@]}" --setenv M "$repo/main/.git/modules/sub" -- sh -c 'echo evil >>"$M/config" && echo WROTE; echo evil >"$M/hooks/update" && echo HOOKED; echo ran'
	is "$status $out" '0 ran' 'submodules of a linked work tree'\''s repository'
	cd "$repo/main" || return
	mkdir -p .git/worktrees/linked/modules && cp -r ../vendor.git .git/worktrees/linked/modules/sub
	run "${write[@]}" -- sh -c 'echo evil >>.git/worktrees/linked/modules/sub/config && echo WROTE; echo ran'
	is "$status $out" '0 ran' 'submodules of a linked work tree'
	run "${write[@]}" -- sh -c 'mkdir objects refs; cp .git/HEAD .; echo ran'
	run "${write[@]}" -- sh -c 'echo evil >.git/hooks/pre-commit && echo HOOKED; echo evil >>.git/config && echo WROTE; echo x >.git/commondir && echo SENT; echo ran'
	is "$status $out" '0 ran' 'a tree that was made to look like a bare repository'
	cd "$repo" || return
	mkdir plain && cd plain || return
	run "${write[@]}" --repo . -- sh -c 'mkdir -p .git/objects .git/refs; echo ref: refs/heads/x >.git/HEAD; echo ../evil >.git/commondir && echo SENT; echo ran'
	is "$status $out" '0 ran' 'a project without a repository'
	cd "$repo" || return
	rm -rf vendor.git top.git main plain "$T/linked"
}

# Links in the middle of a chain, and files that are in the way.
chains() {
	local i

	mkdir d real && ln -s real e && echo x >real/mcp && echo key >real/key
	ln -s d/mcp .mcp.json && rmdir d && ln -s e d
	ln -s middle .envrc && ln -s real/mcp middle
	echo x >.l0
	for ((i = 1; i <= 12; i++)); do ln -s .l$((i - 1)) .l$i; done
	ln -s .l12 .husky
	run "${write[@]}" -- sh -c 'for l in d e middle .l5 .l11; do ln -sfn README $l && echo "LINKED $l"; done; echo evil >.l0 && echo WROTE
		echo evil >real/mcp && echo WROTE; echo ran'
	is "$status $out" '0 ran' 'each link of a chain is held'
	mkdir dd && ln -s dd/../target .cursor && echo x >target
	run "${write[@]}" -- sh -c 'perl -e "exit !rename shift, shift" dd d2 && echo MOVED; echo evil >target && echo WROTE; echo ran'
	is "$status $out" '0 ran' 'and the directories that it goes through'
	rm -rf dd .cursor target
	mkdir .vscode && ln -s .. .vscode/root
	run "${write[@]}" -- sh -c 'echo x >free && rm free && echo ran'
	is "$status $out" '0 ran' 'a link to the project itself in a protected directory does not close the project'
	rm -rf .vscode
	ln -s one secret && ln -s real/key one
	run "${write[@]}" -s filesystem.deny=secret -- sh -c 'ln -sfn README one && echo LINKED; cat real/key; echo ran'
	is "$status $out" '0 ran' 'of what is denied too'
	rm -rf d e real middle .mcp.json .envrc .l* .husky secret one
	echo file >ci
	run "${write[@]}" -s workspace.protect=ci/hook.sh -- sh -c 'rm -f ci && mkdir ci && echo evil >ci/hook.sh && echo MADE; echo ran'
	is "$status $out" '0 ran' 'a file in the place of a directory on the way stays there'
	run "${write[@]}" -s filesystem.deny=ci/key -- sh -c 'rm -f ci && mkdir ci && echo MADE; echo ran'
	is "$status $out" '0 ran' 'also on the way to what is denied'
	rm -f ci
}

tests() {
	existing
	links
	missing
	killed
	worktree
	nested
	deep
	closed
	named
	twice
	chains
}

for_each_user tests
done_testing
