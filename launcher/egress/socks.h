/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SOCKS version 5 as a server reads it (RFC 1928): no authentication, CONNECT only. */
#ifndef AGENTBOX_EGRESS_SOCKS_H
#define AGENTBOX_EGRESS_SOCKS_H

#include <stddef.h>
#include <stdint.h>

#include "egress/address.h"

#define SOCKS_VERSION 5

enum socks_result {
	SOCKS_MORE, /* no fault so far, and not all is there */
	SOCKS_OK,
	SOCKS_BAD, /* no SOCKS 5 */
};

enum socks_method { SOCKS_METHOD_NONE = 0, SOCKS_METHOD_REFUSED = 0xff };

enum socks_reply {
	SOCKS_SUCCEEDED = 0,
	SOCKS_FAILURE = 1,
	SOCKS_DENIED = 2, /* "not allowed by ruleset" */
	SOCKS_UNREACHABLE = 4,
	SOCKS_CONNECTION_REFUSED = 5,
	SOCKS_TTL_EXPIRED = 6, /* what clients show as a timeout */
	SOCKS_COMMAND = 7,     /* "command not supported" */
	SOCKS_ADDRESS_TYPE = 8,
};

/* *used: bytes of the greeting. *method: what to answer. Set with SOCKS_OK. */
enum socks_result socks_greeting(const uint8_t *bytes, size_t len, size_t *used, enum socks_method *method);

/*
 * *used: bytes of the request. *reply: SOCKS_SUCCEEDED where `out` is a target to connect to, with its port; else what
 * to answer (SOCKS_COMMAND, SOCKS_ADDRESS_TYPE, SOCKS_FAILURE for a name that is none or port 0). Set with SOCKS_OK.
 */
enum socks_result socks_request(const uint8_t *bytes, size_t len, size_t *used, struct target *out, enum socks_reply *reply);

#define SOCKS_GREETING_REPLY_LEN 2
void socks_greeting_reply(enum socks_method method, uint8_t out[SOCKS_GREETING_REPLY_LEN]);
#define SOCKS_REPLY_LEN 10
/* The bound address is given as 0.0.0.0:0, which clients of CONNECT do not read. */
void socks_reply(enum socks_reply reply, uint8_t out[SOCKS_REPLY_LEN]);

#endif
