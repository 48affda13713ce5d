/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Any bytes as a packet, and as what an NFLOG socket gave. */
#include <stdlib.h>

#include "egress/packet.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void parse(const uint8_t *bytes, size_t len)
{
	struct packet_attempt a;

	if (packet_parse(bytes, len, &a) && (len < 20 || (a.addr.family != 4 && a.addr.family != 6)))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *at = data, *packet;
	size_t left = size, len, before = left;

	parse(data, size);
	while ((packet = packet_next(&at, &left, &len))) {
		if (packet < data || len > size || packet + len > data + size || left >= before || at + left != data + size)
			abort();
		before = left;
		parse(packet, len);
	}
	return 0;
}
