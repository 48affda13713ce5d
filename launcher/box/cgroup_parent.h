/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Beneath which v2 group a run's can be made. Used by box/cgroup.c only. */
#ifndef AGENTBOX_BOX_CGROUP_PARENT_H
#define AGENTBOX_BOX_CGROUP_PARENT_H

#include "box/cgroup.h"

extern const char *const cgroup_controllers[CGROUP_LIMITS]; /* the kernel's names */

/*
 * The caller's own group, else the group above it (a sibling): systemd's user manager owns the slices that its scopes lie
 * in, and a scope has processes itself. own: the caller's group, absolute. asked: 1 << enum cgroup_limit; the controllers are
 * turned on. slices: also in a slice of systemd's; at its next daemon-reload it turns off again what it did not turn on itself, and
 * the limit is gone [seen with systemd 252: cpu].
 * Return: the parent, fresh, and in *can what it bounds; NULL. Then, or where not all can be bounded, *why says it (-errno);
 * -EAGAIN: a slice would do more.
 */
char *cgroup_parent(const char *own, unsigned asked, bool slices, unsigned *can, int *why);

/*
 * Which of the asked limits a group beneath `dir` can have; turns their controllers on (they stay on: others may use them
 * by then). why: set where one cannot be had.
 */
unsigned cgroup_enable(const char *dir, unsigned asked, int *why);

/* In words: what `why` of cgroup_parent means for the group `dir`. */
void cgroup_parent_explain(const char *dir, int why, char *text, size_t len);

#endif
