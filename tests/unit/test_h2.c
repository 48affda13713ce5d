/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "egress/h2.h"
#include "egress/huffman.h"

#include "base/banned.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define LIT(s) (const uint8_t *)(s), sizeof(s) - 1

/* Every authority that was seen, one behind the other; one named no.test is refused. */
static char seen[512];

static bool check(void *arg, const struct target *t)
{
	size_t n = strlen(seen);
	char a[ADDRESS_TEXT_MAX];

	(void)arg;
	snprintf(seen + n, sizeof(seen) - n, "%s;", t->name[0] ? t->name : address_text(&t->addr, a));
	return strcmp(t->name, "no.test") != 0;
}

/* The examples of RFC 7541, C.3 (plain) and C.4 (Huffman): three requests on one table. */
static void test_rfc_examples(void **state)
{
	static const struct {
		const uint8_t *block;
		size_t len;
		uint32_t size; /* of the table, behind it */
	} requests[2][3] = {
		{
			{LIT("\x82\x86\x84\x41\x0fwww.example.com"), 57},
			{LIT("\x82\x86\x84\xbe\x58\x08no-cache"), 110},
			{LIT("\x82\x87\x85\xbf\x40\x0a" "custom-key\x0c" "custom-value"), 164},
		},
		{
			{LIT("\x82\x86\x84\x41\x8c\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff"), 57},
			{LIT("\x82\x86\x84\xbe\x58\x86\xa8\xeb\x10\x64\x9c\xbf"), 110},
			{LIT("\x82\x87\x85\xbf\x40\x88\x25\xa8\x49\xe9\x5b\xa9\x7d\x7f\x89\x25\xa8\x49\xe9\x5b\xb8\xe8\xb4\xbf"), 164},
		},
	};

	(void)state;
	for (size_t set = 0; set < 2; set++) {
		struct h2 h;

		h2_init(&h);
		for (size_t i = 0; i < 3; i++) {
			seen[0] = '\0';
			assert_int_equal(h2_block(&h, requests[set][i].block, requests[set][i].len, check, NULL), 0);
			assert_string_equal(seen, "www.example.com;");
			assert_int_equal(h.size, requests[set][i].size);
		}
		h2_free(&h);
	}
}

static const struct {
	const char *what;
	const uint8_t *block;
	size_t len;
	int rc;
	const char *seen;
} blocks[] = {
	{"literal name", LIT("\x82\x00\x0a:authority\x06" "a.test"), 0, "a.test;"},
	{"never indexed", LIT("\x82\x11\x06" "a.test"), 0, "a.test;"},
	{"Host", LIT("\x82\x00\x04Host\x06" "a.test"), 0, "a.test;"},
	{"host by static index", LIT("\x82\x0f\x17\x06" "a.test"), 0, "a.test;"},
	{"port and case", LIT("\x82\x01\x09" "A.test:80"), 0, "a.test;"},
	{"an address", LIT("\x82\x01\x08" "10.0.0.1"), 0, "10.0.0.1;"},
	{"both", LIT("\x82\x01\x06" "a.test\x0f\x17\x06" "b.test"), 0, "a.test;b.test;"},
	{"refused", LIT("\x82\x01\x07no.test"), -EACCES, "no.test;"},
	{"refused in the second", LIT("\x82\x01\x06" "a.test\x0f\x17\x07no.test"), -EACCES, "a.test;no.test;"},
	{"trailers", LIT("\x00\x05x-sum\x01" "1"), 0, ""},
	{"empty", LIT(""), 0, ""},
	{"from the table", LIT("\x82\x41\x06" "a.test\xbe"), 0, "a.test;a.test;"},
	{"name from the table", LIT("\x82\x40\x04host\x06" "a.test\x7e\x06" "b.test"), 0, "a.test;b.test;"},
	{"table of 0", LIT("\x20\x82\x41\x06" "a.test"), 0, "a.test;"},
	{"no authority", LIT("\x82\x84"), -EBADMSG, ""},
	{"static empty authority", LIT("\x82\x81"), -EBADMSG, ""},
	{"static empty host", LIT("\x82\xa6"), -EBADMSG, ""},
	{"NUL in it", LIT("\x82\x01\x0bno\0a.test\0\0"), -EBADMSG, ""},
	{"user in it", LIT("\x82\x01\x08u@a.test"), -EBADMSG, ""},
	{"index 0", LIT("\x80"), -EBADMSG, ""},
	{"index 62 of an empty table", LIT("\xbe"), -EBADMSG, ""},
	{"evicted by a table of 0", LIT("\x82\x41\x06" "a.test\x20\xbe"), -EBADMSG, "a.test;"},
	{"huge table", LIT("\x3f\xe2\xff\x03"), -EBADMSG, ""},
	{"huge integer", LIT("\xff\xff\xff\xff\xff\xff\x7f"), -EBADMSG, ""},
	{"integer that is cut", LIT("\xff\x80"), -EBADMSG, ""},
	{"string that is cut", LIT("\x82\x01\x06" "a.tes"), -EBADMSG, ""},
	{"value is missing", LIT("\x82\x01"), -EBADMSG, ""},
	{"Huffman padding of zeros", LIT("\x82\x01\x81\x18"), -EBADMSG, ""},
	{"Huffman padding of 8 bits", LIT("\x82\x01\x82\x1f\xff"), -EBADMSG, ""},
	{"Huffman end mark", LIT("\x82\x01\x84\xff\xff\xff\xff"), -EBADMSG, ""},
};

