/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "egress/dns.h"

#include <stdio.h>
#include <string.h>

#include "base/banned.h"

#define HEADER 12
#define FLAG_QR 0x8000
#define FLAG_TC 0x0200
#define FLAG_RA 0x0080
#define FLAGS_OPCODE 0x7800
#define FLAGS_KEPT 0x7910 /* opcode, RD, CD */
#define CLASS_IN 1
#define CLASS_ANY 255
#define TYPE_IXFR 251
#define TYPE_AXFR 252
#define MAX_ADDITIONAL 4 /* OPT, TSIG, SIG(0) and one more: no client sends others */

struct reader {
	const uint8_t *msg;
	size_t len, at;
};

static bool read_u16(struct reader *r, uint16_t *out)
{
	if (r->len - r->at < 2)
		return false;
	*out = (uint16_t)(r->msg[r->at] << 8 | r->msg[r->at + 1]);
	r->at += 2;
	return true;
}

/*
 * A name without compression: in a query nothing precedes the question that a pointer could mean, so one is a fault,
 * and no pointer is ever followed. Return: its length on the wire, 0 where it is malformed.
 */
static size_t skip_name(struct reader *r)
{
	size_t len = 0;

	for (;;) {
		size_t label;

		if (r->at >= r->len)
			return 0;
		label = r->msg[r->at];
		if (label > 63 || r->len - r->at < label + 1)
			return 0;
		len += label + 1;
		if (len > DNS_NAME_WIRE_MAX)
			return 0;
		r->at += label + 1;
		if (!label)
			break;
	}
	return len;
}

/* The wire name as text in normal form; "" where it is no host name. A dot within a label is not a separator. */
static void name_text(const uint8_t *wire, char *out)
{
	char text[DNS_NAME_WIRE_MAX + 1];
	size_t n = 0;

	out[0] = '\0';
	for (size_t at = 0; wire[at]; at += (size_t)wire[at] + 1) {
		if (memchr(wire + at + 1, '.', wire[at]))
			return;
		memcpy(text + n, wire + at + 1, wire[at]);
		n += wire[at];
		text[n++] = '.';
	}
	if (n)
		(void)hostname_normal(text, n - 1, out);
}

/* Skips one additional record; an OPT is taken in. Return: a dns_rcode. */
static int read_additional(struct reader *r, struct dns_query *q)
{
	size_t owner = skip_name(r);
	uint16_t type, class, ttl_high, ttl_low, len;

	if (!owner || !read_u16(r, &type) || !read_u16(r, &class) || !read_u16(r, &ttl_high) || !read_u16(r, &ttl_low) ||
	    !read_u16(r, &len) || r->len - r->at < len)
		return DNS_FORMERR;
	r->at += len;
	if (type != DNS_OPT)
		return DNS_NOERROR;
	if (q->edns || owner != 1) /* one, of the root (RFC 6891 6.1.1) */
		return DNS_FORMERR;
	q->edns = true;
	if (class > q->udp_size)
		q->udp_size = class;
	return (ttl_high & 0xff) ? DNS_BADVERS : DNS_NOERROR;
}

static int read_question(struct reader *r, struct dns_query *q)
{
	size_t start = r->at, name = skip_name(r);
	uint16_t class = 0;

	if (!name || r->len - r->at < 4)
		return DNS_FORMERR;
	memcpy(q->question, r->msg + start, name + 4);
	read_u16(r, &q->type);
	read_u16(r, &class);
	q->question_len = name + 4;
	name_text(q->question, q->name);
	if ((class != CLASS_IN && class != CLASS_ANY) || q->type == TYPE_AXFR || q->type == TYPE_IXFR)
		return DNS_NOTIMP;
	return DNS_NOERROR;
}

int dns_parse(const uint8_t *msg, size_t len, struct dns_query *out)
{
	struct reader r = {.msg = msg, .len = len, .at = HEADER};
	uint16_t counts[4];
	int question, additional = DNS_NOERROR;

	if (len < HEADER || len > DNS_QUERY_MAX || msg[2] & (FLAG_QR >> 8))
		return -1;
	*out = (struct dns_query){.id = (uint16_t)(msg[0] << 8 | msg[1]), .udp_size = 512};
	out->flags = (uint16_t)(msg[2] << 8 | msg[3]);
	for (int i = 0; i < 4; i++)
		counts[i] = (uint16_t)(msg[4 + 2 * i] << 8 | msg[5 + 2 * i]);
	if (out->flags & FLAGS_OPCODE)
		return DNS_NOTIMP;
	if (counts[0] != 1 || counts[1] || counts[2] || counts[3] > MAX_ADDITIONAL)
		return DNS_FORMERR;
	question = read_question(&r, out);
	if (question == DNS_FORMERR)
		return DNS_FORMERR;
	for (unsigned i = 0; i < counts[3] && additional == DNS_NOERROR; i++)
		additional = read_additional(&r, out);
	if (additional == DNS_NOERROR && r.at != r.len)
		additional = DNS_FORMERR;
	return additional != DNS_NOERROR ? additional : question;
}

