/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What of the box this host lets this caller do: each step done for real, in a child that leaves nothing behind. */
#ifndef AGENTBOX_BOX_PROBE_H
#define AGENTBOX_BOX_PROBE_H

#include "base/err.h"
#include "box/netns.h"

enum probe_step {
	PROBE_USER_NAMESPACE,
	PROBE_ID_MAP,
	PROBE_NAMESPACES,    /* mount, pid, net, ipc, uts, cgroup */
	PROBE_MOUNT,         /* a tmpfs, by the new mount API */
	PROBE_MOUNT_SETATTR, /* the whole tree cloned and made read-only */
	PROBE_PROC,          /* /proc of the new PID namespace */
	PROBE_OVERLAY,       /* with upper and work in the state directory */
	PROBE_GATEWAY,       /* the network plumbing of egress.mode = gateway */
	PROBE_STEPS,
};

#define PROBE_NOT_TRIED (-1)

struct box_probe {
	int result[PROBE_STEPS]; /* 0, an errno, or PROBE_NOT_TRIED where an earlier step failed */
	struct netns_failure gateway;
	enum netns_capture capture; /* where PROBE_GATEWAY succeeded */
};

/*
 * state: the state directory, open; a directory is made in it and removed. -1: the overlay is not tried.
 * Return: 0 or -errno (no child could be had).
 */
int box_probe(int state, struct box_probe *out, struct err *e);

#endif
