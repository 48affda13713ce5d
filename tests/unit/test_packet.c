/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_log.h>
#include <linux/netlink.h>
#include <string.h>

#include "egress/packet.h"

#include "base/banned.h"

#define V4(protocol) "\x45\x00\x00\x3c\x00\x00\x40\x00\x40" protocol "\x00\x00\xc6\x12\x0f\xfe\xc6\x12\x00\x05"
#define V6(next) "\x60\x00\x00\x00\x00\x14" next "\x40" "123456789012345\x01" "\x20\x01\x0d\xb8" "\0\0\0\0\0\0\0\0\0\0\0\x05"
#define TCP(flags) "\x9c\x40\x01\xbb\x00\x00\x00\x01\x00\x00\x00\x00\xa0" flags
#define BYTES(s) (const uint8_t *)(s), sizeof(s) - 1

static void test_parse(void **state)
{
	static const struct {
		const char *what;
		const uint8_t *bytes;
		size_t len;
		bool attempt;
		int family, port, protocol;
	} cases[] = {
		{"a SYN", BYTES(V4("\x06") TCP("\x02")), true, 4, 443, 6},
		{"its answer", BYTES(V4("\x06") TCP("\x12")), false, 0, 0, 0},
		{"data", BYTES(V4("\x06") TCP("\x10")), false, 0, 0, 0},
		{"TCP cut before its flags", BYTES(V4("\x06") "\x9c\x40\x01\xbb"), true, 4, 443, 6},
		{"TCP cut in its ports", BYTES(V4("\x06") "\x9c\x40\x01"), true, 4, 0, 6},
		{"UDP", BYTES(V4("\x11") "\x9c\x40\x00\x7b\x00\x08\x00\x00"), true, 4, 123, 17},
		{"ICMP has no port", BYTES(V4("\x01") "\x08\x00\x00\x00\x00\x00\x00\x00"), true, 4, 0, 1},
		{"IPv6", BYTES(V6("\x06") TCP("\x02")), true, 6, 443, 6},
		{"an extension header", BYTES(V6("\x2b") TCP("\x02")), true, 6, 0, 43},
		{"a cut head", BYTES("\x45\x00\x00\x3c"), false, 0, 0, 0},
		{"another version", BYTES("\x55" "0123456789012345678901234567890123456789"), false, 0, 0, 0},
		{"nothing", BYTES(""), false, 0, 0, 0},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct packet_attempt a;

		if (packet_parse(cases[i].bytes, cases[i].len, &a) != cases[i].attempt)
			fail_msg("%s: taken for the other", cases[i].what);
		if (cases[i].attempt && (a.addr.family != cases[i].family || a.port != cases[i].port || a.protocol != cases[i].protocol))
			fail_msg("%s: family %d port %d protocol %d", cases[i].what, a.addr.family, a.port, a.protocol);
	}
}

/* One message at `out` with a payload of these bytes; claim: what the attribute says of its length. Return: its end. */
static uint8_t *put_message(uint8_t *out, const void *bytes, size_t len, size_t claim)
{
	struct nlattr attr = {.nla_len = (uint16_t)(sizeof(attr) + claim), .nla_type = NFULA_PAYLOAD};
	struct nlattr other = {.nla_len = 8, .nla_type = NFULA_MARK};
	size_t head = NLMSG_LENGTH(sizeof(struct nfgenmsg)), whole = head + 8 + sizeof(attr) + len;
	struct nlmsghdr h = {.nlmsg_len = (uint32_t)whole, .nlmsg_type = NFNL_SUBSYS_ULOG << 8 | NFULNL_MSG_PACKET};

	memset(out, 0, NLMSG_ALIGN(whole));
	memcpy(out, &h, sizeof(h));
	memcpy(out + head, &other, sizeof(other));
	memcpy(out + head + 8, &attr, sizeof(attr));
	memcpy(out + head + 8 + sizeof(attr), bytes, len);
	return out + NLMSG_ALIGN(whole);
}

static void test_next(void **state)
{
	uint8_t buf[512], *end = put_message(put_message(buf, "one", 3, 3), "second", 6, 6);
	const uint8_t *at = buf, *packet;
	size_t left = (size_t)(end - buf), len;

	(void)state;
	packet = packet_next(&at, &left, &len);
	assert_non_null(packet);
	assert_int_equal(len, 3);
	assert_memory_equal(packet, "one", 3);
	packet = packet_next(&at, &left, &len);
	assert_non_null(packet);
	assert_int_equal(len, 6);
	assert_memory_equal(packet, "second", 6);
	assert_null(packet_next(&at, &left, &len));

	/* An attribute that says more than its message holds, then a good message. */
	end = put_message(put_message(buf, "lie", 3, 64), "good", 4, 4);
	at = buf;
	left = (size_t)(end - buf);
	packet = packet_next(&at, &left, &len);
	assert_non_null(packet);
	assert_memory_equal(packet, "good", 4);

	/* Cut anywhere it ends, and not behind what is there. */
	for (size_t cut = 0; cut < 48; cut++) {
		at = buf;
		left = cut;
		while ((packet = packet_next(&at, &left, &len)))
			assert_true(packet + len <= buf + cut);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_parse), cmocka_unit_test(test_next)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
