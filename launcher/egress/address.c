/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "egress/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "base/banned.h"

struct range {
	const char *what;
	uint8_t b[16];
	uint8_t prefix;
};

static const struct range special4[] = {
	{"unspecified", {0}, 8},              /* RFC 791; connect(2) takes 0.0.0.0 for the loopback */
	{"private", {10}, 8},                 /* RFC 1918 */
	{"carrier-grade NAT", {100, 64}, 10}, /* RFC 6598; 100.100.100.200 is a cloud's metadata */
	{"loopback", {127}, 8},
	{"cloud metadata", {168, 63, 129, 16}, 32},
	{"link-local", {169, 254}, 16}, /* RFC 3927; 169.254.169.254 is most clouds' metadata */
	{"private", {172, 16}, 12},
	{"special-purpose", {192, 0, 0}, 24}, /* RFC 6890; 192.0.0.192 is a cloud's metadata */
	{"6to4 relay", {192, 88, 99}, 24},    /* RFC 7526 */
	{"private", {192, 168}, 16},
	{"benchmarking", {198, 18}, 15}, /* RFC 2544; the addresses that stand for names lie here */
	{"multicast", {224}, 4},
	{"reserved", {240}, 4}, /* with the broadcast address */
};

static const struct range special6[] = {
	{"loopback", {[15] = 1}, 128},
	{"unspecified", {0}, 128},
	{"IPv4-compatible", {0}, 96},                                     /* RFC 4291 2.5.5.1 */
	{"IPv4-mapped", {[10] = 0xff, [11] = 0xff}, 96},                  /* never in normal form; closed all the same */
	{"IPv4-translated", {[8] = 0xff, [9] = 0xff}, 96},                /* RFC 2765 */
	{"NAT64", {0x00, 0x64, 0xff, 0x9b}, 96},                          /* RFC 6052 */
	{"NAT64", {0x00, 0x64, 0xff, 0x9b, 0x00, 0x01}, 48},              /* RFC 8215 */
	{"discard", {0x01, 0x00}, 64},                                    /* RFC 6666 */
	{"Teredo", {0x20, 0x01}, 32},                                     /* RFC 4380 */
	{"special-purpose", {0x20, 0x01}, 23},                            /* RFC 2928 */
	{"6to4", {0x20, 0x02}, 16},                                       /* RFC 3056 */
	{"segment routing", {0x5f, 0x00}, 16},                            /* RFC 9602 */
	{"private", {0xfc}, 7},                                           /* RFC 4193; fd00:ec2::254 is a cloud's metadata */
	{"link-local", {0xfe, 0x80}, 10},
	{"site-local", {0xfe, 0xc0}, 10}, /* RFC 3879 */
	{"multicast", {0xff}, 8},
};

static bool range_has(const struct range *r, const uint8_t *b)
{
	unsigned whole = r->prefix / 8, rest = r->prefix % 8;

	if (memcmp(r->b, b, whole) != 0)
		return false;
	return !rest || ((r->b[whole] ^ b[whole]) >> (8 - rest)) == 0;
}

const char *address_special(const struct address *a)
{
	const struct range *r = a->family == 4 ? special4 : special6;
	size_t n = a->family == 4 ? sizeof(special4) / sizeof(special4[0]) : sizeof(special6) / sizeof(special6[0]);

	if (a->family != 4 && a->family != 6)
		return "unknown";
	for (size_t i = 0; i < n; i++)
		if (range_has(&r[i], a->b))
			return r[i].what;
	return NULL;
}

bool address_special_range(uint8_t family, size_t i, struct address *out, unsigned *prefix)
{
	const struct range *r = family == 4 ? special4 : special6;
	size_t n = family == 4 ? sizeof(special4) / sizeof(special4[0]) : sizeof(special6) / sizeof(special6[0]);

	if (i >= n)
		return false;
	*out = (struct address){.family = family};
	memcpy(out->b, r[i].b, 16);
	*prefix = r[i].prefix;
	return true;
}

struct address address_from_v4(const void *bytes)
{
	struct address a = {.family = 4};

	memcpy(a.b, bytes, 4);
	return a;
}

struct address address_from_v6(const void *bytes)
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
	struct address a = {.family = 6};

	memcpy(a.b, bytes, 16);
	if (memcmp(a.b, mapped, sizeof(mapped)) == 0)
		return address_from_v4(a.b + 12);
	return a;
}

bool address_from_sockaddr(const struct sockaddr *sa, struct address *out, uint16_t *port)
{
	struct sockaddr_in in;
	struct sockaddr_in6 in6;

	if (sa->sa_family == AF_INET) {
		memcpy(&in, sa, sizeof(in));
		*out = address_from_v4(&in.sin_addr);
		if (port)
			*port = ntohs(in.sin_port);
		return true;
	}
	if (sa->sa_family == AF_INET6) {
		memcpy(&in6, sa, sizeof(in6));
		*out = address_from_v6(&in6.sin6_addr);
		if (port)
			*port = ntohs(in6.sin6_port);
		return true;
	}
	return false;
}

