/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The record of a run: run.json and the events that the supervisor itself has to tell. */
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "box/gitrepo.h"
#include "box/landlock.h"
#include "box/seccomp.h"
#include "box/syscalls.h"
#include "config.h"
#include "run/artifacts.h"
#include "run/changes.h"
#include "run/limits.h"
#include "run/network.h"
#include "run/supervisor.h"
#include "sys/procstat.h"
#include "sys/syscalls.h"

#include "base/banned.h"

/* A string or JSON's null. */
static json_t *text_or_null(const char *text)
{
	return text ? event_text_z(text) : json_null();
}

int record_event(struct supervisor *s, enum event_type type, json_t *fields, struct err *e)
{
	int r;

	json_incref(fields);
	r = event_write(&s->log, type, fields, e);
	if (r == 0) {
		json_t *probe = json_copy(fields);

		json_object_set_new(probe, "type", json_string(event_type_info(type)->name));
		s->denied_count += event_is_denied(probe);
		json_decref(probe);
	}
	json_decref(fields);
	return r;
}

static json_t *mechanism(bool in_force, const char *why)
{
	json_t *m = json_object();

	json_object_set_new(m, "in_force", json_boolean(in_force));
	if (!in_force)
		json_object_set_new(m, "why", json_string(why ? why : "not asked for"));
	return m;
}

/* Of a run without a box: what was planned, if it came to that, is in force nowhere. */
static json_t *no_mechanisms(void)
{
	static const char *const names[] = {"seccomp", "landlock", "network", "nested-namespaces-off", "ebpf", "cgroup", "rlimits"};
	json_t *all = json_object();

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		json_object_set_new(all, names[i], mechanism(false, "there was no box"));
	return all;
}

static json_t *mechanisms(const struct supervisor *s)
{
	const struct landlock_plan *l = &s->plan.landlock;
	json_t *all = json_object(), *m = mechanism(s->plan.seccomp.insns != NULL, "syscalls.policy = off");
	static const char *const policies[] = {"default", "strict", "off"};

	json_object_set_new(m, "policy", json_string(policies[s->profile->syscalls.policy.v]));
	json_object_set_new(all, "seccomp", m);
	m = mechanism(l->wanted, l->why_not);
	if (l->wanted)
		json_object_set_new(m, "abi", json_integer(l->abi));
	json_object_set_new(all, "landlock", m);
	json_object_set_new(all, "network", mechanism(s->plan.private_network, "egress.mode = host"));
	json_object_set_new(all, "nested-namespaces-off", mechanism(!s->plan.nested_namespaces, "syscalls.nested-namespaces = yes"));
	json_object_set_new(all, "ebpf", mechanism(s->ebpf.attached, s->ebpf.why[0] ? s->ebpf.why : NULL));
	json_object_set_new(all, "cgroup", limits_mechanism(s));
	json_object_set_new(all, "rlimits", mechanism(s->plan.rlimits.n > 0, NULL));
	return all;
}

/* SHA-256 of the effective profile as `show` prints it. hex: 65 bytes. */
static void profile_digest(const struct profile *p, char *hex)
{
	unsigned char digest[crypto_hash_sha256_BYTES];
	cleanup_str struct str text = {0};

	profile_print(p, false, &text);
	crypto_hash_sha256(digest, (const unsigned char *)text.text, text.len);
	str_hex(digest, sizeof(digest), hex);
}

static const char *profile_file(const struct profile *p)
{
	return p->files.n ? p->files.v[0] : NULL;
}

/* Of the request: a run that was refused early has no plan. */
static json_t *argv_text(const struct supervisor *s)
{
	return event_text_v(s->options->request.argv);
}

