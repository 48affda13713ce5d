/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The host directories of a run: made as the plan lists them, and removed after it. */
#ifndef AGENTBOX_RUN_DIRS_H
#define AGENTBOX_RUN_DIRS_H

#include "run/supervisor.h"

/* Makes plan->make_dirs, and events.jsonl. Return: descriptor of the event log's file, or -errno with `e`. */
int dirs_make(struct supervisor *s, struct err *e);

/*
 * Holds disk space for the end of the record, so that a box which fills the disk (its layer, its artifacts) does not keep its
 * own end out of it. Return: a descriptor, whose close gives the space free; -1 where the file system has no such thing.
 */
int dirs_reserve(const char *run_path);

/*
 * Removes what the box could write and nothing needs any more: layers, work directories, skeletons, leftovers. The record
 * and the artifacts stay. Return: 0 or the first -errno with `e`; `prune` tries again.
 */
int dirs_remove(struct supervisor *s, struct err *e);

#endif
