/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * `deny` and `protect`, turned into mounts that cover. Comes after every other step: a cover wins wherever it stands.
 *
 * A path that is there gets a mount over it. A name that is not there, in a place that the command can write to on the
 * host, must stay uncreatable and yet leave nothing behind on the host: the writable bind becomes an overlay whose upper is
 * the real directory and whose lower is a skeleton with just the missing names, and they are covered in the merged view.
 * What leads to a covered path on the host is bound onto itself, so that it cannot be moved away from under it.
 */
#ifndef AGENTBOX_BOX_COVERS_H
#define AGENTBOX_BOX_COVERS_H

#include "box/plan.h"
#include "box/request.h"

/* Return: 0 or -errno with `e`. */
int covers_add(struct plan *plan, const struct profile *profile, const struct run_host *host, struct err *e);

#endif
