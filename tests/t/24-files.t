#!/bin/bash
# Files: cases 40, 41, 43, 44, 49, 51, 52, 54; what is read-only stays so, and what a grant shows.
. "$(dirname "$0")/../lib/lib.sh"

write=(-s workspace.repo-mode=write)

grants() {
	mkdir -p "$T/grant/a" "$T/grant/b" "$T/plain"
	echo one >"$T/plain/one"
	# The other name lies beside the bound one, so that the rename stays on one file system but for the mount.
	run --bind "$T/plain" /workspace/scratch/d --bind "$T/plain/one" /workspace/scratch/d/one -- \
		sh -c 'cd /workspace/scratch/d && echo two >one && echo three >other && cat one'
	is "$status $out $(cat "$T/plain/one")" '0 two two' 'case 40: a grant of a single file is written through'
	run --bind "$T/plain" /workspace/scratch/d --bind "$T/plain/one" /workspace/scratch/d/one -- \
		perl -e 'chdir "/workspace/scratch/d"; rename("other", "one") or die "$!\n"'
	isnt "$status" 0 'case 40: a rename onto it fails'
	like "$err" 'busy' 'case 40: as busy'
	is "$(cat "$T/plain/one" "$T/plain/other" | xargs)" 'two three' 'case 40: with both files intact'
	outside perl -e 'chdir shift; rename("other", "one") or die "$!\n"' "$T/plain"
	is "$status" 0 'case 40: outside the rename works'

	echo f >"$T/grant/a/f"
	run -s "filesystem.write=$T/grant" --setenv G "$T/grant" -- \
		sh -c 'cd "$G" && ln a/f b/linked && mv a/f b/moved && mkdir a/d && mv a/d b/d && ln -s x b/s'
	is "$status" 0 'case 41: links and renames across directories of one grant'
	is "$(ls "$T/grant/b" | xargs)" 'd linked moved s' 'case 41: reach the host'
	for mode in overlay write; do
		mkdir -p p q
		echo f >p/f
		run -s "workspace.repo-mode=$mode" -- sh -c 'ln p/f q/linked && mv p/f q/moved && mkdir p/d && mv p/d q/d && ls q'
		is "$status $(echo $out)" '0 d linked moved' "case 41: and in the repository ($mode)"
		rm -rf p q
	done
	run -- sh -c 'cd /workspace/scratch && mkdir a b && echo x >a/f && ln a/f b/f && mv a/f b/g && mv a b'
	is "$status" 0 'case 41: and in scratch'

	run -s "filesystem.read=$T/grant:/workspace/scratch/r" -- sh -c 'cd /workspace/scratch/r && ls b && ! touch b/new && ! rm b/moved'
	is "$status" 0 'a read grant is shown at its place, and not written'
	run -s "filesystem.read=$T/no-such" -- true
	is "$status" 125 'a grant that is absent: 125'
	like "$err" "$T/no-such" 'and it is named'
	run -s "filesystem.read=?$T/no-such" -- true
	is "$status" 0 'with ? it is skipped'
	run --ro-bind "$T/grant" /workspace/scratch/x --tmpfs /workspace/scratch/t --dir /workspace/scratch/e/f \
		--symlink /etc/hosts /workspace/scratch/l -- sh -c 'cd /workspace/scratch && ls x/b && touch t/n e/f/n && cat l >/dev/null && ! touch x/n'
	is "$status" 0 '--ro-bind, --tmpfs, --dir, --symlink'
	rm -rf "$T/grant" "$T/plain"
}

# The attempts on a denied file: each by a fresh name. Prints what worked.
evade() {
	cat >evade.sh <<'END'
cat closed/key && echo READ 1
ln closed/key linked1 && cat linked1 && echo READ 2
mv closed/key moved2 && cat moved2 && echo READ 3
mv closed moved3 && cat moved3/key && echo READ 4
mv outer/inner moved4 && cat moved4/key && echo READ 5
mv outer moved5 && cat moved5/inner/key && echo READ 6
ln -s closed/key linked6 && cat linked6 && echo READ 7
chmod 0644 closed/key outer/inner/key; cat closed/key outer/inner/key && echo READ 8
cp -r outer copied7 && cat copied7/inner/key && echo READ 9
rm -f closed/key && echo REMOVED
rm -rf outer && echo REMOVED
mkdir -p fresh/outer && mv fresh/outer . && echo REPLACED
perl -e 'rename("closed", "evil") and print "REPLACED\n"; syscall(316, -100, "closed", -100, "src", 2) == 0 and print "EXCHANGED\n"'
cat /proc/self/root/workspace/repo/closed/key && echo READ 10
exit 0
END
}

