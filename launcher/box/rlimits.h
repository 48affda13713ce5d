/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Resource limits of setrlimit(2). They bound a process; what must bound the box as a whole is the cgroup's (box/cgroup.h).
 *
 *   cpu-time    RLIMIT_CPU, each process for itself: SIGXCPU, and SIGKILL a second later
 *   open-files  RLIMIT_NOFILE, each process
 *   file-size   RLIMIT_FSIZE, each file: SIGXFSZ or EFBIG
 *   core-size   RLIMIT_CORE
 *   processes   RLIMIT_NPROC: since Linux 5.14 tasks are counted by user namespace and uid, so set within the box's namespace
 *               it bounds the box alone, without any cgroup [measured on 6.18: an unprivileged caller's other processes do not
 *               count]. It does not bind where the caller is root on the host (kernel/fork.c: INIT_USER), there only the cgroup does
 *
 * RLIMIT_AS is not used: it breaks WebAssembly and Java, which reserve address space that they never touch.
 */
#ifndef AGENTBOX_BOX_RLIMITS_H
#define AGENTBOX_BOX_RLIMITS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/resource.h>

#include "base/str.h"
#include "profile/profile.h"

#define RLIMITS_MAX 8

struct rlimit_item {
	int resource;     /* RLIMIT_* */
	const char *key;  /* of [limits]; static */
	rlim_t soft, hard;
	rlim_t asked;     /* what the profile says, in the resource's unit */
	bool clamped;     /* the caller's own hard limit is lower, and is used */
};

/* Zero-initialised is "none". */
struct rlimit_plan {
	struct rlimit_item v[RLIMITS_MAX];
	size_t n;
};

/* Supervisor: from the profile and the caller's own limits, which the box inherits and cannot raise. */
void rlimits_build(const struct profile *p, struct rlimit_plan *out);

/* Child, async-signal-safe. Return: 0 or -errno. */
int rlimits_apply(const struct rlimit_plan *plan);

/* "open-files 1024 (asked 4096; the caller's own limit)", one a line. Appends. */
void rlimits_text(const struct rlimit_plan *plan, struct str *out);

/* Does RLIMIT_NPROC bind for this caller? Not for root. */
bool rlimits_bind_processes(void);

#endif
