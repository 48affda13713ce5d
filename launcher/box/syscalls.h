/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * System calls by name and by group: what the policies of `[syscalls]` are made of. A group is a noun with a reason; a
 * profile names it as `@noun`.
 */
#ifndef AGENTBOX_BOX_SYSCALLS_H
#define AGENTBOX_BOX_SYSCALLS_H

#include <stddef.h>

#include "base/str.h"

/*
 * The newest system call that these tables were read against (file_setattr, Linux 6.17). All since 424 have one number on
 * every architecture. What comes later is answered with ENOSYS, as the kernel before it did: a call that nobody has
 * looked at is not open.
 */
#define SYSCALL_NEWEST 469
#define SYSCALL_MAX (SYSCALL_NEWEST + 1)

enum syscall_group_flags {
	GROUP_REFUSED = 1 << 0, /* refused under `policy = default` */
	GROUP_STRICT = 1 << 1,  /* open under `policy = strict` */
	GROUP_NESTED = 1 << 2,  /* opened by `nested-namespaces = yes` */
	GROUP_CHECK = 1 << 3,   /* no list of calls: a check of arguments, which `allow` can lift */
};

/* Checks of arguments, built in box/seccomp_args.c. In force under both policies. */
enum syscall_check {
	CHECK_NONE,
	CHECK_NEW_NAMESPACES,
	CHECK_SOCKET_FAMILIES,
	CHECK_TERMINAL_INPUT,
	CHECK_PERSONALITY,
	CHECK_SETUID_BITS,
	CHECK_MEMFD_EXEC,
	CHECK_CHOWN,
	CHECKS,
};

struct syscall_group {
	const char *name; /* without "@" */
	const char *why;  /* one line: what it is for, or why it is closed */
	unsigned flags;
	enum syscall_check check;
	int errnum;               /* the answer where it is refused */
	const char *const *calls; /* ends with NULL; NULL for a check */
};

extern const struct syscall_group syscall_groups[]; /* ends with name NULL */

/* name: without "@". Return: NULL where there is none. */
const struct syscall_group *syscall_group_find(const char *name);

/*
 * Return: the number on the machine's own architecture; -ENOSYS where only other architectures have it; -ENOENT where no
 * such call is known.
 */
int syscall_number(const char *name);

/* The name, or "syscall N" where there is none. buf: SYSCALL_NAME_MAX bytes. Return: buf. */
#define SYSCALL_NAME_MAX 48
const char *syscall_name(int nr, char *buf);

/* The nearest name of a call or "@group" to what was written, for "did you mean". Appends; nothing where none is near. */
void syscall_nearest(const char *written, struct str *out);

#endif
