/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "box/caps.h"

#include <cap-ng.h>
#include <errno.h>
#include <linux/securebits.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/banned.h"

int caps_prepare(void)
{
	capng_clear(CAPNG_SELECT_ALL);
	return capng_get_caps_process() < 0 ? -EIO : 0;
}

int caps_drop(void)
{
	/* Locked: even uid 0 of the namespace execs without capabilities (capabilities(7), "securebits"). */
	unsigned long bits = SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP | SECBIT_NO_SETUID_FIXUP_LOCKED |
			     SECBIT_KEEP_CAPS_LOCKED | SECBIT_NO_CAP_AMBIENT_RAISE | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED;

	if (prctl(PR_SET_SECUREBITS, bits, 0, 0, 0) < 0)
		return -errno;
	/* libcap-ng remembers the pid of the process that used it first, which was the supervisor. */
	capng_setpid((int)syscall(SYS_gettid));
	capng_clear(CAPNG_SELECT_ALL);
	if (capng_apply(CAPNG_SELECT_ALL) != 0)
		return -EPERM;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -errno;

	/* Read back from the kernel. */
	capng_clear(CAPNG_SELECT_ALL);
	if (capng_get_caps_process() < 0 || capng_have_capabilities(CAPNG_SELECT_ALL) != CAPNG_NONE)
		return -EPERM;
	if (prctl(PR_GET_SECUREBITS, 0, 0, 0, 0) != (int)bits || prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1)
		return -EPERM;
	return 0;
}
