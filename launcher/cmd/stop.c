/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * `agentbox stop`: ends runs through their supervisors, which take their boxes down; the kernel does where one must
 * be killed.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/str.h"
#include "cmd/commands.h"
#include "cmd/words.h"
#include "run/state.h"
#include "sys/procstat.h"

#include "base/banned.h"

#define KILL_WAIT_MS 10000 /* for what SIGKILL ends: the kernel still takes down namespaces and writes back files */
#define START_WAIT_MS 1000 /* for the run.json of a run that is just being made */

struct stop_target {
	const char *id;
	int rundir, pidfd;
	int init_pidfd; /* pid 1 of the box, where run.json names it; -1 */
	bool gone;
};

struct stop_work {
	uint64_t grace_ms;
	bool all;
	struct stop_target *targets;
	size_t n, cap;
};

static const struct cmd_option stop_options[] = {
	{'a', "all", NULL, "every run that is running"},
	{'g', "grace", "DUR", "time between TERM and KILL (default 10s, whatever limits.grace says)"},
	{0},
};

static int stop_take(void *arg, const struct cmd_parsed *p, struct err *e)
{
	struct stop_work *w = arg;

	if (str_eq(p->option->name, "all"))
		w->all = true;
	else if (num_duration(p->args[0], &w->grace_ms) < 0 || w->grace_ms > INT64_MAX / 2)
		return err_set(e, EINVAL, "stop: --grace %.64s: not a duration; write 500ms, 10s, 2m", p->args[0]);
	return 0;
}

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void sleep_ms(long ms)
{
	struct timespec t = {ms / 1000, ms % 1000 * 1000000};

	nanosleep(&t, NULL);
}

/*
 * A pidfd of the very process that run.json names by `pid` and `pid_start`: opened first, then compared, as a pid may
 * be another process's by now. Return: descriptor; -ESRCH.
 */
static int stop_pidfd(const json_t *run, const char *pid_key, const char *start_key)
{
	json_int_t pid = json_integer_value(json_object_get(run, pid_key));
	const json_t *want = json_object_get(run, start_key);
	cleanup_fd int fd = -1;
	uint64_t start;

	if (pid <= 0 || pid > INT32_MAX || !json_is_integer(want))
		return -ESRCH;
	fd = pidfd_open((pid_t)pid, 0);
	if (fd < 0 || procstat_start((pid_t)pid, &start) < 0 || start != (uint64_t)json_integer_value(want))
		return -ESRCH;
	return steal_fd(&fd);
}

/* The target's pidfd. Return: 0, also where it ended meanwhile (t->gone); -errno. */
static int stop_find_supervisor(struct stop_target *t, struct err *e)
{
	int64_t end_ms = now_ms() + START_WAIT_MS;

	for (;;) {
		struct err ignored;
		json_t *run = NULL;

		if (!state_run_is_live(t->rundir)) {
			t->gone = true;
			return 0;
		}
		if (state_run_read(t->rundir, &run, &ignored) == 0) {
			t->pidfd = stop_pidfd(run, "pid", "pid_start");
			t->init_pidfd = stop_pidfd(run, "init_pid", "init_pid_start");
		}
		json_decref(run);
		if (t->pidfd >= 0)
			return 0;
		if (now_ms() >= end_ms)
			break;
		sleep_ms(20);
	}
	return err_set(e, ESRCH, "run %s is live, but its supervisor cannot be seen from here; "
		       "stop it in the container or PID namespace that it was started in", t->id);
}

static int stop_add(struct stop_work *w, int state, const char *id, struct err *e)
{
	struct stop_target t = {.id = id, .pidfd = -1, .init_pidfd = -1};

	for (size_t i = 0; i < w->n; i++)
		if (str_eq(w->targets[i].id, id))
			return 0;
	t.rundir = state_run_open(state, id, e);
	if (t.rundir < 0)
		return t.rundir;
	vec_reserve(&w->targets, &w->cap, w->n, sizeof(*w->targets));
	w->targets[w->n++] = t;
	return stop_find_supervisor(&w->targets[w->n - 1], e);
}

/*
 * With a value a TERM says that `stop` sent it, and how many milliseconds the command has (run/loop.c): a `kill` has
 * none.
 */
static int stop_signal(struct stop_target *t, int signum, uint64_t grace_ms, struct err *e)
{
	siginfo_t info = {
		.si_signo = signum,
		.si_code = SI_QUEUE,
		.si_pid = getpid(),
		.si_uid = getuid(),
		.si_value.sival_int = grace_ms > INT32_MAX ? INT32_MAX : (int)grace_ms,
	};

	if (t->gone || pidfd_send_signal(t->pidfd, signum, signum == SIGTERM ? &info : NULL, 0) == 0)
		return 0;
	if (errno == ESRCH) {
		t->gone = true;
		return 0;
	}
	return err_errno(e, errno, "cannot signal the supervisor of run %s", t->id);
}

