/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "egress/http.h"

#include "base/banned.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define LIT(s) s, sizeof(s) - 1

/* Form, host, port, body and flags in one line. */
static const char *describe(const struct http_head *h, char *buf, size_t len)
{
	static const char *const forms[] = {"origin", "absolute", "authority", "asterisk"};
	static const char *const bodies[] = {"none", "length", "chunked"};
	char a[ADDRESS_TEXT_MAX];

	snprintf(buf, len, "%s %s:%u %s:%llu%s%s%s%s%s", forms[h->form], h->host.name[0] ? h->host.name : address_text(&h->host.addr, a),
		 h->host.port, bodies[h->body], (unsigned long long)h->body_len, h->upgrade ? " upgrade" : "",
		 h->websocket ? " websocket" : "", h->close ? " close" : "", h->http10 ? " 1.0" : "", h->secure ? " https" : "");
	return buf;
}

static const struct {
	const char *bytes;
	size_t len;
	const char *means;
} good[] = {
	{LIT("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n"), "origin a.test:0 none:0"},
	{LIT("GET / HTTP/1.1\r\nHOST:A.Test.:80 \t\r\nAccept: */*\r\n\r\n"), "origin a.test:80 none:0"},
	{LIT("GET /\xc3\xbc?a=b HTTP/1.1\r\nHost: a.test\r\nX: \xff\xfe\r\n\r\n"), "origin a.test:0 none:0"},
	{LIT("GET / HTTP/1.0\r\n\r\n"), "origin :0 none:0 1.0"},
	{LIT("GET / HTTP/1.1\r\nHost: [2001:db8::1]:8080\r\n\r\n"), "origin 2001:db8::1:8080 none:0"},
	{LIT("OPTIONS * HTTP/1.1\r\nHost: a.test\r\n\r\n"), "asterisk a.test:0 none:0"},
	{LIT("POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\n\r\nhello"), "origin a.test:0 length:5"},
	{LIT("POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 0\r\n\r\n"), "origin a.test:0 none:0"},
	{LIT("PUT / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: Chunked\r\nExpect: 100-continue\r\n\r\n"), "origin a.test:0 chunked:0"},
	{LIT("GET / HTTP/1.1\r\nHost: a.test\r\nUpgrade: websocket\r\nConnection: keep-alive, Upgrade\r\n\r\n"),
	 "origin a.test:0 none:0 upgrade websocket"},
	{LIT("GET / HTTP/1.1\r\nHost: a.test\r\nUpgrade: WebSocket\r\nUpgrade: TLS/1.0\r\n\r\n"), "origin a.test:0 none:0 upgrade"},
	{LIT("GET / HTTP/1.1\r\nHost: a.test\r\nUpgrade: foo, H2C\r\nConnection: Upgrade, close\r\n\r\n"),
	 "origin a.test:0 none:0 upgrade close"},
	{LIT("CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\n\r\n"), "authority a.test:443 none:0"},
	{LIT("CONNECT a.test:443 HTTP/1.0\r\n\r\n"), "authority a.test:443 none:0 1.0"},
	{LIT("CONNECT [2001:db8::1]:443 HTTP/1.1\r\nHost: [2001:db8::1]\r\n\r\n"), "authority 2001:db8::1:443 none:0"},
	{LIT("GET http://A.test/x HTTP/1.1\r\nHost: a.test\r\n\r\n"), "absolute a.test:0 none:0"},
	{LIT("GET HTTP://a.test:8080?q HTTP/1.1\r\nHost: a.test:8080\r\n\r\n"), "absolute a.test:8080 none:0"},
	{LIT("GET https://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n"), "absolute a.test:0 none:0 https"},
	{LIT("GET http://10.0.0.1/ HTTP/1.0\r\n\r\n"), "absolute 10.0.0.1:0 none:0 1.0"},
};

