/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The first byte says in what pieces the rest arrives. Pieces must not change what is understood; what was taken once
 * must be taken again when it is written for the origin server.
 */
#include <stdlib.h>
#include <string.h>

#include "egress/http.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* With the empty one at its end. */
static size_t lines(const char *text, size_t len)
{
	size_t n = 0;

	for (size_t i = 0; i < len; i++)
		n += text[i] == '\n';
	return n;
}

static void check_head(const char *buf, const struct http_head *h)
{
	char *out = malloc(HTTP_HEAD_MAX + 512), *copy = malloc(h->len);
	struct http_head again;
	size_t scanned = 0;
	int64_t n;

	memcpy(copy, buf, h->len);
	http_head_hide_upgrade(copy, h);
	if (http_head_parse(copy, h->len, &scanned, &again) != HTTP_HEAD || again.upgrade)
		abort();
	if (h->form != HTTP_AUTHORITY && (h->form == HTTP_ABSOLUTE || h->has_host)) {
		n = http_head_for_origin(buf, h, out, HTTP_HEAD_MAX + 512);
		scanned = 0;
		if (n < 0)
			abort();
		/* Ours may be the line, or the byte, that is one too many for ourselves. */
		if (n < HTTP_HEAD_MAX && lines(out, (size_t)n) <= HTTP_LINES_MAX + 1 &&
		    (http_head_parse(out, (size_t)n, &scanned, &again) != HTTP_HEAD || !again.close || again.upgrade ||
		     strcmp(again.host.name, h->host.name) != 0 || again.body != h->body || again.body_len != h->body_len ||
		     again.form == HTTP_ABSOLUTE))
			abort();
	}
	free(out);
	free(copy);
}

static void check_body(const char *bytes, size_t len, size_t piece, const struct http_head *h)
{
	struct http_body whole, parts;
	int64_t used, sum = 0;

	http_body_start(&whole, h->body, h->body_len);
	http_body_start(&parts, h->body, h->body_len);
	used = http_body_feed(&whole, bytes, len);
	while ((size_t)sum < len && !parts.done) {
		size_t n = len - (size_t)sum < piece ? len - (size_t)sum : piece;
		int64_t r = http_body_feed(&parts, bytes + sum, n);

		sum = r < 0 ? r : sum + r;
		if (r < 0)
			break;
	}
	if (sum != used || (used >= 0 && whole.done != parts.done))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *buf = (const char *)data + 1;
	struct http_watch watch = {0};
	enum http_result whole, parts = HTTP_MORE;
	struct http_head h, hp;
	size_t piece, scanned = 0;

	if (!size)
		return 0;
	piece = (size_t)data[0] + 1;
	size--;
	whole = http_head_parse(buf, size, &scanned, &h);
	scanned = 0;
	for (size_t n = piece < size ? piece : size; parts == HTTP_MORE; n = size - n < piece ? size : n + piece) {
		parts = http_head_parse(buf, n, &scanned, &hp);
		if (n == size)
			break;
	}
	if (whole != parts || (whole == HTTP_HEAD && h.len != hp.len))
		abort();
	if (whole == HTTP_HEAD) {
		check_head(buf, &h);
		check_body(buf + h.len, size - h.len, piece, &h);
	}
	h.body = HTTP_BODY_CHUNKED;
	check_body(buf, size, piece, &h);
	http_watch_feed(&watch, buf, size);
	return 0;
}
