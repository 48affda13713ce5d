/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A connection when it is there: what goes over it, what is refused, its end. The way to that: connect.c. */
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "egress/state.h"

#include "base/banned.h"

#define HANDSHAKE_MAX (HTTP_HEAD_MAX + 512)

const char *conn_name(const struct conn *c)
{
	return c->host ? c->host->name : c->name ? c->name : "";
}

/* --- reports --- */

void conn_report(struct gateway *g, struct conn *c, enum egress_outcome outcome, const struct verdict *v, const char *seen,
		 int errnum)
{
	struct egress_report r = {.type = EGRESS_CONNECT,
				  .id = c->id,
				  .count = 1,
				  .rule = v->rule,
				  .errnum = errnum,
				  .port = c->port,
				  .client_port = c->client_port,
				  .outcome = (uint8_t)outcome,
				  .reason = (uint8_t)v->reason,
				  .via = (uint8_t)c->via,
				  .protocol = IPPROTO_TCP,
				  .addr = c->addr};

	memcpy(r.name, conn_name(c), strlen(conn_name(c)) + 1);
	if (seen)
		memcpy(r.seen, seen, strnlen(seen, sizeof(r.seen) - 1));
	if (outcome == EGRESS_ALLOWED)
		reporter_send(&g->reporter, &r);
	else
		reporter_send_merged(&g->reporter, &r, g->now_ms);
}

static void report_close(struct gateway *g, const struct conn *c, enum egress_end end)
{
	struct egress_report r = {.type = EGRESS_CLOSE,
				  .id = c->id,
				  .rule = -1,
				  .port = c->port,
				  .via = (uint8_t)c->via,
				  .protocol = IPPROTO_TCP,
				  .end = (uint8_t)end,
				  .addr = c->addr,
				  .to_server_bytes = c->flows[TO_SERVER].bytes,
				  .to_client_bytes = c->flows[TO_CLIENT].bytes,
				  .duration_ms = g->now_ms - c->started_ms};

	memcpy(r.name, conn_name(c), strlen(conn_name(c)) + 1);
	reporter_send(&g->reporter, &r);
}

/* --- the end --- */

static void reset(int fd)
{
	struct linger now = {.l_onoff = 1, .l_linger = 0};

	setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
}

void conn_stop_waiting(struct conn *c)
{
	if (!c->waiter.host)
		return;
	TAILQ_REMOVE(&c->waiter.host->waiters, &c->waiter, entry);
	c->waiter.host = NULL;
}

static void close_server(struct conn *c, bool with_reset)
{
	for (int i = 0; i < ATTEMPTS; i++) {
		if (with_reset && c->attempts[i].source.fd >= 0)
			reset(c->attempts[i].source.fd);
		source_close(&c->attempts[i].source);
	}
}

static void stop_timers(struct gateway *g, struct conn *c)
{
	timer_stop(g, &c->connect_timer);
	timer_stop(g, &c->stage_timer);
	timer_stop(g, &c->request_timer);
}

/* Frees what it holds; the object itself stays until the events at hand are done with. */
void conn_bury(struct gateway *g, struct conn *c, bool reset_client, bool reset_server)
{
	if (c->state == CONN_DEAD)
		return;
	c->state = CONN_DEAD;
	conn_stop_waiting(c);
	stop_timers(g, c);
	close_server(c, reset_server);
	if (reset_client && c->client.fd >= 0)
		reset(c->client.fd);
	source_close(&c->client);
	flow_free(g, &c->flows[TO_SERVER]);
	flow_free(g, &c->flows[TO_CLIENT]);
	if (c->h2) {
		h2_free(c->h2);
		free(c->h2);
		c->h2 = NULL;
		g->n_h2--;
	}
	if (c->queued)
		TAILQ_REMOVE(&g->ready, c, ready_entry);
	c->queued = false;
	TAILQ_REMOVE(&g->conns, c, entry);
	TAILQ_INSERT_TAIL(&g->dead, c, entry);
	g->n_conns--;
}

void conn_end(struct gateway *g, struct conn *c, enum egress_end end, bool reset_client, bool reset_server)
{
	if (c->state == CONN_DEAD)
		return;
	/* Its fate was decided and it was on its way: that is an attempt, and it is in the log. */
	if (!c->opened && (c->state == CONN_RESOLVING || c->state == CONN_OPENING)) {
		conn_report(g, c, EGRESS_ALLOWED, &c->verdict, NULL, 0);
		c->opened = true;
	}
	if (c->opened)
		report_close(g, c, end);
	conn_bury(g, c, reset_client, reset_server);
}

