/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "box/seccomp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "box/seccomp_args.h"
#include "box/seccomp_body.h"
#include "box/syscalls.h"

#include "base/banned.h"

/* What the profile makes of every number: 0 is open, else the errno. */
struct decision {
	uint16_t answer[SYSCALL_MAX];
	bool in_force[CHECKS];
	bool strict;
};

static void decide_calls(struct decision *d, const struct syscall_group *g, int errnum)
{
	for (const char *const *name = g->calls; *name; name++) {
		int nr = syscall_number(*name);

		if (nr >= 0 && nr < SYSCALL_MAX)
			d->answer[nr] = (uint16_t)errnum;
	}
}

/* One word of allow or deny. Return: 0; -EINVAL with what is wrong in e. */
static int decide_word(struct decision *d, const char *key, const char *word, bool open, struct err *e)
{
	const struct syscall_group *g = *word == '@' ? syscall_group_find(word + 1) : NULL;
	cleanup_str struct str near = {0};
	int nr;

	if (g && g->flags & GROUP_CHECK) {
		if (!open)
			return err_set(e, EINVAL, "[syscalls] %s: %s is a check of arguments and in force by itself; only allow can name it",
				       key, word);
		d->in_force[g->check] = false;
		return 0;
	}
	if (g) {
		decide_calls(d, g, open ? 0 : g->errnum);
		return 0;
	}
	nr = *word == '@' ? -ENOENT : syscall_number(word);
	if (nr == -ENOSYS) /* another architecture's */
		return 0;
	if (nr >= 0 && nr < SYSCALL_MAX) {
		d->answer[nr] = open ? 0 : EPERM;
		return 0;
	}
	syscall_nearest(word, &near);
	if (near.len)
		return err_set(e, EINVAL, "[syscalls] %s: %.64s: no such system call or group; did you mean %s?", key, word, near.text);
	return err_set(e, EINVAL, "[syscalls] %s: %.64s: no such system call or group; agentbox.ini(5) lists the groups", key, word);
}

static int decide_list(struct decision *d, const char *key, const struct val_list *list, bool open, struct faults *faults,
		       struct err *e)
{
	int r = 0;

	for (size_t i = 0; i < list->n; i++) {
		char place[256];

		if (decide_word(d, key, list->items[i].text, open, e) == 0)
			continue;
		r = -EINVAL;
		if (faults) {
			faults_add(faults, list->items[i].from, "%s", e->msg);
			continue;
		}
		err_prefix(e, "%s", origin_text(list->items[i].from, place, sizeof(place)));
		break;
	}
	return r;
}

static void decide_policy(struct decision *d, const struct profile *p, bool box_root)
{
	bool nested = p->syscalls.nested_namespaces.v;

	d->strict = p->syscalls.policy.v == SYSCALLS_STRICT;
	if (d->strict)
		for (size_t nr = 0; nr < SYSCALL_MAX; nr++)
			d->answer[nr] = EPERM;
	for (const struct syscall_group *g = syscall_groups; g->name; g++) {
		bool opened = nested && g->flags & GROUP_NESTED;

		if (g->flags & GROUP_CHECK)
			d->in_force[g->check] = !opened;
		else if (opened || (d->strict && g->flags & GROUP_STRICT))
			decide_calls(d, g, 0);
		else if (g->flags & GROUP_REFUSED || d->strict)
			decide_calls(d, g, g->errnum);
	}
	d->in_force[CHECK_MEMFD_EXEC] = p->commands.exec.n > 0;
	d->in_force[CHECK_CHOWN] = box_root;
}

/* Deny after allow: it wins wherever it stands. */
static int decide(struct decision *d, const struct profile *p, bool box_root, struct faults *faults, struct err *e)
{
	int r, r2;

	*d = (struct decision){0};
	decide_policy(d, p, box_root);
	r = decide_list(d, "allow", &p->syscalls.allow, true, faults, e);
	if (r < 0 && !faults)
		return r;
	r2 = decide_list(d, "deny", &p->syscalls.deny, false, faults, e);
	return r < 0 ? r : r2;
}

int seccomp_check(const struct profile *p, struct faults *faults)
{
	struct decision d;
	struct err e;

	return decide(&d, p, false, faults, &e);
}

