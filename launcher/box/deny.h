/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* filesystem.deny, the record of the runs, and sockets of the host's programs: what the command shall not reach at all. */
#ifndef AGENTBOX_BOX_DENY_H
#define AGENTBOX_BOX_DENY_H

#include "box/covers.h"

/* Return: 0 or -errno with `e`. */
int deny_add(struct covers *c, const struct profile *profile, struct err *e);

#endif