/* --- answers --- */

struct writer {
	uint8_t *out;
	size_t len, cap;
};

static void put_u16(struct writer *w, uint16_t v)
{
	w->out[w->len++] = (uint8_t)(v >> 8);
	w->out[w->len++] = (uint8_t)v;
}

static void put_u32(struct writer *w, uint32_t v)
{
	put_u16(w, (uint16_t)(v >> 16));
	put_u16(w, (uint16_t)v);
}

#define RECORD_HEAD 12 /* pointer, type, class, TTL, length */
#define OPT_LEN 11
#define SOA_LEN (RECORD_HEAD + 2 + 20)

/* Owner: the question's name, at offset 12 (RFC 1035 4.1.4). */
static void put_record(struct writer *w, uint16_t type, uint32_t ttl_s, uint16_t len)
{
	put_u16(w, 0xc000 | HEADER);
	put_u16(w, type);
	put_u16(w, CLASS_IN);
	put_u32(w, ttl_s);
	put_u16(w, len);
}

/* Says for how long the nothing holds (RFC 2308 5). */
static void put_soa(struct writer *w, uint32_t ttl_s)
{
	put_record(w, DNS_SOA, ttl_s, 22);
	w->out[w->len++] = 0; /* the root as primary and as mailbox */
	w->out[w->len++] = 0;
	put_u32(w, 1);    /* serial */
	put_u32(w, 3600); /* refresh, retry, expire: there are no secondaries */
	put_u32(w, 600);
	put_u32(w, 86400);
	put_u32(w, ttl_s);
}

static void put_opt(struct writer *w, enum dns_rcode rcode)
{
	w->out[w->len++] = 0;
	put_u16(w, DNS_OPT);
	put_u16(w, DNS_ANSWER_MAX);
	put_u16(w, (uint16_t)((rcode >> 4) << 8)); /* the code's upper bits, version 0 */
	put_u16(w, 0);
	put_u16(w, 0);
}

size_t dns_udp_cap(const struct dns_query *q)
{
	return q->udp_size < DNS_ANSWER_MAX ? q->udp_size : DNS_ANSWER_MAX;
}

size_t dns_answer(const struct dns_query *q, enum dns_rcode rcode, const struct address *addrs, size_t n, uint32_t ttl_s,
		  uint8_t *out, size_t cap)
{
	size_t tail = q->edns ? OPT_LEN : 0, answers = 0, authority = 0;
	struct writer w = {.out = out, .cap = cap};
	uint16_t flags = FLAG_QR | FLAG_RA | (q->flags & FLAGS_KEPT) | (rcode & 15);

	w.len = HEADER;
	memcpy(w.out + w.len, q->question, q->question_len);
	w.len += q->question_len;
	for (size_t i = 0; i < n && rcode == DNS_NOERROR; i++) {
		uint16_t size = addrs[i].family == 4 ? 4 : 16;

		if (w.len + RECORD_HEAD + size + tail > cap) {
			flags |= FLAG_TC;
			break;
		}
		put_record(&w, addrs[i].family == 4 ? DNS_A : DNS_AAAA, ttl_s, size);
		memcpy(w.out + w.len, addrs[i].b, size);
		w.len += size;
		answers++;
	}
	if (q->question_len && !n && (rcode == DNS_NOERROR || rcode == DNS_NXDOMAIN) && w.len + SOA_LEN + tail <= cap) {
		put_soa(&w, ttl_s);
		authority = 1;
	}
	if (q->edns)
		put_opt(&w, rcode);
	cap = w.len;
	w.len = 0;
	put_u16(&w, q->id);
	put_u16(&w, flags);
	put_u16(&w, q->question_len ? 1 : 0);
	put_u16(&w, (uint16_t)answers);
	put_u16(&w, (uint16_t)authority);
	put_u16(&w, q->edns ? 1 : 0);
	return cap;
}

const char *dns_type_text(uint16_t type, char *buf)
{
	static const struct {
		uint16_t type;
		const char *text;
	} types[] = {
		{DNS_A, "A"}, {2, "NS"}, {5, "CNAME"}, {DNS_SOA, "SOA"}, {DNS_PTR, "PTR"}, {15, "MX"}, {16, "TXT"},
		{DNS_AAAA, "AAAA"}, {33, "SRV"}, {35, "NAPTR"}, {43, "DS"}, {48, "DNSKEY"}, {52, "TLSA"}, {DNS_SVCB, "SVCB"},
		{DNS_HTTPS, "HTTPS"}, {TYPE_IXFR, "IXFR"}, {TYPE_AXFR, "AXFR"}, {255, "ANY"}, {257, "CAA"},
	};

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (types[i].type == type)
			return types[i].text;
	snprintf(buf, 16, "TYPE%u", type);
	return buf;
}
