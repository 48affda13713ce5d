/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The mount steps of a plan, executed in the child. Async-signal-safe: no allocation, no stdio.
 *
 * The new root is a tmpfs that is stacked on "/" of the new mount namespace: absolute paths still start at the old root,
 * so no source is hidden by it, wherever it lies. Sources are opened once, without symbolic links, and compared with what
 * the plan saw. Destinations are resolved beneath the new root without following any symbolic link, and made only on file
 * systems of the box's own. Nothing is created on the host.
 */
#ifndef AGENTBOX_BOX_MOUNTS_H
#define AGENTBOX_BOX_MOUNTS_H

#include "box/plan.h"

/* Where it stopped: the step's index, and which object of it. */
enum mounts_object {
	MOUNTS_ROOT,   /* the tmpfs of the root, or the switch to it: no step */
	MOUNTS_SOURCE,
	MOUNTS_DEST,
	MOUNTS_ATTACH, /* the mount itself */
};
struct mounts_failure {
	int step;
	enum mounts_object object;
};

/* Return: 0, the working directory is then the new root; or -errno with *failure. ESTALE: a source is not what the plan saw. */
int mounts_execute(const struct plan *plan, struct mounts_failure *failure);

/* Leaves the old tree for the new root: pivot_root, and the old one detached. Return: 0 or -errno. */
int mounts_enter_root(void);

#endif
