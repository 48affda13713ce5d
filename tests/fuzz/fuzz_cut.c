/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The first bytes are the limits and the size of the pieces: what is passed on is the same in pieces and at once. */
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "run/cut.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct result {
	struct str text;
	struct cut cut;
	struct cut_tail tail;
};

static void feed(struct result *r, const char *bytes, size_t len, size_t piece, const struct cut_limits *limits)
{
	cut_init(&r->cut, limits);
	for (size_t at = 0; at < len; at += piece) {
		size_t n = len - at < piece ? len - at : piece, head = cut_feed(&r->cut, bytes + at, n);

		if (head > n || (head < n && !r->cut.head_done))
			abort();
		str_add_n(&r->text, bytes + at, head);
	}
	cut_end(&r->cut, &r->tail);
	for (int i = 0; i < 2; i++)
		str_add_n(&r->text, r->tail.part[i], r->tail.len[i]);
	if (r->cut.passed != r->text.len || r->cut.passed + r->tail.left_bytes != len || r->cut.bytes != len)
		abort();
	cut_free(&r->cut);
}

static uint64_t limit(uint8_t byte)
{
	return byte == 255 ? CUT_UNLIMITED : byte;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct result whole = {0}, parts = {0};
	struct cut_limits limits;
	size_t len;

	if (size < 5)
		return 0;
	limits = (struct cut_limits){limit(data[0]), limit(data[1]), data[2], limit(data[3])};
	len = size - 5;
	feed(&whole, (const char *)data + 5, len, len + 1, &limits);
	feed(&parts, (const char *)data + 5, len, (size_t)data[4] + 1, &limits);
	if (whole.text.len != parts.text.len || (whole.text.len && memcmp(whole.text.text, parts.text.text, whole.text.len) != 0) ||
	    whole.tail.left_bytes != parts.tail.left_bytes || whole.tail.left_newlines != parts.tail.left_newlines ||
	    cut_lines(&whole.cut) != cut_lines(&parts.cut) || cut_passed_lines(&whole.cut) != cut_passed_lines(&parts.cut))
		abort();
	str_free(&whole.text);
	str_free(&parts.text);
	return 0;
}
