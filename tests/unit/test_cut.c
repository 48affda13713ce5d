/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What is passed on of a stream, against what a plain look at the whole of it says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "run/cut.h"

#include "base/banned.h"

#define ALL CUT_UNLIMITED

/* The stream in pieces of so many bytes. out: head, then tail; the mark's place is *mark (SIZE_MAX: none). */
static void feed(const char *bytes, size_t len, size_t piece, const struct cut_limits *limits, struct str *out, size_t *mark, struct cut *c)
{
	struct cut_tail tail;

	cut_init(c, limits);
	for (size_t at = 0; at < len; at += piece) {
		size_t n = len - at < piece ? len - at : piece, head = cut_feed(c, bytes + at, n);

		assert_true(head <= n);
		str_add_n(out, bytes + at, head);
	}
	cut_end(c, &tail);
	*mark = tail.left_bytes ? out->len : SIZE_MAX;
	for (int i = 0; i < 2; i++)
		str_add_n(out, tail.part[i], tail.len[i]);
	assert_int_equal(c->bytes, len);
	assert_int_equal(c->passed, out->len);
	assert_int_equal(c->passed + tail.left_bytes, len);
	assert_int_equal(c->newlines, c->passed_newlines + tail.left_newlines);
	assert_int_equal(c->newlines, str_count(bytes, len, '\n'));
	cut_free(c);
}

static void test_cases(void **state)
{
	static const struct {
		const char *in;
		struct cut_limits limits;
		const char *head, *tail; /* tail NULL: nothing is left out */
	} cases[] = {
		{"", {ALL, ALL, 0, ALL}, "", NULL},
		{"abc\ndef", {ALL, ALL, 0, ALL}, "abc\ndef", NULL},
		/* Exactly the cap is whole, one more is not (case 24). */
		{"abcdef", {6, ALL, 0, ALL}, "abcdef", NULL},
		{"abcdefg", {6, ALL, 0, ALL}, "abcdef", ""},
		{"abcdef", {3, ALL, 3, ALL}, "abcdef", NULL},
		{"abcdefg", {3, ALL, 3, ALL}, "abc", "efg"},
		{"abcdef", {0, ALL, 6, ALL}, "abcdef", NULL},
		{"abcdefg", {0, ALL, 6, ALL}, "", "bcdefg"},
		{"a\nb\nc\nd\n", {ALL, 2, 100, 2}, "a\nb\nc\nd\n", NULL},
		{"a\nb\nc\nd\ne\n", {ALL, 2, 100, 2}, "a\nb\n", "d\ne\n"},
		{"a\nb\nc\nd\ne", {ALL, 2, 100, 2}, "a\nb\n", "d\ne"},
		{"a\nb\nc\nd", {ALL, 2, 100, 2}, "a\nb\nc\nd", NULL},
		{"a\nb\n", {ALL, 2, 100, 2}, "a\nb\n", NULL},
		{"a\nb\nc", {ALL, 2, 0, ALL}, "a\nb\n", ""},
		/* Whichever is used up first. */
		{"aaaa\nbbbb\ncccc\n", {6, 2, 0, ALL}, "aaaa\nb", ""},
		{"aaaa\nbbbb\ncccc\n", {100, 1, 0, ALL}, "aaaa\n", ""},
		{"aaaa\nbbbb\ncccc\n", {0, ALL, 7, 2}, "", "b\ncccc\n"},
		{"aaaa\nbbbb\ncccc\n", {0, ALL, 7, 1}, "", "cccc\n"},
		{"\n\n\n\n", {0, ALL, 10, 2}, "", "\n\n"},
		/* Nothing at all. */
		{"abc", {0, ALL, 0, ALL}, "", ""},
		{"abc", {ALL, 0, 0, ALL}, "", ""},
		{"abc\n", {0, ALL, 10, 0}, "", ""},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		for (size_t piece = 1; piece <= 8; piece++) {
			cleanup_str struct str out = {0};
			const char *head = cases[i].head, *tail = cases[i].tail;
			size_t mark;
			struct cut c;

			feed(cases[i].in, strlen(cases[i].in), piece, &cases[i].limits, &out, &mark, &c);
			assert_int_equal(mark, tail ? strlen(head) : SIZE_MAX);
			str_add_n(&out, "", 1);
			assert_memory_equal(out.text, head, strlen(head));
			assert_string_equal(out.text + strlen(head), tail ? tail : "");
		}
	}
}

static void test_lines(void **state)
{
	static const struct {
		const char *in;
		unsigned lines;
	} cases[] = {{"", 0}, {"a", 1}, {"a\n", 1}, {"a\nb", 2}, {"\n\n", 2}};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		cleanup_str struct str out = {0};
		struct cut_limits all = {ALL, ALL, 0, ALL};
		size_t mark;
		struct cut c;

		feed(cases[i].in, strlen(cases[i].in), 1, &all, &out, &mark, &c);
		assert_int_equal(cut_lines(&c), cases[i].lines);
		assert_int_equal(cut_passed_lines(&c), cases[i].lines);
	}
}

/* The last lines of a text: where they begin. */
static size_t last_lines(const char *bytes, size_t len, uint64_t lines)
{
	size_t at = len;

	if (lines == ALL)
		return 0;
	while (lines--) {
		if (!at)
			return 0;
		at--; /* the line's own newline, or its last byte */
		while (at && bytes[at - 1] != '\n')
			at--;
	}
	return at;
}

/* The whole of it at once, and as simply as can be. */
static void expect(const char *bytes, size_t len, const struct cut_limits *l, struct str *out, size_t *mark)
{
	size_t head = 0, tail, from;
	uint64_t lines = 0;

	while (head < len && head < l->head_bytes && lines < l->head_lines)
		lines += bytes[head++] == '\n';
	from = len - head > l->tail_bytes ? len - (size_t)l->tail_bytes : head;
	tail = from + last_lines(bytes + from, len - from, l->tail_lines);
	str_add_n(out, bytes, head);
	str_add_n(out, bytes + tail, len - tail);
	*mark = tail > head ? head : SIZE_MAX;
}

static uint64_t any(unsigned below)
{
	return rand() % 3 ? (uint64_t)(rand() % (int)below) : ALL;
}

static void test_against_the_plain_way(void **state)
{
	char bytes[64];

	(void)state;
	srand(1);
	for (int round = 0; round < 200000; round++) {
		struct cut_limits l = {any(40), any(8), (uint64_t)(rand() % 40), any(8)};
		cleanup_str struct str got = {0}, want = {0};
		size_t len = (size_t)rand() % sizeof(bytes), got_mark, want_mark;
		struct cut c;

		for (size_t i = 0; i < len; i++)
			bytes[i] = rand() % 3 ? (char)('a' + rand() % 26) : '\n';
		feed(bytes, len, 1 + (size_t)rand() % 20, &l, &got, &got_mark, &c);
		expect(bytes, len, &l, &want, &want_mark);
		assert_int_equal(got_mark, want_mark);
		assert_int_equal(got.len, want.len);
		if (got.len)
			assert_memory_equal(got.text, want.text, got.len);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cases),
		cmocka_unit_test(test_lines),
		cmocka_unit_test(test_against_the_plain_way),
	};

	return cmocka_run_group_tests_name("cut", tests, NULL, NULL);
}
