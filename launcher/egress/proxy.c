/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The proxy port: HTTP CONNECT, HTTP requests with an absolute URL, and SOCKS 5, told apart by the first byte. It
 * decides nothing that capture does not: it learns a name or an address, and from there on the connection is like any
 * other.
 */
#include <string.h>

#include "egress/socks.h"
#include "egress/state.h"

#include "base/banned.h"

/* Takes n bytes off the front of what the client sent. */
static void consume(struct conn *c, size_t n)
{
	c->flows[TO_SERVER].off += (uint32_t)n;
	c->flows[TO_SERVER].ready = c->flows[TO_SERVER].off;
}

static void open_target(struct gateway *g, struct conn *c, const struct target *t)
{
	c->port = t->port;
	timer_stop(g, &c->request_timer);
	if (t->name[0])
		conn_open_name(g, c, t->name);
	else
		conn_open_address(g, c, &t->addr);
}

static bool run_greeting(struct gateway *g, struct conn *c, const uint8_t *p, size_t len)
{
	uint8_t out[SOCKS_GREETING_REPLY_LEN];
	enum socks_method method;
	size_t used;

	switch (socks_greeting(p, len, &used, &method)) {
	case SOCKS_MORE:
		return true;
	case SOCKS_OK:
		break;
	default:
		conn_end(g, c, EGRESS_END_CLOSED, true, false);
		return false;
	}
	consume(c, used);
	socks_greeting_reply(method, out);
	flow_append(&c->flows[TO_CLIENT], out, sizeof(out));
	relay_flush(c, TO_CLIENT);
	if (method != SOCKS_METHOD_NONE) {
		conn_end(g, c, EGRESS_END_CLOSED, false, false);
		return false;
	}
	c->handshake = HANDSHAKE_SOCKS_REQUEST;
	return proxy_run(g, c);
}

static bool run_request(struct gateway *g, struct conn *c, const uint8_t *p, size_t len)
{
	enum socks_reply reply;
	struct target t;
	size_t used;

	switch (socks_request(p, len, &used, &t, &reply)) {
	case SOCKS_MORE:
		return true;
	case SOCKS_OK:
		break;
	default:
		conn_end(g, c, EGRESS_END_CLOSED, true, false);
		return false;
	}
	consume(c, used);
	if (reply == SOCKS_SUCCEEDED) {
		open_target(g, c, &t);
		return c->state != CONN_DEAD && c->state != CONN_REFUSING;
	}
	conn_deny_reason(g, c, reply == SOCKS_FAILURE ? VERDICT_BAD_NAME : VERDICT_UNSUPPORTED, NULL);
	return false;
}

/* A URL is one request on a connection of its own: the next may be for another host. */
static bool open_absolute(struct gateway *g, struct conn *c, const char *p, const struct http_head *h)
{
	struct flow *f = &c->flows[TO_SERVER];
	char head[HTTP_HEAD_MAX + 512];
	int64_t n = http_head_for_origin(p, h, head, sizeof(head));
	struct target t = h->host;
	size_t rest = f->len - f->off - h->len;

	if (n < 0 || h->secure) {
		conn_deny_reason(g, c, VERDICT_UNSUPPORTED, NULL);
		return false;
	}
	if (!t.port)
		t.port = 80;
	/* The head in its new form, with what came behind it. */
	consume(c, h->len);
	memcpy(g->scratch, f->buf + f->off, rest);
	f->off = f->ready = f->len = 0;
	flow_append(f, head, (size_t)n);
	flow_append(f, g->scratch, rest);
	f->ready = (uint32_t)n;
	c->absolute = c->last_request = true;
	c->inspected = true;
	c->filter = FILTER_ONE_BODY;
	http_body_start(&c->body, h->body, h->body_len);
	if (!inspect_run(g, c))
		return false;
	open_target(g, c, &t);
	return c->state != CONN_DEAD && c->state != CONN_REFUSING;
}

static bool run_http(struct gateway *g, struct conn *c, const char *p, size_t len)
{
	struct http_head h;

	switch (http_head_parse(p, len, &c->scanned, &h)) {
	case HTTP_MORE:
		return true;
	case HTTP_HEAD:
		break;
	default:
		conn_deny_reason(g, c, VERDICT_NOT_HTTP, NULL);
		return false;
	}
	if (h.form == HTTP_ABSOLUTE)
		return open_absolute(g, c, p, &h);
	if (h.form != HTTP_AUTHORITY) { /* a browser that was pointed at the proxy port itself */
		conn_deny_reason(g, c, VERDICT_UNSUPPORTED, NULL);
		return false;
	}
	consume(c, h.len);
	open_target(g, c, &h.host);
	return c->state != CONN_DEAD && c->state != CONN_REFUSING;
}

bool proxy_run(struct gateway *g, struct conn *c)
{
	struct flow *f = &c->flows[TO_SERVER];
	const char *p = f->buf + f->off;
	size_t len = f->len - f->off;

	if (!len)
		return true;
	switch (c->handshake) {
	case HANDSHAKE_FIRST:
		c->via = *p == SOCKS_VERSION ? EGRESS_VIA_SOCKS : EGRESS_VIA_PROXY;
		c->handshake = *p == SOCKS_VERSION ? HANDSHAKE_SOCKS_GREETING : HANDSHAKE_HTTP;
		return proxy_run(g, c);
	case HANDSHAKE_SOCKS_GREETING:
		return run_greeting(g, c, (const uint8_t *)p, len);
	case HANDSHAKE_SOCKS_REQUEST:
		return run_request(g, c, (const uint8_t *)p, len);
	default:
		return run_http(g, c, p, len);
	}
}
