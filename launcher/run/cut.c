/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "run/cut.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"

#include "base/banned.h"

void cut_init(struct cut *c, const struct cut_limits *limits)
{
	*c = (struct cut){.limits = *limits};
	c->head_done = !limits->head_bytes || !limits->head_lines;
}

void cut_free(struct cut *c)
{
	free(c->ring);
	c->ring = NULL;
}

/* The length of the first n lines, or of all where there are not so many. *found: how many there are, up to n. */
static size_t length_of_lines(const char *bytes, size_t len, uint64_t n, uint64_t *found)
{
	const char *p = bytes, *end = bytes + len;

	for (*found = 0; *found < n; ++*found) {
		const char *newline = memchr(p, '\n', (size_t)(end - p));

		if (!newline)
			return len;
		p = newline + 1;
	}
	return (size_t)(p - bytes);
}

/* How many of the bytes still belong to the head. */
static size_t take_head(struct cut *c, const char *bytes, size_t len)
{
	uint64_t room = c->limits.head_bytes - c->passed, lines;
	size_t n = len;

	if (c->head_done)
		return 0;
	if (c->limits.head_bytes != CUT_UNLIMITED && n > room)
		n = (size_t)room;
	if (c->limits.head_lines != CUT_UNLIMITED)
		n = length_of_lines(bytes, n, c->limits.head_lines - c->passed_newlines, &lines);
	else
		lines = str_count(bytes, n, '\n');
	c->passed += n;
	c->passed_newlines += lines;
	if (n)
		c->passed_in_line = bytes[n - 1] != '\n';
	c->head_done = c->passed == c->limits.head_bytes || c->passed_newlines == c->limits.head_lines;
	return n;
}

static void keep(struct cut *c, const char *bytes, size_t len)
{
	size_t size = (size_t)c->limits.tail_bytes, at, first;

	if (!size || !len)
		return;
	if (!c->ring)
		c->ring = mem_alloc(size); /* pages of it that were never written to take no memory */
	if (len >= size) {
		memcpy(c->ring, bytes + len - size, size);
		c->ring_start = 0;
		c->ring_len = size;
		return;
	}
	at = (c->ring_start + c->ring_len) % size;
	first = len < size - at ? len : size - at;
	memcpy(c->ring + at, bytes, first);
	memcpy(c->ring, bytes + first, len - first);
	c->ring_len += len;
	if (c->ring_len > size) {
		c->ring_start = (c->ring_start + c->ring_len - size) % size;
		c->ring_len = size;
	}
}

size_t cut_feed(struct cut *c, const char *bytes, size_t len)
{
	uint64_t before = c->passed_newlines;
	size_t head;

	if (!len)
		return 0;
	head = take_head(c, bytes, len);
	c->bytes += len;
	c->newlines += c->passed_newlines - before + str_count(bytes + head, len - head, '\n');
	c->ends_in_line = bytes[len - 1] != '\n';
	keep(c, bytes + head, len - head);
	return head;
}

/* Where in the ring, counted from its start, the last n lines begin. */
static size_t start_of_lines(const struct cut *c, uint64_t n)
{
	size_t size = (size_t)c->limits.tail_bytes, i = c->ring_len;

	/* The newline at the very end ends the last line and begins none. */
	if (i && !c->ends_in_line)
		i--;
	while (i && n) {
		if (c->ring[(c->ring_start + i - 1) % size] == '\n' && --n == 0)
			break;
		i--;
	}
	return i;
}

void cut_end(struct cut *c, struct cut_tail *out)
{
	uint64_t rest = c->bytes - c->passed;
	size_t size = (size_t)c->limits.tail_bytes, skip = 0, at;

	if (c->limits.tail_lines == 0)
		skip = c->ring_len;
	else if (c->limits.tail_lines != CUT_UNLIMITED)
		skip = start_of_lines(c, c->limits.tail_lines);
	*out = (struct cut_tail){.left_bytes = rest - (c->ring_len - skip)};
	if (c->ring_len > skip) {
		at = (c->ring_start + skip) % size;
		out->part[0] = c->ring + at;
		out->len[0] = c->ring_len - skip < size - at ? c->ring_len - skip : size - at;
		out->part[1] = c->ring;
		out->len[1] = c->ring_len - skip - out->len[0];
	}
	out->left_newlines = c->newlines - c->passed_newlines;
	for (int i = 0; i < 2; i++) {
		uint64_t lines = out->len[i] ? str_count(out->part[i], out->len[i], '\n') : 0;

		out->left_newlines -= lines;
		c->passed_newlines += lines;
		c->passed += out->len[i];
	}
	if (out->len[0])
		c->passed_in_line = c->ends_in_line;
}

uint64_t cut_lines(const struct cut *c)
{
	return c->newlines + c->ends_in_line;
}

uint64_t cut_passed_lines(const struct cut *c)
{
	return c->passed_newlines + c->passed_in_line;
}
