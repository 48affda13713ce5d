/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "egress/h2.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "egress/huffman.h"

#include "base/banned.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define FRAME_HEADER 9
#define FRAME_HEADERS 1
#define FRAME_PUSH_PROMISE 5
#define FRAME_CONTINUATION 9
#define FLAG_END_HEADERS 0x4
#define FLAG_PADDED 0x8
#define FLAG_PRIORITY 0x20
#define ENTRY_OVERHEAD 32 /* RFC 7541 4.1 */
#define TABLE_DEFAULT 4096
#define NAME_ROOM 16
#define VALUE_ROOM 300 /* longer than any authority */

/* The static table (RFC 7541 A): all that counts are the names' lengths, and which are ours. */
static const uint8_t static_lengths[] = {
	10, 7,  7,  5,  5,  7, 7,  7, 7, 7,  7,  7, 7,  7,  14, 15, 15, 13, 6, 27, 3, 5, 13, 13, 19, 16, 16, 14, 16, 13, 12,
	6,  4,  4,  6,  7,  4, 4,  8, 17, 13, 8, 19, 13, 4, 8,  12, 18, 19, 5, 7,  7, 11, 6, 10, 25, 17, 10, 4,  3,  16,
};
_Static_assert(COUNT(static_lengths) == 61, "RFC 7541 Appendix A has 61 entries");

static enum h2_field static_field(uint32_t index)
{
	switch (index) {
	case 1:
		return H2_AUTHORITY;
	case 2:
	case 3:
		return H2_METHOD;
	case 38:
		return H2_HOST;
	default:
		return H2_OTHER;
	}
}

/* --- the dynamic table --- */

void h2_init(struct h2 *h)
{
	*h = (struct h2){.max = TABLE_DEFAULT};
}

static void evict(struct h2 *h, uint32_t room)
{
	while (h->n && h->size > room) {
		struct h2_entry *oldest = &h->entries[(h->newest + h->cap - (h->n - 1)) % h->cap];

		h->size -= oldest->size;
		free(oldest->value);
		oldest->value = NULL;
		h->n--;
	}
}

void h2_free(struct h2 *h)
{
	evict(h, 0);
	free(h->entries);
	h->entries = NULL;
	h->cap = 0;
}

/* Room for one more; the ring is straightened as it grows. */
static void grow(struct h2 *h)
{
	uint32_t cap = h->cap ? h->cap * 2 : 32;
	struct h2_entry *entries;

	if (h->n < h->cap)
		return;
	entries = mem_array(NULL, cap, sizeof(*entries));
	for (uint32_t i = 0; h->cap && i < h->n; i++)
		entries[i] = h->entries[(h->newest + h->cap - (h->n - 1) + i) % h->cap];
	free(h->entries);
	h->entries = entries;
	h->newest = h->n ? h->n - 1 : cap - 1;
	h->cap = cap;
}

/* An entry larger than the table empties it, and is no fault (RFC 7541 4.4). */
static void insert(struct h2 *h, enum h2_field field, uint32_t name_len, const char *value, uint32_t value_len)
{
	uint32_t size = name_len + value_len + ENTRY_OVERHEAD;

	if (size > h->max) {
		evict(h, 0);
		return;
	}
	evict(h, h->max - size);
	grow(h);
	h->newest = (h->newest + 1) % h->cap;
	h->entries[h->newest] = (struct h2_entry){
		.field = (uint8_t)field,
		.name_len = name_len,
		.size = size,
		.value = field == H2_AUTHORITY || field == H2_HOST ? mem_strndup(value, value_len) : NULL,
	};
	h->n++;
	h->size += size;
}

/* index: 1 up, static then dynamic. Return: false where there is none. */
static bool find(const struct h2 *h, uint32_t index, struct h2_entry *out)
{
	if (index >= 1 && index <= COUNT(static_lengths)) {
		*out = (struct h2_entry){.field = (uint8_t)static_field(index), .name_len = static_lengths[index - 1]};
		return true;
	}
	index -= COUNT(static_lengths) + 1;
	if (index >= h->n)
		return false;
	*out = h->entries[(h->newest + h->cap - index) % h->cap];
	return true;
}

/* --- header blocks --- */

struct block {
	const uint8_t *at, *end;
	h2_check check;
	void *arg;
	bool method, authority;
	int rc;
};

