/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "egress/tls.h"

#include <stdbool.h>
#include <string.h>

#include "base/banned.h"

#define RECORD_HEADER 5
#define RECORD_MAX 16384
#define RECORDS_MAX 64 /* a hello in more pieces is made to be tiresome */
#define TYPE_HANDSHAKE 22
#define CLIENT_HELLO 1
#define HANDSHAKE_HEADER 4
#define EXT_SERVER_NAME 0
#define NAME_TYPE_HOST 0

const uint8_t tls_alert_access_denied[TLS_ALERT_LEN] = {21, 3, 1, 0, 2, 2, 49};

struct cursor {
	const uint8_t *at, *end;
};

static bool take_u8(struct cursor *c, unsigned *out)
{
	if (c->at == c->end)
		return false;
	*out = *c->at++;
	return true;
}

static bool take_u16(struct cursor *c, unsigned *out)
{
	if (c->end - c->at < 2)
		return false;
	*out = (unsigned)c->at[0] << 8 | c->at[1];
	c->at += 2;
	return true;
}

/* The next len bytes as a cursor of their own. */
static bool take(struct cursor *c, size_t len, struct cursor *out)
{
	if ((size_t)(c->end - c->at) < len)
		return false;
	*out = (struct cursor){c->at, c->at + len};
	c->at += len;
	return true;
}

/* A vector with a one-byte or two-byte length before it. */
static bool take_vector8(struct cursor *c, struct cursor *out)
{
	unsigned len;

	return take_u8(c, &len) && take(c, len, out);
}

static bool take_vector16(struct cursor *c, struct cursor *out)
{
	unsigned len;

	return take_u16(c, &len) && take(c, len, out);
}

/* One list with one name (RFC 6066 3: not more than one of a type, and no other type was ever defined). */
static enum tls_result parse_server_name(struct cursor ext, char *name)
{
	struct cursor list, host;
	unsigned type;

	if (!take_vector16(&ext, &list) || ext.at != ext.end)
		return TLS_BAD;
	if (!take_u8(&list, &type) || type != NAME_TYPE_HOST || !take_vector16(&list, &host) || list.at != list.end)
		return TLS_BAD;
	if (hostname_normal((const char *)host.at, (size_t)(host.end - host.at), name) < 0)
		return TLS_BAD;
	return TLS_FOUND;
}

static enum tls_result parse_hello(struct cursor c, char *name)
{
	struct cursor skip, extensions;
	enum tls_result result = TLS_NONE;
	unsigned version;

	if (!take_u16(&c, &version) || version >> 8 != 3 || !take(&c, 32, &skip) || !take_vector8(&c, &skip) ||
	    skip.end - skip.at > 32 || !take_vector16(&c, &skip) || !take_vector8(&c, &skip))
		return TLS_BAD;
	if (c.at == c.end) /* TLS 1.0 may end here */
		return TLS_NONE;
	if (!take_vector16(&c, &extensions) || c.at != c.end)
		return TLS_BAD;
	while (extensions.at != extensions.end) {
		struct cursor ext;
		unsigned type;

		if (!take_u16(&extensions, &type) || !take_vector16(&extensions, &ext))
			return TLS_BAD;
		if (type != EXT_SERVER_NAME)
			continue;
		if (result != TLS_NONE)
			return TLS_BAD;
		result = parse_server_name(ext, name);
		if (result == TLS_BAD)
			return TLS_BAD;
	}
	return result;
}

/* Is the handshake message at the start of the contents whole? */
static enum tls_result message_state(const uint8_t *message, size_t have, size_t *len)
{
	size_t want;

	if (have && message[0] != CLIENT_HELLO)
		return TLS_BAD;
	if (have < HANDSHAKE_HEADER)
		return TLS_MORE;
	want = HANDSHAKE_HEADER + ((size_t)message[1] << 16 | (size_t)message[2] << 8 | message[3]);
	if (want > TLS_HELLO_MAX)
		return TLS_BAD;
	*len = want;
	return have >= want ? TLS_FOUND : TLS_MORE;
}

/* A record's header as far as it is there. */
static bool record_is_bad(const uint8_t *bytes, size_t n)
{
	size_t size;

	if ((n > 0 && bytes[0] != TYPE_HANDSHAKE) || (n > 1 && bytes[1] != 3))
		return true;
	if (n < RECORD_HEADER)
		return false;
	size = (size_t)bytes[3] << 8 | bytes[4];
	return !size || size > RECORD_MAX;
}

/*
 * Puts the records' contents one behind the other; the last may be cut. Return: TLS_FOUND when the handshake message at
 * their start is whole (*len is its length), TLS_MORE, or TLS_BAD.
 */
static enum tls_result reassemble(const uint8_t *bytes, size_t n, uint8_t *out, size_t *len)
{
	size_t at = 0, have = 0;

	for (int records = 0; records < RECORDS_MAX; records++) {
		enum tls_result state;
		size_t size, part;

		if (record_is_bad(bytes + at, n - at))
			return TLS_BAD;
		if (n - at < RECORD_HEADER)
			return TLS_MORE;
		size = (size_t)bytes[at + 3] << 8 | bytes[at + 4];
		at += RECORD_HEADER;
		part = n - at < size ? n - at : size;
		memcpy(out + have, bytes + at, part); /* have + part < n <= TLS_HELLO_MAX */
		have += part;
		at += part;
		state = message_state(out, have, len);
		if (state != TLS_MORE || part < size)
			return state;
	}
	return TLS_BAD;
}

enum tls_result tls_hello_name(const uint8_t *bytes, size_t len, char *name)
{
	uint8_t message[TLS_HELLO_MAX];
	enum tls_result result;
	size_t n = 0;

	name[0] = '\0';
	if (len > TLS_HELLO_MAX)
		len = TLS_HELLO_MAX;
	result = reassemble(bytes, len, message, &n);
	if (result == TLS_FOUND)
		result = parse_hello((struct cursor){message + HANDSHAKE_HEADER, message + n}, name);
	if (result == TLS_MORE && len == TLS_HELLO_MAX)
		result = TLS_BAD;
	if (result != TLS_FOUND)
		name[0] = '\0';
	return result;
}
