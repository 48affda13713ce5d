/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* `agentbox output`: what a command wrote, as far as it is stored (output.capture), whole or a slice of it. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/str.h"
#include "cmd/commands.h"
#include "cmd/words.h"
#include "run/state.h"

#include "base/banned.h"

#define READ_SIZE (64 << 10)
#define LINE_SIZE (64 << 10) /* of a longer line only so much is looked at by --grep */

enum slice { SLICE_ALL, SLICE_LINES, SLICE_BYTES, SLICE_TAIL, SLICE_GREP };

struct output_work {
	enum slice slice;
	const char *option;  /* that chose the slice; NULL: none did */
	uint64_t first, end; /* LINES: from line `first`, 1 being the first, up to and without `end`; BYTES: offsets; TAIL: `first` lines */
	const char *pattern;
	regex_t regex;
	bool error; /* --stderr */
	char id[STATE_ID_MAX];
	int file;
	bool plain;      /* to no terminal: as it was written */
	struct str line; /* for a terminal: what has not yet been shown */
};

static const struct cmd_option output_options[] = {
	{0, "stderr", NULL, "standard error instead of standard output"},
	{0, "lines", "A:B", "lines A to B, the first being 1; either may be left out"},
	{0, "bytes", "A:B", "from offset A up to offset B, the first byte being at 0; either may be left out"},
	{0, "head", "N", "the first N lines"},
	{0, "tail", "N", "the last N lines"},
	{0, "grep", "RE", "lines that match, each behind its number; RE is an extended regular expression"},
	{0},
};

/* "A:B", of which either may be empty. least: of A. */
static int take_range(struct output_work *w, const char *name, const char *text, uint64_t least, struct err *e)
{
	const char *colon = strchr(text, ':');
	cleanup_free char *a = colon ? mem_strndup(text, (size_t)(colon - text)) : NULL;

	w->first = least;
	w->end = UINT64_MAX;
	if (!colon || (*a && num_u64(a, least, INT64_MAX, &w->first) < 0) || (colon[1] && num_u64(colon + 1, 0, INT64_MAX, &w->end) < 0))
		return err_set(e, EINVAL, "output: --%s %.64s: not A:B with numbers from %" PRIu64 " up", name, text, least);
	if (w->end < w->first)
		return err_set(e, EINVAL, "output: --%s %.64s: ends before it begins", name, text);
	return 0;
}

static int take_count(const char *name, const char *text, uint64_t *out, struct err *e)
{
	if (num_u64(text, 0, INT64_MAX, out) < 0)
		return err_set(e, EINVAL, "output: --%s %.64s: not a number of lines", name, text);
	return 0;
}

static int take_pattern(struct output_work *w, const char *text, struct err *e)
{
	char why[128];
	int r = regcomp(&w->regex, text, REG_EXTENDED);

	if (r == 0) {
		w->pattern = text;
		return 0;
	}
	regerror(r, &w->regex, why, sizeof(why));
	return err_set(e, EINVAL, "output: --grep %.64s: %s", text, why);
}

static int output_take(void *arg, const struct cmd_parsed *p, struct err *e)
{
	struct output_work *w = arg;
	const char *name = p->option->name;
	int r;

	if (str_eq(name, "stderr")) {
		w->error = true;
		return 0;
	}
	if (w->option)
		return err_set(e, EINVAL, "output: --%s and --%s: one of them", w->option, name);
	w->option = name;
	if (str_eq(name, "bytes")) {
		w->slice = SLICE_BYTES;
		return take_range(w, name, p->args[0], 0, e);
	}
	if (str_eq(name, "grep")) {
		w->slice = SLICE_GREP;
		return take_pattern(w, p->args[0], e);
	}
	if (str_eq(name, "tail")) {
		w->slice = SLICE_TAIL;
		return take_count(name, p->args[0], &w->first, e);
	}
	w->slice = SLICE_LINES;
	if (str_eq(name, "lines")) {
		r = take_range(w, name, p->args[0], 1, e);
		w->end += w->end != UINT64_MAX;
		return r;
	}
	w->first = 1;
	r = take_count(name, p->args[0], &w->end, e);
	w->end++;
	return r;
}

/* --- showing --- */

static void show_line(struct output_work *w)
{
	cleanup_str struct str text = {0};

	if (w->line.len)
		str_add_printable(&text, w->line.text, w->line.len);
	if (text.len)
		fwrite(text.text, 1, text.len, stdout);
	w->line.len = 0;
}

/* A terminal gets nothing that could move its cursor or ask it for an answer: the command wrote it. */
static void show(struct output_work *w, const char *bytes, size_t len)
{
	if (w->plain) {
		fwrite(bytes, 1, len, stdout);
		return;
	}
	for (size_t i = 0; i < len; i++) {
		bool space = bytes[i] == '\n' || bytes[i] == '\t';

		if (!space)
			str_add_n(&w->line, bytes + i, 1);
		if (space || w->line.len >= LINE_SIZE)
			show_line(w);
		if (space)
			putchar(bytes[i]);
	}
}

