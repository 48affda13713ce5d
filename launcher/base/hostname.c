/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "base/hostname.h"

#include <errno.h>
#include <string.h>

#include "base/banned.h"

#define LABEL_MAX 63 /* RFC 1035 2.3.4 */

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_hex(char c)
{
	return is_digit(c) || (c >= 'a' && c <= 'f');
}

/*
 * A last label that is a number (decimal, or 0x and hexadecimal digits, even none) makes the whole an IPv4 address to
 * inet_aton and to browsers (WHATWG URL, "ends in a number checker"); no top-level domain is one. So such text is never
 * taken for a name, whether or not the address would be valid.
 */
static bool label_is_number(const char *label, size_t len)
{
	size_t i = 0;

	if (len >= 2 && label[0] == '0' && label[1] == 'x') {
		for (i = 2; i < len && is_hex(label[i]); i++)
			;
		return i == len;
	}
	while (i < len && is_digit(label[i]))
		i++;
	return i == len;
}

int hostname_normal(const char *bytes, size_t len, char *out)
{
	size_t label = 0; /* where the label at hand starts */

	out[0] = '\0';
	if (len && bytes[len - 1] == '.')
		len--;
	if (!len)
		return -EINVAL;
	if (len > HOSTNAME_MAX)
		return -ENAMETOOLONG;
	for (size_t i = 0; i < len; i++) {
		char c = bytes[i];

		if (c >= 'A' && c <= 'Z')
			c = (char)(c - 'A' + 'a');
		if (c == '.') {
			if (i == label)
				goto invalid;
			label = i + 1;
		} else if (!is_digit(c) && !(c >= 'a' && c <= 'z') && c != '-' && c != '_') {
			goto invalid;
		} else if (i - label >= LABEL_MAX) {
			out[0] = '\0';
			return -ENAMETOOLONG;
		}
		out[i] = c;
	}
	if (label == len || label_is_number(out + label, len - label))
		goto invalid;
	out[len] = '\0';
	return 0;
invalid:
	out[0] = '\0';
	return -EINVAL;
}

bool hostname_is_beneath(const char *name, const char *suffix)
{
	size_t n = strlen(name), m = strlen(suffix);

	return m && n > m + 1 && name[n - m - 1] == '.' && memcmp(name + n - m, suffix, m) == 0;
}
