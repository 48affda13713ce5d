/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "box/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "box/cgroup_dir.h"
#include "box/cgroup_find.h"
#include "box/cgroup_parent.h"
#include "box/cgroup_systemd.h"
#include "sys/fd.h"

#include "base/banned.h"

#define CPU_PERIOD_US 100000U /* the kernel's default; quotas are per period */
#define CPU_QUOTA_MIN_US 1000U
#define SYSTEMD_TIMEOUT_MS 5000

static const struct {
	const char *key;
	enum cgroup_tree tree;
} limits[CGROUP_LIMITS] = {
	[CGROUP_MEMORY] = {"memory", TREE_MEMORY},
	[CGROUP_PROCESSES] = {"processes", TREE_PIDS},
	[CGROUP_CPUS] = {"cpus", TREE_CPU},
};

static unsigned limits_asked(const struct profile *p)
{
	return (p->limits.memory.bytes ? 1U << CGROUP_MEMORY : 0) | (p->limits.processes.n ? 1U << CGROUP_PROCESSES : 0) |
	       (p->limits.cpus.milli ? 1U << CGROUP_CPUS : 0);
}

/* --- setting the limits --- */

static int limit_write(const struct cgroup_dir *d, const char *file, const char *text)
{
	return fd_write_file(d->fd, file, text);
}

static int limit_memory(const struct cgroup_dir *d, uint64_t bytes)
{
	char text[32];
	int r;

	snprintf(text, sizeof(text), "%llu", (unsigned long long)bytes);
	r = limit_write(d, d->v2 ? "memory.max" : "memory.limit_in_bytes", text);
	if (r < 0)
		return r;
	/* Nothing more in swap. v1 counts the sum of both. Without swap accounting the file is not there, then v1 can at least
	 * be told not to swap. */
	r = limit_write(d, d->v2 ? "memory.swap.max" : "memory.memsw.limit_in_bytes", d->v2 ? "0" : text);
	if (r == -ENOENT)
		r = d->v2 ? 0 : limit_write(d, "memory.swappiness", "0");
	return r == -ENOENT ? 0 : r;
}

static int limit_processes(const struct cgroup_dir *d, uint64_t n)
{
	char text[32];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)n + 1);
	return limit_write(d, "pids.max", text);
}

static int limit_cpus(const struct cgroup_dir *d, uint64_t milli)
{
	uint64_t quota = milli * CPU_PERIOD_US / 1000;
	char text[64];
	int r;

	if (quota < CPU_QUOTA_MIN_US)
		quota = CPU_QUOTA_MIN_US;
	if (d->v2) {
		snprintf(text, sizeof(text), "%llu %u", (unsigned long long)quota, CPU_PERIOD_US);
		return limit_write(d, "cpu.max", text);
	}
	snprintf(text, sizeof(text), "%u", CPU_PERIOD_US);
	r = limit_write(d, "cpu.cfs_period_us", text);
	if (r < 0)
		return r;
	snprintf(text, sizeof(text), "%llu", (unsigned long long)quota);
	return limit_write(d, "cpu.cfs_quota_us", text);
}

static void limit_set(struct cgroup *cg, struct cgroup_dir *d, const struct profile *p, enum cgroup_limit limit)
{
	int r = 0;

	switch (limit) {
	case CGROUP_MEMORY:
		r = limit_memory(d, p->limits.memory.bytes);
		break;
	case CGROUP_PROCESSES:
		r = limit_processes(d, p->limits.processes.n);
		break;
	case CGROUP_CPUS:
		r = limit_cpus(d, p->limits.cpus.milli);
		break;
	case CGROUP_LIMITS:
		return;
	}
	if (r < 0) {
		snprintf(cg->why_not[limit], sizeof(cg->why_not[limit]), "%.100s: %s: %s", d->path, cgroup_controllers[limit],
			 strerrordesc_np(-r));
		return;
	}
	cg->why_not[limit][0] = '\0';
	d->controllers |= 1U << limit;
	cg->bounded |= 1U << limit;
}

/* --- making the groups --- */

static struct cgroup_dir *group_add(struct cgroup *cg, const char *parent, const char *name, int *why)
{
	cleanup_free char *path = mem_printf("%s/%s", parent, name);
	struct cgroup_dir *d;

