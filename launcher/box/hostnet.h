/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A box that keeps this host's network namespace (egress.mode = host). What is not an Internet socket is not seen by the
 * eBPF filters on its control group, and has to be closed by other means: UNIX sockets of the abstract namespace (they
 * belong to the network namespace) by Landlock's scope, other families by the filter of system calls.
 */
#ifndef AGENTBOX_BOX_HOSTNET_H
#define AGENTBOX_BOX_HOSTNET_H

#include "base/err.h"
#include "box/plan.h"

/*
 * Is all of that in the plan, and nothing that leads past the filters: no network socket that is kept (the filters of the
 * group count where it was opened), no writable tree of control groups? Return: 0; -ENOTSUP or -EPERM with `e`.
 */
int hostnet_check(const struct plan *plan, struct err *e);

#endif
