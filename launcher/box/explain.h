/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What a plan allows at one path of the box, and which line says so: `agentbox why`. */
#ifndef AGENTBOX_BOX_EXPLAIN_H
#define AGENTBOX_BOX_EXPLAIN_H

#include "box/plan.h"

enum explain_access { EXPLAIN_READ, EXPLAIN_WRITE, EXPLAIN_EXEC };

/*
 * path: absolute; of the box, or of the host where the box shows that elsewhere. What the file's own mode says is left out:
 * the command has the caller's uid. text: one line, appended. Return: 1 allowed, 0 denied.
 */
int plan_explain(const struct plan *p, enum explain_access access, const char *path, struct str *text);

#endif