/* An integer with an N-bit prefix (RFC 7541 5.1); more than 21 bits are never meant. */
static bool take_integer(struct block *b, unsigned bits, uint32_t *out)
{
	uint32_t max = (1U << bits) - 1, value;

	if (b->at == b->end)
		return false;
	value = *b->at++ & max;
	if (value < max) {
		*out = value;
		return true;
	}
	for (unsigned shift = 0; shift <= 14; shift += 7) {
		uint8_t byte;

		if (b->at == b->end)
			return false;
		byte = *b->at++;
		value += (uint32_t)(byte & 127) << shift;
		if (!(byte & 128)) {
			*out = value;
			return true;
		}
	}
	return false;
}

/* A string literal (5.2). out: the first cap bytes of it, terminated; *len: all of them. */
static bool take_string(struct block *b, char *out, size_t cap, uint32_t *len)
{
	bool huffman = b->at < b->end && *b->at & 0x80;
	uint32_t n;
	size_t copied;

	if (!take_integer(b, 7, &n) || n > (size_t)(b->end - b->at))
		return false;
	if (huffman) {
		size_t decoded;

		if (!huffman_decode(b->at, n, out, cap - 1, &decoded))
			return false;
		*len = (uint32_t)decoded;
		copied = decoded < cap - 1 ? decoded : cap - 1;
	} else {
		*len = n;
		copied = n < cap - 1 ? n : cap - 1;
		memcpy(out, b->at, copied);
	}
	out[copied] = '\0';
	b->at += n;
	return true;
}

static enum h2_field field_of(const char *name, uint32_t len)
{
	static const struct {
		const char *name;
		enum h2_field field;
	} ours[] = {{":authority", H2_AUTHORITY}, {"host", H2_HOST}, {":method", H2_METHOD}};

	for (size_t i = 0; i < COUNT(ours); i++)
		if (len == strlen(ours[i].name) && strncasecmp(name, ours[i].name, len) == 0)
			return ours[i].field;
	return H2_OTHER;
}

/* Return: false where the block ends here; b->rc says why. */
static bool take_authority(struct block *b, const char *value, uint32_t len)
{
	struct target t;

	b->rc = -EBADMSG;
	if (len >= VALUE_ROOM || target_parse(value, len, &t) < 0)
		return false;
	b->rc = -EACCES;
	if (!b->check(b->arg, &t))
		return false;
	b->rc = 0;
	b->authority = true;
	return true;
}

static bool take_field(struct block *b, enum h2_field field, const char *value, uint32_t len)
{
	if (field == H2_METHOD)
		b->method = true;
	return (field != H2_AUTHORITY && field != H2_HOST) || take_authority(b, value, len);
}

static bool take_indexed(struct h2 *h, struct block *b)
{
	struct h2_entry e;
	uint32_t index;

	if (!take_integer(b, 7, &index) || !find(h, index, &e))
		return false;
	return take_field(b, (enum h2_field)e.field, e.value ? e.value : "", e.value ? (uint32_t)strlen(e.value) : 0);
}

static bool take_literal(struct h2 *h, struct block *b, unsigned bits, bool indexing)
{
	char name[NAME_ROOM], value[VALUE_ROOM];
	struct h2_entry e = {.field = H2_OTHER};
	uint32_t index, len;

	if (!take_integer(b, bits, &index))
		return false;
	if (index && !find(h, index, &e))
		return false;
	if (!index) {
		if (!take_string(b, name, sizeof(name), &e.name_len))
			return false;
		e.field = (uint8_t)field_of(name, e.name_len);
	}
	if (!take_string(b, value, sizeof(value), &len) || !take_field(b, (enum h2_field)e.field, value, len))
		return false;
	if (indexing)
		insert(h, (enum h2_field)e.field, e.name_len, value, len);
	return true;
}

static bool take_table_size(struct h2 *h, struct block *b)
{
	uint32_t max;

	if (!take_integer(b, 5, &max) || max > H2_TABLE_MAX)
		return false;
	h->max = max;
	evict(h, max);
	return true;
}

