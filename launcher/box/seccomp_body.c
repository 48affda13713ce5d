/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "box/seccomp_body.h"

#include <errno.h>
#include <seccomp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/mem.h"

#include "base/banned.h"

static int add_rules(scmp_filter_ctx ctx, const struct seccomp_body *b)
{
	/* Unknown architectures and x32 are killed: SCMP_FLTATR_ACT_BADARCH, whose default is the thread. */
	int r = seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);

	/*
	 * A tree instead of a list: the kernel runs the program once for every number when it is loaded. For 100 rules the load
	 * takes 0.04 ms instead of 0.10.
	 */
	if (r == 0)
		r = seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2);
	for (size_t i = 0; i < b->n_rules && r == 0; i++) {
		const struct seccomp_rule *rule = &b->rules[i];

		r = seccomp_rule_add(ctx, rule->errnum ? SCMP_ACT_ERRNO(rule->errnum) : SCMP_ACT_ALLOW, rule->nr, 0);
	}
	return r;
}

/* libseccomp 2.5 exports to a descriptor only. */
static int export(scmp_filter_ctx ctx, struct seccomp_body *b)
{
	cleanup_fd int fd = memfd_create("agentbox-seccomp", MFD_CLOEXEC);
	cleanup_free struct sock_filter *insns = NULL;
	off_t len;
	int r;

	if (fd < 0)
		return -errno;
	r = seccomp_export_bpf(ctx, fd);
	if (r < 0)
		return r;
	len = lseek(fd, 0, SEEK_END);
	if (len <= 0 || (size_t)len % sizeof(*insns))
		return -EIO;
	insns = mem_array(NULL, (size_t)len / sizeof(*insns), sizeof(*insns));
	if (pread(fd, insns, (size_t)len, 0) != len)
		return -EIO;
	b->n = (size_t)len / sizeof(*insns);
	b->insns = steal_ptr(&insns);
	return 0;
}

int seccomp_body_make(struct seccomp_body *body)
{
	scmp_filter_ctx ctx = seccomp_init(body->strict ? SCMP_ACT_ERRNO(EPERM) : SCMP_ACT_ALLOW);
	int r;

	if (!ctx)
		return -ENOMEM;
	r = add_rules(ctx, body);
	if (r == 0)
		r = export(ctx, body);
	seccomp_release(ctx);
	return r;
}

static const struct seccomp_body *find(const struct seccomp_body *wanted)
{
	for (const struct seccomp_body *b = seccomp_bodies; b->n; b++)
		if (b->strict == wanted->strict && b->n_rules == wanted->n_rules &&
		    memcmp(b->rules, wanted->rules, b->n_rules * sizeof(*b->rules)) == 0)
			return b;
	return NULL;
}

int seccomp_body_build(const struct seccomp_body *body, size_t room, struct sock_filter **out, size_t *n)
{
	const struct seccomp_body *b = find(body);
	struct seccomp_body made = *body;
	int r = 0;

	if (!b) {
		r = seccomp_body_make(&made);
		b = &made;
	}
	if (r < 0)
		return r;
	if (room + b->n > BPF_MAXINSNS) {
		r = -E2BIG;
	} else {
		*n = room + b->n;
		*out = mem_array(NULL, *n, sizeof(**out));
		memset(*out, 0, room * sizeof(**out));
		memcpy(*out + room, b->insns, b->n * sizeof(**out));
	}
	if (b == &made)
		free((void *)made.insns);
	return r;
}
