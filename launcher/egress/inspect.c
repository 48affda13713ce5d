/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The name in the stream must be the one that the connection is for: the server name of the TLS hello on 443, the Host
 * of every request on 80. Servers that hold many sites would else carry any of them (domain fronting). On other ports
 * the server may speak first, so nothing is waited for there.
 */
#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "egress/state.h"
#include "egress/tls.h"

#include "base/banned.h"

/* A bare address that `*` allowed is inspected where deny rules for names would else be passed by. */
static bool wants_inspection(const struct gateway *g, const struct conn *c)
{
	if (!g->cfg->inspect)
		return false;
	if (c->host)
		return c->host != g->names.this_host; /* one machine, no other sites on it */
	return g->inspect_bare && !policy_is_address_rule(g->policy, c->verdict.rule);
}

void inspect_start(struct gateway *g, struct conn *c)
{
	if (c->absolute)
		return;
	c->filter = FILTER_NONE;
	if (wants_inspection(g, c)) {
		if (c->port == 443)
			c->filter = FILTER_TLS;
		else if (c->port == 80)
			c->filter = FILTER_HTTP;
	}
	c->scanned = 0;
	c->inspected = c->filter == FILTER_NONE;
	if (c->inspected)
		c->flows[TO_SERVER].ready = c->flows[TO_SERVER].len;
	else
		timer_arm(g, &c->request_timer, TIMER_REQUEST, c);
}

/* In real mode an address may stand for several names; the stream says which. */
static bool fits_real(struct gateway *g, struct conn *c, const char *name)
{
	int cursor = -1;

	for (struct host *h = names_find_real(&g->names, &c->addr, &cursor); h; h = names_find_real(&g->names, &c->addr, &cursor)) {
		struct policy_request q = {.name = h->name, .addr = &c->addr, .port = c->port};
		struct verdict v;

		if (!str_eq(h->name, name))
			continue;
		v = policy_decide(g->policy, &q);
		if (!v.allowed)
			return false;
		c->host = h;
		c->verdict = v;
		return true;
	}
	return false;
}

/*
 * May the stream be for it? The name that the connection is for, or with a bare address any that no rule denies; an
 * address only where the connection is for a bare one. *denied: the deny rule's verdict, where that is why.
 */
static bool fits(struct gateway *g, struct conn *c, const struct target *t, struct verdict *denied)
{
	*denied = (struct verdict){.allowed = true};
	if (!t->name[0])
		return !c->host;
	*denied = policy_denied_name(g->policy, t->name, c->port);
	if (!denied->allowed)
		return false;
	return !c->host || str_eq(c->host->name, t->name) || (c->real && !c->opened && fits_real(g, c, t->name));
}

/* Return: false where it was denied. */
static bool check_target(struct gateway *g, struct conn *c, const struct target *t)
{
	char text[ADDRESS_TEXT_MAX];
	const char *seen = t->name[0] ? t->name : address_text(&t->addr, text);
	struct verdict denied;

	if (fits(g, c, t, &denied))
		return true;
	if (denied.allowed)
		conn_deny_reason(g, c, VERDICT_NAME_MISMATCH, seen);
	else
		conn_deny(g, c, denied, seen);
	return false;
}

static void passed(struct gateway *g, struct conn *c)
{
	c->inspected = true;
	timer_stop(g, &c->request_timer);
}

static bool run_tls(struct gateway *g, struct conn *c)
{
	struct flow *f = &c->flows[TO_SERVER];
	struct target t = {.port = 0};

	switch (tls_hello_name((const uint8_t *)f->buf + f->ready, f->len - f->ready, t.name)) {
	case TLS_MORE:
		return true;
	case TLS_FOUND:
		if (!check_target(g, c, &t))
			return false;
		break;
	case TLS_NONE: /* clients name no address */
		if (!c->host)
			break;
		conn_deny_reason(g, c, VERDICT_NO_SNI, NULL);
		return false;
	default:
		conn_deny_reason(g, c, VERDICT_NOT_TLS, NULL);
		return false;
	}
	f->ready = f->len;
	c->filter = FILTER_NONE;
	passed(g, c);
	return true;
}

/*
 * After a change of protocol the requests could not be told apart any more. So it is followed only where its answer can
 * be seen for certain: on the first request, which has no body, before the server has said a word; and to WebSocket alone,
 * as other protocols (h2c, TLS of RFC 2817) may name hosts of their own. Elsewhere the server is not asked for it.
 */
static void take_upgrade(struct conn *c, const struct http_head *h)
{
	struct flow *f = &c->flows[TO_SERVER];

	c->upgrade_pending = h->websocket && c->requests == 1 && h->body == HTTP_BODY_NONE && !c->flows[TO_CLIENT].bytes;
	if (h->upgrade && !c->upgrade_pending)
		http_head_hide_upgrade(f->buf + f->ready, h);
	c->watch = (struct http_watch){0};
}

/*
 * A server that leaves a body unread takes it for the next request, and whose that is was not judged. So the server is
 * told to close after its answer, and the client's next request is not passed. The head becomes longer.
 */
