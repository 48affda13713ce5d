/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/num.h"
#include "base/str.h"
#include "sys/path.h"

static void test_numbers(void **state)
{
	uint64_t v = 7;

	(void)state;
	assert_int_equal(num_u64("0", 0, 10, &v), 0);
	assert_int_equal(v, 0);
	assert_int_equal(num_u64("10", 0, 10, &v), 0);
	assert_int_equal(num_u64("11", 0, 10, &v), -ERANGE);
	assert_int_equal(v, 10); /* untouched by a failure */
	assert_int_equal(num_u64("", 0, 10, &v), -EINVAL);
	assert_int_equal(num_u64(" 1", 0, 10, &v), -EINVAL);
	assert_int_equal(num_u64("+1", 0, 10, &v), -EINVAL);
	assert_int_equal(num_u64("-1", 0, 10, &v), -EINVAL);
	assert_int_equal(num_u64("0x1", 0, 10, &v), -EINVAL);
	assert_int_equal(num_u64("1 ", 0, 10, &v), -EINVAL);
	assert_int_equal(num_u64("18446744073709551615", 0, UINT64_MAX, &v), 0);
	assert_int_equal(num_u64("18446744073709551616", 0, UINT64_MAX, &v), -ERANGE);
}

static void test_sizes_and_durations(void **state)
{
	static const struct {
		const char *text;
		int r;
		uint64_t bytes;
	} sizes[] = {
		{"0", 0, 0},          {"1", 0, 1},          {"1k", 0, 1024},        {"1K", 0, 1024},
		{"3M", 0, 3 << 20},   {"2G", 0, 2ULL << 30}, {"1T", 0, 1ULL << 40}, {"16777216T", -ERANGE, 0},
		{"1KB", -EINVAL, 0},  {"K", -EINVAL, 0},    {"1 K", -EINVAL, 0},    {"1.5G", -EINVAL, 0},
	};
	static const struct {
		const char *text;
		int r;
		uint64_t ms;
	} durations[] = {
		{"5", 0, 5000},      {"5s", 0, 5000},        {"250ms", 0, 250},   {"2m", 0, 120000},
		{"1h", 0, 3600000},  {"1d", 0, 86400000},    {"1w", -EINVAL, 0},  {"s", -EINVAL, 0},
		{"1h30m", -EINVAL, 0}, {"213503982335d", -ERANGE, 0},
	};
	char buf[NUM_TEXT_MAX];

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		uint64_t v = 0, back;

		assert_int_equal(num_size(sizes[i].text, &v), sizes[i].r);
		assert_int_equal(v, sizes[i].bytes);
		if (sizes[i].r == 0) {
			assert_int_equal(num_size(num_size_text(v, buf), &back), 0);
			assert_int_equal(back, v);
		}
	}
	for (size_t i = 0; i < sizeof(durations) / sizeof(*durations); i++) {
		uint64_t v = 0, back;

		assert_int_equal(num_duration(durations[i].text, &v), durations[i].r);
		assert_int_equal(v, durations[i].ms);
		if (durations[i].r == 0) {
			assert_int_equal(num_duration(num_duration_text(v, buf), &back), 0);
			assert_int_equal(back, v);
		}
	}
}

static void test_thousandths(void **state)
{
	uint64_t v = 0;

	(void)state;
	assert_int_equal(num_milli("1.5", &v), 0);
	assert_int_equal(v, 1500);
	assert_int_equal(num_milli("0.005", &v), 0);
	assert_int_equal(v, 5);
	assert_int_equal(num_milli("2", &v), 0);
	assert_int_equal(v, 2000);
	assert_int_equal(num_milli("1.", &v), -EINVAL);
	assert_int_equal(num_milli(".5", &v), -EINVAL);
	assert_int_equal(num_milli("1.2345", &v), -EINVAL);
	assert_int_equal(num_milli("1.5x", &v), -EINVAL);
}

static void test_nearest(void **state)
{
	static const char *const names[] = {"allow", "deny", "mode", "addresses", NULL};

	(void)state;
	assert_string_equal(str_nearest("alow", names), "allow");
	assert_string_equal(str_nearest("allwo", names), "allow");
	assert_string_equal(str_nearest("adresses", names), "addresses");
	assert_null(str_nearest("zzzzzz", names));
	assert_null(str_nearest("q", (const char *const[]){NULL}));
}