	/* Controllers that share a hierarchy (cpu,cpuacct; or any) share the group. */
	for (size_t i = 0; i < cg->n; i++)
		if (str_eq(cg->v[i].path, path))
			return &cg->v[i];
	if (cg->n == CGROUP_DIRS_MAX) {
		*why = -E2BIG;
		return NULL;
	}
	d = &cg->v[cg->n];
	*why = cgroup_dir_make(parent, name, cg->nested, d);
	if (*why < 0)
		return NULL;
	cg->n++;
	return d;
}

struct scope_question {
	const char *run_id;
	char *scope;
	struct err e;
};

static void scope_ask(void *arg)
{
	struct scope_question *q = arg;

	q->scope = cgroup_systemd_scope(q->run_id, SYSTEMD_TIMEOUT_MS, &q->e);
}

/* Fresh; then *own is set to it too. NULL where it gives none. */
static char *parent_by_systemd(struct cgroup *cg, const char *run_id, char **own, unsigned *can, int *why)
{
	struct scope_question q = {.run_id = run_id};

	if (!cgroup_systemd_possible(&q.e) || twin_start(&cg->twin, &q.e) < 0 || twin_call(cg->twin, scope_ask, &q, &q.e) < 0 ||
	    !q.scope) {
		twin_end(cg->twin);
		cg->twin = NULL;
		snprintf(cg->why_no_systemd, sizeof(cg->why_no_systemd), "%.250s", q.e.msg);
		return NULL;
	}
	cg->by_systemd = true;
	*can = cgroup_enable(q.scope, cg->asked, why);
	free(*own);
	*own = mem_strdup(q.scope);
	return q.scope;
}

/* Could a v2 group bound these? A controller is in one tree alone. */
static bool in_v2(const struct cgroup_trees *trees, unsigned asked)
{
	for (int i = 0; i < CGROUP_LIMITS; i++)
		if (asked & 1U << i && !trees->own[limits[i].tree])
			return true;
	return false;
}

static void explain_v2(const struct cgroup *cg, const char *own, int why, char *text, size_t len)
{
	char own_text[CGROUP_WHY_MAX - 256 - 32];

	cgroup_parent_explain(own, why, own_text, sizeof(own_text));
	snprintf(text, len, "%s%s%s", own_text, *cg->why_no_systemd ? "; systemd --user gives no other: " : "", cg->why_no_systemd);
}

static void create_v2(struct cgroup *cg, const struct cgroup_trees *trees, const struct profile *p, const char *run_id, bool wanted)
{
	cleanup_free char *own = trees->own[TREE_V2] ? mem_strdup(trees->own[TREE_V2]) : NULL, *parent = NULL;
	cleanup_free char *name = mem_printf(CGROUP_PREFIX "%s", run_id);
	struct cgroup_dir *d;
	unsigned can = 0;
	int why = 0;

	if (!own) {
		snprintf(cg->why_no_v2, sizeof(cg->why_no_v2), "no cgroup v2 tree is mounted that shows this process");
		return;
	}
	parent = cgroup_parent(own, cg->asked, false, &can, &why);
	if (in_v2(trees, cg->asked & ~can)) {
		bool again = why == -EAGAIN;
		char *other = parent_by_systemd(cg, run_id, &own, &can, &why);

		if (!other && again)
			other = cgroup_parent(own, cg->asked, true, &can, &why);
		if (other) {
			free(parent);
			parent = other;
		}
	}
	if (parent && (can || wanted)) {
		d = group_add(cg, parent, name, &why);
		for (int i = 0; d && i < CGROUP_LIMITS; i++)
			if (can & 1U << i)
				limit_set(cg, d, p, (enum cgroup_limit)i);
		if (d && cg->nested) {
			/* A box that makes groups of its own makes few. */
			fd_write_file(d->fd, "cgroup.max.depth", "8");
			fd_write_file(d->fd, "cgroup.max.descendants", "64");
		}
	}
	if (cgroup_into_fd(cg) < 0)
		explain_v2(cg, own, why ?: -EACCES, cg->why_no_v2, sizeof(cg->why_no_v2));
	for (int i = 0; i < CGROUP_LIMITS; i++)
		if (cg->asked & ~cg->bounded & 1U << i && !cg->why_not[i][0])
			explain_v2(cg, own, why ?: -ENODEV, cg->why_not[i], sizeof(cg->why_not[i]));
}

