/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* `agentbox prune`: reclaims what ended and lost runs hold. */
#include <errno.h>
#include <stdio.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/num.h"
#include "base/str.h"
#include "cmd/commands.h"
#include "cmd/words.h"
#include "run/prune.h"
#include "run/state.h"

#include "base/banned.h"

#define DEFAULT_OLDER_MS (7 * 86400000ULL)

struct prune_work {
	int state;
	uint64_t older_ms, keep;
	bool by_age, by_count, dry_run;
	int64_t now_ms;
	uint64_t ended_seen, removed, kept, failed;
};

static const struct cmd_option prune_options[] = {
	{0, "older", "DUR", "ended runs that ended longer ago than this (default 7d, unless --keep is given)"},
	{0, "keep", "N", "but not the newest N ended runs; without --older: all the others"},
	{'n', "dry-run", NULL, "only say what would be removed"},
	{0},
};

static int prune_take(void *arg, const struct cmd_parsed *p, struct err *e)
{
	struct prune_work *w = arg;

	if (str_eq(p->option->name, "dry-run")) {
		w->dry_run = true;
	} else if (str_eq(p->option->name, "older")) {
		w->by_age = true;
		if (num_duration(p->args[0], &w->older_ms) < 0)
			return err_set(e, EINVAL, "prune: --older %.64s: not a duration; write 12h, 7d", p->args[0]);
	} else {
		w->by_count = true;
		if (num_u64(p->args[0], 0, UINT64_MAX, &w->keep) < 0)
			return err_set(e, EINVAL, "prune: --keep %.64s: not a count", p->args[0]);
	}
	return 0;
}

/* When a run ended, in ms since 1970; as near as can be told. */
static int64_t prune_ended_ms(const char *id, const json_t *run)
{
	const char *ended = json_string_value(json_object_get(run, "ended"));
	int64_t ms;

	if ((ended && state_time_ms(ended, &ms) == 0) || state_id_time_ms(id, &ms) == 0)
		return ms;
	return 0;
}

/* Runs come newest first, so the first `keep` ended ones are the newest. */
static bool prune_wants(struct prune_work *w, const char *id, const char *status, const json_t *run)
{
	int64_t age_ms = w->now_ms - prune_ended_ms(id, run);

	if (str_eq(status, "lost"))
		return true;
	if (w->ended_seen++ < w->keep)
		return false;
	return !w->by_age || (age_ms >= 0 && (uint64_t)age_ms >= w->older_ms);
}

static int prune_remove(const struct prune_work *w, const char *id, const json_t *run, struct err *e)
{
	/* First what is named only in run.json. Where that fails the run stays, so that the next prune knows of it. */
	int r = run ? prune_leftovers(run, e) : 0;

	if (r == 0)
		r = state_run_remove(w->state, id, e);
	if (r < 0)
		err_prefix(e, "run %s", id);
	return r;
}

static void prune_run(struct prune_work *w, const char *id)
{
	struct err e = {0};
	cleanup_fd int fd = state_run_open(w->state, id, &e), lock = -1;
	json_t *run = NULL;
	const char *status;

	if (fd < 0)
		return;
	/* Under the lock, so that neither another prune nor a supervisor is at it. */
	lock = state_run_lock(fd);
	if (lock < 0) {
		w->kept++;
		return;
	}
	if (state_run_read(fd, &run, &e) < 0)
		run = NULL;
	status = state_run_status(run, false);
	if (!prune_wants(w, id, status, run)) {
		/* What a run could not remove at its end waits for no age. */
		if (!w->dry_run && run && prune_ended(fd, run, &e) < 0) {
			w->failed++;
			err_prefix(&e, "run %s", id);
			cmd_fail(STATUS_FAULT, &e);
		} else {
			w->kept++;
		}
	} else if (w->dry_run) {
		w->removed++;
		printf("would remove %s (%s)\n", id, status);
	} else if (prune_remove(w, id, run, &e) < 0) {
		w->failed++;
		cmd_fail(STATUS_FAULT, &e);
	} else {
		w->removed++;
		printf("removed %s (%s)\n", id, status);
	}
	json_decref(run);
}

static int64_t wall_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static int prune_main(int argc, char **argv)
{
	cleanup_strv struct strv words = {0}, ids = {0};
	struct prune_work w = {.now_ms = wall_ms()};
	cleanup_fd int state = -1;
	struct err e = {0};

	if (words_parse(&cmd_prune, argc, argv, prune_take, &w, &words, &e) < 0)
		return cmd_fail(STATUS_REFUSED, &e);
	if (words.n)
		return cmd_fail_text(STATUS_REFUSED, "prune takes no operands; --older and --keep say which runs go");
	if (!w.by_age && !w.by_count) {
		w.by_age = true;
		w.older_ms = DEFAULT_OLDER_MS;
	}
	state = state_open(&e);
	w.state = state;
	if (state < 0 || state_run_list(state, &ids, &e) < 0)
		return cmd_fail(STATUS_REFUSED, &e);
	for (size_t i = ids.n; i > 0; i--)
		prune_run(&w, ids.v[i - 1]);
	printf("%llu %s, %llu kept\n", (unsigned long long)w.removed, w.dry_run ? "to remove" : "removed",
	       (unsigned long long)(w.kept + w.failed));
	return cmd_finish(w.failed ? STATUS_FAULT : STATUS_OK);
}

const struct cmd cmd_prune = {
	.name = "prune",
	.synopsis = "[--older DUR] [--keep N] [--dry-run]",
	.text = "reclaim ended and lost runs",
	.options = prune_options,
	.mixed = true,
	.run = prune_main,
};
