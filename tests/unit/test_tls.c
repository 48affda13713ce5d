/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "egress/tls.h"

#include "base/banned.h"

#define LIT(s) s, sizeof(s) - 1

struct bytes {
	uint8_t b[40000];
	size_t n;
};

static void put(struct bytes *o, const void *p, size_t n)
{
	memcpy(o->b + o->n, p, n);
	o->n += n;
}

static void put16(struct bytes *o, size_t v)
{
	uint8_t b[2] = {(uint8_t)(v >> 8), (uint8_t)v};

	put(o, b, 2);
}

static void put_extension(struct bytes *o, unsigned type, const void *p, size_t n)
{
	put16(o, type);
	put16(o, n);
	put(o, p, n);
}

static void put_sni(struct bytes *o, const char *name, size_t len)
{
	struct bytes ext = {.n = 0};

	put16(&ext, len + 3);
	put(&ext, "\0", 1);
	put16(&ext, len);
	put(&ext, name, len);
	put_extension(o, 0, ext.b, ext.n);
}

/* A handshake message around the extensions; pad: bytes of padding extension. */
static void make_hello(struct bytes *o, const struct bytes *exts)
{
	struct bytes body = {.n = 0};

	put(&body, "\x03\x03", 2);
	put(&body, "RRRRRRRRRRRRRRRRRRRRRRRRRRRRRRRR", 32);
	put(&body, "\x20SSSSSSSSSSSSSSSSSSSSSSSSSSSSSSSS", 33);
	put(&body, "\0\x02\x13\x01", 4);
	put(&body, "\x01\0", 2);
	if (exts) {
		put16(&body, exts->n);
		put(&body, exts->b, exts->n);
	}
	put(o, "\x01\0", 2);
	put16(o, body.n);
	put(o, body.b, body.n);
}

/* The message in records of at most `part` bytes. */
static void make_records(struct bytes *o, const struct bytes *message, size_t part)
{
	for (size_t at = 0; at < message->n; at += part) {
		size_t n = message->n - at < part ? message->n - at : part;

		put(o, "\x16\x03\x01", 3);
		put16(o, n);
		put(o, message->b + at, n);
	}
}

static struct bytes exts, message, flight;

static void begin(void)
{
	exts.n = message.n = flight.n = 0;
}

static enum tls_result finish(size_t part, char *name)
{
	make_hello(&message, &exts);
	make_records(&flight, &message, part);
	return tls_hello_name(flight.b, flight.n, name);
}

static void test_found(void **state)
{
	static const size_t parts[] = {16384, 600, 100, 5, 4};
	char name[HOSTNAME_MAX + 1];

	(void)state;
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		begin();
		put_extension(&exts, 0x2a2a, "", 0);
		put_sni(&exts, LIT("Example.TEST"));
		put_extension(&exts, 51, "keys", 4);
		assert_int_equal(finish(parts[i], name), TLS_FOUND);
		assert_string_equal(name, "example.test");
		/* every shorter piece wants more, and what follows does not matter */
		for (size_t n = 0; n < flight.n; n++) {
			assert_int_equal(tls_hello_name(flight.b, n, name), TLS_MORE);
			assert_string_equal(name, "");
		}
		put(&flight, "\x17\x03\x03 early data", 14);
		assert_int_equal(tls_hello_name(flight.b, flight.n, name), TLS_FOUND);
	}
}

static void test_big(void **state)
{
	static char pad[17000];
	char name[HOSTNAME_MAX + 1];

	(void)state;
	begin(); /* a post-quantum key share, and the name behind it */
	put_extension(&exts, 51, pad, 1700);
	put_sni(&exts, LIT("a.test"));
	assert_int_equal(finish(1400, name), TLS_FOUND);
	begin();
	put_extension(&exts, 21, pad, 16000);
	put_sni(&exts, LIT("a.test"));
	assert_int_equal(finish(16384, name), TLS_FOUND);
	begin();
	put_extension(&exts, 21, pad, 16500);
	put_sni(&exts, LIT("a.test"));
	assert_int_equal(finish(16384, name), TLS_BAD);
	begin(); /* records of one byte: more than anybody sends */
	put_sni(&exts, LIT("a.test"));
	assert_int_equal(finish(1, name), TLS_BAD);
}

