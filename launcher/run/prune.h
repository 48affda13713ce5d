/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What a run left on the host, removed. */
#ifndef AGENTBOX_RUN_PRUNE_H
#define AGENTBOX_RUN_PRUNE_H

#include <jansson.h>

#include "base/err.h"

/*
 * Removes what run.json names outside the state directory:
 *   "leftovers"  absolute real paths. Only where the last component starts with ".agentbox-" and belongs to the caller;
 *                no component may be a symbolic link, as the box may have had its hands on the directories above.
 *   "cgroups"    absolute paths of cgroup directories, see cgroup_remove_path.
 * What is gone already is no error. Everything is tried. Return: 0, or the first -errno with `e`.
 */
int prune_leftovers(const json_t *run, struct err *e);

/*
 * What an ended run could not remove, while its record stays: the leftovers, and in run_dir the directories that the box was
 * made of. Artifacts and record are left alone. Everything is tried. Return: 0, or the first -errno with `e`.
 */
int prune_ended(int run_dir, const json_t *run, struct err *e);

#endif