static void create_v1(struct cgroup *cg, const struct cgroup_trees *trees, const struct profile *p, const char *name)
{
	for (int i = 0; i < CGROUP_LIMITS; i++) {
		const char *own = trees->own[limits[i].tree];
		struct cgroup_dir *d;
		int why = 0;

		if (!(cg->asked & ~cg->bounded & 1U << i) || !own)
			continue;
		d = group_add(cg, own, name, &why);
		if (d)
			limit_set(cg, d, p, (enum cgroup_limit)i);
		else if (why == -EACCES || why == -EPERM || why == -EROFS)
			snprintf(cg->why_not[i], sizeof(cg->why_not[i]),
				 "%.80s is not writable: cgroup v1 limits are for root; mount cgroup v2 for others", own);
		else
			snprintf(cg->why_not[i], sizeof(cg->why_not[i]), "%.100s: %s", own, strerrordesc_np(-why));
	}
}

/* Freezing first makes killing sure where no v2 group does that. */
static void create_freezer(struct cgroup *cg, const struct cgroup_trees *trees, const char *name)
{
	struct cgroup_dir *d;
	int why;

	if (!cg->n || cgroup_into_fd(cg) >= 0 || !trees->own[TREE_FREEZER])
		return;
	d = group_add(cg, trees->own[TREE_FREEZER], name, &why);
	if (d)
		d->freezer = true;
}

static struct cgroup_dir *dir_of(const struct cgroup *cg, enum cgroup_limit limit)
{
	for (size_t i = 0; i < cg->n; i++)
		if (cg->v[i].controllers & 1U << limit)
			return (struct cgroup_dir *)&cg->v[i];
	return NULL;
}

static int create_check(struct cgroup *cg, const struct profile *p, struct err *e)
{
	for (int i = 0; i < CGROUP_LIMITS; i++) {
		if (!(cg->asked & ~cg->bounded & 1U << i))
			continue;
		if (!cg->why_not[i][0])
			snprintf(cg->why_not[i], sizeof(cg->why_not[i]), "no cgroup tree with the %s controller is mounted",
				 cgroup_controllers[i]);
		if (p->limits.cgroup.v == MECHANISM_REQUIRE)
			return err_set(e, ENOTSUP, "[limits] %s cannot be bounded, and cgroup = require: %s", limits[i].key,
				       cg->why_not[i]);
	}
	return 0;
}

int cgroup_create(const struct profile *p, const char *run_id, bool for_ebpf, struct cgroup *out, struct err *e)
{
	cleanup_free char *name = mem_printf(CGROUP_PREFIX "%s", run_id);
	struct cgroup_trees trees;
	int r;

	*out = (struct cgroup){.oom_fd = -1, .oom_file = -1};
	out->asked = limits_asked(p);
	out->nested = p->syscalls.nested_namespaces.v;
	if (p->limits.cgroup.v == MECHANISM_OFF) {
		for (int i = 0; i < CGROUP_LIMITS; i++)
			if (out->asked & 1U << i)
				snprintf(out->why_not[i], sizeof(out->why_not[i]), "[limits] cgroup = off");
		snprintf(out->why_no_v2, sizeof(out->why_no_v2), "[limits] cgroup = off");
		return 0;
	}
	r = cgroup_find(&trees, e);
	if (r < 0)
		return r;
	create_v2(out, &trees, p, run_id, for_ebpf || out->asked);
	create_v1(out, &trees, p, name);
	create_freezer(out, &trees, name);
	cgroup_trees_free(&trees);
	r = create_check(out, p, e);
	/* A group that bounds nothing is no use, but to eBPF. */
	if (r < 0 || (!out->bounded && !for_ebpf))
		cgroup_remove(out, 0, NULL);
	return r;
}

