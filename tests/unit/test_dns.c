/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "egress/dns.h"

#include "base/banned.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define LIT(s) (const uint8_t *)(s), sizeof(s) - 1
#define HEAD(qd, ar) "\x12\x34\x01\x00\x00" qd "\x00\x00\x00\x00\x00" ar
#define NAME "\x01" "a\x04test\x00"
#define A_IN "\x00\x01\x00\x01"
#define OPT(size, version) "\x00\x00\x29" size "\x00" version "\x00\x00\x00\x00"

static const struct {
	const char *what;
	const uint8_t *msg;
	size_t len;
	int rc;
	const char *name;
} queries[] = {
	{"plain", LIT(HEAD("\x01", "\x00") NAME A_IN), DNS_NOERROR, "a.test"},
	{"case is kept on the wire only", LIT(HEAD("\x01", "\x00") "\x01" "A\x04tEsT\x00" A_IN), DNS_NOERROR, "a.test"},
	{"class ANY", LIT(HEAD("\x01", "\x00") NAME "\x00\x01\x00\xff"), DNS_NOERROR, "a.test"},
	{"EDNS", LIT(HEAD("\x01", "\x01") NAME A_IN OPT("\x10\x00", "\x00")), DNS_NOERROR, "a.test"},
	{"EDNS with options", LIT(HEAD("\x01", "\x01") NAME A_IN "\x00\x00\x29\x10\x00\x00\x00\x00\x00\x00\x04\x00\x0a\x00\x00"),
	 DNS_NOERROR, "a.test"},
	{"the root", LIT(HEAD("\x01", "\x00") "\x00" A_IN), DNS_NOERROR, ""},
	{"a NUL in a label", LIT(HEAD("\x01", "\x00") "\x03" "a\x00" "b\x04test\x00" A_IN), DNS_NOERROR, ""},
	{"a dot in a label", LIT(HEAD("\x01", "\x00") "\x06" "a.test\x00" A_IN), DNS_NOERROR, ""},
	{"an address", LIT(HEAD("\x01", "\x00") "\x01" "1\x01" "2\x01" "3\x01" "4\x00" A_IN), DNS_NOERROR, ""},
	{"empty", LIT(""), -1, ""},
	{"short", LIT("\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00"), -1, ""},
	{"an answer", LIT("\x12\x34\x81\x00\x00\x01\x00\x00\x00\x00\x00\x00" NAME A_IN), -1, ""},
	{"no question", LIT(HEAD("\x00", "\x00")), DNS_FORMERR, ""},
	{"two questions", LIT(HEAD("\x02", "\x00") NAME A_IN NAME A_IN), DNS_FORMERR, ""},
	{"an answer record", LIT("\x12\x34\x01\x00\x00\x01\x00\x01\x00\x00\x00\x00" NAME A_IN), DNS_FORMERR, ""},
	{"an authority record", LIT("\x12\x34\x01\x00\x00\x01\x00\x00\x00\x01\x00\x00" NAME A_IN), DNS_FORMERR, ""},
	{"many additionals", LIT(HEAD("\x01", "\x05") NAME A_IN), DNS_FORMERR, ""},
	{"a count that lies", LIT(HEAD("\x01", "\x01") NAME A_IN), DNS_FORMERR, "a.test"},
	{"bytes left over", LIT(HEAD("\x01", "\x00") NAME A_IN "x"), DNS_FORMERR, "a.test"},
	{"a pointer to itself", LIT(HEAD("\x01", "\x00") "\xc0\x0c" A_IN), DNS_FORMERR, ""},
	{"a pointer in the name", LIT(HEAD("\x01", "\x00") "\x01" "a\xc0\x00" A_IN), DNS_FORMERR, ""},
	{"a reserved label type", LIT(HEAD("\x01", "\x00") "\x40" A_IN), DNS_FORMERR, ""},
	{"a label that is cut", LIT(HEAD("\x01", "\x00") "\x3f" "a"), DNS_FORMERR, ""},
	{"a name without end", LIT(HEAD("\x01", "\x00") "\x01" "a"), DNS_FORMERR, ""},
	{"type is cut", LIT(HEAD("\x01", "\x00") NAME "\x00\x01\x00"), DNS_FORMERR, ""},
	{"two OPT", LIT(HEAD("\x01", "\x02") NAME A_IN OPT("\x10\x00", "\x00") OPT("\x10\x00", "\x00")), DNS_FORMERR, "a.test"},
	{"OPT of a name", LIT(HEAD("\x01", "\x01") NAME A_IN "\x01" "a" OPT("\x10\x00", "\x00")), DNS_FORMERR, "a.test"},
	{"OPT that is cut", LIT(HEAD("\x01", "\x01") NAME A_IN "\x00\x00\x29\x10\x00\x00\x00\x00\x00\x00\x04\x00"), DNS_FORMERR,
	 "a.test"},
	{"EDNS version 1", LIT(HEAD("\x01", "\x01") NAME A_IN OPT("\x10\x00", "\x01")), DNS_BADVERS, "a.test"},
	{"another class", LIT(HEAD("\x01", "\x00") NAME "\x00\x10\x00\x03"), DNS_NOTIMP, "a.test"},
	{"AXFR", LIT(HEAD("\x01", "\x00") NAME "\x00\xfc\x00\x01"), DNS_NOTIMP, "a.test"},
	{"IXFR", LIT(HEAD("\x01", "\x00") NAME "\x00\xfb\x00\x01"), DNS_NOTIMP, "a.test"},
	{"NOTIFY", LIT("\x12\x34\x21\x00\x00\x01\x00\x00\x00\x00\x00\x00" NAME A_IN), DNS_NOTIMP, ""},
	{"UPDATE", LIT("\x12\x34\x28\x00\x00\x01\x00\x00\x00\x00\x00\x00" NAME A_IN), DNS_NOTIMP, ""},
};

