/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Mounts that cover: what `deny` (box/deny.c) and `protect` (box/protect.c) come to. They follow every other step: a cover
 * wins wherever it stands.
 *
 * A path that is there gets a mount over it, in an overlay's view of its place: see needs_overlay. A name that is not there,
 * in a place that the command can write to on the host, must stay uncreatable and yet leave nothing behind on the host: the
 * writable bind becomes an overlay whose upper is the real directory and whose lower is a skeleton with just the missing
 * names, and they are covered in the merged view. What leads to a covered path on the host is bound onto itself, so that it
 * cannot be moved away from under it.
 */
#ifndef AGENTBOX_BOX_COVERS_H
#define AGENTBOX_BOX_COVERS_H

#include "box/plan.h"
#include "box/request.h"

/* What host directory lies where in the box. */
struct place {
	size_t step;        /* index in the plan: steps move when the vector grows */
	char *dest, *root;  /* in the box; on the host: the root of what is shown */
	bool writable_host; /* the command writes to the host's own files here */
	bool overlay;       /* or to a layer over them */
	bool has_covers;    /* of names beneath the root */
	bool granted;       /* a directory of the profile's or the command line's, read-only */
	struct strv missing; /* names relative to root that must not come into being */
	struct strv missing_common; /* the same for a git directory's `commondir`, see protect_git_dir */
};

struct covers {
	struct plan *plan;
	const struct run_host *host;
	struct place *places;
	size_t n_places, cap_places;
	struct mount_step *pending; /* the covers, sorted and added at the end */
	size_t n_pending, cap_pending;
	bool writable_only; /* only places that the command can write to on the host, see covers_hold */
};

/* Collects the places of the steps so far. covers_free undoes it. */
void covers_begin(struct covers *c, struct plan *plan, const struct run_host *host);
void covers_free(struct covers *c);

/*
 * A host path (absolute, normal) in every place that shows it, where no later mount hides it. op: MOUNT_MASK or MOUNT_PIN.
 * Return: how many places show it; -errno with `e`.
 */
int covers_shown(struct covers *c, const char *path, enum mount_op op, struct origin from, struct err *e);
/* The same, where it does not matter how many. Return: 0 or -errno with `e`. */
int covers_host_path(struct covers *c, const char *path, enum mount_op op, struct origin from, struct err *e);

/*
 * An absolute path as somebody wrote it, that the next run will be given again: each link that it goes through, and what it leads
 * to (op: MOUNT_SELF or MOUNT_PIN; where it is missing it stays so), where the command could change them. Return: 0 or -errno with `e`.
 */
int covers_hold(struct covers *c, const char *path, enum mount_op op, struct err *e);

/* A path relative to a place's root, as it is; what leads to it is held. */
void covers_at(struct covers *c, struct place *p, const char *rel, enum mount_op op, struct origin from);

/* A step of its own at a path of the box. */
void covers_pend(struct covers *c, enum mount_op op, const char *dest, struct origin from);

/* Turns what was collected into steps of the plan. Return: 0 or -errno with `e`. */
int covers_finish(struct covers *c, struct err *e);

#endif
