/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What of a stream its reader gets: the first part as it comes, the last part at the end, and between them nothing. Bytes of
 * the box, of which only newlines mean something. No descriptors here, so that this is tested and fuzzed by itself.
 */
#ifndef AGENTBOX_RUN_CUT_H
#define AGENTBOX_RUN_CUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CUT_UNLIMITED UINT64_MAX

/* Each part ends with its bytes or its lines, whichever is used up first. */
struct cut_limits {
	uint64_t head_bytes, head_lines; /* CUT_UNLIMITED in both: nothing is ever left out */
	uint64_t tail_bytes, tail_lines; /* tail_bytes: that much memory, once the tail is that long */
};

struct cut {
	struct cut_limits limits;
	uint64_t bytes, newlines; /* of all that came */
	bool ends_in_line;        /* the last byte was no newline */
	uint64_t passed, passed_newlines;
	bool passed_in_line; /* the last byte that was passed was no newline */
	bool head_done;
	char *ring;          /* the last bytes behind the head; NULL until there are such */
	size_t ring_start, ring_len;
};

void cut_init(struct cut *c, const struct cut_limits *limits);
void cut_free(struct cut *c);

/*
 * Bytes as they come. Return: how many of the first of them are head and are the reader's now. Of the others cut keeps what
 * the tail may need.
 */
size_t cut_feed(struct cut *c, const char *bytes, size_t len);

/* The end of the stream: what the reader gets at last. */
struct cut_tail {
	uint64_t left_bytes, left_newlines; /* left out before it; 0: everything is passed on */
	const char *part[2];                /* of cut, until cut_free */
	size_t len[2];
};
/* Counts the tail as passed. Once. */
void cut_end(struct cut *c, struct cut_tail *out);

/* Lines, an unfinished last one being one too: of all that came, and of what was passed. */
uint64_t cut_lines(const struct cut *c);
uint64_t cut_passed_lines(const struct cut *c);

#endif
