/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* `agentbox ps`: the runs of this user. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "base/str.h"
#include "cmd/commands.h"
#include "cmd/words.h"
#include "event/event.h"
#include "run/state.h"

#include "base/banned.h"

enum { COL_ID, COL_TASK, COL_PROFILE, COL_STATE, COL_AGE, COL_PID, COL_COMMAND, COLS };

struct ps_work {
	bool all, json;
	int64_t now_ms;
	struct strv cells; /* COLS a row */
};

static const struct cmd_option ps_options[] = {
	{'a', "all", NULL, "ended and lost runs too"},
	{0, "json", NULL, "one JSON object a line"},
	{0},
};

static int ps_take(void *arg, const struct cmd_parsed *p, struct err *e)
{
	struct ps_work *w = arg;

	(void)e;
	if (str_eq(p->option->name, "all"))
		w->all = true;
	else
		w->json = true;
	return 0;
}

/* Text of run.json, fit for a terminal. Return: fresh memory; "-" where there is none. */
static char *ps_text(const json_t *run, const char *key)
{
	const char *text = json_string_value(json_object_get(run, key));
	cleanup_str struct str bytes = {0};
	struct str out = {0};

	if (!text || !*text)
		return mem_strdup("-");
	event_text_bytes(text, &bytes);
	str_add_printable(&out, bytes.text, bytes.len);
	return str_steal(&out);
}

static char *ps_command(const json_t *run)
{
	cleanup_str struct str bytes = {0};
	struct str out = {0};
	const json_t *word;
	size_t i;

	json_array_foreach(json_object_get(run, "argv"), i, word) {
		if (i)
			str_add(&bytes, " ");
		event_text_bytes(json_string_value(word) ?: "", &bytes);
	}
	if (bytes.len)
		str_add_printable(&out, bytes.text, bytes.len);
	return str_steal(&out);
}

static int64_t ps_age_ms(const struct ps_work *w, const char *id, const json_t *run)
{
	const char *started = json_string_value(json_object_get(run, "started"));
	int64_t from_ms;

	if (!started || state_time_ms(started, &from_ms) < 0)
		if (state_id_time_ms(id, &from_ms) < 0)
			return 0;
	return w->now_ms > from_ms ? w->now_ms - from_ms : 0;
}

static char *ps_age(int64_t age_ms)
{
	long long s = age_ms / 1000;

	if (s < 120)
		return mem_printf("%llds", s);
	if (s < 7200)
		return mem_printf("%lldm", s / 60);
	if (s < 172800)
		return mem_printf("%lldh", s / 3600);
	return mem_printf("%lldd", s / 86400);
}

static void ps_row(struct ps_work *w, const char *id, const char *status, const json_t *run)
{
	const char *reason = json_string_value(json_object_get(run, "reason"));
	json_int_t pid = json_integer_value(json_object_get(run, "pid"));

	strv_add(&w->cells, id);
	strv_take(&w->cells, ps_text(run, "task"));
	strv_take(&w->cells, ps_text(run, "profile"));
	if (str_eq(status, "ended") && reason) {
		char *text = ps_text(run, "reason");

		strv_take(&w->cells, mem_printf("ended:%s", text));
		free(text);
	} else {
		strv_add(&w->cells, status);
	}
	strv_take(&w->cells, ps_age(ps_age_ms(w, id, run)));
	strv_take(&w->cells, str_eq(status, "running") && pid > 0 ? mem_printf("%lld", (long long)pid) : mem_strdup("-"));
	strv_take(&w->cells, ps_command(run));
}

static void ps_json(const struct ps_work *w, const char *id, const char *status, const json_t *run)
{
	static const char *const keys[] = {"task", "profile", "reason", "exit_code", "signal", "started", "ended",
					   "pid", "argv", "cwd", "repo"};
	json_t *o = json_object();
	char *text;

	json_object_set_new(o, "id", json_string(id));
	json_object_set_new(o, "state", json_string(status));
	json_object_set_new(o, "age_ms", json_integer(ps_age_ms(w, id, run)));
	for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++) {
		json_t *value = json_object_get(run, keys[i]);

		json_object_set_new(o, keys[i], value ? json_incref(value) : json_null());
	}
	text = json_dumps(o, JSON_COMPACT | JSON_ENSURE_ASCII);
	puts(text ? text : "{}");
	free(text);
	json_decref(o);
}

static void ps_run(struct ps_work *w, int state, const char *id)
{
	struct err e;
	cleanup_fd int fd = state_run_open(state, id, &e);
	json_t *run = NULL;
	int r;
	const char *status;
	bool live;

	if (fd < 0) /* pruned meanwhile */
		return;
	live = state_run_is_live(fd);
	if (!live && !w->all)
		return;
	r = state_run_read(fd, &run, &e);
	/* Not there: a supervisor that died before it wrote one. */
	if (r < 0 && r != -ENOENT)
		cmd_fail_text(STATUS_OK, "run %s: %s; how it ended is not known but from `agentbox log %s`", id, e.msg, id);
	status = state_run_status(run, live);
	if (w->all || str_eq(status, "running")) {
		if (w->json)
			ps_json(w, id, status, run);
		else
			ps_row(w, id, status, run);
	}
	json_decref(run);
}

static void ps_print(const struct ps_work *w)
{
	static const char *const heads[COLS] = {"RUN", "TASK", "PROFILE", "STATE", "AGE", "PID", "COMMAND"};
	size_t width[COLS];

	for (size_t c = 0; c < COLS; c++) {
		width[c] = strlen(heads[c]);
		for (size_t i = c; i < w->cells.n; i += COLS)
			if (strlen(w->cells.v[i]) > width[c])
				width[c] = strlen(w->cells.v[i]);
	}
	for (size_t c = 0; c < COL_COMMAND; c++)
		printf("%-*s  ", (int)width[c], heads[c]);
	printf("%s\n", heads[COL_COMMAND]);
	for (size_t i = 0; i < w->cells.n; i++) {
		if (i % COLS == COL_COMMAND)
			printf("%s\n", w->cells.v[i]);
		else
			printf("%-*s  ", (int)width[i % COLS], w->cells.v[i]);
	}
}

static int ps_main(int argc, char **argv)
{
	cleanup_strv struct strv words = {0}, ids = {0};
	struct ps_work w = {.now_ms = (int64_t)time(NULL) * 1000};
	cleanup_fd int state = -1;
	struct err e = {0};

	if (words_parse(&cmd_ps, argc, argv, ps_take, &w, &words, &e) < 0)
		return cmd_fail(STATUS_REFUSED, &e);
	if (words.n)
		return cmd_fail_text(STATUS_REFUSED, "ps takes no operands; `agentbox log %s` shows one run", words.v[0]);
	state = state_open(&e);
	if (state < 0 || state_run_list(state, &ids, &e) < 0)
		return cmd_fail(STATUS_REFUSED, &e);
	for (size_t i = 0; i < ids.n; i++)
		ps_run(&w, state, ids.v[i]);
	if (!w.json)
		ps_print(&w);
	strv_free(&w.cells);
	return cmd_finish(STATUS_OK);
}

const struct cmd cmd_ps = {
	.name = "ps",
	.synopsis = "[--all] [--json]",
	.text = "the runs: id, task, profile, state, age, pid, command",
	.options = ps_options,
	.mixed = true,
	.run = ps_main,
};