socklen_t address_to_sockaddr(const struct address *a, uint16_t port, struct sockaddr_storage *out)
{
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(port)};
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};

	memset(out, 0, sizeof(*out));
	if (a->family == 4) {
		memcpy(&in.sin_addr, a->b, 4);
		memcpy(out, &in, sizeof(in));
		return sizeof(in);
	}
	memcpy(&in6.sin6_addr, a->b, 16);
	memcpy(out, &in6, sizeof(in6));
	return sizeof(in6);
}

bool address_eq(const struct address *a, const struct address *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}

int address_compare(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct address));
}

const char *address_text(const struct address *a, char *buf)
{
	if (!a->family || !inet_ntop(a->family == 4 ? AF_INET : AF_INET6, a->b, buf, ADDRESS_TEXT_MAX))
		buf[0] = '\0';
	return buf;
}

bool address_is_unspecified(const struct address *a)
{
	static const uint8_t zero[16];

	return memcmp(a->b, zero, sizeof(zero)) == 0;
}

bool address_embedded_v4(const struct address *a, struct address *out)
{
	static const uint8_t zero[16], nat64[] = {0, 0x64, 0xff, 0x9b}, nat64_local[] = {0, 0x64, 0xff, 0x9b, 0, 1};
	uint8_t v4[4];

	if (a->family != 6)
		return false;
	if ((memcmp(a->b, nat64, 4) == 0 && memcmp(a->b + 4, zero, 8) == 0) || memcmp(a->b, nat64_local, 6) == 0) {
		memcpy(v4, a->b + 12, 4);
	} else if (a->b[0] == 0x20 && a->b[1] == 0x02) {
		memcpy(v4, a->b + 2, 4);
	} else if (a->b[0] == 0x20 && a->b[1] == 0x01 && !a->b[2] && !a->b[3]) {
		for (int i = 0; i < 4; i++)
			v4[i] = a->b[12 + i] ^ 0xff; /* RFC 4380 4: the client's address, obfuscated */
	} else if (memcmp(a->b, zero, 12) == 0 || (memcmp(a->b, zero, 8) == 0 && a->b[8] == 0xff && a->b[9] == 0xff &&
						   !a->b[10] && !a->b[11])) {
		memcpy(v4, a->b + 12, 4);
	} else {
		return false;
	}
	*out = address_from_v4(v4);
	return true;
}

int target_parse_host(const char *bytes, size_t len, struct target *out)
{
	char text[ADDRESS_TEXT_MAX];
	uint8_t raw[16];

	*out = (struct target){.port = 0};
	if (len > 1 && bytes[0] == '[' && bytes[len - 1] == ']') {
		bytes++;
		len -= 2;
		if (!memchr(bytes, ':', len))
			return -EINVAL;
	}
	/* A NUL would end the text early for inet_pton: "10.0.0.1\0.allowed". */
	if (len && len < sizeof(text) && !memchr(bytes, '\0', len)) {
		memcpy(text, bytes, len);
		text[len] = '\0';
		if (inet_pton(AF_INET, text, raw) == 1) {
			out->addr = address_from_v4(raw);
			return 0;
		}
		if (inet_pton(AF_INET6, text, raw) == 1) {
			out->addr = address_from_v6(raw);
			return 0;
		}
	}
	return hostname_normal(bytes, len, out->name) < 0 ? -EINVAL : 0;
}

/* 1 to 65535 without leading zeros; not base/num.h, as the bytes have no end mark. Return: 0 where it is none. */
static uint16_t port_parse(const char *bytes, size_t len)
{
	uint32_t port = 0;

	if (!len || len > 5 || bytes[0] == '0')
		return 0;
	for (size_t i = 0; i < len; i++) {
		if (bytes[i] < '0' || bytes[i] > '9')
			return 0;
		port = port * 10 + (uint32_t)(bytes[i] - '0');
	}
	return port > UINT16_MAX ? 0 : (uint16_t)port;
}

int target_parse(const char *bytes, size_t len, struct target *out)
{
	const char *colon = NULL;
	size_t host = len;
	uint16_t port = 0;
	int rc;

	*out = (struct target){.port = 0};
	if (len && bytes[0] == '[') {
		const char *end = memchr(bytes, ']', len);

		if (!end)
			return -EINVAL;
		host = (size_t)(end - bytes) + 1;
		if (host < len)
			colon = end + 1;
	} else {
		colon = memchr(bytes, ':', len);
		if (colon)
			host = (size_t)(colon - bytes);
	}
	if (colon) {
		if (*colon != ':')
			return -EINVAL;
		port = port_parse(colon + 1, len - host - 1);
		if (!port)
			return -EINVAL;
	}
	rc = target_parse_host(bytes, host, out);
	out->port = port;
	return rc;
}
