/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The head of the filter: checks of arguments. Used by box/seccomp.c only. */
#ifndef AGENTBOX_BOX_SECCOMP_ARGS_H
#define AGENTBOX_BOX_SECCOMP_ARGS_H

#include <linux/filter.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "box/syscalls.h"

#if defined(__x86_64__)
#define SECCOMP_ARCH_NATIVE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define SECCOMP_ARCH_NATIVE AUDIT_ARCH_AARCH64
#else
#error "the system call tables are for x86-64 and arm64"
#endif

#define SECCOMP_HEAD_MAX 256
#define SECCOMP_QUIET_MAX 16

struct seccomp_head {
	struct sock_filter code[SECCOMP_HEAD_MAX];
	size_t n;
	/* Refusals that are a redirection to another call rather than news: never sent to the listener. */
	size_t quiet[SECCOMP_QUIET_MAX];
	size_t n_quiet;
	bool handled[SYSCALL_MAX]; /* decided here, so the body needs no rule */
};

/*
 * open: per number, is the call open by name? A closed one gets no check and is left to the body.
 * in_force: per check. nested: nested-namespaces = yes. The code falls off its end into the body where it decides nothing.
 * Return: 0; -E2BIG where SECCOMP_HEAD_MAX does not hold it.
 */
int seccomp_head_build(const bool open[SYSCALL_MAX], const bool in_force[CHECKS], bool nested, struct seccomp_head *h);

#endif
