/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "base/hostname.h"

#include "base/banned.h"

#define L63 "abcdefghijklmnopqrstuvwxyz0123456789abcdefghijklmnopqrstuvwxyz0"
#define LIT(s) s, sizeof(s) - 1

static const struct {
	const char *in;
	size_t len;
	int rc;
	const char *out;
} names[] = {
	{LIT("example.test"), 0, "example.test"},
	{LIT("Example.TEST."), 0, "example.test"},
	{LIT("a"), 0, "a"},
	{LIT("_dmarc.x_y.test"), 0, "_dmarc.x_y.test"},
	{LIT("xn--bcher-kva.test"), 0, "xn--bcher-kva.test"},
	{LIT("XN--BCHER-KVA.test"), 0, "xn--bcher-kva.test"},
	{LIT("1.2.3.4.test"), 0, "1.2.3.4.test"},
	{LIT("0xg"), 0, "0xg"},
	{LIT("1a"), 0, "1a"},
	{LIT(L63 ".test"), 0, L63 ".test"},
	{LIT(L63 "x.test"), -ENAMETOOLONG, ""},
	{LIT(""), -EINVAL, ""},
	{LIT("."), -EINVAL, ""},
	{LIT(".."), -EINVAL, ""},
	{LIT(".test"), -EINVAL, ""},
	{LIT("a..test"), -EINVAL, ""},
	{LIT("a.test.."), -EINVAL, ""},
	{LIT("evil\0.allowed"), -EINVAL, ""},
	{LIT("allowed\0"), -EINVAL, ""},
	{LIT("a\r\nb.test"), -EINVAL, ""},
	{LIT("a b.test"), -EINVAL, ""},
	{LIT(" a.test"), -EINVAL, ""},
	{LIT("a.test "), -EINVAL, ""},
	{LIT("a/b.test"), -EINVAL, ""},
	{LIT("a:443"), -EINVAL, ""},
	{LIT("*.test"), -EINVAL, ""},
	{LIT("b\xc3\xbc" "cher.test"), -EINVAL, ""},
	{LIT("a\xe3\x80\x82test"), -EINVAL, ""}, /* U+3002, which IDNA calls a dot */
	{LIT("[::1]"), -EINVAL, ""},
	{LIT("::1"), -EINVAL, ""},
	{LIT("127.0.0.1"), -EINVAL, ""},
	{LIT("127.0.0.1."), -EINVAL, ""},
	{LIT("127.1"), -EINVAL, ""},
	{LIT("127"), -EINVAL, ""},
	{LIT("2130706433"), -EINVAL, ""},
	{LIT("0x7f000001"), -EINVAL, ""},
	{LIT("0X7F.1"), -EINVAL, ""},
	{LIT("0x7f.0x0.0X0.0x1"), -EINVAL, ""},
	{LIT("0177.0.0.1"), -EINVAL, ""},
	{LIT("1.2.3.4.5"), -EINVAL, ""},
	{LIT("a.0x"), -EINVAL, ""},
	{LIT("a.0xabc"), -EINVAL, ""},
	{LIT("999.999.999.999"), -EINVAL, ""},
};

static void test_names(void **state)
{
	char out[HOSTNAME_MAX + 1];

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		memset(out, 'Z', sizeof(out));
		assert_int_equal(hostname_normal(names[i].in, names[i].len, out), names[i].rc);
		assert_string_equal(out, names[i].out);
	}
}

/* Longest name: 63.63.63.61 is 253 bytes. */
static void test_length(void **state)
{
	char in[300], out[HOSTNAME_MAX + 1];

	(void)state;
	memset(in, 'a', sizeof(in));
	in[63] = in[127] = in[191] = '.';
	assert_int_equal(hostname_normal(in, 253, out), 0);
	assert_int_equal(strlen(out), 253);
	assert_int_equal(hostname_normal(in, 254, out), -ENAMETOOLONG);
	assert_string_equal(out, "");
	in[253] = '.';
	assert_int_equal(hostname_normal(in, 254, out), 0);
	in[254] = '.';
	assert_int_equal(hostname_normal(in, 255, out), -ENAMETOOLONG);
}

static void test_every_octet(void **state)
{
	char out[HOSTNAME_MAX + 1];

	(void)state;
	for (int c = 0; c < 256; c++) {
		char in[3] = {'a', (char)c, 'b'};
		bool ok = c == '.' || c == '-' || c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
			  (c >= 'A' && c <= 'Z');

		assert_int_equal(hostname_normal(in, 3, out), ok ? 0 : -EINVAL);
	}
}

static void test_beneath(void **state)
{
	(void)state;
	assert_true(hostname_is_beneath("a.example", "example"));
	assert_true(hostname_is_beneath("a.b.example", "example"));
	assert_false(hostname_is_beneath("example", "example"));
	assert_false(hostname_is_beneath("notexample", "example"));
	assert_false(hostname_is_beneath(".example", "example"));
	assert_false(hostname_is_beneath("example", "a.example"));
	assert_false(hostname_is_beneath("a.example", ""));
	assert_false(hostname_is_beneath("", "example"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_length),
		cmocka_unit_test(test_every_octet),
		cmocka_unit_test(test_beneath),
	};

	return cmocka_run_group_tests_name("hostname", tests, NULL, NULL);
}
