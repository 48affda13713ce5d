#!/bin/bash
# make install, uninstall and dist: what is where, that the installed binary finds its own profiles, and that nothing stays.
set -u

here=$(cd "$(dirname "$0")/../.." && pwd)
: "${BUILD:=$here/build}"
t=$(mktemp -d "${TMPDIR:-/tmp}/agentbox-install.XXXXXX")
trap 'rm -rf "$t"' EXIT
# Of the make that runs this, nothing is to reach those that this runs.
unset MAKEFLAGS MFLAGS MAKEOVERRIDES MAKELEVEL AGENTBOX_PROFILES AGENTBOX_PROFILE XDG_CONFIG_HOME
export HOME="$t/home"
n=0

ok() {
	local status=$?

	n=$((n + 1))
	if [ "$status" -eq 0 ]; then
		echo "ok $n - $1"
	else
		tail -n 20 "$t/log" 2>/dev/null | sed 's/^/# /'
		echo "not ok $n - $1"
	fi
}

# Another PREFIX makes one object anew: in a copy of the build folder, as other tests use that at the same time.
cp -a "$BUILD" "$t/build"
mk() { make -s -C "$here" BUILD="$t/build" "$@" >"$t/log" 2>&1; }

where=(DESTDIR="$t/dest" PREFIX=/opt/ab APPARMOR_DIR=/etc/apparmor.d)

mk install "${where[@]}"
ok "make install DESTDIR= PREFIX="
(cd "$t/dest" && find . ! -type d -printf '%m %P\n' | sort -k 2) >"$t/got"
{
	echo "644 etc/apparmor.d/agentbox"
	echo "755 opt/ab/bin/agentbox"
	for f in "$here"/profiles/*.ini; do echo "644 opt/ab/share/agentbox/profiles/${f##*/}"; done
	for f in "$here"/man/*.[15]; do echo "644 opt/ab/share/man/man${f##*.}/${f##*/}"; done
} | sort -k 2 >"$t/want"
diff -u "$t/want" "$t/got" >"$t/log"
ok "the binary, the profiles and the manual are installed, nothing else"
grep -q '^profile agentbox /opt/ab/bin/agentbox ' "$t/dest/etc/apparmor.d/agentbox"
ok "the AppArmor profile is for the binary where it is installed"

# The directory that was compiled in is PREFIX's: its profile is found there, and by that alone.
"$t/dest/opt/ab/bin/agentbox" check nosuch >"$t/log"
grep -qF '/opt/ab/share/agentbox/profiles' "$t/log"
ok "the installed binary looks for profiles below its PREFIX"
! readelf -p .rodata "$t/dest/opt/ab/bin/agentbox" | grep -F "$here/launcher" >"$t/log"
ok "it does not name the directory that it was built in"
[ "$("$t/dest/opt/ab/bin/agentbox" --version)" = "agentbox $(sed -n 's/^VERSION = //p' "$here/config.mk")" ]
ok "its version is configure's"

mk install "${where[@]}"
ok "make install over an installation"
mk uninstall "${where[@]}"
ok "make uninstall"
find "$t/dest" ! -type d >"$t/log"
[ ! -s "$t/log" ] && [ ! -e "$t/dest/opt/ab/share/agentbox" ]
ok "nothing of it stays"
touch "$t/mine.ini" && mkdir -p "$t/dest/opt/ab/share/agentbox/profiles" && mv "$t/mine.ini" "$t/dest/opt/ab/share/agentbox/profiles/" &&
	mk uninstall "${where[@]}" && [ -e "$t/dest/opt/ab/share/agentbox/profiles/mine.ini" ]
ok "make uninstall leaves what others put there"

# --- dist ---
if git -c safe.directory="$here" -C "$here" rev-parse -q --verify HEAD >/dev/null 2>&1; then
	version=$(sed -n 's/^VERSION = //p' "$here/config.mk")
	mk dist DISTDIR="$t" && tar -xzf "$t/agentbox-$version.tar.gz" -C "$t" 2>>"$t/log"
	ok "make dist"
	diff <(cd "$t/agentbox-$version" && find . ! -type d | sed 's|^\./||' | sort) \
		<(git -c safe.directory="$here" -C "$here" ls-tree -r --name-only HEAD | sort) >"$t/log"
	ok "the archive has what is tracked"
	(
		cd "$t/agentbox-$version" && ./autogen.sh && ./configure --quiet &&
			make -s -j2 BUILD="$t/from-dist" && "$t/from-dist/agentbox" --version
	) >"$t/log" 2>&1
	ok "it builds by itself, outside of a checkout"
else
	for what in "make dist" "the archive has what is tracked" "it builds by itself, outside of a checkout"; do
		n=$((n + 1))
		echo "ok $n - $what # SKIP a git checkout with a commit"
	done
fi
echo "1..$n"