static void test_good(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(good); i++) {
		struct http_head h;
		size_t scanned = 0;
		char buf[512];

		if (http_head_parse(good[i].bytes, good[i].len, &scanned, &h) != HTTP_HEAD)
			fail_msg("%s: %s", good[i].bytes, h.fault);
		assert_string_equal(describe(&h, buf, sizeof(buf)), good[i].means);
		assert_memory_equal(good[i].bytes + h.len - 4, "\r\n\r\n", 4);
		/* byte by byte the same comes out, and nothing before the end */
		scanned = 0;
		for (size_t n = 0; n < h.len; n++)
			assert_int_equal(http_head_parse(good[i].bytes, n, &scanned, &h), HTTP_MORE);
	}
	for (size_t i = 0; i < COUNT(good); i++) {
		struct http_head h;
		size_t scanned = 0, n = 1;

		while (http_head_parse(good[i].bytes, n, &scanned, &h) == HTTP_MORE)
			n++;
		assert_int_equal(h.len, n);
	}
}

static const struct {
	const char *bytes;
	size_t len;
	const char *says;
} bad[] = {
	{LIT("\r\nGET / HTTP/1.1\r\n"), "request line"},
	{LIT("\x16\x03\x01"), "request line"},
	{LIT(" GET"), "request line"},
	{LIT("GET / HTTP/1.1\nHost: a.test\n\n"), "carriage return"},
	{LIT("GET / HTTP/1.1\r\nHost: a.test\n\r\n"), "carriage return"},
	{LIT("GET / HTTP/1.1\r\nHost: a.test\rX: y\r\n\r\n"), "carriage return"},
	{LIT("GET / HTTP/1.1\r\nHost: a.test\r\r\n\r\n"), "carriage return"},
	{LIT("GET / HTTP/1.1\r\nHost: evil\0a.test\r\n\r\n"), "NUL"},
	{LIT("GET /\0 HTTP/1.1\r\n"), "NUL"},
	{LIT("GET  / HTTP/1.1\r\nHost: a.test\r\n\r\n"), "request line"},
	{LIT("GET / HTTP/1.1 \r\nHost: a.test\r\n\r\n"), "HTTP/1.0 or"},
	{LIT("GET / x HTTP/1.1\r\nHost: a.test\r\n\r\n"), "HTTP/1.0 or"},
	{LIT("GET /\r\n\r\n"), "request line"},
	{LIT("GET / HTTP/2.0\r\nHost: a.test\r\n\r\n"), "HTTP/1.0 or"},
	{LIT("GET / HTTP/1.2\r\nHost: a.test\r\n\r\n"), "HTTP/1.0 or"},
	{LIT("G@T / HTTP/1.1\r\nHost: a.test\r\n\r\n"), "request line"},
	{LIT("GET a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n"), "neither"},
	{LIT("GET ftp://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n"), "neither"},
	{LIT("GET /\t HTTP/1.1\r\nHost: a.test\r\n\r\n"), "control"},
	{LIT("GET /#x HTTP/1.1\r\nHost: a.test\r\n\r\n"), "control"},
	{LIT("GET / HTTP/1.1\r\n\r\n"), "no Host"},
	{LIT("GET / HTTP/1.1\r\nHost:\r\n\r\n"), "no host"},
	{LIT("GET / HTTP/1.1\r\nHost: a.test\r\nHost: a.test\r\n\r\n"), "more than one Host"},
	{LIT("GET / HTTP/1.1\r\nHost: a.test\r\nhost: evil.test\r\n\r\n"), "more than one Host"},
	{LIT("GET / HTTP/1.1\r\nHost: a.test, evil.test\r\n\r\n"), "no host"},
	{LIT("GET / HTTP/1.1\r\nHost: a.test/\r\n\r\n"), "no host"},
	{LIT("GET / HTTP/1.1\r\nHost: u@a.test\r\n\r\n"), "no host"},
	{LIT("GET / HTTP/1.1\r\nHost : a.test\r\n\r\n"), "name: value"},
	{LIT("GET / HTTP/1.1\r\n: a.test\r\n\r\n"), "name: value"},
	{LIT("GET / HTTP/1.1\r\nHost\r\n\r\n"), "name: value"},
	{LIT("GET / HTTP/1.1\r\nX: y\r\n Host: a.test\r\n\r\n"), "folded"},
	{LIT("GET / HTTP/1.1\r\nHost: a.test\r\n\tevil\r\n\r\n"), "folded"},
	{LIT("GET / HTTP/1.1\r\nHost: a.test\x01\r\n\r\n"), "control"},
	{LIT("GET http://b.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n"), "different hosts"},
	{LIT("GET http://u@a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n"), "authority"},
	{LIT("GET http:// HTTP/1.1\r\nHost: a.test\r\n\r\n"), "neither"},
	{LIT("GET http:///x HTTP/1.1\r\nHost: a.test\r\n\r\n"), "authority"},
	{LIT("GET http://127.1/ HTTP/1.1\r\nHost: 127.1\r\n\r\n"), "authority"},
	{LIT("CONNECT a.test HTTP/1.1\r\nHost: a.test\r\n\r\n"), "CONNECT"},
	{LIT("CONNECT a.test:443 HTTP/1.1\r\nHost: b.test:443\r\n\r\n"), "different hosts"},
	{LIT("CONNECT http://a.test:443 HTTP/1.1\r\nHost: a.test\r\n\r\n"), "CONNECT"},
	{LIT("CONNECT a.test:443 HTTP/1.1\r\nHost: a.test\r\nContent-Length: 3\r\n\r\n"), "CONNECT with a body"},
	{LIT("POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n"), "more than one length"},
	{LIT("POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5, 5\r\n\r\n"), "no number"},
	{LIT("POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: +5\r\n\r\n"), "no number"},
	{LIT("POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 0x5\r\n\r\n"), "no number"},
	{LIT("POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length:\r\n\r\n"), "no number"},
	{LIT("POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 9999999999999999999\r\n\r\n"), "no number"},
	{LIT("POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"), "more than one length"},
	{LIT("POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: gzip, chunked\r\n\r\n"), "not chunked"},
	{LIT("POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: xchunked\r\n\r\n"), "not chunked"},
	{LIT("POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n"),
	 "more than one length"},
	{LIT("POST / HTTP/1.0\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n"), "more than one length"},
	{LIT("PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n"), "HTTP/1.0 or"},
};