int cgroup_call(const struct cgroup *cg, void (*fn)(void *arg), void *arg, struct err *e)
{
	if (cg->twin)
		return twin_call(cg->twin, fn, arg, e);
	fn(arg);
	return 0;
}

int cgroup_into_fd(const struct cgroup *cg)
{
	for (size_t i = 0; i < cg->n; i++)
		if (cg->v[i].v2)
			return cg->v[i].leaf_fd;
	return -1;
}

int cgroup_ebpf_fd(const struct cgroup *cg)
{
	for (size_t i = 0; i < cg->n; i++)
		if (cg->v[i].v2)
			return cg->v[i].fd;
	return -1;
}

/*
 * v2: a change of memory.events is a priority event, for a reader that has read it once. v1: an eventfd bound to
 * memory.oom_control (admin-guide/cgroup-v1/memory.rst).
 */
int cgroup_watch_oom(struct cgroup *cg, uint32_t *events)
{
	struct cgroup_dir *d = dir_of(cg, CGROUP_MEMORY);
	cleanup_fd int event = -1, file = -1;
	char text[64];

	if (!d || cg->oom_fd >= 0)
		return -1;
	if (d->v2) {
		cg->oom_fd = openat(d->fd, "memory.events", O_RDONLY | O_CLOEXEC);
		*events = EPOLLPRI;
		cgroup_oom_seen(cg);
		return cg->oom_fd;
	}
	event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	file = openat(d->fd, "memory.oom_control", O_RDONLY | O_CLOEXEC);
	if (event < 0 || file < 0)
		return -1;
	snprintf(text, sizeof(text), "%d %d", event, file);
	if (fd_write_file(d->fd, "cgroup.event_control", text) < 0)
		return -1;
	cg->oom_fd = steal_fd(&event);
	cg->oom_file = steal_fd(&file);
	*events = EPOLLIN;
	return cg->oom_fd;
}

void cgroup_oom_seen(const struct cgroup *cg)
{
	char text[4096];

	if (cg->oom_fd < 0)
		return;
	if (cg->oom_file < 0)
		lseek(cg->oom_fd, 0, SEEK_SET);
	/* What it says is looked up by cgroup_stats. */
	if (read(cg->oom_fd, text, sizeof(text)) < 0)
		return;
}

int cgroup_join_fds(const struct cgroup *cg, int *fds, struct err *e)
{
	int n = 0;

	for (size_t i = 0; i < cg->n; i++) {
		if (cg->v[i].v2)
			continue;
		fds[n] = openat(cg->v[i].leaf_fd, "tasks", O_WRONLY | O_CLOEXEC);
		if (fds[n] < 0) {
			int r = err_errno(e, errno, "%s/box/tasks", cg->v[i].path);

			while (n)
				close(fds[--n]);
			return r;
		}
		n++;
	}
	return n;
}

static void stats_peak(uint64_t now, uint64_t *peak)
{
	if (now > *peak)
		*peak = now;
}

void cgroup_stats(const struct cgroup *cg, struct cgroup_stats *out)
{
	const struct cgroup_dir *memory = dir_of(cg, CGROUP_MEMORY), *pids = dir_of(cg, CGROUP_PROCESSES);
	uint64_t n;

	if (memory) {
		out->has_memory = cgroup_number(memory->fd, memory->v2 ? "memory.peak" : "memory.max_usage_in_bytes", NULL, &n) ||
				  cgroup_number(memory->fd, memory->v2 ? "memory.current" : "memory.usage_in_bytes", NULL, &n);
		if (out->has_memory)
			stats_peak(n, &out->peak_memory_bytes);
		if (memory->v2)
			cgroup_number(memory->fd, "memory.events", "oom_kill", &out->oom_kills);
		else /* v1 counts where the victim was, not where the limit is (mm/memcontrol-v1.c) */
			cgroup_number(memory->leaf_fd, "memory.oom_control", "oom_kill", &out->oom_kills);
	}
	if (pids) {
		out->has_processes = cgroup_number(pids->fd, "pids.peak", NULL, &n) || cgroup_number(pids->fd, "pids.current", NULL, &n);
		if (out->has_processes)
			stats_peak(n, &out->peak_processes);
		/* Counted where the fork was tried, or where the limit is: that changed with Linux 6.11 (kernel/cgroup/pids.c). */
		if (cgroup_number(pids->fd, "pids.events", "max", &n))
			stats_peak(n, &out->refused_forks);
		if (cgroup_number(pids->leaf_fd, "pids.events", "max", &n))
			stats_peak(n, &out->refused_forks);
	}
	/* cpu.stat is there without the controller too. */
	if (cgroup_number(cgroup_ebpf_fd(cg), "cpu.stat", "usage_usec", &n)) {
		out->cpu_ms = n / 1000;
		out->has_cpu = true;
	}
}

