/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "egress/socks.h"

#include <string.h>

#include "base/banned.h"

#define COMMAND_CONNECT 1
#define TYPE_IPV4 1
#define TYPE_NAME 3
#define TYPE_IPV6 4

enum socks_result socks_greeting(const uint8_t *bytes, size_t len, size_t *used, enum socks_method *method)
{
	if (len && bytes[0] != SOCKS_VERSION)
		return SOCKS_BAD;
	if (len < 2)
		return SOCKS_MORE;
	if (!bytes[1])
		return SOCKS_BAD;
	if (len < 2 + (size_t)bytes[1])
		return SOCKS_MORE;
	*used = 2 + (size_t)bytes[1];
	*method = memchr(bytes + 2, SOCKS_METHOD_NONE, bytes[1]) ? SOCKS_METHOD_NONE : SOCKS_METHOD_REFUSED;
	return SOCKS_OK;
}

enum socks_result socks_request(const uint8_t *bytes, size_t len, size_t *used, struct target *out, enum socks_reply *reply)
{
	size_t host = 4, host_len;

	*out = (struct target){.port = 0};
	if ((len > 0 && bytes[0] != SOCKS_VERSION) || (len > 2 && bytes[2] != 0))
		return SOCKS_BAD;
	if (len < 5)
		return SOCKS_MORE;
	switch (bytes[3]) {
	case TYPE_IPV4:
		host_len = 4;
		break;
	case TYPE_IPV6:
		host_len = 16;
		break;
	case TYPE_NAME:
		host = 5;
		host_len = bytes[4];
		break;
	default: /* its length is not known, so nothing behind it can be read */
		*used = len;
		*reply = SOCKS_ADDRESS_TYPE;
		return SOCKS_OK;
	}
	if (len < host + host_len + 2)
		return SOCKS_MORE;
	*used = host + host_len + 2;
	*reply = SOCKS_SUCCEEDED;
	if (bytes[1] != COMMAND_CONNECT) {
		*reply = SOCKS_COMMAND;
		return SOCKS_OK;
	}
	if (bytes[3] == TYPE_IPV4)
		out->addr = address_from_v4(bytes + host);
	else if (bytes[3] == TYPE_IPV6)
		out->addr = address_from_v6(bytes + host);
	else if (target_parse_host((const char *)bytes + host, host_len, out) < 0)
		*reply = SOCKS_FAILURE;
	out->port = (uint16_t)(bytes[host + host_len] << 8 | bytes[host + host_len + 1]);
	if (!out->port)
		*reply = SOCKS_FAILURE;
	return SOCKS_OK;
}

void socks_greeting_reply(enum socks_method method, uint8_t out[SOCKS_GREETING_REPLY_LEN])
{
	out[0] = SOCKS_VERSION;
	out[1] = (uint8_t)method;
}

void socks_reply(enum socks_reply reply, uint8_t out[SOCKS_REPLY_LEN])
{
	memset(out, 0, SOCKS_REPLY_LEN);
	out[0] = SOCKS_VERSION;
	out[1] = (uint8_t)reply;
	out[3] = TYPE_IPV4;
}
