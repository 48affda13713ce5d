/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* `agentbox log`: the event log of a run, for people or as the JSON lines that were written. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "cmd/commands.h"
#include "cmd/words.h"
#include "event/event.h"
#include "run/state.h"

#include "base/banned.h"

#define FOLLOW_MS 500 /* how often a followed run is asked whether it still lives; new lines wake at once */

struct log_work {
	bool follow, denied, json, verify, types;
	uint32_t type_mask; /* 0: all */
	char id[STATE_ID_MAX];
	int rundir;
	json_t *run; /* run.json; NULL where it cannot be read */
	struct event_reader reader;
	uint64_t events, faults;
	bool ended; /* the last event read is run.end */
	bool cut;   /* the last line is cut */
};

_Static_assert(EVENT_TYPES <= 32, "type_mask holds them all");

static const struct cmd_option log_options[] = {
	{'f', "follow", NULL, "go on until the run ends"},
	{'d', "denied", NULL, "only what was refused or cut: network, limits, output, programs; with syscalls.log = yes system calls; no file access"},
	{'t', "type", "T", "only events of this type; repeatable"},
	{0, "json", NULL, "the lines as they were written"},
	{0, "verify", NULL, "check the hash chain and the fields; 0 whole, 1 faults"},
	{0, "types", NULL, "the table of types and fields"},
	{0},
};

static int log_take_type(struct log_work *w, const char *name, struct err *e)
{
	enum event_type type = event_type_find(name);
	const char *names[EVENT_TYPES + 1] = {NULL}, *near;

	if (type < EVENT_TYPES) {
		w->type_mask |= 1U << type;
		return 0;
	}
	for (int t = 0; t < EVENT_TYPES; t++)
		names[t] = event_type_info(t)->name;
	near = str_nearest(name, names);
	if (near)
		return err_set(e, EINVAL, "log: no such type of event: %.64s; did you mean %s?", name, near);
	return err_set(e, EINVAL, "log: no such type of event: %.64s; `agentbox log --types` lists them", name);
}

static int log_take(void *arg, const struct cmd_parsed *p, struct err *e)
{
	struct log_work *w = arg;
	const char *name = p->option->name;

	if (str_eq(name, "type"))
		return log_take_type(w, p->args[0], e);
	*(str_eq(name, "follow") ? &w->follow : str_eq(name, "denied") ? &w->denied : str_eq(name, "json") ? &w->json :
	  str_eq(name, "verify") ? &w->verify : &w->types) = true;
	return 0;
}

static int log_print_types(void)
{
	for (int t = 0; t < EVENT_TYPES; t++) {
		const struct event_type_info *info = event_type_info(t);

		printf("%s\t\t\t%s\n", info->name, info->text);
		for (const struct event_field *f = info->fields; f->name; f++)
			printf("%s\t%s\t%s\t%s\n", info->name, f->name, f->type, f->text);
	}
	return cmd_finish(STATUS_OK);
}

static void log_fault(struct log_work *w, const char *text)
{
	w->faults++;
	fflush(stdout);
	fprintf(stderr, "agentbox: run %s: events.jsonl: %s\n", w->id, text);
}

/* --- showing --- */

static bool log_wants(const struct log_work *w, const json_t *event)
{
	const char *name = json_string_value(json_object_get(event, "type"));
	enum event_type type = name ? event_type_find(name) : EVENT_TYPES;

	if (w->denied && !event_is_denied(event))
		return false;
	return !w->type_mask || (type < EVENT_TYPES && (w->type_mask & 1U << type));
}

static void log_show(struct log_work *w, const json_t *event)
{
	cleanup_str struct str text = {0};

	if (w->verify || !log_wants(w, event))
		return;
	if (w->json) {
		fwrite(w->reader.line, 1, w->reader.line_len, stdout);
		putchar('\n');
		return;
	}
	event_print(event, &text);
	if (w->denied)
		event_propose(event, &text);
	puts(text.text);
}

/* What the chain does not say: that the event is this run's and has its fields, and nothing follows the end. */
static void log_check(struct log_work *w, const json_t *event)
{
	const char *run = json_string_value(json_object_get(event, "run"));
	char text[ERR_MSG_MAX + 64];
	struct err e = {0};

	if (!run || !str_eq(run, w->id)) {
		snprintf(text, sizeof(text), "line %" PRIu64 ": an event of another run", w->reader.line_no);
		log_fault(w, text);
	}
	if (w->ended) {
		snprintf(text, sizeof(text), "line %" PRIu64 ": comes after run.end", w->reader.line_no);
		log_fault(w, text);
	}
	if (event_check(event, &e) < 0) {
		snprintf(text, sizeof(text), "line %" PRIu64 ": %s", w->reader.line_no, e.msg);
		log_fault(w, text);
	}
}

/* All that is there by now. Return: 0, or -EIO where the file cannot be read. */
static int log_drain(struct log_work *w)
{
	for (;;) {
		struct err e = {0};
		json_t *event = NULL;
		const char *type;
		int r = event_read(&w->reader, &event, &e);

		w->cut = r == -ENODATA || (r == 0 && w->cut);
		if (r == 0 || r == -ENODATA)
			return 0;
		if (r < 0)
			log_fault(w, e.msg);
		if (r == -EIO)
			return r;
		if (r < 0)
			continue;
		w->events++;
		if (w->verify)
			log_check(w, event);
		type = json_string_value(json_object_get(event, "type"));
		w->ended = type && str_eq(type, "run.end");
		log_show(w, event);
		json_decref(event);
	}
}