static void test_blocks(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(blocks); i++) {
		struct h2 h;
		int rc;

		h2_init(&h);
		seen[0] = '\0';
		rc = h2_block(&h, blocks[i].block, blocks[i].len, check, NULL);
		if (rc != blocks[i].rc)
			fail_msg("%s: %d, not %d", blocks[i].what, rc, blocks[i].rc);
		if (strcmp(seen, blocks[i].seen) != 0)
			fail_msg("%s: saw %s", blocks[i].what, seen);
		h2_free(&h);
	}
}

/* The table holds 4096 bytes: of entries of 64 each, the 65th puts the first out. */
static void test_eviction(void **state)
{
	uint8_t block[16 + 26 * 200] = {0x82, 0x41, 6, 'a', '.', 't', 'e', 's', 't'};
	struct h2 h;
	size_t n = 9;

	(void)state;
	h2_init(&h);
	for (int i = 0; i < 200; i++) { /* name 4, value 18 (+32 = 54) */
		memcpy(block + n, "\x40\x04x-ab\x12" "0123456789abcdefgh", 25);
		n += 25;
		if (i == 73) { /* 48 + 74 * 54 = 4044: the authority is still there, 75 entries down */
			uint8_t again[] = {0x82, 0xff, 0x80 + 136 - 127, 0x00};

			seen[0] = '\0';
			assert_int_equal(h2_block(&h, block, n, check, NULL), 0);
			assert_int_equal(h.size, 48 + 74 * 54);
			again[2] = 61 + 75 - 127;
			assert_int_equal(h2_block(&h, again, 3, check, NULL), 0);
			assert_string_equal(seen, "a.test;a.test;");
			h2_free(&h);
			h2_init(&h);
		}
	}
	assert_int_equal(h2_block(&h, block, n, check, NULL), 0);
	assert_true(h.size <= 4096 && h.size > 4096 - 54);
	assert_int_equal(h.n, 75);
	h2_free(&h);
}

#define SETTINGS "\0\0\x06\x04\0\0\0\0\0\0\x03\0\0\0\x64"
#define BLOCK "\x82\x41\x06" "a.test"
#define HEADERS "\0\0\x09\x01\x05\0\0\0\x01" BLOCK