/* It goes on only to say what is already said: its end is in the log. */
static void close_early(struct gateway *g, struct conn *c, enum egress_end end)
{
	if (c->opened)
		report_close(g, c, end);
	c->opened = false;
}

void conn_limit(struct gateway *g, struct conn *c)
{
	if (c->state == CONN_REFUSING || c->state == CONN_DRAINING)
		return;
	if (c->state != CONN_RELAY) {
		conn_end(g, c, EGRESS_END_LIMIT, true, true);
		return;
	}
	close_early(g, c, EGRESS_END_LIMIT);
	stop_timers(g, c);
	c->state = CONN_DRAINING;
	c->drain_until_ms = g->now_ms + LINGER_MS;
	conn_turn(g, c);
}

bool conn_is_done(const struct conn *c)
{
	const struct flow *f = &c->flows[TO_SERVER];
	char byte;
	ssize_t n;

	if (c->state == CONN_RELAY)
		return f->eof && f->shut;
	if (c->state != CONN_RESOLVING && c->state != CONN_OPENING)
		return true;
	if (f->off < f->len)
		return false;
	n = recv(c->client.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
	return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
}

void conn_stop(struct gateway *g, struct conn *c)
{
	const struct flow *f = &c->flows[TO_SERVER];
	bool all_sent = f->eof && f->shut;

	conn_end(g, c, all_sent ? EGRESS_END_CLOSED : EGRESS_END_CLIENT_RESET, true, !all_sent);
}

void conn_free(struct gateway *g, struct conn *c)
{
	TAILQ_REMOVE(&g->dead, c, entry);
	free(c);
}

/*
 * Writes what there is to say, ends our side, and waits a little for the client to have read it: a close with bytes
 * unread would be a reset, which takes the answer back (RFC 9112 9.6).
 */
static void linger(struct gateway *g, struct conn *c)
{
	conn_stop_waiting(c);
	stop_timers(g, c);
	close_server(c, true);
	flow_free(g, &c->flows[TO_SERVER]);
	c->state = CONN_REFUSING;
	c->filter = FILTER_DROP;
	c->flows[TO_CLIENT].eof = true;
	timer_arm(g, &c->request_timer, TIMER_LINGER, c);
	conn_turn(g, c);
}

void conn_deny(struct gateway *g, struct conn *c, struct verdict v, const char *seen)
{
	conn_report(g, c, EGRESS_DENIED, &v, seen, 0);
	if (answer_no(g, c, &v, 0)) {
		close_early(g, c, EGRESS_END_DENIED);
		linger(g, c);
	} else if (c->opened) {
		conn_end(g, c, EGRESS_END_DENIED, true, true);
	} else {
		conn_bury(g, c, true, true);
	}
}

void conn_deny_reason(struct gateway *g, struct conn *c, enum verdict_reason reason, const char *seen)
{
	struct verdict v = {.allowed = false, .reason = reason, .rule = -1};

	conn_deny(g, c, v, seen);
}

/* Allowed, and not reached. */
void conn_unreached(struct gateway *g, struct conn *c, int errnum)
{
	conn_report(g, c, EGRESS_UNREACHED, &c->verdict, NULL, errnum);
	if (answer_no(g, c, NULL, errnum))
		linger(g, c);
	else
		conn_bury(g, c, true, true);
}

/* --- relaying --- */

static void queue(struct gateway *g, struct conn *c)
{
	if (c->queued)
		return;
	c->queued = true;
	TAILQ_INSERT_TAIL(&g->ready, c, ready_entry);
}

/* Return: false where the connection ended. */
bool conn_take_result(struct gateway *g, struct conn *c, int direction, enum pump_result result)
{
	bool to_server = direction == TO_SERVER;

	switch (result) {
	case PUMP_MORE:
		queue(g, c);
		return true;
	case PUMP_SOURCE_RESET:
	case PUMP_SINK_RESET:
		/* whichever side failed is gone; the other gets what it would have got: a reset */
		conn_end(g, c, to_server == (result == PUMP_SOURCE_RESET) ? EGRESS_END_CLIENT_RESET : EGRESS_END_SERVER_RESET, true,
			 true);
		return false;
	case PUMP_LIMIT:
		g->bytes_used_up = true;
		return true;
	case PUMP_ENDED:
		return false;
	default:
		return true;
	}
}

/* A client that ends within a head or a hello leaves bytes that can never be judged. */
static bool end_of_client(struct gateway *g, struct conn *c)
{
	struct flow *f = &c->flows[TO_SERVER];

	if (!f->eof || c->filter == FILTER_NONE || c->filter == FILTER_DROP || c->filter == FILTER_UPGRADE || f->ready == f->len)
		return true;
	conn_deny_reason(g, c, c->filter == FILTER_TLS ? VERDICT_NOT_TLS : VERDICT_NOT_HTTP, NULL);
	return false;
}

static void relay(struct gateway *g, struct conn *c)
{
	enum pump_result to_server, to_client;
	enum filter before;

	to_server = relay_pump(g, c, TO_SERVER);
	if (!conn_take_result(g, c, TO_SERVER, to_server) || !end_of_client(g, c))
		return;
	before = c->filter;
	to_client = relay_pump(g, c, TO_CLIENT);
	if (!conn_take_result(g, c, TO_CLIENT, to_client))
		return;
	if (before == FILTER_UPGRADE && c->filter != FILTER_UPGRADE) {
		/* The answer let the client's direction go on. */
		if (!inspect_run(g, c))
			return;
		to_server = relay_pump(g, c, TO_SERVER);
		if (!conn_take_result(g, c, TO_SERVER, to_server) || !end_of_client(g, c))
			return;
	}
	/* A server that does not close as it was told, and a client that goes on: it asks again on a connection of its own. */
	if (c->next_request && answer_is_due(c)) {
		conn_end(g, c, EGRESS_END_CLOSED, false, false);
		return;
	}
	/* With a last request the server's end is the end of all. */
	if (to_client == PUMP_DONE && (to_server == PUMP_DONE || c->last_request))
		conn_end(g, c, EGRESS_END_CLOSED, false, false);
}

void conn_maybe_relay(struct gateway *g, struct conn *c)
{
	if (c->state != CONN_OPENING || c->server < 0 || !c->inspected)
		return;
	conn_report(g, c, EGRESS_ALLOWED, &c->verdict, NULL, 0);
	c->opened = true;
	c->state = CONN_RELAY;
	relay(g, c);
}

/* --- events --- */

static void note(struct conn *c, const struct attempt *a, uint32_t events)
{
	struct flow *from = &c->flows[a ? TO_CLIENT : TO_SERVER], *to = &c->flows[a ? TO_SERVER : TO_CLIENT];

	if (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR))
		from->readable = true;
	if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
		from->hangup = true;
	if (events & (EPOLLOUT | EPOLLHUP | EPOLLERR))
		to->writable = true;
}