int h2_block(struct h2 *h, const uint8_t *block, size_t len, h2_check check, void *arg)
{
	struct block b = {.at = block, .end = block + len, .check = check, .arg = arg};

	while (b.at < b.end) {
		uint8_t first = *b.at;
		bool ok;

		if (first & 0x80)
			ok = take_indexed(h, &b);
		else if (first & 0x40)
			ok = take_literal(h, &b, 6, true);
		else if (first & 0x20)
			ok = take_table_size(h, &b);
		else
			ok = take_literal(h, &b, 4, false);
		if (!ok)
			return b.rc ? b.rc : -EBADMSG;
	}
	/* Trailers have neither; a request has both. */
	return b.method && !b.authority ? -EBADMSG : 0;
}

/* --- frames --- */

struct frame {
	uint32_t len;
	uint8_t type, flags;
	uint32_t stream;
	const uint8_t *payload;
};

static struct frame frame_at(const uint8_t *p)
{
	return (struct frame){.len = (uint32_t)p[0] << 16 | (uint32_t)p[1] << 8 | p[2],
			      .type = p[3],
			      .flags = p[4],
			      .stream = ((uint32_t)p[5] << 24 | (uint32_t)p[6] << 16 | (uint32_t)p[7] << 8 | p[8]) & 0x7fffffff,
			      .payload = p + FRAME_HEADER};
}

/* The fragment of a HEADERS frame without padding and priority. */
static bool fragment(const struct frame *f, const uint8_t **at, size_t *len)
{
	size_t before = 0, after = 0;

	if (f->flags & FLAG_PADDED) {
		if (!f->len)
			return false;
		before = 1;
		after = f->payload[0];
	}
	if (f->flags & FLAG_PRIORITY)
		before += 5;
	if (before + after > f->len)
		return false;
	*at = f->payload + before;
	*len = f->len - before - after;
	return true;
}

/*
 * HEADERS and what continues it, which nothing may come between (RFC 9113 6.10).
 * Return: bytes of all of them; 0 where more must come; or as h2_feed.
 */
static int64_t take_headers(struct h2 *h, const uint8_t *bytes, size_t len, h2_check check, void *arg)
{
	uint8_t *joined = NULL;
	const uint8_t *at = NULL;
	size_t n = 0, used = 0;
	int64_t rc = 0;
	struct frame f;

	do {
		const uint8_t *part;
		size_t part_len;
		uint32_t stream = used ? f.stream : 0;

		rc = 0;
		if (len - used < FRAME_HEADER)
			break;
		f = frame_at(bytes + used);
		rc = -EBADMSG;
		if (used + FRAME_HEADER + f.len > H2_BLOCK_MAX || !f.stream)
			break;
		if (used && (f.type != FRAME_CONTINUATION || f.stream != stream))
			break;
		rc = 0;
		if (len - used < FRAME_HEADER + f.len)
			break;
		part = f.payload;
		part_len = f.len;
		rc = -EBADMSG;
		if (!used && !fragment(&f, &part, &part_len))
			break;
		rc = 1;
		if (!used && f.flags & FLAG_END_HEADERS) {
			at = part;
			n = part_len;
		} else {
			if (!joined)
				at = joined = mem_alloc(H2_BLOCK_MAX);
			memcpy(joined + n, part, part_len);
			n += part_len;
		}
		used += FRAME_HEADER + f.len;
	} while (!(f.flags & FLAG_END_HEADERS));
	if (rc == 1)
		rc = h2_block(h, at, n, check, arg) ?: (int64_t)used;
	free(joined);
	return rc;
}

int64_t h2_feed(struct h2 *h, const uint8_t *bytes, size_t len, h2_check check, void *arg)
{
	size_t at = 0;

	for (;;) {
		size_t part = len - at < h->skip ? len - at : h->skip;
		struct frame f;
		int64_t n;

		at += part;
		h->skip -= (uint32_t)part;
		if (len - at < FRAME_HEADER)
			return (int64_t)at;
		f = frame_at(bytes + at);
		if (f.type == FRAME_CONTINUATION || f.type == FRAME_PUSH_PROMISE)
			return -EBADMSG;
		if (f.type != FRAME_HEADERS) {
			at += FRAME_HEADER;
			h->skip = f.len;
			continue;
		}
		n = take_headers(h, bytes + at, len - at, check, arg);
		if (n < 0)
			return n;
		if (n == 0)
			return (int64_t)at;
		at += (size_t)n;
	}
}