static void test_bad(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(bad); i++) {
		struct http_head h = {0};
		size_t scanned = 0;

		if (http_head_parse(bad[i].bytes, bad[i].len, &scanned, &h) != HTTP_BAD)
			fail_msg("%zu: %s: taken", i, bad[i].bytes);
		if (!strstr(h.fault, bad[i].says))
			fail_msg("%zu: %s: says %s", i, bad[i].bytes, h.fault);
		/* and byte by byte it is never taken either */
		scanned = 0;
		for (size_t n = 1; n <= bad[i].len; n++) {
			enum http_result r = http_head_parse(bad[i].bytes, n, &scanned, &h);

			assert_true(r == HTTP_MORE || r == HTTP_BAD);
			if (r == HTTP_BAD)
				break;
			assert_true(n < bad[i].len);
		}
	}
}

static void test_limits(void **state)
{
	static char buf[HTTP_HEAD_MAX + 100];
	struct http_head h;
	size_t scanned = 0, n;

	(void)state;
	n = (size_t)snprintf(buf, sizeof(buf), "GET / HTTP/1.1\r\nHost: a.test\r\nX: ");
	memset(buf + n, 'x', sizeof(buf) - n);
	memcpy(buf + HTTP_HEAD_MAX - 4, "\r\n\r\n", 4);
	assert_int_equal(http_head_parse(buf, HTTP_HEAD_MAX, &scanned, &h), HTTP_HEAD);
	memcpy(buf + HTTP_HEAD_MAX - 4, "x\r\n\r\n", 5);
	scanned = 0;
	assert_int_equal(http_head_parse(buf, HTTP_HEAD_MAX - 1, &scanned, &h), HTTP_MORE);
	assert_int_equal(http_head_parse(buf, HTTP_HEAD_MAX + 1, &scanned, &h), HTTP_BAD);
	/* more fields than anybody sends */
	n = (size_t)snprintf(buf, sizeof(buf), "GET / HTTP/1.1\r\nHost: a.test\r\n");
	for (int i = 0; i < 300; i++)
		n += (size_t)snprintf(buf + n, sizeof(buf) - n, "X: y\r\n");
	n += (size_t)snprintf(buf + n, sizeof(buf) - n, "\r\n");
	scanned = 0;
	assert_int_equal(http_head_parse(buf, n, &scanned, &h), HTTP_BAD);
}