static int pending_error(int fd)
{
	int error = 0;
	socklen_t len = sizeof(error);

	return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0 ? errno : error;
}

static void attempt_event(struct gateway *g, struct conn *c, struct attempt *a, uint32_t events)
{
	int error = events & (EPOLLERR | EPOLLHUP) ? pending_error(a->source.fd) : 0;

	if (!error && !(events & EPOLLOUT))
		return;
	if (!error) {
		note(c, a, events);
		conn_connected(g, c, a);
		return;
	}
	source_close(&a->source);
	c->last_errno = error;
	conn_connect_next(g, c);
}

/* Bytes that must be judged before anything is relayed. */
static void before_relay(struct gateway *g, struct conn *c)
{
	uint32_t cap = c->state == CONN_HANDSHAKE ? HANDSHAKE_MAX : HTTP_HEAD_MAX;
	enum pump_result result;

	/* With no filter nothing is read: the kernel keeps it until the server is there. */
	if (c->state != CONN_HANDSHAKE && (c->inspected || c->filter == FILTER_NONE))
		return;
	result = relay_fill(g, c, cap);
	if (result == PUMP_LIMIT && relay_is_crowded(&c->flows[TO_SERVER])) {
		conn_deny_reason(g, c, VERDICT_CONNECTIONS, NULL);
		return;
	}
	if (result == PUMP_LIMIT || result == PUMP_SOURCE_RESET) {
		conn_take_result(g, c, TO_SERVER, result);
		return;
	}
	if (c->state == CONN_HANDSHAKE) {
		if (!proxy_run(g, c))
			return;
		if (c->state == CONN_HANDSHAKE && result == PUMP_DONE) {
			conn_bury(g, c, false, false);
			return;
		}
	}
	if (c->state == CONN_HANDSHAKE || c->state == CONN_DEAD || !inspect_run(g, c) || !end_of_client(g, c))
		return;
	if (c->flows[TO_SERVER].eof && c->flows[TO_SERVER].off == c->flows[TO_SERVER].len)
		c->inspected = true; /* it said nothing and never will */
	conn_maybe_relay(g, c);
}

