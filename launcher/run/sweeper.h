/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * mode = host: the process that outlives a killed supervisor. The programs there are attached to the run's control group
 * itself (egress/bpf.h), which stays until somebody removes it: this one waits for the supervisor's end, kills what is left in
 * the groups, and removes them. It has nothing of the box, and is gone with a run that ends by itself. Where it is killed too,
 * prune does its work.
 */
#ifndef AGENTBOX_RUN_SWEEPER_H
#define AGENTBOX_RUN_SWEEPER_H

#include "run/supervisor.h"

/* Starts it; the groups are made, and no program is attached yet. Return: 0 or -errno with `e`. */
int sweeper_start(struct supervisor *s, struct err *e);

/* Ends it where the groups are gone; where they are not it goes on trying when we have ended. */
void sweeper_end(struct supervisor *s);

#endif