static void test_none(void **state)
{
	char name[HOSTNAME_MAX + 1];

	(void)state;
	begin();
	put_extension(&exts, 51, "keys", 4);
	assert_int_equal(finish(16384, name), TLS_NONE);
	begin();
	make_hello(&message, NULL);
	make_records(&flight, &message, 16384);
	assert_int_equal(tls_hello_name(flight.b, flight.n, name), TLS_NONE);
	/* the name within encrypted client hello is not looked for */
	begin();
	put_extension(&exts, 0xfe0d, "\0\0\0\x09\0\0\x06" "b.test", 13);
	put_sni(&exts, LIT("outer.test"));
	assert_int_equal(finish(16384, name), TLS_FOUND);
	assert_string_equal(name, "outer.test");
}

static void bad_name(const char *bytes, size_t len)
{
	char name[HOSTNAME_MAX + 1];

	begin();
	put_sni(&exts, bytes, len);
	assert_int_equal(finish(16384, name), TLS_BAD);
	assert_string_equal(name, "");
}

static void test_bad_names(void **state)
{
	char name[HOSTNAME_MAX + 1], longest[256];

	(void)state;
	bad_name(LIT(""));
	bad_name(LIT("a.test\0"));
	bad_name(LIT("evil\0.a.test"));
	bad_name(LIT("a.test\r\n"));
	bad_name(LIT("127.0.0.1"));
	bad_name(LIT("::1"));
	bad_name(LIT("*.test"));
	memset(longest, 'a', sizeof(longest));
	bad_name(longest, sizeof(longest));
	begin(); /* twice the extension */
	put_sni(&exts, LIT("a.test"));
	put_sni(&exts, LIT("b.test"));
	assert_int_equal(finish(16384, name), TLS_BAD);
	begin(); /* two names in one */
	put_extension(&exts, 0, "\0\x12\0\0\x06" "a.test\0\0\x06" "b.test", 20);
	assert_int_equal(finish(16384, name), TLS_BAD);
	begin(); /* another type of name */
	put_extension(&exts, 0, "\0\x09\x01\0\x06" "a.test", 11);
	assert_int_equal(finish(16384, name), TLS_BAD);
	begin(); /* an empty list, as servers send it */
	put_extension(&exts, 0, "", 0);
	assert_int_equal(finish(16384, name), TLS_BAD);
	begin(); /* a list longer than the extension */
	put_extension(&exts, 0, "\0\x0a\0\0\x06" "a.test", 11);
	assert_int_equal(finish(16384, name), TLS_BAD);
	begin(); /* bytes behind the list */
	put_extension(&exts, 0, "\0\x09\0\0\x06" "a.testx", 12);
	assert_int_equal(finish(16384, name), TLS_BAD);
	begin(); /* an extension longer than the rest */
	put(&exts, "\0\0\0\x40\0\x09\0\0\x06" "a.test", 15);
	assert_int_equal(finish(16384, name), TLS_BAD);
}

/* No TLS is seen at the first byte that says so. */
static void test_not_tls(void **state)
{
	static const struct {
		const char *bytes;
		size_t len;
		enum tls_result result;
	} flights[] = {
		{LIT(""), TLS_MORE},
		{LIT("\x16"), TLS_MORE},
		{LIT("\x16\x03"), TLS_MORE},
		{LIT("G"), TLS_BAD},
		{LIT("SSH-2.0"), TLS_BAD},
		{LIT("\x17\x03\x03"), TLS_BAD},
		{LIT("\x16\x02"), TLS_BAD},
		{LIT("\x80\x2e\x01"), TLS_BAD}, /* a hello of SSL 2 */
		{LIT("\x16\x03\x01\0\0"), TLS_BAD},
		{LIT("\x16\x03\x01\x40\x01"), TLS_BAD},
		{LIT("\x16\x03\x01\0\x05\x02"), TLS_BAD}, /* a server's hello */
		{LIT("\x16\x03\x01\0\x05\x01\x01\0\0"), TLS_BAD},
		{LIT("\x16\x03\x01\0\x04\x01\0\0\0"), TLS_BAD},
		{LIT("\x16\x03\x01\0\x08\x01\0\0\x04\x03\x03RR"), TLS_BAD},
		{LIT("\x16\x03\x01\0\x05\x01\0\x01\0R\x17"), TLS_BAD}, /* another record within the message */
	};
	char name[HOSTNAME_MAX + 1];

	(void)state;
	for (size_t i = 0; i < sizeof(flights) / sizeof(flights[0]); i++)
		if (tls_hello_name((const uint8_t *)flights[i].bytes, flights[i].len, name) != flights[i].result)
			fail_msg("flight %zu", i);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_found),     cmocka_unit_test(test_big),     cmocka_unit_test(test_none),
		cmocka_unit_test(test_bad_names), cmocka_unit_test(test_not_tls),
	};

	return cmocka_run_group_tests_name("tls", tests, NULL, NULL);
}
