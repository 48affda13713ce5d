/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Without nf_tables: as every address is local in the box, a listener at a port has that port of all addresses. What no
 * rule names the kernel refuses by itself, at once. The gateway cannot tell more ports than these apart from none, so a
 * profile that opens more is refused.
 */
#ifndef AGENTBOX_BOX_LISTEN_H
#define AGENTBOX_BOX_LISTEN_H

#include "box/netns.h"

/* What every TCP listener of the gateway has, and what it accepts inherits. fd: of a socket. */
void listen_options(int fd);

/*
 * One listener a port and family into out->listeners, but for the ports where others of the gateway's listen. For the
 * cloned child, as netns_setup. Return: 0; -E2BIG: more than NETNS_LISTEN_PORTS; -errno. What was opened is in `out` in
 * any case.
 */
int listen_ports(const struct netns_plan *plan, bool have6, struct netns_sockets *out);

/*
 * In place of the log of refused packets: a packet socket on `lo` that sees what asks for something: the first segment of
 * a TCP connection, and UDP to others than DNS, from their network header. Return: it or -errno.
 */
int listen_log(void);

#endif