static const struct {
	const char *what;
	const uint8_t *bytes;
	size_t len;
	int64_t rc;
	const char *seen;
} streams[] = {
	{"settings", LIT(SETTINGS), 15, ""},
	{"a request", LIT(SETTINGS HEADERS), 33, "a.test;"},
	{"two, the second from the table", LIT(HEADERS "\0\0\x02\x01\x05\0\0\0\x03\x82\xbe"), 29, "a.test;a.test;"},
	{"data", LIT(HEADERS "\0\0\x04\0\x01\0\0\0\x01" "data"), 31, "a.test;"},
	{"padded, with priority", LIT("\0\0\x12\x01\x2d\0\0\0\x01\x03\0\0\0\0\x0f" BLOCK "PPP"), 27, "a.test;"},
	{"continued", LIT("\0\0\x01\x01\0\0\0\0\x01\x82\0\0\x08\x09\x04\0\0\0\x01\x41\x06" "a.test"), 27, "a.test;"},
	{"continued twice", LIT("\0\0\0\x01\0\0\0\0\x01\0\0\x01\x09\0\0\0\0\x01\x82\0\0\x08\x09\x04\0\0\0\x01\x41\x06" "a.test"), 36, "a.test;"},
	{"another stream's continuation", LIT("\0\0\x01\x01\0\0\0\0\x01\x82\0\0\x08\x09\x04\0\0\0\x03\x41\x06" "a.test"), -EBADMSG, ""},
	{"data within a block", LIT("\0\0\x01\x01\0\0\0\0\x01\x82\0\0\x01\0\0\0\0\0\x01x"), -EBADMSG, ""},
	{"continuation of nothing", LIT("\0\0\0\x09\x04\0\0\0\x01"), -EBADMSG, ""},
	{"a client's promise", LIT("\0\0\x04\x05\x04\0\0\0\x01\0\0\0\x02"), -EBADMSG, ""},
	{"headers of stream 0", LIT("\0\0\x09\x01\x05\0\0\0\0" BLOCK), -EBADMSG, ""},
	{"padding longer than the frame", LIT("\0\0\x02\x01\x0c\0\0\0\x01\x05\x82"), -EBADMSG, ""},
	{"a block too large", LIT("\0\xc0\0\x01\x04\0\0\0\x01"), -EBADMSG, ""},
	{"refused", LIT("\0\0\x0a\x01\x05\0\0\0\x01\x82\x41\x07no.test"), -EACCES, "no.test;"},
};

static void test_streams(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(streams); i++) {
		struct h2 h;
		int64_t rc;
		size_t at = 0;

		h2_init(&h);
		seen[0] = '\0';
		rc = h2_feed(&h, streams[i].bytes, streams[i].len, check, NULL);
		if (rc != streams[i].rc)
			fail_msg("%s: %lld", streams[i].what, (long long)rc);
		assert_string_equal(seen, streams[i].seen);
		h2_free(&h);
		/* byte by byte: held back until a block is whole, the same in the end */
		h2_init(&h);
		seen[0] = '\0';
		for (size_t n = 0; n <= streams[i].len; n++) {
			rc = h2_feed(&h, streams[i].bytes + at, n - at, check, NULL);
			if (rc < 0)
				break;
			at += (size_t)rc;
		}
		assert_int_equal(rc < 0 ? rc : (int64_t)at, streams[i].rc);
		assert_string_equal(seen, streams[i].seen);
		h2_free(&h);
	}
}

/* A block that is not whole is held back with its frame's header. */
static void test_held_back(void **state)
{
	(void)state;
	for (size_t n = 15; n < 33; n++) {
		struct h2 h;

		h2_init(&h);
		assert_int_equal(h2_feed(&h, (const uint8_t *)SETTINGS HEADERS, n, check, NULL), 15);
		h2_free(&h);
	}
}

static void test_huffman(void **state)
{
	char out[64];
	size_t n;

	(void)state;
	assert_true(huffman_decode(LIT("\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff"), out, sizeof(out), &n));
	assert_int_equal(n, 15);
	assert_memory_equal(out, "www.example.com", 15);
	/* the longest codes: LF has 30 bits */
	assert_true(huffman_decode(LIT("\xff\xff\xff\xf3"), out, sizeof(out), &n));
	assert_int_equal(n, 1);
	assert_int_equal(out[0], '\n');
	/* counted beyond the room */
	assert_true(huffman_decode(LIT("\x00\x00\x00\x00\x00"), out, 3, &n));
	assert_int_equal(n, 8);
	assert_memory_equal(out, "000", 3);
	assert_true(huffman_decode(LIT(""), out, sizeof(out), &n));
	assert_int_equal(n, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rfc_examples), cmocka_unit_test(test_blocks),    cmocka_unit_test(test_eviction),
		cmocka_unit_test(test_streams),      cmocka_unit_test(test_held_back), cmocka_unit_test(test_huffman),
	};

	return cmocka_run_group_tests_name("h2", tests, NULL, NULL);
}
