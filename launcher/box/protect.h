/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * workspace.protect: what runs code on the host later (hooks, editors' and agents' settings) stays as it is, in the
 * repository, in those nested in it, and in the git directories of submodules and linked work trees.
 */
#ifndef AGENTBOX_BOX_PROTECT_H
#define AGENTBOX_BOX_PROTECT_H

#include "box/covers.h"

/* Return: 0 or -errno with `e`. */
int protect_add(struct covers *c, const struct profile *profile, struct err *e);

#endif
