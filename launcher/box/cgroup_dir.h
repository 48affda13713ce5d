/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* One directory of a cgroup tree: made, killed, removed. Used by box/cgroup*.c only. */
#ifndef AGENTBOX_BOX_CGROUP_DIR_H
#define AGENTBOX_BOX_CGROUP_DIR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "box/cgroup.h"

#define CGROUP_PREFIX "agentbox-"
#define CGROUP_LEAF "box"

/* Is the directory behind fd one of a cgroup filesystem? v2: set to which. */
bool cgroup_is_cgroupfs(int fd, bool *v2);

/*
 * Makes parent/name, and a leaf in it where one is asked for; else it is the leaf itself. Return: 0 or -errno; nothing is
 * left on failure.
 */
int cgroup_dir_make(const char *parent, const char *name, bool leaf, struct cgroup_dir *out);

/* Removes it, with groups that the box made beneath. Return: 0, or -errno (-EBUSY: processes are still in it). */
int cgroup_dir_remove(const char *path);

/* Kills what is in the group. Return: 0 where it is empty now, or dying; -EAGAIN where it has to be done again; -errno. */
int cgroup_dir_kill(int fd, int leaf_fd, bool v2, bool freezer);

void cgroup_dir_close(struct cgroup_dir *d);

/* One number of a file, or behind `key` in it ("oom_kill 3"). key: NULL for a file that is one number. */
bool cgroup_number(int fd, const char *file, const char *key, uint64_t *out);

#endif