static bool pidfd_wait(int fd, int64_t end_ms)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	int64_t left_ms, r;

	do {
		left_ms = end_ms - now_ms();
		if (left_ms > 60000)
			left_ms = 60000;
		r = poll(&p, 1, left_ms > 0 ? (int)left_ms : 0);
	} while (r == 0 ? left_ms > 0 : r < 0 && errno == EINTR);
	return r > 0;
}

/* Waits for all supervisors until then. Return: whether all are gone. */
static bool stop_wait(struct stop_work *w, int64_t end_ms)
{
	bool all = true;

	for (size_t i = 0; i < w->n; i++) {
		struct stop_target *t = &w->targets[i];

		if (!t->gone && pidfd_wait(t->pidfd, end_ms))
			t->gone = true;
		all = all && t->gone;
	}
	return all;
}

/* A killed supervisor's box dies by the kernel's hand, a moment later. Return: whether it is gone. */
static bool stop_wait_box(const struct stop_target *t, int64_t end_ms)
{
	if (t->init_pidfd >= 0 && !pidfd_wait(t->init_pidfd, end_ms))
		return false;
	/* The lock too: nothing that could still write in the run's directory has it. */
	while (state_run_is_live(t->rundir)) {
		if (now_ms() >= end_ms)
			return false;
		sleep_ms(10);
	}
	return true;
}

static int stop_all(struct stop_work *w, struct err *e)
{
	int64_t end_ms;
	int first = 0;

	for (size_t i = 0; i < w->n; i++)
		if (stop_signal(&w->targets[i], SIGTERM, w->grace_ms, e) < 0)
			first = -e->code;
	if (first < 0)
		return first;
	/* The supervisor kills the box itself after the grace, and then writes the record. */
	if (stop_wait(w, now_ms() + (int64_t)w->grace_ms + KILL_WAIT_MS))
		return 0;
	for (size_t i = 0; i < w->n; i++)
		if (stop_signal(&w->targets[i], SIGKILL, 0, e) < 0)
			return -e->code;
	end_ms = now_ms() + KILL_WAIT_MS;
	stop_wait(w, end_ms);
	for (size_t i = 0; i < w->n; i++)
		if (!w->targets[i].gone || !stop_wait_box(&w->targets[i], end_ms))
			return err_set(e, ETIMEDOUT, "run %s was killed and is not gone after %d s", w->targets[i].id,
				       KILL_WAIT_MS / 1000);
	return 0;
}

/* The runs meant, each once. Faults are told, and the others stopped all the same. Return: status. */
static int stop_collect(struct stop_work *w, int state, const struct strv *words, struct strv *ids)
{
	int status = STATUS_OK;
	struct err e = {0};
	size_t named;

	if (w->all && state_run_list(state, ids, &e) < 0)
		return cmd_fail(STATUS_REFUSED, &e);
	named = ids->n;
	for (size_t i = 0; i < words->n; i++) {
		char id[STATE_ID_MAX];

		if (state_run_find(state, words->v[i], id, &e) < 0)
			status = cmd_fail(STATUS_REFUSED, &e);
		else
			strv_add(ids, id);
	}
	for (size_t i = 0; i < ids->n; i++) {
		int r = stop_add(w, state, ids->v[i], &e);

		if (r == -ENOENT && w->all) /* pruned meanwhile */
			continue;
		if (r < 0)
			status = cmd_fail(STATUS_REFUSED, &e);
		else if (i >= named && w->targets[w->n - 1].id == ids->v[i] && w->targets[w->n - 1].gone)
			fprintf(stderr, "agentbox: note: run %s has ended already\n", ids->v[i]);
	}
	return status;
}

static int stop_main(int argc, char **argv)
{
	cleanup_strv struct strv words = {0}, ids = {0};
	struct stop_work w = {.grace_ms = 10000};
	cleanup_fd int state = -1;
	struct err e = {0};
	int status;

	if (words_parse(&cmd_stop, argc, argv, stop_take, &w, &words, &e) < 0)
		return cmd_fail(STATUS_REFUSED, &e);
	if (!words.n && !w.all)
		return cmd_fail_text(STATUS_REFUSED, "stop: which run? Name one (`agentbox ps` lists them) or --all");
	state = state_open(&e);
	if (state < 0)
		return cmd_fail(STATUS_REFUSED, &e);
	status = stop_collect(&w, state, &words, &ids);
	for (size_t i = 0; i < w.n; i++) /* what could not be found out is not waited for */
		if (w.targets[i].pidfd < 0)
			w.targets[i].gone = true;
	if (stop_all(&w, &e) < 0)
		status = cmd_fail(STATUS_REFUSED, &e);
	for (size_t i = 0; i < w.n; i++) {
		close(w.targets[i].rundir);
		cleanup_fd_p(&w.targets[i].pidfd);
		cleanup_fd_p(&w.targets[i].init_pidfd);
	}
	free(w.targets);
	return cmd_finish(status);
}

const struct cmd cmd_stop = {
	.name = "stop",
	.synopsis = "RUN... [--grace DUR] | --all",
	.text = "end runs: TERM, then KILL after the grace; returns when they are gone",
	.options = stop_options,
	.mixed = true,
	.run = stop_main,
};
