/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The steps that make the box's root: system directories, /etc, /dev, /proc and what is temporary. */
#ifndef AGENTBOX_BOX_ROOT_H
#define AGENTBOX_BOX_ROOT_H

#include "box/plan.h"
#include "box/request.h"

/* Return: 0 or -errno with `e`. */
int root_add(struct plan *plan, const struct profile *profile, struct err *e);

/* Is the name of /etc one that root_add takes from the host? For `why` and the tests. */
bool root_etc_is_shown(const char *name);

#endif
