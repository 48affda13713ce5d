/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The host directories of a run: made as the plan lists them, and removed after it. */
#ifndef AGENTBOX_RUN_DIRS_H
#define AGENTBOX_RUN_DIRS_H

#include "run/supervisor.h"

/* Makes plan->make_dirs, and events.jsonl. Return: descriptor of the event log's file, or -errno with `e`. */
int dirs_make(struct supervisor *s, struct err *e);

/*
 * Disk space for the ends of records, so that a box which fills the disk (its layer, its artifacts) does not keep its own
 * end out of it: the state directory's file "reserve", which stays, as taking and freeing space for each run costs more
 * than a short run (a disk's discard). Made or filled up again by the run that finds it short.
 * Return: a descriptor; -1 where the file system has no such thing.
 */
int dirs_reserve(int state);

/* Gives a part of it free if the disk is full or, as `failed` says, a write has failed already. */
void dirs_use_reserve(int reserve, bool failed);

/*
 * Removes what the box could write and nothing needs any more: layers, work directories, skeletons, leftovers. The record
 * and the artifacts stay. Return: 0 or the first -errno with `e`; `prune` tries again.
 */
int dirs_remove(struct supervisor *s, struct err *e);

#endif
