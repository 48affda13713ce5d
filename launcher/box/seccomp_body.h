/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The body of the filter (box/seccomp.h): the architecture, then an answer by number. libseccomp makes it, and takes 0.2 ms for that,
 * so those of profiles that say nothing of [syscalls] allow and deny are made once, when agentbox is built
 * (scripts/seccomp-bodies.c), and found again by their rules.
 */
#ifndef AGENTBOX_BOX_SECCOMP_BODY_H
#define AGENTBOX_BOX_SECCOMP_BODY_H

#include <linux/filter.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct seccomp_rule {
	uint16_t nr, errnum; /* errnum 0: open */
};

struct seccomp_body {
	bool strict; /* what no rule names is EPERM; else it is open */
	const struct seccomp_rule *rules; /* by number, each at most once */
	size_t n_rules;
	const struct sock_filter *insns;
	size_t n;
};

/* Those made at the build; the last has n 0. */
extern const struct seccomp_body seccomp_bodies[];

/* By libseccomp. body: strict and rules are set; insns are set to fresh memory, the caller's. Return: 0 or -errno. */
int seccomp_body_make(struct seccomp_body *body);

/*
 * The instructions behind `room` empty ones, from seccomp_bodies or by libseccomp. body: strict and rules are set.
 * *out: the caller's; *n: with the empty ones. Return: 0 or -errno.
 */
int seccomp_body_build(const struct seccomp_body *body, size_t room, struct sock_filter **out, size_t *n);

#endif
