/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "base/str.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#include "base/banned.h"

static void str_grow(struct str *s, size_t more)
{
	size_t need = s->len + more + 1;

	if (need <= s->cap)
		return;
	s->cap = need < 64 ? 64 : need + need / 2;
	s->text = mem_array(s->text, s->cap, 1);
}

void str_add_n(struct str *s, const void *bytes, size_t len)
{
	str_grow(s, len);
	if (len)
		memcpy(s->text + s->len, bytes, len);
	s->len += len;
	s->text[s->len] = '\0';
}

void str_add(struct str *s, const char *text)
{
	str_add_n(s, text, strlen(text));
}

void str_addf(struct str *s, const char *fmt, ...)
{
	va_list ap;
	int n;

	str_grow(s, 0);
	for (;;) {
		size_t room = s->cap - s->len;

		va_start(ap, fmt);
		n = vsnprintf(s->text + s->len, room, fmt, ap);
		va_end(ap);
		if (n < 0)
			abort();
		if ((size_t)n < room)
			break;
		str_grow(s, (size_t)n);
	}
	s->len += (size_t)n;
}

char *str_steal(struct str *s)
{
	char *text = s->text ? s->text : mem_strdup("");

	*s = (struct str){0};
	return text;
}

void str_free(struct str *s)
{
	free(s->text);
	*s = (struct str){0};
}

void vec_reserve(void *items_p, size_t *cap, size_t n, size_t size)
{
	void **items = items_p;

	if (n < *cap)
		return;
	*cap = n < 8 ? 8 : n * 2;
	*items = mem_array(*items, *cap, size);
}

void strv_take(struct strv *v, char *text)
{
	vec_reserve(&v->v, &v->cap, v->n + 1, sizeof(*v->v));
	v->v[v->n++] = text;
	v->v[v->n] = NULL;
}

void strv_add(struct strv *v, const char *text)
{
	strv_take(v, mem_strdup(text));
}

void strv_free(struct strv *v)
{
	for (size_t i = 0; i < v->n; i++)
		free(v->v[i]);
	free(v->v);
	*v = (struct strv){0};
}

bool strv_has(const struct strv *v, const char *text)
{
	for (size_t i = 0; i < v->n; i++)
		if (str_eq(v->v[i], text))
			return true;
	return false;
}

bool str_eq(const char *a, const char *b)
{
	return strcmp(a, b) == 0;
}

bool str_has_prefix(const char *s, const char *prefix)
{
	return strncmp(s, prefix, strlen(prefix)) == 0;
}

bool str_has_suffix(const char *s, const char *suffix)
{
	size_t n = strlen(s), m = strlen(suffix);

	return n >= m && memcmp(s + n - m, suffix, m) == 0;
}

/* A vector of bytes as GCC and Clang have it: the machine's own registers, or a loop. */
typedef unsigned char bytes16 __attribute__((vector_size(16)));

size_t str_count(const void *bytes, size_t len, char c)
{
	const unsigned char *p = bytes;
	bytes16 pattern;
	size_t n = 0;

	memset(&pattern, (unsigned char)c, sizeof(pattern));
	while (len >= sizeof(pattern)) {
		bytes16 counts = {0}; /* a counter in each byte, which 255 steps cannot overflow */

		for (int i = 0; i < 255 && len >= sizeof(pattern); i++, len -= sizeof(pattern), p += sizeof(pattern)) {
			bytes16 some;

			memcpy(&some, p, sizeof(some));
			counts -= (bytes16)(some == pattern); /* -1 where they are equal */
		}
		for (size_t i = 0; i < sizeof(counts); i++)
			n += counts[i];
	}
	for (; len; len--, p++)
		n += *p == (unsigned char)c;
	return n;
}

void str_hex(const void *bytes, size_t n, char *out)
{
	static const char digits[] = "0123456789abcdef";
	const unsigned char *b = bytes;

	for (size_t i = 0; i < n; i++) {
		out[2 * i] = digits[b[i] >> 4];
		out[2 * i + 1] = digits[b[i] & 15];
	}
	out[2 * n] = '\0';
}

