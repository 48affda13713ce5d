/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The box's side: from clone3 to pid 1. Executes the plan and decides nothing. */
#ifndef AGENTBOX_BOX_CHILD_H
#define AGENTBOX_BOX_CHILD_H

#include <signal.h>

#include "box/plan.h"

struct child_config {
	const struct plan *plan;
	int control;          /* the child's end of the pair of messages.h */
	int streams[3];       /* the box's standard streams; -1: the caller's own */
	int network;          /* where the network's sockets are sent for the gateway; -1: none */
	const int *cgroups;   /* each is written "0" to: the box joins a control group by it */
	size_t n_cgroups;
	char *title;          /* the process's argv and environment in memory, overwritten before the command runs */
	size_t title_len;
	mode_t umask;         /* the command's */
};

/* Runs as pid 1 of the new namespaces, right after clone3, single-threaded; never returns. */
void child_main(const struct child_config *config) __attribute__((noreturn));

/* What /proc/PID/{cmdline,comm} say from now on; the caller's arguments and environment are gone from this copy of memory. */
void child_set_title(const char *name, char *title, size_t title_len);

/* Leaves a cloned child: no atexit handlers, no stdio. The one way out. */
void child_exit(int status) __attribute__((noreturn));

#endif