static void test_queries(void **state)
{
	struct dns_query q;

	(void)state;
	for (size_t i = 0; i < COUNT(queries); i++) {
		int rc = dns_parse(queries[i].msg, queries[i].len, &q);

		if (rc != queries[i].rc)
			fail_msg("%s: %d, not %d", queries[i].what, rc, queries[i].rc);
		if (rc >= 0 && strcmp(q.name, queries[i].name) != 0)
			fail_msg("%s: '%s', not '%s'", queries[i].what, q.name, queries[i].name);
	}
}

/* 255 bytes on the wire is the longest; then a query of the greatest length, and one beyond. */
static void test_lengths(void **state)
{
	uint8_t msg[DNS_QUERY_MAX + 1] = {0x12, 0x34, 1, 0, 0, 1};
	struct dns_query q;
	size_t at = 12;

	(void)state;
	for (int i = 0; i < 3; i++) {
		msg[at] = 63;
		memset(msg + at + 1, 'a', 63);
		at += 64;
	}
	msg[at] = 61;
	memset(msg + at + 1, 'b', 61);
	at += 62;
	msg[at++] = 0;
	memcpy(msg + at, A_IN, 4);
	assert_int_equal(dns_parse(msg, at + 4, &q), DNS_NOERROR);
	assert_int_equal(strlen(q.name), 253);
	assert_int_equal(q.question_len, 259);
	msg[12 + 192] = 62; /* 256: the zero is part of the label now */
	msg[at] = 0;
	assert_int_equal(dns_parse(msg, at + 5, &q), DNS_FORMERR);
	assert_int_equal(dns_parse(msg, sizeof(msg), &q), -1);
}

