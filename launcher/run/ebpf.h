/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* egress.ebpf: the eBPF programs on the run's control group, what they refuse as events, and whose a connection is. */
#ifndef AGENTBOX_RUN_EBPF_H
#define AGENTBOX_RUN_EBPF_H

#include "run/supervisor.h"

#define EBPF_COMM_MAX 17

/*
 * Decides whether they are wanted: s->ebpf.wanted, or .why. Before the control groups are made, as they need one.
 * Return: 0; with egress.ebpf = require and something missing -errno with `e`.
 */
int ebpf_plan(struct supervisor *s, struct err *e);

/* The control groups are made: is there one to attach to? Return: as ebpf_plan. */
int ebpf_check_group(struct supervisor *s, struct err *e);

/* Loads and attaches. Return: as ebpf_plan. */
int ebpf_attach(struct supervisor *s, struct err *e);

/* The ring has records. Return: 0 or -errno with `e`: the log cannot be written. */
int ebpf_records(struct supervisor *s, struct err *e);

/* A name was answered with an address. */
void ebpf_note_name(struct supervisor *s, const struct address *addr, const char *name);

/*
 * Whose connection does the gateway report? comm: EBPF_COMM_MAX. *pid: 0 where it is not the host's number. Return: false
 * where it is not known.
 */
bool ebpf_owner(struct supervisor *s, const struct egress_report *r, pid_t *pid, char *comm);

/* mode = host: an address is about to be answered for a name. */
void ebpf_note_given(struct supervisor *s, const struct address *addr, const char *name);

/* mode = host: what waits in the ring without having woken, and egress.max-bytes. Return: as ebpf_records. */
int ebpf_sample(struct supervisor *s, struct err *e);

/* mode = host: nothing passes any more. */
void ebpf_close(struct supervisor *s);

/* The box is gone: the last records, and how many were lost. Detaches. Return: as ebpf_records. */
int ebpf_finish(struct supervisor *s, struct err *e);

void ebpf_free(struct supervisor *s);

#endif
