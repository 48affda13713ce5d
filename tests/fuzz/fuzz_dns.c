/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A query of any bytes, and the answers to it within every kind of room. */
#include <stdlib.h>
#include <string.h>

#include "egress/dns.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint8_t v4[4] = {198, 18, 0, 2}, v6[16] = {0x20, 1, 0xd, 0xb8};
	struct address addrs[20];
	char normal[HOSTNAME_MAX + 1];
	struct dns_query q, again;
	int rc = dns_parse(data, size, &q);

	if (rc < 0)
		return 0;
	if (q.name[0] && (hostname_normal(q.name, strlen(q.name), normal) != 0 || strcmp(normal, q.name) != 0))
		abort();
	for (size_t i = 0; i < 20; i++)
		addrs[i] = i % 2 ? address_from_v4(v4) : address_from_v6(v6);
	for (size_t cap = 512; cap <= DNS_TCP_MAX; cap += 512) {
		uint8_t *out = malloc(cap);
		size_t n = dns_answer(&q, rc ? (enum dns_rcode)rc : cap & 1024 ? DNS_NXDOMAIN : DNS_NOERROR, addrs, cap % 21, 60, out, cap);

		if (n > cap || n < 12 || dns_parse(out, n, &again) != -1)
			abort();
		free(out);
	}
	if (dns_udp_cap(&q) < 512 || dns_udp_cap(&q) > DNS_ANSWER_MAX)
		abort();
	return 0;
}