static bool take_last(struct gateway *g, struct conn *c, const struct http_head *h)
{
	struct flow *f = &c->flows[TO_SERVER];
	char head[HTTP_HEAD_MAX + 512];
	int64_t n = http_head_for_origin(f->buf + f->ready, h, head, sizeof(head));
	size_t rest = f->len - f->ready - h->len;

	if (n < 0) {
		conn_deny_reason(g, c, VERDICT_NOT_HTTP, NULL);
		return false;
	}
	memcpy(g->scratch, f->buf + f->ready + h->len, rest);
	f->len = f->ready;
	flow_append(f, head, (size_t)n);
	f->ready = f->len;
	flow_append(f, g->scratch, rest);
	f->ready -= (uint32_t)rest;
	c->last_request = true;
	c->filter = FILTER_ONE_BODY;
	return true;
}

static bool take_head(struct gateway *g, struct conn *c, const struct http_head *h)
{
	if (h->form == HTTP_AUTHORITY || h->secure || (c->host && !h->has_host && h->form != HTTP_ABSOLUTE)) {
		conn_deny_reason(g, c, VERDICT_NOT_HTTP, NULL);
		return false;
	}
	if (!check_target(g, c, &h->host))
		return false;
	c->pipelined |= c->requests && c->flows[TO_CLIENT].bytes == c->answers_from;
	c->answers_from = c->flows[TO_CLIENT].bytes;
	c->requests++;
	c->scanned = 0;
	http_body_start(&c->body, h->body, h->body_len);
	if (h->body != HTTP_BODY_NONE) {
		if (!take_last(g, c, h))
			return false;
	} else {
		take_upgrade(c, h);
		c->flows[TO_SERVER].ready += (uint32_t)h->len;
		c->filter = FILTER_BODY;
	}
	passed(g, c);
	return true;
}

/* HTTP/2 from the first byte on. The server's settings may be waited for, so what is not a request passes. */
static bool start_h2(struct gateway *g, struct conn *c)
{
	if (g->n_h2 == H2_CONNECTIONS_MAX)
		return false;
	g->n_h2++;
	c->h2 = mem_alloc(sizeof(*c->h2));
	h2_init(c->h2);
	c->flows[TO_SERVER].ready += HTTP_H2_PREFACE_LEN;
	c->filter = FILTER_H2;
	passed(g, c);
	return true;
}

struct h2_asker {
	struct gateway *g;
	struct conn *c;
	struct target refused;
};

/* Only looks: a denial frees what h2_feed is reading. */
static bool check_authority(void *arg, const struct target *authority)
{
	struct h2_asker *a = arg;
	struct verdict denied;

	a->refused = *authority;
	return fits(a->g, a->c, authority, &denied);
}

/* As run_head. */
static int run_h2(struct gateway *g, struct conn *c)
{
	struct flow *f = &c->flows[TO_SERVER];
	struct h2_asker asker = {.g = g, .c = c};
	int64_t n = h2_feed(c->h2, (const uint8_t *)f->buf + f->ready, f->len - f->ready, check_authority, &asker);

	if (n >= 0) {
		f->ready += (uint32_t)n;
		return 0;
	}
	if (n == -EACCES)
		check_target(g, c, &asker.refused);
	else
		conn_deny_reason(g, c, VERDICT_NOT_HTTP, NULL);
	return -1;
}

/* Return: 1 to go on, 0 to wait for bytes, -1 where it was denied. */
static int run_head(struct gateway *g, struct conn *c)
{
	struct flow *f = &c->flows[TO_SERVER];
	struct http_head h;

	if (f->ready == f->len)
		return 0;
	switch (http_head_parse(f->buf + f->ready, f->len - f->ready, &c->scanned, &h)) {
	case HTTP_MORE:
		return 0;
	case HTTP_HEAD:
		return take_head(g, c, &h) ? 1 : -1;
	case HTTP_H2:
		if (!c->requests && start_h2(g, c))
			return 1;
		/* fall through */
	default:
		conn_deny_reason(g, c, VERDICT_NOT_HTTP, NULL);
		return -1;
	}
}

/* As run_head. */
static int run_body(struct gateway *g, struct conn *c)
{
	struct flow *f = &c->flows[TO_SERVER];
	int64_t n = http_body_feed(&c->body, f->buf + f->ready, f->len - f->ready);

	if (n < 0) {
		conn_deny_reason(g, c, VERDICT_NOT_HTTP, NULL);
		return -1;
	}
	f->ready += (uint32_t)n;
	if (!c->body.done)
		return 0;
	if (c->filter == FILTER_ONE_BODY) {
		c->filter = FILTER_DROP;
		if (f->len > f->ready)
			conn_dropped(c);
		f->len = f->ready;
		return 0;
	}
	c->filter = c->upgrade_pending ? FILTER_UPGRADE : FILTER_HTTP;
	return 1;
}

bool inspect_run(struct gateway *g, struct conn *c)
{
	int rc = 1;

	while (rc > 0) {
		switch (c->filter) {
		case FILTER_TLS:
			return run_tls(g, c);
		case FILTER_HTTP:
			rc = run_head(g, c);
			break;
		case FILTER_BODY:
		case FILTER_ONE_BODY:
			rc = run_body(g, c);
			break;
		case FILTER_H2:
			rc = run_h2(g, c);
			break;
		default:
			return true;
		}
	}
	return rc == 0;
}

void inspect_answer(struct conn *c, const char *bytes, size_t len)
{
	struct flow *f = &c->flows[TO_SERVER];

	switch (http_watch_feed(&c->watch, bytes, len)) {
	case HTTP_WATCH_SWITCHED:
		c->filter = FILTER_NONE;
		f->ready = f->len;
		break;
	case HTTP_WATCH_STAYS:
		c->filter = FILTER_HTTP;
		break;
	default:
		break;
	}
}
