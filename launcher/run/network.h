/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * egress.mode = gateway: the policy, the gateway process beside the box, and what it reports as events. With mode = host
 * that process is the box's name server.
 */
#ifndef AGENTBOX_RUN_NETWORK_H
#define AGENTBOX_RUN_NETWORK_H

#include "run/supervisor.h"

/*
 * mode = host: binds the name server's sockets and puts its address into s->host, before the plan is built. Return: 0 or
 * -errno with `e`.
 */
int network_names(struct supervisor *s, struct err *e);

/* Compiles the policy and puts what the box's network needs into the plan. Return: 0 or -errno with `e`. */
int network_plan(struct supervisor *s, struct err *e);

/* Opens what box and gateway will talk over, before the box is cloned. Return: 0 or -errno with `e`. */
int network_open(struct supervisor *s, struct err *e);

/* Starts the gateway, beside the box that was cloned. Return: 0 or -errno with `e`. */
int network_start(struct supervisor *s, struct err *e);

/* mode = host: the eBPF filters are attached, and the name server gets what it needs. Return: 0 or -errno with `e`. */
int network_attached(struct supervisor *s, struct err *e);

/* With network.failed_early: why, in words. */
void network_failure_text(const struct supervisor *s, struct err *e);

/* May the command start? */
bool network_is_ready(const struct supervisor *s);

/* The report socket is readable. Return: 0 or -errno with `e`: the log cannot be written, or the gateway failed too early. */
int network_report(struct supervisor *s, struct err *e);

/*
 * egress.connect for what the gateway does not see. r: type EGRESS_CONNECT. pid: 0 where it is not known; comm: NULL then.
 * Return: as network_report.
 */
int network_connect(struct supervisor *s, const struct egress_report *r, pid_t pid, const char *comm, struct err *e);

/* Ends the gateway, after its last reports. Return: as network_report. */
int network_finish(struct supervisor *s, struct err *e);

/* Adds what went through it to run.end. */
void network_end_fields(const struct supervisor *s, json_t *end);

/* "denied: evil.test:443, ..." appended; nothing where none was. */
void network_summary(const struct supervisor *s, struct str *out);

void network_free(struct supervisor *s);

#endif
