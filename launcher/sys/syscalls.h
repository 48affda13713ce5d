/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * System calls that glibc 2.36 (Debian 12) has no wrapper for, with the kernel's own structures. Each returns the kernel's
 * value, or -1 with errno set. All are async-signal-safe.
 */
#ifndef AGENTBOX_SYS_SYSCALLS_H
#define AGENTBOX_SYS_SYSCALLS_H

#include <linux/openat2.h>
#include <linux/sched.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

static inline pid_t sys_clone3(struct clone_args *args)
{
	return (pid_t)syscall(SYS_clone3, args, sizeof(*args));
}

static inline int sys_openat2(int dirfd, const char *path, uint64_t flags, uint64_t mode, uint64_t resolve)
{
	struct open_how how = {.flags = flags, .mode = mode, .resolve = resolve};

	return (int)syscall(SYS_openat2, dirfd, path, &how, sizeof(how));
}

static inline int sys_pivot_root(const char *new_root, const char *put_old)
{
	return (int)syscall(SYS_pivot_root, new_root, put_old);
}

#endif
