#!/bin/bash
# A project that was written by an attacker before the start, or changed under way: what reading the code as one found.
# H numbers are this file's own.
. "$(dirname "$0")/../lib/lib.sh"

W=(-s workspace.repo-mode=write)

# H1: `.git`, `commondir` and `gitdir` all in the tree, which lies in a directory called "worktrees".
believed() {
	mkdir -p "$T/h1/worktrees/proj"
	echo SECRET >"$T/h1/key"
	cd "$T/h1/worktrees/proj" || return
	printf 'gitdir: .\n' >.git
	printf '../..\n' >commondir
	printf '.git\n' >gitdir
	outside cat "$T/h1/key"
	is "$out" SECRET 'H1: (readable outside)'
	for mode in overlay write read; do
		run -s "workspace.repo-mode=$mode" -- sh -c "cat '$T/h1/key'; echo x >'$T/h1/made'"
		unlike "$out" SECRET "H1: a git directory that the tree itself names shows nothing above it ($mode)"
	done
	[ ! -e "$T/h1/made" ]
	ok $? 'H1: and nothing is written there'
	cd "$repo" || return
}

# H2: without .git/HEAD git takes the tree for a bare repository, and its `config` for the configuration.
bare() {
	make_repo "$T/h2"
	cd "$T/h2" || return
	run "${W[@]}" -- sh -c 'rm -f .git/HEAD; mkdir -p objects refs; echo "ref: refs/heads/x" >HEAD
		printf "[core]\nrepositoryformatversion = 0\nbare = false\nworktree = .\nfsmonitor = touch %s; false\n" "$1" >config; echo done' \
		sh "$T/h2-ran"
	is "$out" 'done' 'H2: (the attempt was made)'
	git status >/dev/null 2>&1
	[ ! -e "$T/h2-ran" ]
	ok $? 'H2: the tree cannot be made a bare repository that runs code'
	git init -q --bare "$T/h2b.git"
	run "${W[@]}" --repo "$T/h2b.git" -- sh -c 'echo x >hooks/pre-receive && echo MADE; echo "#" >>config && echo CHANGED; echo end'
	is "$(echo $out)" end 'H2: hooks and configuration of a bare repository are held'
	cd "$repo" || return
}

# H3: a rename on the host replaces the file under the mask.
renamed() {
	for mode in overlay write read; do
		echo SECRET1 >.env
		rm -f go
		mkdir -p "$T/h3"
		background -s "workspace.repo-mode=$mode" -s filesystem.deny=.env -- \
			sh -c 'cat .env; sleep 1.5; cat .env; echo end'
		sleep .7
		echo SECRET2 >.env.new
		mv .env.new .env
		finish
		unlike "$out" SECRET "H3: a denied file that the host replaces stays denied ($mode)"
		like "$out" end "H3: (it ran to its end) ($mode)"
	done
	git clean -qfdx
}

# H4: what becomes repo_commit is read from the git directory alone: the box sees the log.
commit_id() {
	local id=0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef

	make_repo "$T/h4"
	mkdir -p "$T/h4-secret"
	echo $id >"$T/h4-secret/token"
	cd "$T/h4" || return
	rm -rf .git/refs/heads .git/packed-refs
	ln -s "$T/h4-secret" .git/refs/heads
	echo 'ref: refs/heads/token' >.git/HEAD
	outside cat .git/refs/heads/token
	is "$out" $id 'H4: (readable outside)'
	run -- sh -c 'cat /workspace/logs/events.jsonl; echo end'
	like "$out" end 'H4: (it ran)'
	unlike "$out" $id 'H4: no file outside of the git directory gets into the log'
	cd "$repo" || return
}

