/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "egress/socks.h"

#include "base/banned.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define LIT(s) (const uint8_t *)(s), sizeof(s) - 1

static void test_greeting(void **state)
{
	static const struct {
		const uint8_t *bytes;
		size_t len;
		enum socks_result result;
		size_t used;
		enum socks_method method;
	} g[] = {
		{LIT("\x05\x01\x00"), SOCKS_OK, 3, SOCKS_METHOD_NONE},
		{LIT("\x05\x03\x02\x01\x00rest"), SOCKS_OK, 5, SOCKS_METHOD_NONE},
		{LIT("\x05\x01\x02"), SOCKS_OK, 3, SOCKS_METHOD_REFUSED},
		{LIT(""), SOCKS_MORE, 0, 0},
		{LIT("\x05"), SOCKS_MORE, 0, 0},
		{LIT("\x05\x02\x00"), SOCKS_MORE, 0, 0},
		{LIT("\x05\x00"), SOCKS_BAD, 0, 0},
		{LIT("\x04\x01"), SOCKS_BAD, 0, 0},
		{LIT("G"), SOCKS_BAD, 0, 0},
	};

	(void)state;
	for (size_t i = 0; i < COUNT(g); i++) {
		enum socks_method method;
		size_t used;

		assert_int_equal(socks_greeting(g[i].bytes, g[i].len, &used, &method), g[i].result);
		if (g[i].result != SOCKS_OK)
			continue;
		assert_int_equal(used, g[i].used);
		assert_int_equal(method, g[i].method);
	}
}

static const struct {
	const char *what;
	const uint8_t *bytes;
	size_t len;
	enum socks_result result;
	enum socks_reply reply;
	const char *host;
} requests[] = {
	{"name", LIT("\x05\x01\x00\x03\x06" "A.test\x01\xbb"), SOCKS_OK, SOCKS_SUCCEEDED, "a.test"},
	{"trailing dot", LIT("\x05\x01\x00\x03\x07" "a.test.\x01\xbb"), SOCKS_OK, SOCKS_SUCCEEDED, "a.test"},
	{"IPv4", LIT("\x05\x01\x00\x01\x0a\x01\x02\x03\x01\xbb"), SOCKS_OK, SOCKS_SUCCEEDED, "10.1.2.3"},
	{"IPv4 as a name", LIT("\x05\x01\x00\x03\x08" "10.1.2.3\x01\xbb"), SOCKS_OK, SOCKS_SUCCEEDED, "10.1.2.3"},
	{"IPv6", LIT("\x05\x01\x00\x04\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01\x01\xbb"), SOCKS_OK, SOCKS_SUCCEEDED,
	 "2001:db8::1"},
	{"v4-mapped", LIT("\x05\x01\x00\x04\0\0\0\0\0\0\0\0\0\0\xff\xff\x7f\0\0\x01\x01\xbb"), SOCKS_OK, SOCKS_SUCCEEDED,
	 "127.0.0.1"},
	{"NUL in the name", LIT("\x05\x01\x00\x03\x0c" "evil\0a.test.\x01\xbb"), SOCKS_OK, SOCKS_FAILURE, ""},
	{"NUL behind the name", LIT("\x05\x01\x00\x03\x07" "a.test\0\x01\xbb"), SOCKS_OK, SOCKS_FAILURE, ""},
	{"CRLF", LIT("\x05\x01\x00\x03\x08" "a.test\r\n\x01\xbb"), SOCKS_OK, SOCKS_FAILURE, ""},
	{"empty name", LIT("\x05\x01\x00\x03\x00\x01\xbb"), SOCKS_OK, SOCKS_FAILURE, ""},
	{"odd literal", LIT("\x05\x01\x00\x03\x05" "127.1\x01\xbb"), SOCKS_OK, SOCKS_FAILURE, ""},
	{"port 0", LIT("\x05\x01\x00\x03\x06" "a.test\x00\x00"), SOCKS_OK, SOCKS_FAILURE, "a.test"},
	{"BIND", LIT("\x05\x02\x00\x03\x06" "a.test\x01\xbb"), SOCKS_OK, SOCKS_COMMAND, ""},
	{"UDP ASSOCIATE", LIT("\x05\x03\x00\x01\0\0\0\0\0\0"), SOCKS_OK, SOCKS_COMMAND, ""},
	{"an unknown type", LIT("\x05\x01\x00\x02\x06"), SOCKS_OK, SOCKS_ADDRESS_TYPE, ""},
	{"empty", LIT(""), SOCKS_MORE, 0, NULL},
	{"cut name", LIT("\x05\x01\x00\x03\x06" "a.tes"), SOCKS_MORE, 0, NULL},
	{"cut port", LIT("\x05\x01\x00\x03\x06" "a.test\x01"), SOCKS_MORE, 0, NULL},
	{"version 4", LIT("\x04\x01\x01\xbb"), SOCKS_BAD, 0, NULL},
	{"reserved byte", LIT("\x05\x01\x01\x03"), SOCKS_BAD, 0, NULL},
};

static void test_request(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(requests); i++) {
		enum socks_reply reply;
		char buf[ADDRESS_TEXT_MAX];
		struct target t;
		size_t used;

		if (socks_request(requests[i].bytes, requests[i].len, &used, &t, &reply) != requests[i].result)
			fail_msg("%s", requests[i].what);
		if (requests[i].result != SOCKS_OK)
			continue;
		if (reply != requests[i].reply)
			fail_msg("%s: reply %d", requests[i].what, reply);
		assert_int_equal(used, requests[i].len);
		assert_string_equal(t.name[0] ? t.name : address_text(&t.addr, buf), requests[i].host);
		if (reply == SOCKS_SUCCEEDED)
			assert_int_equal(t.port, 443);
	}
}

/* A name of 255 bytes fits the protocol and no host name. */
static void test_longest(void **state)
{
	uint8_t msg[5 + 255 + 2] = {5, 1, 0, 3, 255};
	enum socks_reply reply;
	struct target t;
	size_t used;

	(void)state;
	memset(msg + 5, 'a', 255);
	for (size_t n = 0; n < sizeof(msg); n++)
		assert_int_equal(socks_request(msg, n, &used, &t, &reply), SOCKS_MORE);
	assert_int_equal(socks_request(msg, sizeof(msg), &used, &t, &reply), SOCKS_OK);
	assert_int_equal(reply, SOCKS_FAILURE);
	assert_string_equal(t.name, "");
}

static void test_replies(void **state)
{
	uint8_t out[SOCKS_REPLY_LEN];

	(void)state;
	socks_greeting_reply(SOCKS_METHOD_REFUSED, out);
	assert_memory_equal(out, "\x05\xff", 2);
	socks_reply(SOCKS_DENIED, out);
	assert_memory_equal(out, "\x05\x02\x00\x01\0\0\0\0\0\0", 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_greeting),
		cmocka_unit_test(test_request),
		cmocka_unit_test(test_longest),
		cmocka_unit_test(test_replies),
	};

	return cmocka_run_group_tests_name("socks", tests, NULL, NULL);
}
