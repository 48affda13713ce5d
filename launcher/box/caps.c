/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "box/caps.h"

#include <cap-ng.h>
#include <errno.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/banned.h"

/*
 * Asks the kernel itself, and for each capability that it has: not the library that was to drop them. The ambient set is
 * within permitted and inheritable (security/commoncap.c, cap_capset), so it is empty where they are.
 */
static bool caps_are_empty(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];

	if (syscall(SYS_capget, &header, data) < 0)
		return false;
	for (int i = 0; i < _LINUX_CAPABILITY_U32S_3; i++)
		if (data[i].effective | data[i].permitted | data[i].inheritable)
			return false;
	for (int cap = 0; cap < 64; cap++) {
		int bounding = prctl(PR_CAPBSET_READ, cap, 0, 0, 0);

		if (bounding < 0) /* EINVAL: the last one was before */
			return cap > CAP_SYS_ADMIN;
		if (bounding)
			return false;
	}
	return true;
}

int caps_drop(void)
{
	/* Locked: even uid 0 of the namespace execs without capabilities (capabilities(7), "securebits"). */
	unsigned long bits = SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP | SECBIT_NO_SETUID_FIXUP_LOCKED |
			     SECBIT_KEEP_CAPS_LOCKED | SECBIT_NO_CAP_AMBIENT_RAISE | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED;

	if (prctl(PR_SET_SECUREBITS, bits, 0, 0, 0) < 0)
		return -errno;
	/*
	 * The bounding set by ourselves, up to the first number that the kernel does not know: the library reads
	 * /proc/self/status for it, three times. What a failure leaves in it is found below.
	 */
	for (int cap = 0; prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) == 0; cap++)
		;
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
		return -errno;
	capng_clear(CAPNG_SELECT_ALL);
	if (capng_apply(CAPNG_SELECT_CAPS) != 0)
		return -EPERM;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -errno;

	return caps_are_empty() && prctl(PR_GET_SECUREBITS, 0, 0, 0, 0) == (int)bits && prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1
		       ? 0
		       : -EPERM;
}
