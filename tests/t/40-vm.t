#!/usr/bin/env bash
# Debian's own kernel in qemu: cgroup v2, and the oldest kernel that is supported. The machine's script prints the TAP.
# SPDX-License-Identifier: LGPL-2.1-or-later
set -u
here=$(cd "$(dirname "$0")/.." && pwd)
for need in qemu-system-x86_64 cpio depmod busybox; do
	if ! PATH=$PATH:/sbin:/usr/sbin command -v "$need" >/dev/null; then
		echo "1..0 # SKIP $need is not installed"
		exit 0
	fi
done
export PATH=$PATH:/sbin:/usr/sbin
# The binary under test, and where it is built with eBPF the unit test of the programs; the kernel is kept between runs.
files=()
if [ -e "${BUILD:?}/egress.skel.h" ]; then
	files=("$BUILD/tests/unit/test_bpf")
fi
# And systemd with D-Bus, where they are installed.
systemd=$here/vm/systemd.sh
for need in /lib/systemd/systemd /usr/bin/systemd-run /lib/systemd/system/dbus.service /usr/lib/systemd/user/dbus.service \
	/usr/share/dbus-1/system.d/org.freedesktop.systemd1.conf; do
	if [ ! -e "$need" ] && [ "$systemd" ]; then
		echo "# control groups from systemd are not tested: there is no $need"
		systemd=
	fi
done
if ! grep -q 'libsystemd\.so\.0' "${AGENTBOX:?}"; then
	systemd= # built without it
fi
export SYSTEMD=$systemd
exec "$here/vm/boot" "${BUILD:?}/vm" "$here/vm/script.sh" ${files[@]+"${files[@]}"} 2>&1
