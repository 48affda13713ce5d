/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "egress/http.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/banned.h"

#define METHOD_MAX 32

/* RFC 9110 5.6.2. */
static bool is_token(unsigned char c)
{
	if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'))
		return true;
	return c && strchr("!#$%&'*+-.^_`|~", c) != NULL;
}

static bool span_is(const char *p, size_t len, const char *text)
{
	return len == strlen(text) && strncasecmp(p, text, len) == 0;
}

/* Is `token` a member of the comma-separated list? */
static bool list_has(const char *p, size_t len, const char *token)
{
	while (len) {
		const char *comma = memchr(p, ',', len);
		size_t part = comma ? (size_t)(comma - p) : len, skip = comma ? part + 1 : part;
		const char *s = p;

		while (part && (*s == ' ' || *s == '\t'))
			s++, part--;
		while (part && (s[part - 1] == ' ' || s[part - 1] == '\t'))
			part--;
		if (span_is(s, part, token))
			return true;
		p += skip;
		len -= skip;
	}
	return false;
}

static enum http_result bad(struct http_head *h, const char *fault)
{
	h->fault = fault;
	return HTTP_BAD;
}

/* --- the request line --- */

static enum http_result parse_absolute(const char *buf, struct http_head *h)
{
	const char *target = buf + h->target_at, *rest;
	size_t scheme, len;

	if (h->target_len > 7 && strncasecmp(target, "http://", 7) == 0)
		scheme = 7;
	else if (h->target_len > 8 && strncasecmp(target, "https://", 8) == 0)
		scheme = 8;
	else
		return bad(h, "a request target that is neither a path nor http");
	h->form = HTTP_ABSOLUTE;
	h->secure = scheme == 8;
	rest = target + scheme;
	len = 0;
	while (scheme + len < h->target_len && !strchr("/?#", rest[len]))
		len++;
	if (target_parse(rest, len, &h->host) < 0) /* user information has an '@', which no name has */
		return bad(h, "an authority that is no host");
	h->path_at = h->target_at + scheme + len;
	return HTTP_HEAD;
}

static enum http_result parse_target(const char *buf, struct http_head *h)
{
	const char *target = buf + h->target_at;

	for (size_t i = 0; i < h->target_len; i++)
		if ((unsigned char)target[i] <= ' ' || target[i] == 0x7f || target[i] == '#')
			return bad(h, "a blank or control character in the request target");
	if (h->method_len == 7 && memcmp(buf, "CONNECT", 7) == 0) {
		h->form = HTTP_AUTHORITY;
		if (target_parse(target, h->target_len, &h->host) < 0 || !h->host.port)
			return bad(h, "CONNECT without HOST:PORT");
		return HTTP_HEAD;
	}
	if (target[0] == '/') {
		h->form = HTTP_ORIGIN;
		return HTTP_HEAD;
	}
	if (h->target_len == 1 && target[0] == '*') {
		h->form = HTTP_ASTERISK;
		return HTTP_HEAD;
	}
	return parse_absolute(buf, h);
}

/* line_len: without CRLF. */
static enum http_result parse_request_line(const char *buf, size_t line_len, struct http_head *h)
{
	const char *space, *version;

	while (h->method_len < line_len && is_token((unsigned char)buf[h->method_len]))
		h->method_len++;
	if (!h->method_len || h->method_len > METHOD_MAX || h->method_len == line_len || buf[h->method_len] != ' ')
		return bad(h, "no request line");
	h->target_at = h->method_len + 1;
	space = memchr(buf + h->target_at, ' ', line_len - h->target_at);
	if (!space || space == buf + h->target_at)
		return bad(h, "no request line");
	h->target_len = (size_t)(space - buf) - h->target_at;
	version = space + 1;
	if (buf + line_len - version != 8 || memcmp(version, "HTTP/1.", 7) != 0 || (version[7] != '0' && version[7] != '1'))
		return bad(h, "no HTTP/1.0 or HTTP/1.1");
	h->http10 = version[7] == '0';
	return parse_target(buf, h);
}

/* --- fields --- */

struct fields {
	struct target host;
	bool host_fault;
	unsigned hosts, lengths, encodings;
	uint64_t length;
};

static bool parse_length(const char *p, size_t len, uint64_t *out)
{
	uint64_t n = 0;

	if (!len || len > 18)
		return false;
	for (size_t i = 0; i < len; i++) {
		if (p[i] < '0' || p[i] > '9')
			return false;
		n = n * 10 + (uint64_t)(p[i] - '0');
	}
	*out = n;
	return true;
}

