/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A client's stream whole and in pieces: the same requests are seen, and the same bytes may go on. */
#include <stdlib.h>
#include <string.h>

#include "egress/h2.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct seen {
	unsigned n, hash;
};

static bool check(void *arg, const struct target *t)
{
	struct seen *s = arg;

	s->n++;
	for (const char *p = t->name; *p; p++)
		s->hash = s->hash * 31 + (unsigned char)*p;
	if (!t->name[0] && !t->addr.family)
		abort();
	return t->name[0] != 'x';
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct seen whole_seen = {0, 0}, part_seen = {0, 0};
	struct h2 whole, part;
	int64_t rc, sum = 0;
	size_t piece, at = 0;

	if (!size)
		return 0;
	piece = (size_t)*data++ % 64 + 1;
	size--;
	h2_init(&whole);
	rc = h2_feed(&whole, data, size, check, &whole_seen);
	if (rc > (int64_t)size || whole.size > H2_TABLE_MAX)
		abort();
	h2_free(&whole);
	h2_init(&part);
	for (size_t n = piece < size ? piece : size;; n = size - n < piece ? size : n + piece) {
		uint8_t *copy = malloc(n - at + 1);

		memcpy(copy, data + at, n - at);
		sum = h2_feed(&part, copy, n - at, check, &part_seen);
		free(copy);
		if (sum < 0)
			break;
		at += (size_t)sum;
		if (n == size)
			break;
	}
	h2_free(&part);
	if ((sum < 0 ? sum : (int64_t)at) != rc || whole_seen.n != part_seen.n || whole_seen.hash != part_seen.hash)
		abort();
	return 0;
}