static void test_preface(void **state)
{
	struct http_head h;
	size_t scanned = 0;

	(void)state;
	for (size_t n = 0; n < HTTP_H2_PREFACE_LEN; n++)
		assert_int_equal(http_head_parse(HTTP_H2_PREFACE, n, &scanned, &h), HTTP_MORE);
	assert_int_equal(http_head_parse(HTTP_H2_PREFACE "\0\0", HTTP_H2_PREFACE_LEN + 2, &scanned, &h), HTTP_H2);
	scanned = 0;
	assert_int_equal(http_head_parse(LIT("PROPFIND / HTTP/1.1\r\nHost: a.test\r\n\r\n"), &scanned, &h), HTTP_HEAD);
}

static const struct {
	const char *bytes;
	size_t len;
	int64_t used; /* -EBADMSG, or bytes of the body */
	bool done;
} chunks[] = {
	{LIT("0\r\n\r\n"), 5, true},
	{LIT("5\r\nhello\r\n0\r\n\r\nGET"), 15, true},
	{LIT("A;x=y;z=\"q\"\r\n0123456789\r\n00\r\nX-T: v\r\nY: w\r\n\r\n"), 45, true},
	{LIT("5\r\nhello\r\n"), 10, false},
	{LIT("5\r\nhel"), 6, false},
	{LIT("\r\n"), -EBADMSG, false},
	{LIT("g\r\n"), -EBADMSG, false},
	{LIT("0x5\r\n"), -EBADMSG, false},
	{LIT("+5\r\n"), -EBADMSG, false},
	{LIT("-5\r\n"), -EBADMSG, false},
	{LIT(" 5\r\n"), -EBADMSG, false},
	{LIT("5 \r\n"), -EBADMSG, false},
	{LIT("5\nhello"), -EBADMSG, false},
	{LIT("5\rhello"), -EBADMSG, false},
	{LIT("5;\nx\r\n"), -EBADMSG, false},
	{LIT("5\r\nhelloX"), -EBADMSG, false},
	{LIT("5\r\nhello\n"), -EBADMSG, false},
	{LIT("1000000000000000\r\n"), -EBADMSG, false}, /* 16 digits */
	{LIT("0\r\n folded\r\n\r\n"), -EBADMSG, false},
	{LIT("0\r\nX: y\n\r\n"), -EBADMSG, false},
	{LIT("0\r\n\rX"), -EBADMSG, false},
};

static void test_chunks(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(chunks); i++) {
		struct http_body b;
		int64_t used = 0;

		http_body_start(&b, HTTP_BODY_CHUNKED, 0);
		if (http_body_feed(&b, chunks[i].bytes, chunks[i].len) != chunks[i].used)
			fail_msg("%zu: %s", i, chunks[i].bytes);
		assert_int_equal(b.done, chunks[i].done);
		/* byte by byte */
		http_body_start(&b, HTTP_BODY_CHUNKED, 0);
		for (size_t n = 0; n < chunks[i].len && !b.done; n++) {
			int64_t r = http_body_feed(&b, chunks[i].bytes + n, 1);

			used = r < 0 ? r : used + r;
			if (r < 0)
				break;
		}
		assert_int_equal(used, chunks[i].used);
	}
}

static void test_bodies(void **state)
{
	struct http_body b;

	(void)state;
	http_body_start(&b, HTTP_BODY_NONE, 0);
	assert_true(b.done);
	assert_int_equal(http_body_feed(&b, "x", 1), 0);
	http_body_start(&b, HTTP_BODY_LENGTH, 5);
	assert_int_equal(http_body_feed(&b, "hel", 3), 3);
	assert_false(b.done);
	assert_int_equal(http_body_feed(&b, "loGET", 5), 2);
	assert_true(b.done);
	http_body_start(&b, HTTP_BODY_UNTIL_CLOSE, 0);
	assert_int_equal(http_body_feed(&b, "xyz", 3), 3);
	assert_false(b.done);
}