static const char *take_field(const char *name, size_t name_len, const char *value, size_t len, struct http_head *h,
			      struct fields *f)
{
	if (span_is(name, name_len, "host")) {
		f->hosts++;
		f->host_fault = target_parse(value, len, &f->host) < 0;
	} else if (span_is(name, name_len, "content-length")) {
		f->lengths++;
		if (!parse_length(value, len, &f->length))
			return "a Content-Length that is no number";
	} else if (span_is(name, name_len, "transfer-encoding")) {
		f->encodings++;
		if (!span_is(value, len, "chunked"))
			return "a Transfer-Encoding that is not chunked";
	} else if (span_is(name, name_len, "upgrade")) {
		h->websocket = !h->upgrade && span_is(value, len, "websocket");
		h->upgrade = true;
	} else if (span_is(name, name_len, "connection")) {
		h->close |= list_has(value, len, "close");
	}
	return NULL;
}

/* One line "name: value". */
static const char *parse_field(const char *line, size_t len, struct http_head *h, struct fields *f)
{
	size_t name = 0, value, end = len;

	if (line[0] == ' ' || line[0] == '\t')
		return "a folded line";
	while (name < len && is_token((unsigned char)line[name]))
		name++;
	if (!name || name == len || line[name] != ':')
		return "a field that is no `name: value`";
	value = name + 1;
	while (value < end && (line[value] == ' ' || line[value] == '\t'))
		value++;
	while (end > value && (line[end - 1] == ' ' || line[end - 1] == '\t'))
		end--;
	for (size_t i = value; i < end; i++)
		if (((unsigned char)line[i] < ' ' && line[i] != '\t') || line[i] == 0x7f)
			return "a control character in a field";
	return take_field(line, name, line + value, end - value, h, f);
}

static bool same_host(const struct target *a, const struct target *b)
{
	return strcmp(a->name, b->name) == 0 && address_eq(&a->addr, &b->addr);
}

static enum http_result settle(struct http_head *h, const struct fields *f)
{
	if (f->hosts > 1)
		return bad(h, "more than one Host");
	if (!f->hosts && !h->http10)
		return bad(h, "no Host");
	if (f->hosts && f->host_fault)
		return bad(h, "a Host that is no host");
	h->has_host = f->hosts == 1;
	if (h->form == HTTP_ORIGIN || h->form == HTTP_ASTERISK)
		h->host = f->host;
	else if (h->has_host && !same_host(&h->host, &f->host))
		return bad(h, "Host and the request target name different hosts");
	if (f->lengths > 1 || f->encodings > 1 || (f->lengths && f->encodings) || (f->encodings && h->http10))
		return bad(h, "more than one length of the body");
	if (h->form == HTTP_AUTHORITY && (f->encodings || f->length))
		return bad(h, "CONNECT with a body");
	h->body = f->encodings ? HTTP_BODY_CHUNKED : f->length ? HTTP_BODY_LENGTH : HTTP_BODY_NONE;
	h->body_len = f->length;
	return HTTP_HEAD;
}

static enum http_result parse_whole(const char *buf, size_t len, struct http_head *h)
{
	const char *at = buf, *end = buf + len - 2; /* without the empty line */
	struct fields f = {0};
	size_t n = 0;

	while (at < end) {
		const char *lf = memchr(at, '\n', (size_t)(end - at));
		size_t line = (size_t)(lf - at) - 1;
		const char *fault = NULL;

		if (n == 0) {
			if (parse_request_line(buf, line, h) == HTTP_BAD)
				return HTTP_BAD;
		} else {
			fault = parse_field(at, line, h, &f);
		}
		if (fault)
			return bad(h, fault);
		if (++n > HTTP_LINES_MAX)
			return bad(h, "too many fields");
		at = lf + 1;
	}
	h->len = len;
	return settle(h, &f);
}

enum http_result http_head_parse(const char *buf, size_t len, size_t *scanned, struct http_head *out)
{
	size_t preface = len < HTTP_H2_PREFACE_LEN ? len : HTTP_H2_PREFACE_LEN;