static int log_follow(struct log_work *w, FILE *in)
{
	cleanup_fd int notify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	struct pollfd p = {.fd = notify, .events = POLLIN};
	char path[64], buf[4096];
	bool live = true;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fileno(in));
	if (notify >= 0)
		inotify_add_watch(notify, path, IN_MODIFY);
	while (live && !w->ended) {
		int r;

		/* Asked before reading: what a supervisor wrote last is then read, whenever it dies. */
		live = state_run_is_live(w->rundir);
		r = log_drain(w);
		if (r < 0 || fflush(stdout) != 0)
			return r;
		if (!live || w->ended)
			break;
		if (poll(&p, 1, FOLLOW_MS) > 0)
			while (read(notify, buf, sizeof(buf)) > 0)
				;
	}
	return 0;
}

/* --- the end of the log against run.json --- */

/*
 * A chain holds its beginning together, not its end: that nothing was cut off is seen by run.end, and by the count and
 * the digest that the supervisor put into run.json ("events_count", "events_sha256").
 */
static void log_check_end(struct log_work *w, const char *status)
{
	const json_t *count = json_object_get(w->run, "events_count");
	const char *want = json_string_value(json_object_get(w->run, "events_sha256"));
	char head[65];

	str_hex(w->reader.prev, sizeof(w->reader.prev), head);
	if (!str_eq(status, "ended"))
		return;
	if (!w->ended)
		log_fault(w, "does not end with run.end, though the run ended: lines at its end are missing");
	if (json_is_integer(count) && (uint64_t)json_integer_value(count) != w->events && !w->faults)
		log_fault(w, "has not as many lines as run.json says");
	if (want && !str_eq(want, head))
		log_fault(w, "its last line is not the one that run.json has the digest of: it was changed, or lines are missing");
}

/* A run whose supervisor died early has none. A damaged one says nothing of the end. */
static void log_read_run(struct log_work *w)
{
	struct err e;
	int r = state_run_read(w->rundir, &w->run, &e);

	if (r == 0 || r == -ENOENT)
		return;
	w->faults++;
	fflush(stdout);
	cmd_fail_text(STATUS_FAULT, "run %s: %s; whether the log's end is missing cannot be told", w->id, e.msg);
}

static int log_verdict(struct log_work *w, const char *status)
{
	log_check_end(w, status);
	if (w->faults) {
		printf("%s: %" PRIu64 " events, NOT whole: %" PRIu64 " %s\n", w->id, w->events, w->faults,
		       w->faults == 1 ? "fault" : "faults");
		return STATUS_FAULT;
	}
	printf("%s: %" PRIu64 " events, chain whole%s\n", w->id, w->events,
	       w->ended ? "" : str_eq(status, "lost") ? "; the run is lost, so there is no run.end" : "; the run goes on");
	return STATUS_OK;
}

static int log_run(struct log_work *w)
{
	int fd = openat(w->rundir, "events.jsonl", O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	cleanup_file FILE *in = fd < 0 ? NULL : fdopen(fd, "r");
	const char *status;
	struct stat st;
	bool live;
	int r;

	if (fd >= 0 && !in)
		close(fd);
	if (!in || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return cmd_fail_text(STATUS_FAULT, "run %s has no event log: %s", w->id,
				     fd < 0 ? strerrordesc_np(errno) : "not a regular file");
	event_reader_init(&w->reader, in, w->verify);
	live = state_run_is_live(w->rundir);
	r = w->follow ? log_follow(w, in) : log_drain(w);
	log_read_run(w);
	/* Live when the reading began: a supervisor that ended meanwhile may have written more than was read. */
	status = live && !w->follow && !w->ended ? "running" : state_run_status(w->run, state_run_is_live(w->rundir));
	if (w->cut && str_eq(status, "ended"))
		log_fault(w, "the last line is cut, though the run ended: what came behind it is missing");
	else if (w->cut && str_eq(status, "lost"))
		cmd_fail_text(STATUS_OK, "run %s is lost: its supervisor was ended while it wrote the last line, which is left out",
			      w->id);
	r = w->verify ? log_verdict(w, status) : r < 0 || w->faults ? STATUS_FAULT : STATUS_OK;
	event_reader_free(&w->reader);
	json_decref(w->run);
	return cmd_finish(r);
}

static int log_main(int argc, char **argv)
{
	cleanup_strv struct strv words = {0};
	struct log_work w = {.rundir = -1};
	cleanup_fd int state = -1;
	struct err e = {0};
	int status;

	if (words_parse(&cmd_log, argc, argv, log_take, &w, &words, &e) < 0)
		return cmd_fail(STATUS_REFUSED, &e);
	if (w.types)
		return log_print_types();
	if (words.n > 1)
		return cmd_fail_text(STATUS_REFUSED, "log shows one run at a time");
	if (w.verify && (w.follow || w.json || w.denied || w.type_mask))
		return cmd_fail_text(STATUS_REFUSED, "log: --verify looks at the whole log; leave the other options away");
	state = state_open(&e);
	if (state < 0 || state_run_find(state, words.n ? words.v[0] : "last", w.id, &e) < 0)
		return cmd_fail(STATUS_REFUSED, &e);
	w.rundir = state_run_open(state, w.id, &e);
	if (w.rundir < 0)
		return cmd_fail(STATUS_REFUSED, &e);
	status = log_run(&w);
	close(w.rundir);
	return status;
}

const struct cmd cmd_log = {
	.name = "log",
	.synopsis = "[RUN] [--follow] [--denied] [--type T] [--json] [--verify]",
	.text = "the event log of a run, for people or as JSON lines (RUN: an id, a unique prefix, `last`)",
	.options = log_options,
	.mixed = true,
	.run = log_main,
};
