/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "run/limits.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"

#include "base/banned.h"

#define SAMPLE_MS 500
#define REMOVE_MS 2000

/* Also with cgroup = off: the record then says what is not bounded. */
static bool asks(const struct profile *p)
{
	return p->limits.memory.bytes || p->limits.processes.n || p->limits.cpus.milli;
}

int limits_prepare(struct supervisor *s, struct err *e)
{
	/*
	 * A box that can mount cgroupfs sees the tree from its cgroup namespace's root on, with its uid's rights: that shall be a
	 * group of its own, and not the caller's.
	 */
	bool v2 = s->plan.nested_namespaces || s->ebpf.wanted;

	if (!asks(s->profile) && !v2)
		return 0;
	return cgroup_create(s->profile, s->id, v2, &s->cgroup, e);
}

uint64_t limits_interval_ms(const struct supervisor *s)
{
	return s->cgroup.n ? SAMPLE_MS : 0;
}

static int say(struct supervisor *s, struct strv *said, enum event_type type, const char *limit, uint64_t value, uint64_t used,
	       struct err *e)
{
	if (strv_has(said, limit))
		return 0;
	strv_add(said, limit);
	return record_event(s, type, json_pack("{s:s, s:I, s:I}", "limit", limit, "value", (json_int_t)value, "used", (json_int_t)used), e);
}

int limits_hit(struct supervisor *s, const char *limit, uint64_t value, uint64_t used, struct err *e)
{
	return say(s, &s->limits_hit, EVENT_LIMIT_HIT, limit, value, used, e);
}

int limits_warning(struct supervisor *s, const char *limit, uint64_t value, uint64_t used, struct err *e)
{
	return say(s, &s->limits_warned, EVENT_LIMIT_WARN, limit, value, used, e);
}

int limits_sample(struct supervisor *s, struct err *e)
{
	uint64_t memory = s->profile->limits.memory.bytes, processes = s->profile->limits.processes.n;
	struct cgroup_stats *u = &s->usage;
	int r = 0;

	if (!s->cgroup.n)
		return 0;
	cgroup_stats(&s->cgroup, u);
	if (u->oom_kills)
		r = limits_hit(s, "limits.memory", memory, u->peak_memory_bytes, e);
	else if (memory && u->has_memory && u->peak_memory_bytes >= memory / 5 * 4)
		r = limits_warning(s, "limits.memory", memory, u->peak_memory_bytes, e);
	/* Pid 1 is one of those counted. */
	if (r == 0 && processes && u->has_processes && u->peak_processes > processes / 5 * 4 + 1)
		r = limits_warning(s, "limits.processes", processes, u->peak_processes - 1, e);
	if (r == 0 && processes && u->refused_forks)
		r = limits_hit(s, "limits.processes", processes, processes, e);
	return r;
}

static uint64_t cpu_used_ms(const struct supervisor *s)
{
	return (s->exited.user_us + s->exited.system_us) / 1000;
}

enum run_reason limits_reason(const struct supervisor *s, int signum)
{
	uint64_t cpu_ms = s->profile->limits.cpu_time.ms;

	if (signum == SIGKILL && s->usage.oom_kills)
		return REASON_OOM;
	/* RLIMIT_CPU: SIGXCPU at the limit, SIGKILL a second later for those who ignore it (setrlimit(2)). */
	if (cpu_ms && (signum == SIGXCPU || (signum == SIGKILL && cpu_used_ms(s) >= cpu_ms)))
		return REASON_LIMIT;
	if (s->profile->limits.file_size.set && signum == SIGXFSZ)
		return REASON_LIMIT;
	return REASON_NONE;
}

int limits_final(struct supervisor *s, struct err *e)
{
	int r = limits_sample(s, e);

	if (r < 0 || limits_reason(s, s->signum) != REASON_LIMIT)
		return r;
	if (s->signum == SIGXFSZ)
		return limits_hit(s, "limits.file-size", s->profile->limits.file_size.bytes, s->profile->limits.file_size.bytes, e);
	return limits_hit(s, "limits.cpu-time", s->profile->limits.cpu_time.ms, cpu_used_ms(s), e);
}

void limits_summary(const struct supervisor *s, struct str *out)
{
	for (size_t i = 0; i < s->limits_hit.n; i++)
		str_addf(out, "%s%s", i ? ", " : out->len ? "; reached: " : "reached: ", s->limits_hit.v[i]);
}

void limits_end_fields(const struct supervisor *s, json_t *end)
{
	const struct cgroup_stats *u = &s->usage;

	/* The command's own count lacks what it did not wait for; the group's has all. */
	if (s->cgroup.n && u->has_cpu)
		json_object_set_new(end, "cpu_ms", json_integer((json_int_t)u->cpu_ms));
	if (s->cgroup.n && u->has_memory)
		json_object_set_new(end, "peak_memory", json_integer((json_int_t)u->peak_memory_bytes));
	if (s->cgroup.n && u->has_processes)
		json_object_set_new(end, "processes", json_integer((json_int_t)(u->peak_processes ? u->peak_processes - 1 : 0)));
}

static const char *way(const struct cgroup *cg)
{
	bool v1 = false;

	for (size_t i = 0; i < cg->n; i++)
		v1 = v1 || (cg->v[i].controllers && !cg->v[i].v2);
	return cg->by_systemd ? "systemd" : v1 ? "v1" : "v2";
}

static const char *const keys[CGROUP_LIMITS] = {"limits.memory", "limits.processes", "limits.cpus"};

void limits_warn(const struct supervisor *s)
{
	const struct cgroup *cg = &s->cgroup;

	if (s->options->quiet || s->profile->limits.cgroup.v == MECHANISM_OFF)
		return;
	for (int i = 0; i < CGROUP_LIMITS; i++) {
		cleanup_str struct str why = {0};

		if (!(cg->asked & ~cg->bounded & 1U << i))
			continue;
		str_add_printable(&why, cg->why_not[i], strlen(cg->why_not[i]));
		fprintf(stderr, "agentbox: note: %s is not kept here: %s; with limits.cgroup = require nothing would run\n", keys[i], why.text);
	}
}

json_t *limits_mechanism(const struct supervisor *s)
{
	const struct cgroup *cg = &s->cgroup;
	json_t *m = json_object(), *not_bounded = json_object();

	json_object_set_new(m, "in_force", json_boolean(cg->bounded != 0));
	if (cg->bounded)
		json_object_set_new(m, "way", json_string(way(cg)));
	if (!cg->asked)
		json_object_set_new(m, "why", json_string("not asked for"));
	for (int i = 0; i < CGROUP_LIMITS; i++)
		if (cg->asked & ~cg->bounded & 1U << i)
			json_object_set_new(not_bounded, keys[i], json_string(cg->why_not[i]));
	if (json_object_size(not_bounded))
		json_object_set(m, "not_bounded", not_bounded);
	json_decref(not_bounded);
	return m;
}

int limits_remove(struct supervisor *s, struct err *e)
{
	return s->cgroup.n ? cgroup_remove(&s->cgroup, REMOVE_MS, e) : 0;
}