/* --- slices --- */

/* Return: bytes, 0 at the end, or -errno with `e`. */
static ssize_t read_at(const struct output_work *w, char *buf, size_t len, off_t at, struct err *e)
{
	ssize_t n;

	do
		n = pread(w->file, buf, len, at);
	while (n < 0 && errno == EINTR);
	return n < 0 ? err_errno(e, errno, "the output of run %s", w->id) : n;
}

static int show_bytes(struct output_work *w, uint64_t first, uint64_t end, struct err *e)
{
	cleanup_free char *buf = mem_alloc(READ_SIZE);
	ssize_t n = 1;

	if (end > INT64_MAX)
		end = INT64_MAX; /* of what pread(2) takes */
	while (n > 0 && first < end && !ferror(stdout)) {
		n = read_at(w, buf, end - first < READ_SIZE ? (size_t)(end - first) : READ_SIZE, (off_t)first, e);
		if (n > 0)
			show(w, buf, (size_t)n);
		first += n > 0 ? (uint64_t)n : 0;
	}
	return n < 0 ? (int)n : 0;
}

/* Where line `line` begins, 1 being the first; *at: the size where there are not so many. Return: 0 or -errno with `e`. */
static int find_line(const struct output_work *w, uint64_t line, uint64_t *at, struct err *e)
{
	cleanup_free char *buf = mem_alloc(READ_SIZE);
	ssize_t n = 1;

	for (*at = 0; n > 0 && line > 1; *at += (uint64_t)n) {
		n = read_at(w, buf, READ_SIZE, (off_t)*at, e);
		if (n < 0)
			return (int)n;
		for (ssize_t i = 0; i < n; i++)
			if (buf[i] == '\n' && --line == 1)
				n = i + 1;
	}
	return 0;
}

static int show_lines(struct output_work *w, struct err *e)
{
	uint64_t first, end = UINT64_MAX;
	int r = find_line(w, w->first, &first, e);

	if (r == 0 && w->end != UINT64_MAX)
		r = find_line(w, w->end, &end, e);
	return r < 0 ? r : show_bytes(w, first, end, e);
}

/* The last `first` lines. The newline at the very end ends the last of them. */
static int show_tail(struct output_work *w, struct err *e)
{
	cleanup_free char *buf = mem_alloc(READ_SIZE);
	uint64_t lines = w->first, at;
	struct stat st;

	if (fstat(w->file, &st) < 0)
		return err_errno(e, errno, "the output of run %s", w->id);
	at = lines ? (uint64_t)st.st_size : UINT64_MAX;
	for (uint64_t block = (uint64_t)st.st_size; lines && block;) {
		size_t len = block < READ_SIZE ? (size_t)block : READ_SIZE;
		ssize_t n = read_at(w, buf, len, (off_t)(block - len), e);

		if (n < 0)
			return (int)n;
		if ((size_t)n < len)
			break; /* shorter than it was: nobody but us should write there */
		block -= len;
		for (size_t i = len; i-- && lines;) {
			if (buf[i] == '\n' && block + i + 1 < (uint64_t)st.st_size && --lines == 0)
				break;
			at = block + i;
		}
	}
	return show_bytes(w, at, UINT64_MAX, e);
}

struct grep {
	char line[LINE_SIZE];
	size_t len;
	uint64_t number;
	bool shown, decided; /* the line that is longer than LINE_SIZE */
};

/* Return: 1 it does, 0 it does not, -errno with `e`: a line that cannot be compared is not one that does not match. */
static int matches(const struct output_work *w, const struct grep *g, struct err *e)
{
	regmatch_t range = {.rm_so = 0, .rm_eo = (regoff_t)g->len};
	int r = regexec(&w->regex, g->line, 1, &range, REG_STARTEND);

	if (r == 0 || r == REG_NOMATCH)
		return r == 0;
	return err_set(e, ENOMEM, "output: --grep %.64s: line %" PRIu64 " takes too much memory; use another expression", w->pattern,
		       g->number);
}

/* What there is of a line: its end, or as much as is looked at. */
static int grep_decide(struct output_work *w, struct grep *g, struct err *e)
{
	char number[32];

	if (!g->decided) {
		int r = matches(w, g, e);

		if (r < 0)
			return r;
		g->decided = true;
		g->shown = r;
		if (g->shown)
			show(w, number, (size_t)snprintf(number, sizeof(number), "%" PRIu64 ":", g->number));
	}
	if (g->shown)
		show(w, g->line, g->len);
	g->len = 0;
	return 0;
}

