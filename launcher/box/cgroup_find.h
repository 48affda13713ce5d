/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Where the caller's own control groups are mounted. Used by box/cgroup*.c only. */
#ifndef AGENTBOX_BOX_CGROUP_FIND_H
#define AGENTBOX_BOX_CGROUP_FIND_H

#include "base/err.h"

enum cgroup_tree { TREE_V2, TREE_MEMORY, TREE_PIDS, TREE_CPU, TREE_FREEZER, TREES };

/* The directory of the caller's own group in each tree; NULL where that is not mounted, or does not show the caller. */
struct cgroup_trees {
	char *own[TREES]; /* absolute; owned */
};

/* Return: 0, or -errno with the file that could not be read. */
int cgroup_find(struct cgroup_trees *out, struct err *e);
void cgroup_trees_free(struct cgroup_trees *t);

/* The same from the texts of /proc/self/mountinfo and /proc/self/cgroup, which are changed. For tests. */
void cgroup_find_in(char *mountinfo, char *groups, struct cgroup_trees *out);

#endif