denied() {
	local mode grant
	local deny=(-s filesystem.deny=closed/key -s filesystem.deny=outer/inner/key)

	for mode in overlay write read; do
		mkdir -p closed outer/inner
		echo SECRET | tee closed/key >outer/inner/key
		evade
		run -s "workspace.repo-mode=$mode" "${deny[@]}" -- sh evade.sh
		is "$status" 0 "case 43: all attempts were made ($mode)"
		unlike "$out" 'SECRET|READ' "case 43+44: a denied file is not read, by no name ($mode)"
		unlike "$out" 'REMOVED|REPLACED|EXCHANGED' "case 43: nor moved out of the way ($mode)"
		is "$(cat closed/key outer/inner/key | xargs)" 'SECRET SECRET' "case 43: and intact on the host ($mode)"
		like "$err" 'ermission denied|busy|Read-only' "case 43: with plain errors ($mode)"
		rm -rf closed outer
		git checkout -q . && git clean -qfd
	done
	mkdir -p closed outer/inner
	echo SECRET | tee closed/key >outer/inner/key
	evade
	outside sh evade.sh
	like "$out" 'READ 2' 'case 43: outside the link works'
	like "$out" 'SECRET' 'case 43: and the file is readable'
	git clean -qfd
	mkdir -p closed outer/inner
	echo SECRET | tee closed/key >outer/inner/key
	run "${write[@]}" -s workspace.mirror=yes -s filesystem.deny=closed -- sh -c "cat closed/key '$repo/closed/key' /workspace/repo/closed/key"
	unlike "$out" SECRET 'case 44: nor through the mirror of the repository'
	run -s filesystem.deny=closed/key --bind "$repo" /workspace/scratch/again -- cat /workspace/scratch/again/closed/key
	isnt "$status" 0 'case 44: nor through another grant of the same directory'
	unlike "$out" SECRET 'case 44: which shows nothing of it'
	run -s filesystem.deny=closed/key --input "$repo/closed" -- cat /workspace/input/closed/key
	unlike "$out" SECRET 'case 44: nor as an input'
	git clean -qfd
}

# Mounts of the test's own, in a mount namespace of its own. $1: what is run there, by bash.
private() {
	local flags=-m

	[ "$(id -u)" -eq 0 ] || flags=-Urm
	capture timeout -k 2 -s KILL 40 unshare $flags bash -c "$1"
}