	*out = (struct http_head){.form = HTTP_ORIGIN};
	if (!len)
		return HTTP_MORE;
	if (memcmp(buf, HTTP_H2_PREFACE, preface) == 0 && (len >= HTTP_H2_PREFACE_LEN || len > 3))
		return len >= HTTP_H2_PREFACE_LEN ? HTTP_H2 : HTTP_MORE;
	if (!is_token((unsigned char)buf[0]))
		return bad(out, "no request line");
	for (size_t i = *scanned; i < len && i < HTTP_HEAD_MAX; i++) {
		if (!buf[i])
			return bad(out, "a NUL in the head");
		if (buf[i] == '\r' && i + 1 < len && buf[i + 1] != '\n')
			return bad(out, "a carriage return in the head");
		if (buf[i] != '\n')
			continue;
		if (!i || buf[i - 1] != '\r')
			return bad(out, "a line that ends without a carriage return");
		if (i >= 3 && buf[i - 2] == '\n')
			return parse_whole(buf, i + 1, out);
	}
	if (len >= HTTP_HEAD_MAX)
		return bad(out, "a head over 16K");
	/* The last byte again: a carriage return there was not judged yet. */
	*scanned = len - 1;
	return HTTP_MORE;
}

/* --- bodies --- */

enum chunk_state {
	CHUNK_SIZE_FIRST,
	CHUNK_SIZE,
	CHUNK_EXTENSION,
	CHUNK_SIZE_LF,
	CHUNK_DATA,
	CHUNK_DATA_CR,
	CHUNK_DATA_LF,
	CHUNK_TRAILER_FIRST, /* at the start of a trailer line, or of the empty one */
	CHUNK_TRAILER,
	CHUNK_TRAILER_LF,
	CHUNK_END_LF,
};

#define CHUNK_DIGITS_MAX 15
#define CHUNK_LINE_MAX 1024
#define CHUNK_TRAILERS_MAX 8192