/* The refusal goes out, the client's bytes go nowhere. */
static void refusing(struct gateway *g, struct conn *c)
{
	struct flow *f = &c->flows[TO_SERVER];

	if (relay_flush(c, TO_CLIENT) == PUMP_SINK_RESET) {
		conn_bury(g, c, true, true);
		return;
	}
	if (c->flows[TO_CLIENT].off == c->flows[TO_CLIENT].len && !c->flows[TO_CLIENT].shut) {
		c->flows[TO_CLIENT].shut = true;
		shutdown(c->client.fd, SHUT_WR);
	}
	for (int i = 0; i < 16; i++) {
		ssize_t n = recv(c->client.fd, g->scratch, SCRATCH, MSG_DONTWAIT);

		if (n < 0 && errno == EAGAIN) {
			f->readable = false;
			return;
		}
		if (n <= 0 && errno != EINTR) {
			conn_bury(g, c, false, true);
			return;
		}
	}
	queue(g, c);
}

/*
 * What max-bytes counted goes out, and then a reset says that it is not all. A side that ended before is told so as ever.
 */
static void draining(struct gateway *g, struct conn *c)
{
	bool pending = false;

	for (int i = 0; i < 2; i++) {
		struct flow *f = &c->flows[i];
		enum pump_result result;

		f->readable = false;
		if (i == TO_SERVER && c->filter != FILTER_NONE)
			f->len = f->ready; /* what was not judged stays here */
		result = relay_pump(g, c, i);
		if (result == PUMP_SINK_RESET) {
			conn_bury(g, c, true, true);
			return;
		}
		pending |= f->off < f->ready || f->piped || !relay_is_sent(conn_fd(c, i, false));
	}
	if (!pending || g->now_ms >= c->drain_until_ms)
		conn_bury(g, c, !c->flows[TO_CLIENT].shut, !c->flows[TO_SERVER].shut);
	else
		timer_arm(g, &c->request_timer, TIMER_DRAIN, c);
}

void conn_turn(struct gateway *g, struct conn *c)
{
	if (c->state == CONN_RELAY)
		relay(g, c);
	else if (c->state == CONN_REFUSING)
		refusing(g, c);
	else if (c->state == CONN_DRAINING)
		draining(g, c);
	else if (c->state != CONN_DEAD)
		before_relay(g, c);
}

void conn_event(struct gateway *g, struct conn *c, struct attempt *a, uint32_t events)
{
	int fd = a ? a->source.fd : c->client.fd;

	if (c->state == CONN_DEAD || fd < 0)
		return;
	if (a && c->server < 0) {
		attempt_event(g, c, a, events);
		return;
	}
	note(c, a, events);
	/* A side that is no longer read, or that waits for the other, does not notice its own reset by reading. */
	if (events & EPOLLERR && c->state != CONN_REFUSING && c->state != CONN_DRAINING) {
		struct flow *from = &c->flows[a ? TO_CLIENT : TO_SERVER];

		if ((from->eof || from->off < from->len || from->piped || c->state != CONN_RELAY) && pending_error(fd)) {
			conn_end(g, c, a ? EGRESS_END_SERVER_RESET : EGRESS_END_CLIENT_RESET, true, true);
			if (c->state != CONN_DEAD)
				conn_bury(g, c, true, true);
			return;
		}
	}
	if (a && c->state == CONN_OPENING)
		return; /* the server's bytes wait until the client's are judged */
	conn_turn(g, c);
}

void conn_timer(struct gateway *g, struct conn *c, enum timer_kind kind)
{
	switch (kind) {
	case TIMER_STAGE:
		conn_connect_next(g, c);
		break;
	case TIMER_CONNECT:
		conn_unreached(g, c, ETIMEDOUT);
		break;
	case TIMER_REQUEST:
		if (c->state == CONN_HANDSHAKE)
			conn_bury(g, c, false, false);
		else
			conn_deny_reason(g, c, c->filter == FILTER_TLS ? VERDICT_NOT_TLS : VERDICT_NOT_HTTP, NULL);
		break;
	case TIMER_DRAIN:
		draining(g, c);
		break;
	default:
		conn_bury(g, c, true, true);
		break;
	}
}