static json_t *start_fields(const struct supervisor *s)
{
	cleanup_free char *commit = s->plan.repo ? git_head_commit(s->plan.repo) : NULL;
	char digest[2 * crypto_hash_sha256_BYTES + 1];
	json_t *fields = json_object();
	struct utsname host;

	profile_digest(s->profile, digest);
	if (uname(&host) < 0)
		host.release[0] = '\0';
	json_object_set_new(fields, "version", json_string(PACKAGE_VERSION));
	json_object_set_new(fields, "profile", event_text_z(s->options->profile_name));
	json_object_set_new(fields, "profile_file", text_or_null(profile_file(s->profile)));
	json_object_set_new(fields, "profile_sha256", json_string(digest));
	json_object_set_new(fields, "argv", argv_text(s));
	json_object_set_new(fields, "cwd", text_or_null(s->plan.cwd));
	json_object_set_new(fields, "repo", text_or_null(s->plan.repo));
	json_object_set_new(fields, "repo_commit", text_or_null(commit));
	json_object_set_new(fields, "kernel", json_string(host.release));
	json_object_set_new(fields, "uid", json_integer(s->host.uid));
	json_object_set_new(fields, "mechanisms", s->init ? mechanisms(s) : no_mechanisms());
	return fields;
}

static json_t *start_time(pid_t pid)
{
	uint64_t start;

	return procstat_start(pid, &start) < 0 ? json_null() : json_integer((json_int_t)start);
}

static json_t *time_now(void)
{
	struct timespec t;
	char text[40];

	clock_gettime(CLOCK_REALTIME, &t);
	return json_string(event_time_text(&t, text));
}

/* run.json as it is while the command runs: what was asked and what prune must know. */
static json_t *run_json(const struct supervisor *s)
{
	cleanup_strv struct strv groups = {0};
	json_t *run = json_object();

	json_object_set_new(run, "id", json_string(s->id));
	json_object_set_new(run, "task", text_or_null(s->plan.task_id));
	json_object_set_new(run, "profile", event_text_z(s->options->profile_name));
	json_object_set_new(run, "argv", argv_text(s));
	json_object_set_new(run, "cwd", text_or_null(s->plan.cwd));
	json_object_set_new(run, "repo", text_or_null(s->plan.repo));
	json_object_set_new(run, "pid", json_integer(getpid()));
	json_object_set_new(run, "pid_start", start_time(getpid()));
	json_object_set_new(run, "started", time_now());
	json_object_set_new(run, "state", json_string("running"));
	json_object_set_new(run, "leftovers", s->plan.leftovers.n ? event_text_v(s->plan.leftovers.v) : json_array());
	output_fields(&s->output, run);
	cgroup_paths(&s->cgroup, &groups);
	json_object_set_new(run, "cgroups", groups.n ? event_text_v(groups.v) : json_array());
	if (s->init) {
		json_object_set_new(run, "init_pid", json_integer(s->init));
		json_object_set_new(run, "init_pid_start", start_time(s->init));
	}
	return run;
}

int record_running(struct supervisor *s, struct err *e)
{
	json_decref(s->record);
	s->record = run_json(s);
	return state_run_write(s->run_dir, s->record, e);
}

int record_start(struct supervisor *s, struct err *e)
{
	int r = record_running(s, e);

	return r < 0 ? r : record_event(s, EVENT_RUN_START, start_fields(s), e);
}

static uint64_t since_start_us(const struct supervisor *s)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)((t.tv_sec - s->started.tv_sec) * 1000000 + (t.tv_nsec - s->started.tv_nsec) / 1000);
}

int record_ready(struct supervisor *s, struct err *e)
{
	json_t *names = json_pack("[s,s,s,s,s,s]", "user", "mount", "pid", "ipc", "uts", "cgroup");

	if (s->plan.private_network)
		json_array_append_new(names, json_string("net"));
	return record_event(s, EVENT_BOX_READY,
			    json_pack("{s:f, s:i, s:o}", "setup_ms", (double)since_start_us(s) / 1000.0, "init_pid", (int)s->init,
				      "namespaces", names),
			    e);
}

void record_command_refused(struct supervisor *s, struct origin list)
{
	char place[256];
	json_t *fields = json_object();

	json_object_set_new(fields, "argv", argv_text(s));
	json_object_set_new(fields, "rule", event_text_z(origin_text(list, place, sizeof(place))));
	json_object_set_new(fields, "reason", event_text_z(s->error.msg));
	record_event(s, EVENT_COMMAND_REFUSED, fields, &(struct err){0});
}