static int show_matches(struct output_work *w, struct err *e)
{
	cleanup_free struct grep *g = mem_alloc(sizeof(*g));
	cleanup_free char *buf = mem_alloc(READ_SIZE);
	ssize_t n = 1;
	int r = 0;

	*g = (struct grep){.number = 1};
	for (off_t at = 0; n > 0 && r == 0 && !ferror(stdout); at += n) {
		n = read_at(w, buf, READ_SIZE, at, e);
		for (ssize_t i = 0; r == 0 && i < n; i++) {
			if (buf[i] != '\n')
				g->line[g->len++] = buf[i];
			if (buf[i] == '\n' || g->len == LINE_SIZE)
				r = grep_decide(w, g, e);
			if (buf[i] != '\n' || r < 0)
				continue;
			if (g->shown)
				show(w, "\n", 1);
			g->number++;
			g->decided = g->shown = false;
		}
	}
	if (g->len && r == 0)
		r = grep_decide(w, g, e);
	if (g->shown)
		show(w, "\n", 1);
	return n < 0 ? (int)n : r;
}

static int show_slice(struct output_work *w, struct err *e)
{
	switch (w->slice) {
	case SLICE_ALL:
		return show_bytes(w, 0, UINT64_MAX, e);
	case SLICE_BYTES:
		return show_bytes(w, w->first, w->end, e);
	case SLICE_LINES:
		return show_lines(w, e);
	case SLICE_TAIL:
		return show_tail(w, e);
	case SLICE_GREP:
		return show_matches(w, e);
	}
	return -EINVAL;
}

/* --- the run --- */

/* Return: descriptor, or -errno with `e` that says why there is none. */
static int open_stored(const struct output_work *w, int rundir, const json_t *run, struct err *e)
{
	const char *name = w->error ? "stderr" : "stdout";
	const json_t *streams = json_object_get(run, "output");
	cleanup_fd int fd = -1;
	struct stat st;

	if (!streams)
		return err_set(e, ENOENT, "run %s: no output was stored; a run with output.capture = yes stores it", w->id);
	if (!json_object_get(streams, name))
		return err_set(e, ENOENT, "run %s: standard error went the same way as standard output; leave --stderr away", w->id);
	fd = openat(rundir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_errno(e, errno, "run %s: %s", w->id, name);
	if (!S_ISREG(st.st_mode))
		return err_set(e, EBADF, "run %s: %s is not a regular file", w->id, name);
	return steal_fd(&fd);
}

/* Where the store ended before the command did: what is shown is not all there was. */
static void note_missing(const struct output_work *w, const json_t *run)
{
	const json_t *stream = json_object_get(json_object_get(run, "output"), w->error ? "stderr" : "stdout");
	json_int_t total = json_integer_value(json_object_get(stream, "total_bytes"));
	json_int_t stored = json_integer_value(json_object_get(stream, "stored_bytes"));

	if (stored < total)
		fprintf(stderr, "agentbox: run %s: the first %" JSON_INTEGER_FORMAT " of %" JSON_INTEGER_FORMAT " bytes are stored\n",
			w->id, stored, total);
}

static int output_show(struct output_work *w, int rundir)
{
	struct err e = {0};
	json_t *run = NULL;
	int r = state_run_read(rundir, &run, &e);

	if (r == 0)
		r = w->file = open_stored(w, rundir, run, &e);
	if (r >= 0)
		r = show_slice(w, &e);
	show_line(w);
	if (r == 0 && fflush(stdout) == 0)
		note_missing(w, run);
	json_decref(run);
	cleanup_fd_p(&w->file);
	return r < 0 ? cmd_fail(STATUS_REFUSED, &e) : cmd_finish(STATUS_OK);
}

static int output_main(int argc, char **argv)
{
	struct output_work w = {.file = -1, .plain = !isatty(STDOUT_FILENO)};
	cleanup_fd int state = -1, rundir = -1;
	cleanup_strv struct strv words = {0};
	struct err e = {0};
	int status;

	if (words_parse(&cmd_output, argc, argv, output_take, &w, &words, &e) < 0)
		status = cmd_fail(STATUS_REFUSED, &e);
	else if (words.n > 1)
		status = cmd_fail_text(STATUS_REFUSED, "output shows one run at a time");
	else if ((state = state_open(&e)) < 0 || state_run_find(state, words.n ? words.v[0] : "last", w.id, &e) < 0 ||
		 (rundir = state_run_open(state, w.id, &e)) < 0)
		status = cmd_fail(STATUS_REFUSED, &e);
	else
		status = output_show(&w, rundir);
	if (w.pattern)
		regfree(&w.regex);
	str_free(&w.line);
	return status;
}

const struct cmd cmd_output = {
	.name = "output",
	.synopsis = "[RUN] [--stderr] [--lines A:B|--bytes A:B|--head N|--tail N|--grep RE]",
	.text = "what a run's command wrote, as far as it is stored, whole or a slice of it (RUN: an id, a unique prefix, `last`)",
	.options = output_options,
	.mixed = true,
	.run = output_main,
};