void http_body_start(struct http_body *b, enum http_body_kind kind, uint64_t length)
{
	*b = (struct http_body){.kind = kind, .left = length, .state = CHUNK_SIZE_FIRST};
	if (kind == HTTP_BODY_CHUNKED)
		b->left = 0;
	b->done = kind == HTTP_BODY_NONE || (kind == HTTP_BODY_LENGTH && !length);
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

/* One byte of the framing. Return: false where it must not be there. */
static bool chunk_step(struct http_body *b, char c)
{
	int digit = hex_digit(c);

	switch (b->state) {
	case CHUNK_SIZE_FIRST:
	case CHUNK_SIZE:
		if (digit >= 0 && b->line < CHUNK_DIGITS_MAX) {
			b->left = b->left << 4 | (unsigned)digit;
			b->line++;
			b->state = CHUNK_SIZE;
			return true;
		}
		b->state = c == ';' ? CHUNK_EXTENSION : CHUNK_SIZE_LF;
		return b->line && (c == ';' || c == '\r');
	case CHUNK_EXTENSION:
		if (c == '\r')
			b->state = CHUNK_SIZE_LF;
		return c && c != '\n' && ++b->line < CHUNK_LINE_MAX;
	case CHUNK_SIZE_LF:
		b->line = 0;
		b->state = b->left ? CHUNK_DATA : CHUNK_TRAILER_FIRST;
		return c == '\n';
	case CHUNK_DATA_CR:
		b->state = CHUNK_DATA_LF;
		return c == '\r';
	case CHUNK_DATA_LF:
		b->state = CHUNK_SIZE_FIRST;
		return c == '\n';
	case CHUNK_TRAILER_FIRST:
		b->state = c == '\r' ? CHUNK_END_LF : CHUNK_TRAILER;
		return (c == '\r' || is_token((unsigned char)c)) && ++b->trailers < CHUNK_TRAILERS_MAX;
	case CHUNK_TRAILER:
		if (c == '\r')
			b->state = CHUNK_TRAILER_LF;
		return c && c != '\n' && ++b->trailers < CHUNK_TRAILERS_MAX;
	case CHUNK_TRAILER_LF:
		b->state = CHUNK_TRAILER_FIRST;
		return c == '\n';
	case CHUNK_END_LF:
		b->done = c == '\n';
		return b->done;
	default:
		return false;
	}
}

int64_t http_body_feed(struct http_body *b, const char *bytes, size_t len)
{
	size_t at = 0;

	if (b->kind == HTTP_BODY_UNTIL_CLOSE)
		return (int64_t)len;
	while (at < len && !b->done) {
		if (b->kind == HTTP_BODY_LENGTH || b->state == CHUNK_DATA) {
			size_t part = len - at < b->left ? len - at : (size_t)b->left;

			at += part;
			b->left -= part;
			if (b->left)
				break;
			if (b->kind == HTTP_BODY_LENGTH)
				b->done = true;
			else
				b->state = CHUNK_DATA_CR;
		} else if (!chunk_step(b, bytes[at++])) {
			return -EBADMSG;
		}
	}
	return (int64_t)at;
}

/* --- the answer to an upgrade --- */

enum http_watch_result http_watch_feed(struct http_watch *w, const char *bytes, size_t len)
{
	static const char start[] = "HTTP/1.1 ";
	static const char end[] = "\r\n\r\n";

	for (size_t i = 0; i < len; i++) {
		char c = bytes[i];

		if (w->at < 9) {
			if (c != start[w->at] && !(w->at == 7 && c == '0'))
				return HTTP_WATCH_STAYS;
			w->at++;
		} else if (w->at < 12) {
			if (c < '0' || c > '9')
				return HTTP_WATCH_STAYS;
			w->status = w->status * 10 + (unsigned)(c - '0');
			if (++w->at < 12)
				continue;
			if (w->status == 101)
				return HTTP_WATCH_SWITCHED;
			if (w->status < 100 || w->status > 199)
				return HTTP_WATCH_STAYS;
		} else {
			w->ends = c == end[w->ends] ? w->ends + 1 : c == '\r' ? 1 : 0;
			if (w->ends == 4)
				*w = (struct http_watch){0};
		}
	}
	return HTTP_WATCH_MORE;
}

/* --- rewriting --- */

struct out {
	char *p;
	size_t len, cap;
	bool full;
};

static void put(struct out *o, const char *bytes, size_t len)
{
	if (o->full || len > o->cap - o->len) {
		o->full = true;
		return;
	}
	memcpy(o->p + o->len, bytes, len);
	o->len += len;
}

static void put_text(struct out *o, const char *text)
{
	put(o, text, strlen(text));
}

/* Fields that end at the proxy (RFC 9110 7.6.1). */
static bool is_hop_field(const char *line, size_t name)
{
	static const char *const hop[] = {"connection", "proxy-connection", "keep-alive", "te", "upgrade", "http2-settings",
					  "proxy-authorization", "proxy-authenticate"};

	for (size_t i = 0; i < sizeof(hop) / sizeof(hop[0]); i++)
		if (span_is(line, name, hop[i]))
			return true;
	return false;
}

static void put_host(struct out *o, const struct target *t)
{
	char text[HOSTNAME_MAX + 32], addr[ADDRESS_TEXT_MAX];
	bool v6 = t->addr.family == 6;

	snprintf(text, sizeof(text), "Host: %s%s%s", v6 ? "[" : "", t->name[0] ? t->name : address_text(&t->addr, addr),
		 v6 ? "]" : "");
	put_text(o, text);
	if (t->port) {
		snprintf(text, sizeof(text), ":%u", t->port);
		put_text(o, text);
	}
	put_text(o, "\r\n");
}

int64_t http_head_for_origin(const char *buf, const struct http_head *h, char *out, size_t cap)
{
	struct out o = {.p = out, .cap = cap};
	const char *end = buf + h->len - 2, *line;
	size_t target_end = h->target_at + h->target_len;

	put(&o, buf, h->method_len + 1);
	if (h->form == HTTP_ABSOLUTE) {
		if (h->path_at == target_end || buf[h->path_at] != '/')
			put_text(&o, "/");
		put(&o, buf + h->path_at, target_end - h->path_at);
	} else {
		put(&o, buf + h->target_at, h->target_len);
	}
	put_text(&o, h->http10 ? " HTTP/1.0\r\n" : " HTTP/1.1\r\n");
	if (!h->has_host && h->form == HTTP_ABSOLUTE)
		put_host(&o, &h->host);
	line = (const char *)memchr(buf, '\n', h->len) + 1;
	while (line < end) {
		const char *lf = memchr(line, '\n', (size_t)(end - line)), *colon = memchr(line, ':', (size_t)(lf - line));

		if (!is_hop_field(line, (size_t)(colon - line)))
			put(&o, line, (size_t)(lf - line) + 1);
		line = lf + 1;
	}
	put_text(&o, "Connection: close\r\n\r\n");
	return o.full ? -EMSGSIZE : (int64_t)o.len;
}

void http_head_hide_upgrade(char *buf, const struct http_head *h)
{
	char *end = buf + h->len - 2, *line = (char *)memchr(buf, '\n', h->len) + 1;

	while (line < end) {
		char *lf = memchr(line, '\n', (size_t)(end - line)), *colon = memchr(line, ':', (size_t)(lf - line));
		size_t name = (size_t)(colon - line);

		if (span_is(line, name, "upgrade") || span_is(line, name, "http2-settings"))
			memset(line, 'X', name);
		line = lf + 1;
	}
}