#define NEAREST_MAX 64

/* Optimal string alignment distance; names over NEAREST_MAX bytes are not near anything. */
static size_t str_distance(const char *a, const char *b)
{
	size_t la = strlen(a), lb = strlen(b);
	unsigned char d[NEAREST_MAX + 1][NEAREST_MAX + 1];

	if (la > NEAREST_MAX || lb > NEAREST_MAX)
		return SIZE_MAX;
	for (size_t i = 0; i <= la; i++)
		d[i][0] = (unsigned char)i;
	for (size_t j = 0; j <= lb; j++)
		d[0][j] = (unsigned char)j;
	for (size_t i = 1; i <= la; i++) {
		for (size_t j = 1; j <= lb; j++) {
			size_t best = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);

			if (d[i - 1][j] + 1U < best)
				best = d[i - 1][j] + 1U;
			if (d[i][j - 1] + 1U < best)
				best = d[i][j - 1] + 1U;
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && d[i - 2][j - 2] + 1U < best)
				best = d[i - 2][j - 2] + 1U;
			d[i][j] = (unsigned char)best;
		}
	}
	return d[la][lb];
}

const char *str_nearest(const char *name, const char *const *names)
{
	size_t best = SIZE_MAX, limit = strlen(name) / 3 + 1;
	const char *nearest = NULL;

	for (; *names; names++) {
		size_t d = str_distance(name, *names);

		if (d < best) {
			best = d;
			nearest = *names;
		}
	}
	return best <= limit ? nearest : NULL;
}

size_t str_utf8_len(const unsigned char *b, size_t len)
{
	size_t n;
	uint32_t c, min;

	if (!len)
		return 0;
	if (b[0] < 0x80)
		return 1;
	if ((b[0] & 0xe0) == 0xc0)
		n = 2, c = b[0] & 0x1f, min = 0x80;
	else if ((b[0] & 0xf0) == 0xe0)
		n = 3, c = b[0] & 0x0f, min = 0x800;
	else if ((b[0] & 0xf8) == 0xf0)
		n = 4, c = b[0] & 0x07, min = 0x10000;
	else
		return 0;
	if (len < n)
		return 0;
	for (size_t i = 1; i < n; i++) {
		if ((b[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (b[i] & 0x3f);
	}
	if (c < min || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
		return 0;
	return n;
}

/* Without a shape of their own: marks of direction, zero widths, line separators (Unicode: Bidi_Control, and U+200B and the like). */
static bool is_invisible(const unsigned char *b, size_t n)
{
	if (n == 2)
		return b[0] == 0xd8 && b[1] == 0x9c; /* U+061C */
	if (n != 3)
		return false;
	if (b[0] == 0xe2 && b[1] == 0x80)
		return (b[2] >= 0x8b && b[2] <= 0x8f) || (b[2] >= 0xa8 && b[2] <= 0xae); /* U+200B..200F, 2028..202E */
	if (b[0] == 0xe2 && b[1] == 0x81)
		return b[2] >= 0xa0 && b[2] <= 0xaf; /* U+2060..206F */
	return b[0] == 0xef && b[1] == 0xbb && b[2] == 0xbf; /* U+FEFF */
}

void str_add_printable(struct str *s, const char *bytes, size_t len)
{
	const unsigned char *b = (const unsigned char *)bytes;

	for (size_t i = 0; i < len;) {
		size_t n = str_utf8_len(b + i, len - i);
		/* C0, DEL and C1 (U+0080..U+009F) control a terminal. */
		bool control = n == 1 ? (b[i] < 0x20 || b[i] == 0x7f) : (n == 2 && b[i] == 0xc2 && b[i + 1] < 0xa0);

		if (n && !control && !is_invisible(b + i, n)) {
			str_add_n(s, b + i, n);
			i += n;
			continue;
		}
		str_addf(s, "\\x%02x", b[i]);
		i++;
	}
}
