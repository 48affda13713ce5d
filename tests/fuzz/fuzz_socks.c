/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A greeting and the request behind it, and the same bytes as HOST:PORT. */
#include <stdlib.h>
#include <string.h>

#include "egress/socks.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_target(const struct target *t)
{
	char normal[HOSTNAME_MAX + 1], text[ADDRESS_TEXT_MAX];

	if (t->name[0] && (t->addr.family || hostname_normal(t->name, strlen(t->name), normal) != 0 || strcmp(normal, t->name) != 0))
		abort();
	if (t->addr.family)
		address_text(&t->addr, text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	enum socks_method method;
	enum socks_reply reply;
	struct target t;
	size_t used = 0;

	if (target_parse((const char *)data, size, &t) == 0) {
		check_target(&t);
		if (!t.name[0] && !t.addr.family)
			abort();
	}
	if (socks_greeting(data, size, &used, &method) == SOCKS_OK) {
		if (used > size)
			abort();
		data += used;
		size -= used;
	}
	if (socks_request(data, size, &used, &t, &reply) == SOCKS_OK) {
		if (used > size || (reply == SOCKS_SUCCEEDED && (!t.port || (!t.name[0] && !t.addr.family))))
			abort();
		check_target(&t);
	}
	return 0;
}