static void test_utf8(void **state)
{
	(void)state;
	assert_int_equal(str_utf8_len((const unsigned char *)"a", 1), 1);
	assert_int_equal(str_utf8_len((const unsigned char *)"\xc3\xa4", 2), 2);
	assert_int_equal(str_utf8_len((const unsigned char *)"\xc3\xa4", 1), 0);          /* cut */
	assert_int_equal(str_utf8_len((const unsigned char *)"\xc0\x80", 2), 0);          /* overlong */
	assert_int_equal(str_utf8_len((const unsigned char *)"\xed\xa0\x80", 3), 0);      /* surrogate */
	assert_int_equal(str_utf8_len((const unsigned char *)"\xf4\x90\x80\x80", 4), 0);  /* over U+10FFFF */
	assert_int_equal(str_utf8_len((const unsigned char *)"\xf4\x8f\xbf\xbf", 4), 4);
}

static void test_printable(void **state)
{
	struct str s = {0};

	(void)state;
	str_add_printable(&s, "a\x1b[2J\n\xff\xc3\xa4\xc2\x9b", 11);
	assert_string_equal(s.text, "a\\x1b[2J\\x0a\\xff\xc3\xa4\\xc2\\x9b");
	str_free(&s);
}

static void test_paths(void **state)
{
	static const struct {
		const char *path, *base, *want;
	} cases[] = {
		{"/a/b", NULL, "/a/b"},       {"//a///b/", NULL, "/a/b"},  {"/a/./b", NULL, "/a/b"}, {"/a/../b", NULL, "/b"},
		{"/../../x", NULL, "/x"},     {"/", NULL, "/"},            {"/..", NULL, "/"},       {"x", "/a", "/a/x"},
		{"../x", "/a/b", "/a/x"},     {"..", "/", "/"},            {"...", "/a", "/a/..."},  {"/a/..b", NULL, "/a/..b"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		char *got = path_normal(cases[i].path, cases[i].base);

		assert_string_equal(got, cases[i].want);
		free(got);
	}
	assert_null(path_normal("x", NULL));
	assert_null(path_normal("", "/a"));
	assert_true(path_is_beneath("/a/b", "/a"));
	assert_true(path_is_beneath("/a", "/a"));
	assert_false(path_is_beneath("/ab", "/a"));
	assert_true(path_is_beneath("/ab", "/"));
	assert_string_equal(path_below("/a/b/c", "/a"), "b/c");
	assert_string_equal(path_below("/a", "/a"), "");
	assert_string_equal(path_below("/a", "/"), "a");
}

static void test_errors(void **state)
{
	struct err e = {0};
	char *longest = malloc(5000);

	(void)state;
	assert_int_equal(err_errno(&e, ENOENT, "%s", "x"), -ENOENT);
	assert_string_equal(e.msg, "x: No such file or directory");
	assert_int_equal(err_prefix(&e, "--repo"), -ENOENT);
	assert_string_equal(e.msg, "--repo: x: No such file or directory");
	assert_int_equal(err_set(NULL, EINVAL, "nobody asks"), -EINVAL);
	memset(longest, 'x', 4999);
	longest[4999] = '\0';
	err_set(&e, EINVAL, "%s", longest);
	assert_int_equal(strlen(e.msg), ERR_MSG_MAX - 1);
	err_prefix(&e, "%s", longest);
	assert_true(strlen(e.msg) < ERR_MSG_MAX);
	free(longest);
}

static void test_count(void **state)
{
	char bytes[9000];

	(void)state;
	srand(1);
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = rand() % 2 ? '\n' : (char)rand();
	assert_int_equal(str_count(bytes, 0, '\n'), 0);
	for (int round = 0; round < 2000; round++) {
		size_t at = (size_t)rand() % 64, len = (size_t)rand() % (round % 2 ? 100 : sizeof(bytes) - 64), n = 0;
		char c = round % 3 ? '\n' : (char)0xff;

		for (size_t i = 0; i < len; i++)
			n += bytes[at + i] == c;
		assert_int_equal(str_count(bytes + at, len, c), n);
	}
	memset(bytes, 'x', sizeof(bytes)); /* every counter at its highest */
	assert_int_equal(str_count(bytes, sizeof(bytes), 'x'), sizeof(bytes));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_numbers), cmocka_unit_test(test_sizes_and_durations), cmocka_unit_test(test_thousandths),
		cmocka_unit_test(test_nearest), cmocka_unit_test(test_utf8),                cmocka_unit_test(test_printable),
		cmocka_unit_test(test_paths),   cmocka_unit_test(test_errors),  cmocka_unit_test(test_count),
	};

	return cmocka_run_group_tests_name("base", tests, NULL, NULL);
}
