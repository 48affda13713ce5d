/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * DNS messages (RFC 1035, EDNS of RFC 6891) as far as the gateway needs them: a query with one question is read, an
 * answer of addresses or of nothing is built. Nothing that a query holds is ever sent on.
 */
#ifndef AGENTBOX_EGRESS_DNS_H
#define AGENTBOX_EGRESS_DNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hostname.h"
#include "egress/address.h"

#define DNS_QUERY_MAX 4096  /* longer queries are dropped: one question and an OPT with padding need a tenth of it */
#define DNS_ANSWER_MAX 1232 /* over UDP at most, whatever the client offers (DNS flag day 2020) */
#define DNS_TCP_MAX 4096    /* room for an answer over TCP */
#define DNS_NAME_WIRE_MAX 255

enum dns_type { DNS_A = 1, DNS_SOA = 6, DNS_PTR = 12, DNS_AAAA = 28, DNS_OPT = 41, DNS_SVCB = 64, DNS_HTTPS = 65 };
enum dns_rcode {
	DNS_NOERROR = 0,
	DNS_FORMERR = 1,
	DNS_SERVFAIL = 2,
	DNS_NXDOMAIN = 3,
	DNS_NOTIMP = 4,
	DNS_REFUSED = 5,
	DNS_BADVERS = 16,
};

struct dns_query {
	uint16_t id;
	uint16_t flags; /* opcode, RD and CD, which the answer repeats */
	uint16_t type;
	char name[HOSTNAME_MAX + 1]; /* normal; "" where the question's name is no host name */
	uint8_t question[DNS_NAME_WIRE_MAX + 4]; /* as it came, with the case that the client chose (it may compare) */
	size_t question_len;                     /* 0: the answer has no question (FORMERR) */
	bool edns;
	uint16_t udp_size; /* what the client takes over UDP; at least 512 */
};

/*
 * Reads a query. Return: a dns_rcode: DNS_NOERROR, or what to answer with at once (FORMERR: not exactly one question, a
 * compressed or overlong name, counts that lie, bytes left over; NOTIMP: another opcode or class, a zone transfer;
 * BADVERS); -1: no answer at all (an answer itself, shorter than a header, or longer than DNS_QUERY_MAX). `out` is set
 * unless it is -1.
 */
int dns_parse(const uint8_t *msg, size_t len, struct dns_query *out);

/*
 * Builds the answer. addrs: of the family that was asked for; none with DNS_NOERROR is NODATA (an SOA goes along, RFC
 * 2308).
 * cap: room in out, at least 512. What does not fit is left out and TC is set.
 * Return: its length.
 */
size_t dns_answer(const struct dns_query *q, enum dns_rcode rcode, const struct address *addrs, size_t n, uint32_t ttl_s,
		  uint8_t *out, size_t cap);

/* The largest answer for the query over UDP: what the client offered, within DNS_ANSWER_MAX. */
size_t dns_udp_cap(const struct dns_query *q);

/* "A", "AAAA", "HTTPS" ..., or "TYPE123" in buf (16 bytes). */
const char *dns_type_text(uint16_t type, char *buf);

#endif
