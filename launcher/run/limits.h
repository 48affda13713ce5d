/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What bounds the box as a whole: its control groups, from the start of a run to its record. */
#ifndef AGENTBOX_RUN_LIMITS_H
#define AGENTBOX_RUN_LIMITS_H

#include "run/supervisor.h"

/* Makes the groups where the profile asks for something that only they bound. Return: 0 or -errno with `e`. */
int limits_prepare(struct supervisor *s, struct err *e);

/* Says on stderr which limits of the profile nothing keeps on this host (limits.cgroup = auto; with `off` that was asked for). */
void limits_warn(const struct supervisor *s);

/* How often limits_sample wants to be called, in ms; 0: never. */
uint64_t limits_interval_ms(const struct supervisor *s);

/* Looks at what is used: limit.warn at 80 %, limit.hit for an OOM kill, each once. Return: 0 or -errno with `e`. */
int limits_sample(struct supervisor *s, struct err *e);

/* limit.hit and limit.warn, once a run for each key ("limits.memory"). Return: 0 or -errno with `e`. */
int limits_hit(struct supervisor *s, const char *limit, uint64_t value, uint64_t used, struct err *e);
int limits_warning(struct supervisor *s, const char *limit, uint64_t value, uint64_t used, struct err *e);

/* The last look, when the box is gone. After it s->usage holds. */
int limits_final(struct supervisor *s, struct err *e);

/* Did a limit end the command? REASON_NONE where not. */
enum run_reason limits_reason(const struct supervisor *s, int signum);

/* Adds the limits that were reached to the line on stderr. */
void limits_summary(const struct supervisor *s, struct str *out);

/* Adds what was used to run.end. */
void limits_end_fields(const struct supervisor *s, json_t *end);

/* The `cgroup` mechanism for run.start. A new reference. */
json_t *limits_mechanism(const struct supervisor *s);

/* Removes the groups. What cannot be removed stays for prune, and is said in `e`. Return: 0 or -errno. */
int limits_remove(struct supervisor *s, struct err *e);

#endif
