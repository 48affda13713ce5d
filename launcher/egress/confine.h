/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the gateway and its resolver give up before they see a byte from the box. */
#ifndef AGENTBOX_EGRESS_CONFINE_H
#define AGENTBOX_EGRESS_CONFINE_H

/*
 * Each: no capabilities in any set, no_new_privs, no core, no files to write, not to be traced; Landlock where the
 * kernel has it; a filter of system calls. The gateway may open no file and has an allow list of calls; the resolver
 * reads files.
 * Return: 0 or -errno; *what (gateway): the part that failed, static text.
 */
int confine_gateway(const char **what);
int confine_resolver(void);

#endif
