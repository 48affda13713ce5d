/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Sockets of the host's programs in granted directories (a Docker or an ssh-agent's socket): connect(2) works on a read-only
 * mount too, so a grant of the directory would be one of the program behind it.
 */
#ifndef AGENTBOX_BOX_SOCKETS_H
#define AGENTBOX_BOX_SOCKETS_H

#include "base/err.h"
#include "base/str.h"

/*
 * Paths of the UNIX sockets bound now in the supervisor's network namespace (unix(7), /proc/net/unix). Relative ones are left
 * out: nobody can say where they lie. Return: 0 or -errno with `e`.
 */
int sockets_find(struct strv *out, struct err *e);

#endif
