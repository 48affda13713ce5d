/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The filter of system calls. The supervisor builds it from the profile before the clone (seccomp_build, with libseccomp);
 * the child only loads the bytes (seccomp_install); with `log = yes` the supervisor answers what was refused
 * (seccomp_notify_read), always with the refusal, so it never matters what the caller's memory holds meanwhile.
 *
 * The program has two parts. A head of our own (box/seccomp_args.c) holds what libseccomp cannot say: calls newer than
 * the tables, and checks that need more than one comparison of the same argument. The body is libseccomp's: the
 * architecture (others are killed, x32 too), then names (box/seccomp_body.h).
 */
#ifndef AGENTBOX_BOX_SECCOMP_H
#define AGENTBOX_BOX_SECCOMP_H

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "profile/profile.h"

/* Zero-initialised is "no filter" (policy = off). */
struct seccomp_program {
	struct sock_filter *insns;   /* owned; NULL where there is no filter */
	size_t n;
	bool notify;                 /* refusals go to a listener */
	struct sock_filter *answers; /* owned, n long: the same with the errnos in it; NULL unless notify */
};

/*
 * Checks the names and groups in [syscalls] allow and deny. Adds a fault for each that is not known.
 * Return: 0 or -EINVAL.
 */
int seccomp_check(const struct profile *p, struct faults *faults);

/*
 * Parent. box_root: the box's uid is 0; then chown answers 0 and does nothing, as only one id is mapped and every chown that
 * could be permitted is one to it.
 * out: zeroed; seccomp_free undoes it. Return: 0; -EINVAL for a name that is not known; -ENOMEM etc. of libseccomp.
 */
int seccomp_build(const struct profile *p, bool box_root, struct seccomp_program *out, struct err *e);

struct seccomp_body;

/* For scripts/seccomp-bodies.c: the rules of such a program's body (box/seccomp_body.h). body->rules: the caller's. Return: as above. */
int seccomp_rules(const struct profile *p, bool box_root, struct seccomp_body *body, struct err *e);

/*
 * Child, async-signal-safe; no_new_privs must be set.
 * listener: set to the listener's descriptor (CLOEXEC) where prog->notify, else to -1.
 * Return: 0 or -errno; -EBUSY: an outer filter has a listener already (a box within a box, both with log = yes).
 */
int seccomp_install(const struct seccomp_program *prog, int *listener);

void seccomp_free(struct seccomp_program *prog);

/* What a program returns for one call: SECCOMP_RET_*. For tests and for the answer of a refusal. */
uint32_t seccomp_eval(const struct sock_filter *insns, size_t n, const struct seccomp_data *data);

struct seccomp_denied {
	uint32_t arch;  /* AUDIT_ARCH_* */
	int32_t nr;     /* box/syscalls.h has the name */
	int32_t errnum; /* what the caller was told */
	pid_t pid;      /* the thread, as the supervisor's PID namespace sees it */
};

/*
 * Supervisor: takes one refusal from the listener and answers it. Never waits.
 * Return: 1 with *out set; 0 where there is none, or its caller was killed meanwhile; -errno where the listener is of no more
 * use (-ENOTCONN: nobody is left whom the filter binds).
 */
int seccomp_notify_read(int listener, const struct seccomp_program *prog, struct seccomp_denied *out);

#endif