void record_refused_call(struct supervisor *s)
{
	struct seccomp_denied denied;
	char text[SYSCALL_NAME_MAX];
	const char *name;
	int r = seccomp_notify_read(s->seccomp_listener, &s->plan.seccomp, &denied);

	if (r < 0) { /* the last process under the filter is gone */
		close(s->seccomp_listener);
		s->seccomp_listener = -1;
		return;
	}
	if (r == 0)
		return;
	name = syscall_name(denied.nr, text);
	if (!s->refused_calls)
		s->refused_calls = json_object();
	json_object_set_new(s->refused_calls, name,
			    json_integer(json_integer_value(json_object_get(s->refused_calls, name)) + 1));
}

static int record_refused_calls(struct supervisor *s, struct err *e)
{
	const char *name;
	json_t *count;
	int r = 0;

	json_object_foreach(s->refused_calls, name, count) {
		int one = record_event(s, EVENT_SYSCALL_DENIED, json_pack("{s:s, s:O}", "name", name, "count", count), e);

		if (r == 0)
			r = one;
	}
	return r;
}

static void outcome_fields(const struct supervisor *s, json_t *fields)
{
	json_object_set_new(fields, "exit_code", s->exit_code >= 0 ? json_integer(s->exit_code) : json_null());
	json_object_set_new(fields, "signal", s->signum >= 0 ? json_integer(s->signum) : json_null());
}

static int record_command_exit(struct supervisor *s, struct err *e)
{
	json_t *fields;

	if (!s->command_ended)
		return 0;
	fields = json_object();
	outcome_fields(s, fields);
	json_object_set_new(fields, "core", json_boolean(WIFSIGNALED(s->exited.wait_status) && WCOREDUMP(s->exited.wait_status)));
	json_object_set_new(fields, "user_ms", json_integer((json_int_t)(s->exited.user_us / 1000)));
	json_object_set_new(fields, "system_ms", json_integer((json_int_t)(s->exited.system_us / 1000)));
	json_object_set_new(fields, "max_rss", json_integer((json_int_t)(s->exited.max_rss_kb * 1024)));
	return record_event(s, EVENT_COMMAND_EXIT, fields, e);
}

/*
 * A host directory of the plan as it is now: only if it is still the one that the box was given, and not what the box may
 * have put in its place. step: with the source. Return: descriptor or -errno.
 */
static int open_source(const char *path, const struct mount_step *step)
{
	cleanup_fd int fd = sys_openat2(AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0, RESOLVE_NO_SYMLINKS);
	struct stat st;

	if (fd < 0 && errno == ENOSYS) /* in a box within a box, whose filter says so */
		fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (step->ino && (st.st_ino != step->ino || st.st_dev != step->dev))
		return -ESTALE;
	return steal_fd(&fd);
}

static const struct mount_step *step_at(const struct supervisor *s, const char *dest)
{
	for (size_t i = 0; i < s->plan.n_steps; i++)
		if (str_eq(s->plan.steps[i].dest, dest) && s->plan.steps[i].source)
			return &s->plan.steps[i];
	return NULL;
}

