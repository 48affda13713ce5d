/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A first flight of any bytes: a verdict once reached stays, however the bytes arrive. */
#include <stdlib.h>
#include <string.h>

#include "egress/tls.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char name[HOSTNAME_MAX + 1], part_name[HOSTNAME_MAX + 1];
	enum tls_result whole = tls_hello_name(data, size, name);
	size_t step = size / 37 + 1;

	if ((whole == TLS_FOUND) != (name[0] != '\0'))
		abort();
	for (size_t n = 0; n < size; n += step) {
		uint8_t *copy = malloc(n ? n : 1);
		enum tls_result part;

		memcpy(copy, data, n);
		part = tls_hello_name(copy, n, part_name);
		free(copy);
		if (part != TLS_MORE && (part != whole || strcmp(part_name, name) != 0))
			abort();
	}
	return 0;
}
