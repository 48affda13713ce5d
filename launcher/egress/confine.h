/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the gateway and its resolver give up before they see a byte from the box. */
#ifndef AGENTBOX_EGRESS_CONFINE_H
#define AGENTBOX_EGRESS_CONFINE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/*
 * First in a fresh fork of the supervisor: nothing of it stays, neither signals nor terminal nor descriptors, and the
 * process ends with it, but where it outlives it. name: for ps(1), 15 characters. keep: descriptors above 2 to keep, ascending.
 * Return: 0 or -errno; -ESRCH: `parent` (getpid() before the fork) has ended already (not where it outlives it).
 */
int leave_supervisor(pid_t parent, const char *name, bool outlives, const int *keep, size_t n_keep);

/*
 * Each: no capabilities in any set, no_new_privs, no core, no files to write, not to be traced; Landlock where the
 * kernel has it; a filter of system calls. The gateway may open no file and has an allow list of calls; the resolver
 * reads files. host: the gateway is a name server alone: no sockets of its own, and bpf(2) to write maps.
 * Return: 0 or -errno; *what (gateway): the part that failed, static text.
 */
int confine_gateway(bool host, const char **what);
int confine_resolver(void);

/* For run/sweeper.c: keeps one capability, to remove control groups in a directory of another user's. Return: 0 or -errno. */
int confine_sweeper(void);

#endif