static uint16_t u16(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

static void test_answer(void **state)
{
	static const uint8_t query[] = HEAD("\x01", "\x00") "\x01" "A\x04tEsT\x00" A_IN;
	static const uint8_t v4[] = {198, 18, 0, 2};
	struct address a = address_from_v4(v4);
	uint8_t out[512];
	struct dns_query q;
	size_t n;

	(void)state;
	assert_int_equal(dns_parse(query, sizeof(query) - 1, &q), DNS_NOERROR);
	n = dns_answer(&q, DNS_NOERROR, &a, 1, 60, out, sizeof(out));
	assert_int_equal(n, 12 + 12 + 16);
	assert_int_equal(u16(out), 0x1234);
	assert_int_equal(u16(out + 2), 0x8180);
	assert_int_equal(u16(out + 4), 1);
	assert_int_equal(u16(out + 6), 1);
	assert_int_equal(u16(out + 8), 0);
	assert_int_equal(u16(out + 10), 0);
	assert_memory_equal(out + 12, query + 12, 12); /* the question as it came */
	assert_memory_equal(out + 24, "\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x3c\x00\x04\xc6\x12\x00\x02", 16);
	/* nothing of the kind: an SOA says so */
	n = dns_answer(&q, DNS_NOERROR, NULL, 0, 60, out, sizeof(out));
	assert_int_equal(u16(out + 6), 0);
	assert_int_equal(u16(out + 8), 1);
	assert_int_equal(u16(out + 26), DNS_SOA);
	assert_int_equal(u16(out + 34), 22);
	assert_int_equal(n, 24 + 12 + 22);
	n = dns_answer(&q, DNS_NXDOMAIN, NULL, 0, 60, out, sizeof(out));
	assert_int_equal(u16(out + 2), 0x8183);
	assert_int_equal(u16(out + 8), 1);
	n = dns_answer(&q, DNS_SERVFAIL, NULL, 0, 60, out, sizeof(out));
	assert_int_equal(u16(out + 2), 0x8182);
	assert_int_equal(n, 24);
}

static void test_edns(void **state)
{
	static const uint8_t query[] = HEAD("\x01", "\x01") NAME A_IN OPT("\x02\x58", "\x00");
	static const uint8_t bad[] = HEAD("\x01", "\x01") NAME A_IN OPT("\xff\xff", "\x07");
	struct dns_query q;
	uint8_t out[1500];
	size_t n;

	(void)state;
	assert_int_equal(dns_parse(query, sizeof(query) - 1, &q), DNS_NOERROR);
	assert_int_equal(dns_udp_cap(&q), 600);
	n = dns_answer(&q, DNS_NOERROR, NULL, 0, 60, out, sizeof(out));
	assert_int_equal(u16(out + 10), 1);
	assert_memory_equal(out + n - 11, "\x00\x00\x29\x04\xd0\x00\x00\x00\x00\x00\x00", 11);
	assert_int_equal(dns_parse(bad, sizeof(bad) - 1, &q), DNS_BADVERS);
	assert_int_equal(dns_udp_cap(&q), DNS_ANSWER_MAX);
	n = dns_answer(&q, DNS_BADVERS, NULL, 0, 60, out, sizeof(out));
	assert_int_equal(out[3] & 15, 0);
	assert_memory_equal(out + n - 11, "\x00\x00\x29\x04\xd0\x01\x00\x00\x00\x00\x00", 11);
}

static void test_truncation(void **state)
{
	static const uint8_t query[] = HEAD("\x01", "\x00") NAME "\x00\x1c\x00\x01";
	struct address many[40];
	struct dns_query q;
	uint8_t out[2048];
	size_t n;

	(void)state;
	for (size_t i = 0; i < COUNT(many); i++) {
		uint8_t b[16] = {0x20, 1, 0xd, 0xb8, [15] = (uint8_t)i};

		many[i] = address_from_v6(b);
	}
	assert_int_equal(dns_parse(query, sizeof(query) - 1, &q), DNS_NOERROR);
	assert_int_equal(dns_udp_cap(&q), 512);
	memset(out, 0xee, sizeof(out));
	n = dns_answer(&q, DNS_NOERROR, many, COUNT(many), 60, out, 512);
	assert_true(n <= 512);
	assert_int_equal(u16(out + 2) & 0x0200, 0x0200);
	assert_int_equal(u16(out + 6), (512 - 24) / 28);
	assert_int_equal(out[512], 0xee);
	n = dns_answer(&q, DNS_NOERROR, many, COUNT(many), 60, out, sizeof(out));
	assert_int_equal(u16(out + 2) & 0x0200, 0);
	assert_int_equal(u16(out + 6), 40);
	assert_int_equal(n, 24 + 40 * 28);
}

static void test_faults_are_answered(void **state)
{
	static const uint8_t none[] = HEAD("\x00", "\x00");
	struct dns_query q;
	uint8_t out[512];

	(void)state;
	assert_int_equal(dns_parse(none, sizeof(none) - 1, &q), DNS_FORMERR);
	assert_int_equal(dns_answer(&q, DNS_FORMERR, NULL, 0, 60, out, sizeof(out)), 12);
	assert_memory_equal(out, "\x12\x34\x81\x81\x00\x00\x00\x00\x00\x00\x00\x00", 12);
}

static void test_type_text(void **state)
{
	char buf[16];

	(void)state;
	assert_string_equal(dns_type_text(DNS_A, buf), "A");
	assert_string_equal(dns_type_text(DNS_HTTPS, buf), "HTTPS");
	assert_string_equal(dns_type_text(65535, buf), "TYPE65535");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_queries),    cmocka_unit_test(test_lengths),
		cmocka_unit_test(test_answer),     cmocka_unit_test(test_edns),
		cmocka_unit_test(test_truncation), cmocka_unit_test(test_faults_are_answered),
		cmocka_unit_test(test_type_text),
	};

	return cmocka_run_group_tests_name("dns", tests, NULL, NULL);
}
