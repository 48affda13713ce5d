/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The run's control groups: what bounds the box as a whole. Supervisor's side.
 *
 * PARENT/agentbox-RUNID. A box with nested-namespaces = yes can mount cgroupfs and, its uid being the owner's, write what
 * it sees; a cgroup namespace that it makes begins at its own group. So there it has a second level, PARENT/agentbox-RUNID/box:
 * it sees that, and not the limits. Other boxes do without: 50 us for each tree.
 *
 * cgroup v2 where the controllers are there and the caller may write, be it in a scope that his systemd --user makes for the run
 * (box/cgroup_systemd.h); v1 hierarchies where they are mounted; with v1 also a group in the v2 tree
 * without controllers, if there is one, for eBPF and for killing all at once.
 *
 * Everything here parses /proc/self/mountinfo: not on the way of a run that asks for no limit.
 */
#ifndef AGENTBOX_BOX_CGROUP_H
#define AGENTBOX_BOX_CGROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/str.h"
#include "profile/profile.h"
#include "sys/twin.h"

enum cgroup_limit { CGROUP_MEMORY, CGROUP_PROCESSES, CGROUP_CPUS, CGROUP_LIMITS };

#define CGROUP_DIRS_MAX 5
#define CGROUP_WHY_MAX 448

struct cgroup_dir {
	char *path;           /* PARENT/agentbox-RUNID, absolute; owned */
	int fd, leaf_fd;      /* it, and where the processes are: its `box`, or itself again */
	bool v2;
	unsigned controllers; /* 1 << enum cgroup_limit: what is bounded here */
	bool freezer;         /* v1's */
};

struct cgroup {
	struct cgroup_dir v[CGROUP_DIRS_MAX];
	size_t n; /* 0: no group was made */
	bool nested;             /* can the box make groups? */
	unsigned asked, bounded; /* 1 << enum cgroup_limit */
	bool by_systemd;         /* below a scope of systemd --user */
	struct twin *twin;       /* then: who is in that scope, and can clone into it (box/cgroup_systemd.h) */
	char why_no_systemd[256]; /* it was asked and gave none */
	char why_not[CGROUP_LIMITS][CGROUP_WHY_MAX]; /* for each that was asked and is not bounded: why, and how to mend it */
	char why_no_v2[CGROUP_WHY_MAX];     /* where eBPF needs a v2 group and there is none */
	int oom_fd, oom_file;    /* of cgroup_watch_oom; -1: none */
};

/*
 * Makes the groups and sets the limits. `processes` is one more than the profile says, for pid 1 of the box.
 * run_id: of the group's name. for_ebpf: a v2 group is needed too.
 * out: set whole, also on failure; cgroup_close undoes it (cgroup_remove the groups).
 * Return: 0; with `cgroup = require` -ENOTSUP where something that was asked is not bounded (nothing is left then).
 */
int cgroup_create(const struct profile *p, const char *run_id, bool for_ebpf, struct cgroup *out, struct err *e);

/*
 * Runs fn(arg), which clones into the group: in this process, or where that may not, in cg->twin, with CLONE_PARENT then.
 * Return: 0, or -errno where it was not run.
 */
int cgroup_call(const struct cgroup *cg, void (*fn)(void *arg), void *arg, struct err *e);

/* v2: the descriptor for clone3's CLONE_INTO_CGROUP; -1 where there is none. Stays cg's. */
int cgroup_into_fd(const struct cgroup *cg);

/* v2: the group that eBPF programs are attached to; -1 where there is none. Stays cg's. */
int cgroup_ebpf_fd(const struct cgroup *cg);

/*
 * A descriptor that epoll reports, with *events, when something in the group ran out of memory; -1 where this kernel has
 * none (then cgroup_stats tells, when it is asked). Stays cg's. cgroup_oom_seen takes the report, so that the next one is news.
 */
int cgroup_watch_oom(struct cgroup *cg, uint32_t *events);
void cgroup_oom_seen(const struct cgroup *cg);

/*
 * v1: opens what pid 1 of the box writes "0" to, as its first act, to join the groups (CLOEXEC, the caller closes them). A
 * process that moves itself alone costs 40 us; being moved by another takes cgroup_threadgroup_rwsem, and so some RCU grace
 * periods, 10 ms. fds: CGROUP_DIRS_MAX. Return: how many, or -errno with the group named.
 */
int cgroup_join_fds(const struct cgroup *cg, int *fds, struct err *e);

struct cgroup_stats {
	uint64_t peak_memory_bytes, peak_processes, refused_forks, cpu_ms, oom_kills;
	bool has_memory, has_processes, has_cpu; /* which of them this kernel tells */
};

/* out: zeroed before the first call. A peak that the kernel does not keep (pids.peak before 6.1) is the highest of the calls. */
void cgroup_stats(const struct cgroup *cg, struct cgroup_stats *out);

/* Kills all that is in the groups. Return: 0, or -errno where something could be left. */
int cgroup_kill(const struct cgroup *cg);

/* Removes the groups, waiting at most timeout_ms for what still ends in them. Return: 0 or -errno (then they stay). */
int cgroup_remove(struct cgroup *cg, unsigned timeout_ms, struct err *e);

/* Closes descriptors and frees. Groups that were not removed stay. */
void cgroup_close(struct cgroup *cg);

/* The absolute paths, for the run's record. Adds to out. */
void cgroup_paths(const struct cgroup *cg, struct strv *out);

/*
 * For prune, after a crash: kills what is in a group of an earlier run and removes it. A path that is no control group, or
 * whose name does not begin with "agentbox-", is refused; one that is not there is done.
 */
int cgroup_remove_path(const char *path, unsigned timeout_ms, struct err *e);

/* What this host offers to this caller, for doctor. */
struct cgroup_host {
	bool v1, v2;                    /* mounted */
	bool can[CGROUP_LIMITS];        /* a run could bound it */
	bool v2_group;                  /* a run could have a v2 group (eBPF) */
	bool by_systemd;                /* it would, or why it would not, by a scope of systemd --user */
	char why_no_systemd[256];
	char why_not[CGROUP_LIMITS][CGROUP_WHY_MAX];
	char own_v2[256];               /* the caller's own v2 group's directory, or "" */
};

void cgroup_probe(struct cgroup_host *out);

#endif
