/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Bytes as JSON text and back. A path, an argument or a name that the box chose may hold any byte but NUL; JSON holds
 * Unicode. Bytes that are not UTF-8 go to code points of the private plane 16, U+10F800 + byte; those code points
 * themselves, where a text really has them, are escaped byte by byte, so that the way back is exact.
 */
#include <string.h>
#include <time.h>

#include "event/event.h"

#include "base/banned.h"

/* U+10F800..U+10F8FF in UTF-8: F4 8F A0..A3 80..BF. */
static bool text_is_escape(const unsigned char *b, size_t len)
{
	return len == 4 && b[0] == 0xf4 && b[1] == 0x8f && b[2] >= 0xa0 && b[2] <= 0xa3;
}

static void text_escape(struct str *s, unsigned char byte)
{
	unsigned char c[4] = {0xf4, 0x8f, (unsigned char)(0xa0 | byte >> 6), (unsigned char)(0x80 | (byte & 0x3f))};

	str_add_n(s, c, sizeof(c));
}

/* Length of the character at b that stands for itself; 0 where the byte must be escaped. */
static size_t text_plain(const unsigned char *b, size_t len)
{
	size_t n = b[0] ? str_utf8_len(b, len) : 0;

	return text_is_escape(b, n) ? 0 : n;
}

json_t *event_text(const char *bytes, size_t len)
{
	const unsigned char *b = (const unsigned char *)bytes;
	cleanup_str struct str s = {0};
	size_t i = 0, n;

	while (i < len && (n = text_plain(b + i, len - i)))
		i += n;
	if (i == len)
		return json_stringn(len ? bytes : "", len);
	str_add_n(&s, bytes, i);
	while (i < len) {
		n = text_plain(b + i, len - i);
		if (n)
			str_add_n(&s, b + i, n);
		else
			text_escape(&s, b[i]);
		i += n ? n : 1;
	}
	return json_stringn(s.text, s.len);
}

json_t *event_text_z(const char *text)
{
	return event_text(text, strlen(text));
}

json_t *event_text_v(char *const *v)
{
	json_t *array = json_array();

	for (; *v; v++)
		json_array_append_new(array, event_text_z(*v));
	return array;
}

void event_text_bytes(const char *utf8, struct str *out)
{
	const unsigned char *b = (const unsigned char *)utf8;
	size_t len = strlen(utf8);

	for (size_t i = 0; i < len;) {
		size_t n = str_utf8_len(b + i, len - i);

		if (text_is_escape(b + i, n)) {
			unsigned char byte = (unsigned char)((b[i + 2] & 0x03) << 6 | (b[i + 3] & 0x3f));

			str_add_n(out, &byte, 1);
		} else {
			n = n ? n : 1;
			str_add_n(out, b + i, n);
		}
		i += n;
	}
}

const char *event_time_text(const struct timespec *t, char *buf)
{
	struct tm tm;
	size_t n;

	gmtime_r(&t->tv_sec, &tm);
	n = strftime(buf, 40, "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(buf + n, 40 - n, ".%09ldZ", t->tv_nsec);
	return buf;
}