/* What the overlay's layer holds, against what it lies on. */
static int record_changes(struct supervisor *s, struct err *e)
{
	const struct mount_step *step = step_at(s, "/workspace/repo");
	cleanup_fd int upper = -1, lower = -1;

	if (!s->plan.repo_upper || !step)
		return 0;
	upper = open(s->plan.repo_upper, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	lower = open_source(s->plan.repo, step);
	if (upper < 0 || lower < 0)
		return err_errno(e, upper < 0 ? errno : -lower, "cannot look at the changes in %s", s->plan.repo_upper);
	return changes_record(upper, lower, &s->log, e);
}

static int record_artifacts(struct supervisor *s, json_t *end, struct err *e)
{
	const struct mount_step *step = step_at(s, "/workspace/artifacts");
	cleanup_fd int dir = step ? open_source(step->source, step) : -ENOENT;
	struct artifacts_summary summary = {0};
	int r = 0;

	if (dir >= 0) {
		r = artifacts_record(dir, &s->log, &summary, e);
	} else { /* within a writable grant the box can have moved it: no artifacts, and no failure of the record either */
		summary.cut = true;
		summary.why = "replaced";
	}
	json_object_set_new(end, "artifacts", artifacts_summary_json(&summary));
	return r;
}

/* The first failure is kept in `e`; the rest is written all the same. */
static void keep_first(int *first, struct err *e, int r, const struct err *err)
{
	if (r >= 0 || *first < 0)
		return;
	*first = r;
	*e = *err;
}

/* Who asked for it is told where it is missing; the run and its record are what they are. */
static void record_status_line(const struct supervisor *s, const json_t *end)
{
	cleanup_str struct str line = {0};
	char *text = json_dumps(end, JSON_COMPACT);
	int r = -EINVAL;

	if (text) {
		str_addf(&line, "%s\n", text);
		r = event_copy_line(s->options->status_fd, &line);
	}
	free(text);
	if (r < 0)
		sink_say("agentbox: cannot write to --status-fd %d: %s; `agentbox log %s` has the end of the run\n",
			s->options->status_fd, r == -ETIMEDOUT ? "it is full, and nobody reads it" : strerrordesc_np(-r), s->id);
}

int record_end(struct supervisor *s, struct err *e)
{
	char head[2 * crypto_hash_sha256_BYTES + 1];
	json_t *end = json_object();
	struct err err = {0};
	int first = 0;

	if (s->command_started) {
		keep_first(&first, e, record_refused_calls(s, &err), &err);
		keep_first(&first, e, record_command_exit(s, &err), &err);
		keep_first(&first, e, output_record(s, &err), &err);
		keep_first(&first, e, record_changes(s, &err), &err);
		keep_first(&first, e, record_artifacts(s, end, &err), &err);
	}
	/* "Ended" is said when nothing is left. */
	loop_reap_init(s);
	/* The status is the one that we end with: a record with a gap is not that of a run that went well. */
	if (first < 0 && s->status == 0)
		s->status = 125;
	json_object_set_new(end, "reason", json_string(reason_name(s->reason)));
	outcome_fields(s, end);
	json_object_set_new(end, "status", json_integer(s->status));
	if (s->error.msg[0] || first < 0)
		json_object_set_new(end, "message", event_text_z(s->error.msg[0] ? s->error.msg : e->msg));
	json_object_set_new(end, "wall_ms", json_integer((json_int_t)(since_start_us(s) / 1000)));
	json_object_set_new(end, "user_ms", json_integer((json_int_t)(s->exited.user_us / 1000)));
	json_object_set_new(end, "system_ms", json_integer((json_int_t)(s->exited.system_us / 1000)));
	limits_end_fields(s, end);
	network_end_fields(s, end);
	output_fields(&s->output, end);
	json_object_set_new(end, "denied", json_integer((json_int_t)s->denied_count));
	keep_first(&first, e, event_write(&s->log, EVENT_RUN_END, json_incref(end), &err), &err);

	/* The chain's head: with it a log whose tail was cut off is told from a whole one. */
	event_log_head(&s->log, head);
	json_object_set_new(s->record, "events_count", json_integer((json_int_t)s->log.seq));
	json_object_set_new(s->record, "events_sha256", json_string(head));
	json_object_set_new(s->record, "state", json_string("ended"));
	json_object_set_new(s->record, "ended", time_now());
	json_object_set(s->record, "reason", json_object_get(end, "reason"));
	json_object_set(s->record, "exit_code", json_object_get(end, "exit_code"));
	json_object_set(s->record, "signal", json_object_get(end, "signal"));
	json_object_set(s->record, "message", json_object_get(end, "message"));
	output_fields(&s->output, s->record);
	keep_first(&first, e, state_run_write(s->run_dir, s->record, &err), &err);
	if (s->options->status_fd >= 0)
		record_status_line(s, end);
	json_decref(end);
	return first;
}
