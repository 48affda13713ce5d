/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The box's network namespace, made by a helper beside the mounts: it takes the kernel a third of all that a start costs (0.4 ms),
 * and nothing of the mounts waits for it. The helper is a process in this one's memory and descriptors that is gone before
 * netns_maker_join returns, and so before any code of the box's runs. It calls the kernel five times and writes nothing but its
 * result: of what the two share errno is only touched where a call of it fails, and then the start does.
 *
 * For the cloned child, before capabilities go. Async-signal-safe.
 */
#ifndef AGENTBOX_BOX_NETNS_MAKER_H
#define AGENTBOX_BOX_NETNS_MAKER_H

#include <sys/types.h>

#include "box/netns.h"

struct netns_maker {
	pid_t pid;  /* 0: none */
	int socket; /* one of the new namespace, which holds it; or -errno of what failed */
	int step;   /* enum netns_step of that */
	_Alignas(16) char stack[16384];
};

/* m: stays where it is until netns_maker_join. Return: 0 or -errno. */
int netns_maker_start(struct netns_maker *m);

/* Waits for it, and goes into the namespace, whose loopback is up. Return: 0 or -errno with *failure set. */
int netns_maker_join(struct netns_maker *m, struct netns_failure *failure);

#endif