static void sleep_ms(long ms)
{
	nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL);
}

int cgroup_kill(const struct cgroup *cg)
{
	int r = 0;

	for (int round = 0; round < 100; round++) {
		r = 0;
		for (size_t i = 0; i < cg->n; i++) {
			int one = cgroup_dir_kill(cg->v[i].fd, cg->v[i].leaf_fd, cg->v[i].v2, cg->v[i].freezer);

			if (one == 0 && cg->v[i].v2)
				return 0;
			r = r ?: one;
		}
		if (r != -EAGAIN)
			return r;
		sleep_ms(2);
	}
	return r;
}

int cgroup_remove(struct cgroup *cg, unsigned timeout_ms, struct err *e)
{
	unsigned waited_ms = 0, pause_ms = 1;
	int r = 0;

	for (size_t i = 0; i < cg->n;) {
		struct cgroup_dir *d = &cg->v[i];
		int one = cgroup_dir_remove(d->path);

		if (one == -EBUSY && waited_ms < timeout_ms) {
			sleep_ms(pause_ms);
			waited_ms += pause_ms;
			pause_ms = pause_ms < 16 ? pause_ms * 2 : 16;
			continue;
		}
		if (one < 0) {
			r = err_errno(e, -one, "cannot remove the control group %s", d->path);
			i++;
			continue;
		}
		cgroup_dir_close(d);
		cg->n--;
		if (i < cg->n)
			*d = cg->v[cg->n];
	}
	/* Where something stayed too: with the last process the scope goes, and all in it. */
	twin_end(cg->twin);
	cg->twin = NULL;
	return r;
}

void cgroup_close(struct cgroup *cg)
{
	for (size_t i = 0; i < cg->n; i++)
		cgroup_dir_close(&cg->v[i]);
	cg->n = 0;
	twin_end(cg->twin);
	cg->twin = NULL;
	if (cg->oom_fd >= 0) {
		close(cg->oom_fd);
		if (cg->oom_file >= 0)
			close(cg->oom_file);
	}
	cg->oom_fd = cg->oom_file = -1;
}

void cgroup_paths(const struct cgroup *cg, struct strv *out)
{
	for (size_t i = 0; i < cg->n; i++)
		strv_add(out, cg->v[i].path);
}

int cgroup_remove_path(const char *path, unsigned timeout_ms, struct err *e)
{
	const char *base = strrchr(path, '/');
	cleanup_fd int fd = -1, leaf_fd = -1;
	unsigned waited_ms = 0;
	bool v2 = false;
	int r;

	if (path[0] != '/' || !str_has_prefix(base + 1, CGROUP_PREFIX) || strstr(path, "/../"))
		return err_set(e, EINVAL, "%s: not a control group of agentbox", path);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return errno == ENOENT ? 0 : err_errno(e, errno, "%s", path);
	if (!cgroup_is_cgroupfs(fd, &v2))
		return err_set(e, EINVAL, "%s: not a control group", path);
	leaf_fd = openat(fd, CGROUP_LEAF, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	for (;;) {
		r = cgroup_dir_kill(fd, leaf_fd >= 0 ? leaf_fd : fd, v2, faccessat(fd, "freezer.state", F_OK, 0) == 0);
		if (r == 0 || r == -EAGAIN)
			r = cgroup_dir_remove(path);
		if (r != -EBUSY || waited_ms >= timeout_ms)
			break;
		sleep_ms(4);
		waited_ms += 4;
	}
	return r < 0 ? err_errno(e, -r, "cannot remove the control group %s", path) : 0;
}
