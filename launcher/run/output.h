/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * output.capture: what the command writes to its standard output and error comes through pipes (or through its terminal),
 * is stored in the run's directory up to output.max, and passed on as far as head and tail say. The box has no descriptor of
 * the caller's streams then. Its bytes are counted, copied and never understood.
 *
 * A caller that does not read stops the command, as without capture; one that is gone ends it with SIGPIPE. Where the two
 * streams are one file (2>&1) they are one stream, "stdout", so that their order is kept.
 */
#ifndef AGENTBOX_RUN_OUTPUT_H
#define AGENTBOX_RUN_OUTPUT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/err.h"
#include "base/str.h"
#include "run/cut.h"
#include "run/sink.h"

struct supervisor;

#define OUTPUT_STREAMS 2

struct output_stream {
	const char *name;  /* NULL: there is no such stream */
	int pipe, box_end; /* -1: closed; box_end until the box has it */
	int file;          /* -1: none */
	struct sink sink;
	struct cut cut;
	uint64_t stored;
	uint64_t passed;   /* what the caller took */
	bool abandoned;    /* the caller did not take what it should have got, and was no longer waited for */
	bool store_failed; /* nothing more is stored, so that what is stored is the beginning */
	struct iovec pending[4]; /* to be passed on before more is read */
	size_t n_pending;
	char *buf, mark[160]; /* what pending points to, with the tail of `cut` */
};

struct output {
	bool on;
	int input; /* standard input, opened again for reading alone until the box has it; -1: it stays as it is */
	struct output_stream v[OUTPUT_STREAMS];
	int error; /* errno of a store that failed where it could not be said at once; 0: none */
};

void output_init(struct output *o);
void output_free(struct output *o);

/* Files, pipes, and the caller's streams as sinks, as the plan says. Before the box. Return: 0 or -errno with `e`. */
int output_prepare(struct supervisor *s, struct err *e);

/* After the clone: the box's ends are the box's. */
void output_started(struct output *o);

/* What the box's terminal wrote: stored, and nothing left out. arg: struct supervisor. (struct terminal, seen) */
void output_from_terminal(void *arg, const char *bytes, size_t len);

/*
 * The stream's pipe can be read from. Afterwards: it is closed at the end, and while something is pending nothing more is
 * read. Return: 0 or -errno with `e`: it could not be stored, or not be passed on.
 */
int output_read(struct supervisor *s, struct output_stream *o, struct err *e);
/* Its sink takes something, or nobody reads any more (events of epoll). Return: 0 or -errno with `e`: it could not be passed on. */
int output_write(struct supervisor *s, struct output_stream *o, uint32_t events, struct err *e);

/* After the box's end: what is left in the pipes, then the tails, until the caller has taken them, has gone or wants an end. */
int output_finish(struct supervisor *s, struct err *e);

/* output.truncated where something was. Return: 0 or -errno with `e`. */
int output_record(struct supervisor *s, struct err *e);
/* "output" of run.json and run.end: each stream with what is counted by now. Nothing without capture. */
void output_fields(const struct output *o, json_t *into);
/* "stdout: 10 of 4000 bytes passed on, 4000 stored", for the line at the end of a run. Return: how many streams that is. */
unsigned output_summary(const struct output *o, struct str *out);

#endif
