/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Beneath which v2 group a run's can be made. Used by box/cgroup.c only. */
#ifndef AGENTBOX_BOX_CGROUP_PARENT_H
#define AGENTBOX_BOX_CGROUP_PARENT_H

#include "box/cgroup.h"

extern const char *const cgroup_controllers[CGROUP_LIMITS]; /* the kernel's names */

/*
 * The caller's own group, else the group above it (a sibling): systemd's user manager owns the slices that its scopes lie
 * in, and a scope has processes itself. own: the caller's group, absolute. asked: 1 << enum cgroup_limit; the controllers are
 * turned on. Return: the parent, fresh, and in *can what it bounds; NULL and why (-errno).
 */
char *cgroup_parent(const char *own, unsigned asked, unsigned *can, int *why);

/* In words, with what mends it: what `why` of cgroup_parent means for the group `dir`. */
void cgroup_parent_explain(const char *dir, int why, char *text, size_t len);

#endif
