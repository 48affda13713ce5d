/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "profile/rule.h"

#include "base/banned.h"

/* What the rule means, in one line: "kind host ports". */
static const char *describe(const struct rule *r, char *buf, size_t len)
{
	static const char *const kinds[] = {"name", "sub", "addr", "any", "host"};
	char host[300] = "-";
	int n;

	if (r->kind == RULE_ADDRESS) {
		char a[INET6_ADDRSTRLEN];

		inet_ntop(r->family, r->addr, a, sizeof(a));
		snprintf(host, sizeof(host), "%s/%u", a, r->prefix);
	} else if (r->name[0]) {
		snprintf(host, sizeof(host), "%s", r->name);
	}
	n = snprintf(buf, len, "%s %s ", kinds[r->kind], host);
	for (size_t i = 0; i < r->n_ports; i++)
		n += snprintf(buf + n, len - (size_t)n, "%s%u-%u", i ? "," : "", r->ports[i].first, r->ports[i].last);
	return buf;
}

static const struct {
	const char *text, *means;
} good[] = {
	{"github.com", "name github.com 80-80,443-443"},
	{"GitHub.com.:22,443", "name github.com 22-22,443-443"},
	{"*.npmjs.test", "sub npmjs.test 80-80,443-443"},
	{"*.npmjs.test:*", "sub npmjs.test 1-65535"},
	{"a.test:8000-8100", "name a.test 8000-8100"},
	{"a.test:1,65535", "name a.test 1-1,65535-65535"},
	{"a.test:80,8000-8100,9", "name a.test 80-80,8000-8100,9-9"},
	{"*", "any - 80-80,443-443"},
	{"*:443", "any - 443-443"},
	{"*:*", "any - 1-65535"},
	{"@host:5432", "host - 5432-5432"},
	{"@host", "host - 80-80,443-443"},
	{"192.0.2.1", "addr 192.0.2.1/32 80-80,443-443"},
	{"10.0.0.0/8:443", "addr 10.0.0.0/8 443-443"},
	{"0.0.0.0/0:443", "addr 0.0.0.0/0 443-443"},
	{"[2001:db8::1]", "addr 2001:db8::1/128 80-80,443-443"},
	{"[2001:db8::/32]:443", "addr 2001:db8::/32 443-443"},
	{"[2001:db8::]/32:443", "addr 2001:db8::/32 443-443"},
	{"[2001:db8::]/32", "addr 2001:db8::/32 80-80,443-443"},
	{"[::]/0:*", "addr ::/0 1-65535"},
	{"[::ffff:192.0.2.1]:443", "addr 192.0.2.1/32 443-443"},
	{"[::ffff:192.0.2.0/120]:443", "addr 192.0.2.0/24 443-443"},
	{"[::ffff:0:0/96]:443", "addr 0.0.0.0/0 443-443"},
	{"[::fffe:0:0/95]:443", "addr ::fffe:0:0/95 443-443"},
};

static void test_good(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		struct err e = {0};
		struct rule r;
		char buf[512];

		if (rule_parse(good[i].text, &r, &e) != 0)
			fail_msg("%s: %s", good[i].text, e.msg);
		assert_string_equal(describe(&r, buf, sizeof(buf)), good[i].means);
	}
}

/* Each with a piece of what the message must say. */
static const struct {
	const char *text, *says;
} bad[] = {
	{"", "empty"},
	{"https://github.com/", "no URL"},
	{"github.com/", "no path"},
	{"github.com/x:443", "no path"},
	{"a b.test", "blank"},
	{"a.test\t", "blank"},
	{"a.test:", "ports"},
	{"a.test:0", "ports"},
	{"a.test:65536", "ports"},
	{"a.test:http", "ports"},
	{"a.test:80,", "ports"},
	{"a.test:,80", "ports"},
	{"a.test:80-", "ports"},
	{"a.test:-80", "ports"},
	{"a.test:+80", "ports"},
	{"a.test:80-70", "70-80"},
	{"a.test:80:90", "colon"},
	{"::1", "brackets"},
	{"2001:db8::1", "brackets"},
	{"[::1", "not closed"},
	{"[::1]x", "behind the address"},
	{"[::1/64/64]", "prefix"},
	{"[fe80::1%eth0]", "no IPv6"},
	{"[192.0.2.1]", "no IPv6"},
	{"[::1]/129", "prefix"},
	{"[2001:db8::1/32]", "2001:db8::/32"},
	{"10.0.0.1/8", "10.0.0.0/8"},
	{"10.0.0.0/33", "prefix"},
	{"10.0.0.0/", "prefix"},
	{"10.0.0.0/-1", "prefix"},
	{"10.1/16", "no path"},
	{"127.1", "neither"},
	{"0x7f000001", "neither"},
	{"2130706433:80", "neither"},
	{"010.0.0.1", "neither"},
	{"*.*.test", "before the first dot"},
	{"a.*.test", "before the first dot"},
	{"*a.test", "before the first dot"},
	{"*.", "no host name"},
	{".test", "no host name"},
	{"@hosts:80", "@host"},
	{"host.agentbox.internal:80", "@host"},
	{"b\xc3\xbc" "cher.test", "xn--"},
	{"a.test:1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32,33", "more than 32"},
};

static void test_bad(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct err e = {0};
		struct rule r;

		if (rule_parse(bad[i].text, &r, &e) != -EINVAL)
			fail_msg("%s: taken", bad[i].text);
		if (!strstr(e.msg, bad[i].says))
			fail_msg("%s: says '%s', without '%s'", bad[i].text, e.msg, bad[i].says);
	}
}

static void test_long(void **state)
{
	char text[3000];
	struct rule r;

	(void)state;
	memset(text, 'a', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	assert_int_equal(rule_parse(text, &r, NULL), -EINVAL);
	text[300] = '\0';
	assert_int_equal(rule_parse(text, &r, NULL), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good),
		cmocka_unit_test(test_bad),
		cmocka_unit_test(test_long),
	};

	return cmocka_run_group_tests_name("rule", tests, NULL, NULL);
}
