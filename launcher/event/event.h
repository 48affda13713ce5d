/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The event log of a run: JSON Lines, hash-chained, appended by the supervisor alone, outside the box.
 *
 * A line: {"v":1,"seq":N,"time":"...Z","run":ID,"task":ID|null,"type":T, <the type's fields>, "prev":HEX}. `prev` is
 * the SHA-256 of the line before, without its newline; 64 zeros in the first.
 */
#ifndef AGENTBOX_EVENT_EVENT_H
#define AGENTBOX_EVENT_EVENT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "base/str.h"

/* The types, in the order of the table in event/types.c. */
enum event_type {
	EVENT_RUN_START,
	EVENT_BOX_READY,
	EVENT_COMMAND_EXIT,
	EVENT_COMMAND_REFUSED,
	EVENT_EGRESS_DNS,
	EVENT_EGRESS_CONNECT,
	EVENT_EGRESS_CLOSE,
	EVENT_EGRESS_ERROR,
	EVENT_SYSCALL_DENIED,
	EVENT_LIMIT_WARN,
	EVENT_LIMIT_HIT,
	EVENT_OUTPUT_TRUNCATED,
	EVENT_FS_CHANGES,
	EVENT_ARTIFACT,
	EVENT_RUN_END,
	EVENT_TYPES /* how many */
};

/* One field of a type, as the man page and the tests list it. */
struct event_field {
	const char *name;
	const char *type; /* "string", "integer", "number", "boolean", "array", "object"; "?" behind: may be null or absent */
	const char *text;
};
struct event_type_info {
	const char *name; /* "run.start" */
	const char *text;
	const struct event_field *fields; /* ends with name NULL */
};
const struct event_type_info *event_type_info(enum event_type type);
/* Return: EVENT_TYPES where no type has the name. */
enum event_type event_type_find(const char *name);
/*
 * Has the event every field that its type must have, each of its JSON type? More fields than the table's are no fault,
 * and a type that the table does not know is none (a later version wrote it). Return: 0, or -EBADMSG with the field in
 * `e`.
 */
int event_check(const json_t *event, struct err *e);

/* --- writing --- */

struct event_log {
	int fd;              /* events.jsonl, O_APPEND; -1: none */
	int copy_fd;         /* --event-fd, borrowed; -1: none. A copy that fails, or does not take a line in EVENT_COPY_WAIT_MS,
				turns it off (set to -1, not closed), and the run goes on */
	uint64_t seq;
	unsigned char prev[32];
	char run[64], task[64];
};

/* How long a reader of --event-fd may let a full pipe or socket stand before it is given up. */
#define EVENT_COPY_WAIT_MS 1000

/* fd: owned by the log from now on. run, task: ids (task may be NULL). copy_fd is set to -1. */
void event_log_init(struct event_log *log, int fd, const char *run, const char *task);
/* Has the log on the disk, also if the machine stops (fdatasync). Return: 0 or -errno. */
int event_log_sync(struct event_log *log, struct err *e);
/* Return: 0 or -errno. */
int event_log_close(struct event_log *log, struct err *e);
/*
 * The head of the chain: the SHA-256 of the last line as hex; hex: 65 bytes. A chain alone cannot tell that its last
 * lines are gone or that the very last was changed: the head, kept apart (run.json), can.
 */
void event_log_head(const struct event_log *log, char *hex);

/*
 * Appends one event with one write(2).
 * fields: a JSON object with the type's fields, or NULL; the reference is stolen also on failure.
 * Return: 0, or -errno with `e` (ENOSPC, EIO ...; EMSGSIZE: over EVENT_LINE_MAX; EINVAL: a field named as one of the
 * frame); the chain is unchanged then, and what a short write left is cut off again.
 */
int event_write(struct event_log *log, enum event_type type, json_t *fields, struct err *e);

/*
 * Writes a line, its line feed with it, to a descriptor of the caller's (--event-fd, --status-fd): not longer than
 * EVENT_COPY_WAIT_MS, without SIGPIPE, its flags left as they are. Return: 0 or -errno (-ETIMEDOUT); then part of it may be written.
 */
int event_copy_line(int fd, const struct str *line);

/*
 * Text of any bytes as a JSON string, reversibly: valid UTF-8 as it is; another byte 0xHH as the code point U+10F8HH;
 * NUL and the code points U+10F800..U+10F8FF themselves byte by byte the same way.
 */
json_t *event_text(const char *bytes, size_t len);
json_t *event_text_z(const char *text);
/* NULL-terminated vector as an array. */
json_t *event_text_v(char *const *v);
/* The way back: bytes of a string made by event_text. Appends to out. */
void event_text_bytes(const char *utf8, struct str *out);

/* "2026-11-29T12:00:00.123456789Z"; buf: 40 bytes. Return: buf. */
struct timespec;
const char *event_time_text(const struct timespec *t, char *buf);

/* --- reading --- */

/*
 * Reads a log line by line and checks the chain. Lines over EVENT_LINE_MAX, lines that are not JSON objects and a cut
 * last line are faults with their line number; a cut last line (a supervisor that was killed while writing) is said
 * apart.
 */
#define EVENT_LINE_MAX (16 << 20) /* an argv of 2 MiB, the usual ARG_MAX, with each byte escaped sixfold, still fits */

struct event_reader {
	FILE *in;
	char *line; /* the line just read, without newline */
	size_t line_len, line_cap;
	uint64_t line_no;          /* from 1 */
	unsigned char prev[32];    /* what the next line's prev must be */
	bool verify;               /* check v, seq, prev: a broken chain is -EBADMSG with the place in `e` */
	uint64_t seq;              /* what the next line's seq must be: how many lines were read, where none was a fault */
	size_t cut_len;            /* how much of a line without newline was reported with -ENODATA */
	bool unlinked;             /* the line before was too long to hash: the next prev is taken as it is */
};

void event_reader_init(struct event_reader *r, FILE *in, bool verify);
void event_reader_free(struct event_reader *r); /* does not close `in` */

/*
 * *out: a new reference. Return: 1; 0 at the end; -EBADMSG with the place and the fault in `e` (the reader may go on
 * with the next line); -ENODATA where the last line is cut. A call after -ENODATA goes on in the same line where the
 * file has grown, and returns 0 where it has not. -EIO: the file cannot be read; there is no going on.
 */
int event_read(struct event_reader *r, json_t **out, struct err *e);

/*
 * One event as a line for people: time of day, type, the fields that matter. Control characters are escaped. Appends
 * to out.
 */
void event_print(const json_t *event, struct str *out);

/*
 * For a destination that no rule named: the rule that would allow it, as "\n  to allow it: ...". Nothing for what a deny rule, a
 * special range or inspection closed: there a rule is no answer. Appends to out.
 */
void event_propose(const json_t *event, struct str *out);

/* Does the event say that something was refused or cut (`log --denied`)? */
bool event_is_denied(const json_t *event);

#endif