overlays() {
	export AB T repo

	mkdir -p sub
	echo covered >sub/f
	# shellcheck disable=SC2016
	private 'mount -t tmpfs none "$repo/sub" && echo mounted >"$repo/sub/f" || exit 99
		"$AB" run -- sh -c "cat sub/f; echo box >sub/f; cat sub/f; echo x >new"; echo "status $?"; echo "host $(cat "$repo/sub/f")"'
	unlike "$out" covered 'case 49: what a mount below the repository covers is not shown'
	like "$out" 'host mounted' 'case 49: and what is in it is never written'
	like "$out" 'mounted|status 125' 'case 49: it is shown, or the run refused'
	is "$(ls "$repo/new" 2>/dev/null)" '' 'case 49: nothing was written to the repository'

	mkdir -p "$T/lower" "$T/upper" "$T/work" "$T/merged"
	cp -r "$repo/." "$T/lower"
	# shellcheck disable=SC2016
	private 'mount -t overlay -o "lowerdir=$T/lower,upperdir=$T/upper,workdir=$T/work,userxattr" none "$T/merged" || exit 99
		cd "$T/merged" && "$AB" run -- sh -c "cat README; echo x >README; cat README"; echo "status $?"; cat README'
	unlike "$out" 'status 99' 'case 49: (an overlay can be made here)'
	like "$out" 'status (0|125)' 'case 49: a repository on an overlay works, or is one clear refusal'
	is "$(printf '%s\n' "$out" | tail -n 1)" hello 'case 49: and is not written'
	# shellcheck disable=SC2016
	private 'mount -t overlay -o "lowerdir=$T/lower,upperdir=$T/upper,workdir=$T/work,userxattr" none "$T/merged" || exit 99
		mkdir -m 0700 "$T/merged/state"; AGENTBOX_STATE=$T/merged/state "$AB" run -- sh -c "cat README; echo x >README; cat README"; echo "status $?"
		ls "$T/merged/state/runs"/*'
	like "$out" 'status 125' 'case 49: a state directory on an overlay cannot hold a layer: refused'
	like "$err" 'AGENTBOX_STATE' 'case 49: with the way out'
	is "$(grep -c '^agentbox:' "$T/err")" 1 'case 49: in one message'
	is "$(cat README)" hello 'case 49: and the repository is not written'
	unlike "$out" '^(repo|upper|work)$' 'case 49: nothing is left but the record'
	chmod -R u+rwx "$T/work" "$T/upper"
	rm -rf sub "$T/lower" "$T/upper" "$T/work" "$T/merged"
}

temporary() {
	local size

	run -- sh -c 'd=$(mktemp -d) && echo x >"$d/f" && cat "$d/f" && test -d "$TMPDIR" && case $d in "$TMPDIR"/*) echo in;; esac'
	is "$status $(echo $out)" '0 x in' 'case 51: mktemp -d works, in TMPDIR'
	run -s filesystem.tmp-size=16M -- sh -c 'head -c 40M /dev/zero >/tmp/f; stat -c %s /tmp/f; for d in /var/tmp /dev/shm /run; do head -c 1 /dev/zero >$d/g; done'
	like "$err" 'No space left' 'case 51: a /tmp of 16M is full'
	size=$(printf '%s\n' "$out" | head -n 1)
	cmp_ok "$size" -le 16777216 'case 51: at no more than 16M'
	cmp_ok "$size" -ge 15728640 'case 51: and not much less'
	is "$(grep -c 'No space left' "$T/err")" 4 'case 51: /tmp, /var/tmp, /dev/shm and /run share it'
	run -s workspace.scratch-size=16M -- sh -c 'head -c 40M /dev/zero >"$HOME/f"; stat -c %s "$HOME/f"'
	like "$err" 'No space left' 'a scratch of 16M is full'
	cmp_ok "${out:-0}" -le 16777216 'at no more than 16M'
	cmp_ok "${out:-0}" -ge 15728640 'and not much less'
	run -- sh -c 'ls -A /tmp /run /dev/shm "$HOME" "$TMPDIR" | grep -v : | xargs'
	is "$out" '' 'all of them start empty'
	run -- sh -c 'mkdir -p ~/.npm/_cacache && echo x >~/.npm/_cacache/f && cat ~/.npm/_cacache/f'
	is "$status $out" '0 x' 'case 52: HOME is writable'
	is "$(ls -A "$HOME" | xargs)" '.gitconfig' 'case 52: and not the caller'\''s'
	run -- sh -c 'for d in / /usr /usr/bin /etc /etc/ssl /workspace /workspace/input /workspace/logs /proc /dev /var; do
		touch $d/new && echo "$d"; done; echo x >>/etc/passwd && echo passwd; echo x >>/workspace/logs/events.jsonl && echo log; true'
	is "$status $out" '0 ' 'nothing else is'
	run -- sh -c 'head -n 1 /workspace/logs/events.jsonl'
	like "$out" '"run.start"' 'the log can be read inside'
}

network_files() {
	run -- sh -c 'cat /etc/resolv.conf; test -L /etc/resolv.conf && echo link; ls -A /run'
	is "$status" 0 'case 54: resolv.conf is there'
	unlike "$out" 'link|systemd|nscd|dbus|docker' 'case 54: a file of the box'\''s own, and /run is empty'
	capture env TZ=Asia/Shanghai "$AB" run -- date +%z
	is "$status $out" '0 +0800' 'case 54: TZ is passed and known'
	# A host whose resolv.conf is a dangling link, and whose resolver has a socket.
	mkdir -p "$T/etc"
	cp /etc/ld.so.cache "$T/etc/"
	ln -s /etc/alternatives "$T/etc/other"
	ln -s ../run/systemd/resolve/stub-resolv.conf "$T/etc/resolv.conf"
	# shellcheck disable=SC2016
	private 'mount --bind "$T/etc" /etc && mount -t tmpfs none /run && mkdir -p /run/nscd /run/systemd/resolve || exit 99
		socat UNIX-LISTEN:/run/nscd/socket,fork /dev/null & sleep 0.3; ls -L /etc/resolv.conf 2>/dev/null; ls /run/nscd
		"$AB" run -- sh -c "cat /etc/resolv.conf && ls -A /run /var/run/nscd/socket; echo boxed"; echo "status $?"; kill $!'
	like "$out" '^socket$' 'case 54: (outside the resolver'\''s socket is there)'
	like "$out" 'status 0' 'case 54: a host whose resolv.conf is a dangling link'
	is "$(printf '%s\n' "$out" | grep -A 9 'no name server' | head -n 2 | tail -n 1)" '/run:' 'case 54: has nothing of /run in the box'
	rm -r "$T/etc"
}

roots() {
	local busybox

	run -s filesystem.root=empty --ro-bind "$PROBES" /workspace/scratch/p -- ls /
	is "$status" 127 'an empty root has no programs'
	busybox=$(command -v busybox)
	if [ -z "$busybox" ] || ldd "$busybox" >/dev/null 2>&1; then
		skip busybox-static 'a directory as the root'
		return
	fi
	mkdir -p "$T/root/bin" "$T/root/etc/ssl" "$T/root/home"
	cp "$busybox" "$T/root/bin/busybox"
	ln -s busybox "$T/root/bin/sh"
	echo own >"$T/root/etc/passwd"
	run -s "filesystem.root=$T/root" -- sh -c 'busybox ls /; busybox cat /etc/passwd; busybox touch /bin/x'
	like "$out" '^home$' 'a directory as the root is shown'
	like "$out" 'agent:x:' 'with passwd of the box'\''s own'
	unlike "$out" '^(usr|own)$' 'and nothing of the host'\''s'
	is "$(ls "$T/root/bin" | xargs)" 'busybox sh' 'read-only'
	rm -r "$T/root"
}

tests() {
	grants
	denied
	overlays
	temporary
	network_files
	roots
}

for_each_user tests
done_testing