# H5: another user's .git in a directory above.
others_git() {
	[ "$(id -u)" -eq 0 ] || return 0
	mkdir -p "$T/h5/work/deep" "$T/h5/.git"
	chown 12345 "$T/h5/.git"
	cd "$T/h5/work/deep" || return
	run -- pwd
	is "$out" /workspace/repo 'H5: a .git of another user above is not ours: the project is the directory'
	chown 0 "$T/h5/.git"
	run -- pwd
	is "$out" /workspace/repo/work/deep 'H5: (our own would be)'
	cd "$repo" || return
}

# H6: hooks elsewhere in the tree, included files.
configured() {
	make_repo "$T/h6"
	cd "$T/h6" || return
	mkdir -p tools/hooks
	git config core.hooksPath tools/hooks
	git config include.path ../team.config
	echo '[core]' >team.config
	run "${W[@]}" -- sh -c 'echo evil >tools/hooks/pre-commit && echo MADE; echo evil >>team.config && echo CHANGED
		mv tools t2 && echo MOVED; git status >/dev/null && echo end'
	is "$(echo $out)" end 'H6: core.hooksPath and include.path in the tree are held'
	mv .git/config tools/config && ln -s ../tools/config .git/config
	run "${W[@]}" -- sh -c 'echo evil >tools/hooks/pre-commit && echo MADE; echo evil >>team.config && echo CHANGED
		echo evil >>tools/config && echo CONFIGURED; ln -sf /tmp/x .git/config && echo LINKED; git status >/dev/null && echo end'
	is "$(echo $out)" end 'H6: and where the configuration is a link that leads into the tree'
	rm .git/config && mv tools/config .git/config
	mkdir -p scripts .vscode conf
	echo true >scripts/pc && echo '{}' >conf/tasks.json
	ln -s ../../scripts/pc .git/hooks/post-checkout && ln -s ../conf/tasks.json .vscode/tasks.json
	run "${W[@]}" -- sh -c 'echo evil >scripts/pc && echo WROTE; mv scripts s2 && echo MOVED; echo evil >conf/tasks.json && echo WROTE; echo end'
	is "$(echo $out)" end 'H6: where links of a protected directory lead'
	mkdir -p .claude/commands && ln -s ../../scripts/pc .claude/commands/x.md && rm .git/hooks/post-checkout
	ln -s ../../scripts/pc tools/hooks/post-merge
	run "${W[@]}" -- sh -c 'echo evil >scripts/pc && echo WROTE; echo end'
	is "$(echo $out)" end 'H6: also in directories below it, and of hooks elsewhere'
	git commit -q --allow-empty -m x && git worktree add -q wt/f -b f && mkdir -p wt/f/tools/hooks
	run "${W[@]}" -- sh -c 'echo evil >wt/f/tools/hooks/pre-commit && echo MADE; echo end'
	is "$(echo $out)" end 'H6: hooks that the configuration names, from a work tree in the project'
	mkdir -p "$T/h6x" && ln -s "$T/h6" "$T/h6x/src" && mkdir -p other-hooks way
	git config core.hooksPath "$T/h6x/src/way/../other-hooks"
	run "${W[@]}" -- sh -c 'echo evil >other-hooks/pre-commit && echo MADE; perl -e "exit !rename shift, shift" way w && echo MOVED; echo end'
	is "$(echo $out)" end 'H6: hooks by a way through links and out again'
	git config core.hooksPath tools/hooks
	mkdir -p "$T/home6/.config" dotfiles/git && ln -s "$PWD/dotfiles/git" "$T/home6/.config/git" && echo '[core]' >dotfiles/git/config
	capture env "HOME=$T/home6" timeout 20 "$AB" run "${W[@]}" -- sh -c 'echo evil >>dotfiles/git/config && echo WROTE; echo end'
	is "$(echo $out)" end 'H6: the user'\''s own configuration, where it lies in the tree'
	rm -rf "$T/home6" "$T/h6x"
	mkdir -p "$T/home6" team-hooks && git config --file "$T/home6/.gitconfig" core.hooksPath team-hooks
	capture env "HOME=$T/home6" timeout 20 "$AB" run "${W[@]}" -- sh -c 'echo evil >team-hooks/pre-commit && echo MADE; echo end'
	is "$(echo $out)" end 'H6: hooks in the tree by the user'\''s own configuration'
	git init -q --separate-git-dir "$T/h6/gd" "$T/h6s" 2>/dev/null
	mkdir s && printf 'gitdir: ../gd\n' >s/.git
	run "${W[@]}" -- sh -c 'echo "#" >>gd/config && echo CHANGED; mv gd gd2 && echo MOVED; echo end'
	is "$(echo $out)" end 'H6: a git directory under another name in the tree is held'
	mkdir -p far/in && git init -q --bare far/gd2 && ln -s far/in lk && mkdir s2 && printf 'gitdir: ../lk/../gd2\n' >s2/.git
	is "$(git -C s2 rev-parse --git-dir)" "$T/h6/far/gd2" '(git follows the link, and goes up from where it leads)'
	run "${W[@]}" -- sh -c 'echo "#" >>far/gd2/config && echo CHANGED; ln -sfn conf lk && echo LINKED; mv far/in far/x && echo MOVED; echo end'
	is "$(echo $out)" end 'H6: and one by a way through a link and up again'
	cd "$repo" || return
}