static void test_watch(void **state)
{
	static const struct {
		const char *bytes;
		enum http_watch_result result;
	} answers[] = {
		{"HTTP/1.1 101 Switching Protocols\r\n", HTTP_WATCH_SWITCHED},
		{"HTTP/1.0 101", HTTP_WATCH_SWITCHED},
		{"HTTP/1.1 200 OK\r\n\r\n", HTTP_WATCH_STAYS},
		{"HTTP/1.1 100 Continue\r\n\r\n", HTTP_WATCH_MORE},
		{"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 101 x", HTTP_WATCH_SWITCHED},
		{"HTTP/1.1 103 Hints\r\nLink: HTTP/1.1 101\r\n\r\nHTTP/1.1 404 x", HTTP_WATCH_STAYS},
		{"HTTP/1.1 10", HTTP_WATCH_MORE},
		{"HTTP/1.1 1x1", HTTP_WATCH_STAYS},
		{"SSH-2.0", HTTP_WATCH_STAYS},
		{"", HTTP_WATCH_MORE},
	};

	(void)state;
	for (size_t i = 0; i < COUNT(answers); i++) {
		struct http_watch w = {0};
		enum http_watch_result r = HTTP_WATCH_MORE;

		assert_int_equal(http_watch_feed(&w, answers[i].bytes, strlen(answers[i].bytes)), answers[i].result);
		w = (struct http_watch){0};
		for (const char *p = answers[i].bytes; *p && r == HTTP_WATCH_MORE; p++)
			r = http_watch_feed(&w, p, 1);
		assert_int_equal(r, answers[i].result);
	}
}

static void test_for_origin(void **state)
{
	static const struct {
		const char *in, *out;
	} heads[] = {
		{"GET http://a.test/x?y HTTP/1.1\r\nHost: a.test\r\nProxy-Connection: keep-alive\r\nX: y\r\n\r\n",
		 "GET /x?y HTTP/1.1\r\nHost: a.test\r\nX: y\r\nConnection: close\r\n\r\n"},
		{"GET http://a.test HTTP/1.1\r\nProxy-Authorization: Basic eA==\r\nConnection: keep-alive\r\nHost: a.test\r\n\r\n",
		 "GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n"},
		{"GET http://a.test:81?q HTTP/1.0\r\nUpgrade: x\r\nKeep-Alive: 5\r\nTE: trailers\r\n\r\n",
		 "GET /?q HTTP/1.0\r\nHost: a.test:81\r\nConnection: close\r\n\r\n"},
		{"GET http://[2001:db8::1]:81/ HTTP/1.0\r\n\r\n",
		 "GET / HTTP/1.0\r\nHost: [2001:db8::1]:81\r\nConnection: close\r\n\r\n"},
	};
	char out[HTTP_HEAD_MAX + 512];

	(void)state;
	for (size_t i = 0; i < COUNT(heads); i++) {
		struct http_head h;
		size_t scanned = 0;
		int64_t n;

		assert_int_equal(http_head_parse(heads[i].in, strlen(heads[i].in), &scanned, &h), HTTP_HEAD);
		n = http_head_for_origin(heads[i].in, &h, out, sizeof(out));
		assert_int_equal(n, strlen(heads[i].out));
		assert_memory_equal(out, heads[i].out, (size_t)n);
		for (size_t cap = 0; cap < (size_t)n; cap++)
			assert_int_equal(http_head_for_origin(heads[i].in, &h, out, cap), -EMSGSIZE);
	}
}

static void test_hide_upgrade(void **state)
{
	char in[] = "GET / HTTP/1.1\r\nHost: a.test\r\nupgrade: h2c\r\nHTTP2-Settings: AAM\r\nX: upgrade\r\n\r\nupgrade: h2c\r\n";
	struct http_head h;
	size_t scanned = 0;

	(void)state;
	assert_int_equal(http_head_parse(in, strlen(in), &scanned, &h), HTTP_HEAD);
	http_head_hide_upgrade(in, &h);
	assert_string_equal(in, "GET / HTTP/1.1\r\nHost: a.test\r\nXXXXXXX: h2c\r\nXXXXXXXXXXXXXX: AAM\r\nX: upgrade\r\n\r\n"
				"upgrade: h2c\r\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good),       cmocka_unit_test(test_bad),    cmocka_unit_test(test_limits),
		cmocka_unit_test(test_preface),    cmocka_unit_test(test_chunks), cmocka_unit_test(test_bodies),
		cmocka_unit_test(test_watch),      cmocka_unit_test(test_for_origin),
		cmocka_unit_test(test_hide_upgrade),
	};

	return cmocka_run_group_tests_name("http", tests, NULL, NULL);
}
