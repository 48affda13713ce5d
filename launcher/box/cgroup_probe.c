/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What control groups this host gives this caller: a run's groups, made and removed at once. */
#include <stdio.h>
#include <unistd.h>

#include "base/mem.h"
#include "box/cgroup.h"
#include "box/cgroup_find.h"

#include "base/banned.h"

void cgroup_probe(struct cgroup_host *out)
{
	struct profile p = {0};
	struct cgroup_trees trees;
	struct cgroup cg;
	struct err e;
	char id[32];

	*out = (struct cgroup_host){0};
	if (cgroup_find(&trees, &e) < 0)
		return;
	out->v2 = trees.own[TREE_V2] != NULL;
	out->v1 = trees.own[TREE_MEMORY] || trees.own[TREE_PIDS] || trees.own[TREE_CPU];
	if (out->v2)
		snprintf(out->own_v2, sizeof(out->own_v2), "%s", trees.own[TREE_V2]);
	cgroup_trees_free(&trees);
	/* Limits that nothing reaches, as nothing is put into the groups. */
	p.limits.memory.bytes = 64 << 20;
	p.limits.processes.n = 64;
	p.limits.cpus.milli = 1000;
	snprintf(id, sizeof(id), "probe-%d", (int)getpid());
	if (cgroup_create(&p, id, true, &cg, &e) == 0) {
		for (int i = 0; i < CGROUP_LIMITS; i++) {
			out->can[i] = cg.bounded & 1U << i;
			snprintf(out->why_not[i], sizeof(out->why_not[i]), "%s", cg.why_not[i]);
		}
		out->v2_group = cgroup_ebpf_fd(&cg) >= 0;
		out->by_systemd = cg.by_systemd;
		snprintf(out->why_no_systemd, sizeof(out->why_no_systemd), "%s", cg.why_no_systemd);
	}
	cgroup_remove(&cg, 500, NULL);
	cgroup_close(&cg);
}