/* The rules of the body: numbers that the head decides are left out. body->rules: fresh. */
static void body_rules(const struct decision *d, const struct seccomp_head *h, struct seccomp_body *body)
{
	struct seccomp_rule *rules = mem_array(NULL, SYSCALL_MAX, sizeof(*rules));
	size_t n = 0;

	for (int nr = 0; nr < SYSCALL_MAX; nr++) {
		uint16_t errnum = d->answer[nr];

		if (!h->handled[nr] && errnum != (d->strict ? EPERM : 0))
			rules[n++] = (struct seccomp_rule){.nr = (uint16_t)nr, .errnum = errnum};
	}
	*body = (struct seccomp_body){.strict = d->strict, .rules = rules, .n_rules = n};
}

/* Turns refusals into notifications and keeps the refusals for the answers. */
static void notify_rewrite(struct seccomp_program *prog, const struct seccomp_head *h)
{
	prog->answers = mem_array(NULL, prog->n, sizeof(*prog->answers));
	memcpy(prog->answers, prog->insns, prog->n * sizeof(*prog->answers));
	for (size_t i = 0; i < prog->n; i++) {
		struct sock_filter *insn = &prog->insns[i];
		bool quiet = false;

		if (insn->code != (BPF_RET | BPF_K) || (insn->k & SECCOMP_RET_ACTION_FULL) != SECCOMP_RET_ERRNO ||
		    !(insn->k & SECCOMP_RET_DATA))
			continue;
		for (size_t q = 0; q < h->n_quiet; q++)
			quiet = quiet || h->quiet[q] == i;
		if (!quiet)
			insn->k = SECCOMP_RET_USER_NOTIF;
	}
	prog->notify = true;
}

/* Both halves of what the profile says. body->rules: fresh, also on failure. */
static int build_parts(const struct profile *p, bool box_root, struct seccomp_head *head, struct seccomp_body *body, struct err *e)
{
	struct decision d;
	bool open[SYSCALL_MAX];
	int r = decide(&d, p, box_root, NULL, e);

	if (r < 0)
		return r;
	for (size_t nr = 0; nr < SYSCALL_MAX; nr++)
		open[nr] = d.answer[nr] == 0;
	r = seccomp_head_build(open, d.in_force, p->syscalls.nested_namespaces.v, head);
	if (r < 0)
		return err_errno(e, -r, "cannot build the filter of system calls");
	body_rules(&d, head, body);
	return 0;
}

int seccomp_rules(const struct profile *p, bool box_root, struct seccomp_body *body, struct err *e)
{
	struct seccomp_head head;

	*body = (struct seccomp_body){0};
	return build_parts(p, box_root, &head, body, e);
}

static int join_parts(const struct seccomp_head *head, const struct seccomp_body *body, struct seccomp_program *out, struct err *e)
{
	int r = seccomp_body_build(body, head->n, &out->insns, &out->n);

	if (r < 0)
		return err_errno(e, -r, "cannot build the filter of system calls");
	memcpy(out->insns, head->code, head->n * sizeof(head->code[0]));
	return 0;
}

int seccomp_build(const struct profile *p, bool box_root, struct seccomp_program *out, struct err *e)
{
	struct seccomp_body body = {0};
	struct seccomp_head head;
	int r = build_parts(p, box_root, &head, &body, e);

	*out = (struct seccomp_program){0};
	if (r == 0 && p->syscalls.policy.v != SYSCALLS_OFF) {
		r = join_parts(&head, &body, out, e);
		if (r == 0 && p->syscalls.log.v)
			notify_rewrite(out, &head);
	}
	free((void *)body.rules);
	return r;
}

void seccomp_free(struct seccomp_program *prog)
{
	free(prog->insns);
	free(prog->answers);
	*prog = (struct seccomp_program){0};
}

#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5) /* linux/seccomp.h, since 5.19 */
#endif

int seccomp_install(const struct seccomp_program *prog, int *listener)
{
	struct sock_fprog fprog = {.len = (unsigned short)prog->n, .filter = prog->insns};
	unsigned long flags = 0;
	long r;

	*listener = -1;
	if (!prog->insns)
		return 0;
	/*
	 * Without WAIT_KILLABLE_RECV a signal restarts a call that waits for its answer: one refusal is told several times,
	 * and under Go's preemption signals it may not end (seccomp(2)).
	 */
	if (prog->notify)
		flags = SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
	r = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &fprog);
	if (r < 0 && errno == EINVAL && prog->notify)
		r = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &fprog);
	if (r < 0)
		return -errno;
	if (prog->notify)
		*listener = (int)r;
	return 0;
}