# H7: artifacts replaced by a link to a place of the host's.
artifacts() {
	mkdir -p "$T/h7/out" "$T/h7-secret"
	echo SECRET >"$T/h7-secret/id_key"
	run -s "filesystem.write=$T/h7" --artifacts "$T/h7/out" -- sh -c "cd '$T/h7' && mv out old && ln -s '$T/h7-secret' out && echo end"
	is "$status $out" '1 ' 'H7: the directory cannot be replaced from within'
	# From outside it can.
	background -q -s "filesystem.write=$T/h7" --artifacts "$T/h7/out" -- sh -c 'echo up; sleep 1'
	until_true 5 grep -q up "$T/out"
	mv "$T/h7/out" "$T/h7/old" && ln -s "$T/h7-secret" "$T/h7/out"
	finish
	is "$status" 0 'H7: (the directory was replaced)'
	unlike "$(events)" id_key 'H7: what a link leads to is no artifact'
	rm -rf "$T/h7/out"
	mkdir "$T/h7/out"
	background -q -s "filesystem.write=$T/h7" --artifacts "$T/h7/out" -- sh -c 'echo up; sleep 1'
	until_true 5 grep -q up "$T/out"
	mv "$T/h7/out" "$T/h7/old2" && mkfifo "$T/h7/out"
	finish
	is "$status" 0 'H7: a FIFO in its place neither stalls nor changes the status'
}

# H8: links in the way of what is protected.
links() {
	make_repo "$T/h8"
	cd "$T/h8" || return
	mkdir -p sub/deep sub/evil
	ln -s sub/deep d
	ln -s d/../evil .claude
	ln -s loop2 .envrc
	ln -s .envrc loop2
	ln -s nowhere .mcp.json
	run "${W[@]}" -- sh -c 'echo x >sub/evil/settings.json && echo MADE; rm .envrc && echo REMOVED; ln -sfn sub .claude && echo REPLACED
		echo x >nowhere && echo MADE; readlink .claude; echo end'
	is "$(echo $out)" 'd/../evil end' 'H8: where links really lead is held, loops and dangling ones too, and they stay links'
	cd "$repo" || return
}

# H9: what an overlay cannot merge with.
whiteout() {
	make_repo "$T/h9"
	cd "$T/h9" || return
	mknod .claude c 0 0 2>/dev/null || { skip whiteouts 'H9'; cd "$repo" || return; return; }
	run "${W[@]}" -- true
	is "$status" 125 'H9: an overlay whiteout at a protected name: refused'
	like "$err" 'whiteout.*remove it' 'H9: in words'
	cd "$repo" || return
}

tests() {
	believed
	bare
	renamed
	commit_id
	others_git
	configured
	artifacts
	links
	whiteout
}
for_each_user tests
done_testing
