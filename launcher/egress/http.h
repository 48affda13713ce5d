/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * HTTP/1 requests as far as the gateway must understand them (RFC 9112): where a request goes, and where the next one
 * on the connection starts. Stricter than servers are, so that no server reads a head otherwise than it was checked:
 * CRLF only, no NUL, no folded lines, one Host, one length.
 */
#ifndef AGENTBOX_EGRESS_HTTP_H
#define AGENTBOX_EGRESS_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "egress/address.h"

#define HTTP_HEAD_MAX 16384
#define HTTP_LINES_MAX 256 /* of a head: the request and its fields */
#define HTTP_H2_PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" /* RFC 9113 3.4 */
#define HTTP_H2_PREFACE_LEN 24

enum http_result {
	HTTP_MORE, /* no fault so far, and the head is not whole */
	HTTP_HEAD,
	HTTP_H2,  /* the preface of HTTP/2 with prior knowledge */
	HTTP_BAD, /* `fault` says what */
};

enum http_form { HTTP_ORIGIN, HTTP_ABSOLUTE, HTTP_AUTHORITY, HTTP_ASTERISK };
enum http_body_kind { HTTP_BODY_NONE, HTTP_BODY_LENGTH, HTTP_BODY_CHUNKED, HTTP_BODY_UNTIL_CLOSE };

struct http_head {
	size_t len; /* with the empty line at its end */
	size_t method_len;
	size_t target_at, target_len; /* the request target as written, from the buffer's start */
	size_t path_at;               /* HTTP_ABSOLUTE: where its path starts (may be target's end: "/") */
	enum http_form form;
	struct target host; /* where the request goes: the target's authority, else Host. name "" and no address: neither */
	bool has_host;      /* a Host field was there */
	bool secure;        /* HTTP_ABSOLUTE with https */
	bool http10;
	bool upgrade;       /* an Upgrade field: the connection may change its protocol */
	bool websocket;     /* to WebSocket, and nothing else: others may name hosts of their own (h2c, TLS/1.0: RFC 2817) */
	bool close;         /* Connection: close */
	enum http_body_kind body;
	uint64_t body_len;
	const char *fault; /* HTTP_BAD: static text */
};

/*
 * Reads the head at the start of buf.
 * scanned: 0 at first; how far earlier calls on the same growing buffer looked, kept by the caller.
 */
enum http_result http_head_parse(const char *buf, size_t len, size_t *scanned, struct http_head *out);

/* Where a body ends. Zero-initialised by http_body_start. */
struct http_body {
	enum http_body_kind kind;
	uint64_t left;
	int state;
	unsigned line; /* bytes of the line at hand; lines of sizes and trailers are bounded */
	unsigned trailers;
	bool done;
};
void http_body_start(struct http_body *b, enum http_body_kind kind, uint64_t length);
/*
 * Takes in the next bytes of the body. Return: how many belong to it (all that were given unless it is done), or
 * -EBADMSG for chunks that are malformed.
 */
int64_t http_body_feed(struct http_body *b, const char *bytes, size_t len);

/*
 * Watches a server's bytes for the answer to a request with Upgrade, when no other answer is outstanding. 100 and other
 * interim answers are passed over.
 */
enum http_watch_result { HTTP_WATCH_MORE, HTTP_WATCH_SWITCHED, HTTP_WATCH_STAYS };
struct http_watch {
	unsigned at; /* bytes of the status line so far */
	unsigned status;
	unsigned ends; /* how much of CRLFCRLF was just seen */
};
enum http_watch_result http_watch_feed(struct http_watch *w, const char *bytes, size_t len);

/*
 * The head of the last request on its connection, as the origin server is to get it: origin form, Host kept or added, no
 * fields for the proxy or the hop (RFC 9110 7.6.1), "Connection: close".
 * Return: length, or -EMSGSIZE where cap does not do (HTTP_HEAD_MAX + 512 always does).
 */
int64_t http_head_for_origin(const char *buf, const struct http_head *h, char *out, size_t cap);

/*
 * Renames the fields that ask for HTTP/2 by upgrade, in place and at the same length; an intermediary may drop them
 * (RFC 9110 7.8).
 */
void http_head_hide_upgrade(char *buf, const struct http_head *h);

#endif
