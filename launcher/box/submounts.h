/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Mounts beneath a directory: an overlay does not show them, so the plan binds them on top. */
#ifndef AGENTBOX_BOX_SUBMOUNTS_H
#define AGENTBOX_BOX_SUBMOUNTS_H

#include "base/err.h"
#include "base/str.h"

/* Mount points strictly beneath `dir` (absolute, real), as the kernel lists them (parents first). One read of mountinfo. */
int submounts_find(const char *dir, struct strv *out, struct err *e);

/* Do both paths lie on the same mount (statx, mnt_id)? Return: 1, 0, or -errno. */
int submounts_same(const char *a, const char *b);

#endif
