/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A connection from its accept to its end: whom it is for, whether it may, and the way there. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"
#include "egress/state.h"

#include "base/banned.h"

#define ACCEPTS_A_TURN 64
#define REFUSED_MAX 64 /* connections over max-connections, while they are told so */
#define EVENTS (EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET)
#define HANDSHAKE_MAX (HTTP_HEAD_MAX + 512)
/* SO_ORIGINAL_DST and IP6T_SO_ORIGINAL_DST: the headers that have them do not compile beside netinet/in.h. */
#define ORIGINAL_DST 80

const char *conn_name(const struct conn *c)
{
	return c->host ? c->host->name : c->name ? c->name : "";
}

/* --- reports --- */

static void report(struct gateway *g, struct conn *c, enum egress_outcome outcome, const struct verdict *v, const char *seen,
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

static void stop_waiting(struct conn *c)
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
static void bury(struct gateway *g, struct conn *c, bool reset_client, bool reset_server)
{
	if (c->state == CONN_DEAD)
		return;
	c->state = CONN_DEAD;
	stop_waiting(c);
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
		report(g, c, EGRESS_ALLOWED, &c->verdict, NULL, 0);
		c->opened = true;
	}
	if (c->opened)
		report_close(g, c, end);
	bury(g, c, reset_client, reset_server);
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
	stop_waiting(c);
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
	report(g, c, EGRESS_DENIED, &v, seen, 0);
	if (answer_no(g, c, &v, 0)) {
		close_early(g, c, EGRESS_END_DENIED);
		linger(g, c);
	} else if (c->opened) {
		conn_end(g, c, EGRESS_END_DENIED, true, true);
	} else {
		bury(g, c, true, true);
	}
}

void conn_deny_reason(struct gateway *g, struct conn *c, enum verdict_reason reason, const char *seen)
{
	struct verdict v = {.allowed = false, .reason = reason, .rule = -1};

	conn_deny(g, c, v, seen);
}

/* Allowed, and not reached. */
static void unreached(struct gateway *g, struct conn *c, int errnum)
{
	report(g, c, EGRESS_UNREACHED, &c->verdict, NULL, errnum);
	if (answer_no(g, c, NULL, errnum))
		linger(g, c);
	else
		bury(g, c, true, true);
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
static bool take_result(struct gateway *g, struct conn *c, int direction, enum pump_result result)
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
	if (!take_result(g, c, TO_SERVER, to_server) || !end_of_client(g, c))
		return;
	before = c->filter;
	to_client = relay_pump(g, c, TO_CLIENT);
	if (!take_result(g, c, TO_CLIENT, to_client))
		return;
	if (before == FILTER_UPGRADE && c->filter != FILTER_UPGRADE) {
		/* The answer let the client's direction go on. */
		if (!inspect_run(g, c))
			return;
		to_server = relay_pump(g, c, TO_SERVER);
		if (!take_result(g, c, TO_SERVER, to_server) || !end_of_client(g, c))
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

static void maybe_relay(struct gateway *g, struct conn *c)
{
	if (c->state != CONN_OPENING || c->server < 0 || !c->inspected)
		return;
	report(g, c, EGRESS_ALLOWED, &c->verdict, NULL, 0);
	c->opened = true;
	c->state = CONN_RELAY;
	relay(g, c);
}

/* --- connecting --- */

static void connected(struct gateway *g, struct conn *c, struct attempt *a)
{
	int one = 1;

	c->server = (int)(a - c->attempts);
	for (int i = 0; i < ATTEMPTS; i++)
		if (i != c->server)
			source_close(&c->attempts[i].source);
	timer_stop(g, &c->connect_timer);
	timer_stop(g, &c->stage_timer);
	setsockopt(a->source.fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(a->source.fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
	c->addr = a->addr;
	c->flows[TO_SERVER].writable = true;
	if (c->via != EGRESS_VIA_GATEWAY && !c->absolute) {
		answer_yes(c);
		if (!take_result(g, c, TO_CLIENT, relay_flush(c, TO_CLIENT)))
			return;
	}
	maybe_relay(g, c);
}

static struct attempt *free_attempt(struct conn *c)
{
	for (int i = 0; i < ATTEMPTS; i++)
		if (c->attempts[i].source.fd < 0)
			return &c->attempts[i];
	return NULL;
}

static bool any_attempt(const struct conn *c)
{
	for (int i = 0; i < ATTEMPTS; i++)
		if (c->attempts[i].source.fd >= 0)
			return true;
	return false;
}

/* Where nothing is lost nothing is to be paced: see CONGESTION_CONTROL, box/netns.c. Elsewhere the host's choice holds. */
static void tune(const struct attempt *a)
{
	const char *special = address_special(&a->addr);

	if (special && str_eq(special, "loopback"))
		setsockopt(a->source.fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
}

/*
 * Starts with the next address. The sockaddr that connect(2) gets is made from the very address that the policy judged,
 * so a name that resolves to something else a moment later changes nothing. Return: 1 connected, 0 on its way, or
 * -errno.
 */
static int attempt_start(struct gateway *g, struct conn *c, struct attempt *a)
{
	struct sockaddr_storage sa;
	socklen_t len;
	int rc;

	a->addr = c->candidates[c->next_candidate++];
	a->conn = c;
	len = address_to_sockaddr(&a->addr, c->port, &sa);
	a->source.fd = socket(a->addr.family == 4 ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP);
	if (a->source.fd < 0)
		return -errno;
	tune(a);
	rc = connect(a->source.fd, (struct sockaddr *)&sa, len);
	if (rc < 0 && errno != EINPROGRESS)
		return -errno;
	if (source_watch(g, &a->source, EVENTS) < 0)
		return -errno;
	return rc == 0;
}

static void connect_next(struct gateway *g, struct conn *c)
{
	while (c->next_candidate < c->n_candidates) {
		struct attempt *a = free_attempt(c);
		int rc;

		if (!a)
			return;
		rc = attempt_start(g, c, a);
		if (rc == 1) {
			connected(g, c, a);
			return;
		}
		if (rc == 0) {
			timer_stop(g, &c->stage_timer);
			if (c->next_candidate < c->n_candidates)
				timer_arm(g, &c->stage_timer, TIMER_STAGE, c);
			return;
		}
		source_close(&a->source);
		c->last_errno = -rc;
	}
	if (!any_attempt(c))
		unreached(g, c, c->last_errno ? c->last_errno : EHOSTUNREACH);
}

static void open_candidates(struct gateway *g, struct conn *c)
{
	c->state = CONN_OPENING;
	connect_next(g, c);
}

/* Is there room for it? */
static bool admit(struct gateway *g, struct conn *c)
{
	if (g->bytes_used_up)
		conn_deny_reason(g, c, VERDICT_BYTES, NULL);
	else if (g->n_conns > g->max_conns)
		conn_deny_reason(g, c, VERDICT_CONNECTIONS, NULL);
	else
		return true;
	return false;
}

static void start(struct gateway *g, struct conn *c)
{
	c->state = CONN_RESOLVING;
	timer_arm(g, &c->connect_timer, TIMER_CONNECT, c);
	inspect_start(g, c);
}

/* The addresses of the name that the policy lets it have. */
void conn_resolved(struct gateway *g, struct conn *c)
{
	struct host *h = c->host;

	stop_waiting(c);
	c->closed = (struct verdict){.allowed = true};
	for (unsigned i = 0; i < h->n && c->n_candidates < CANDIDATES; i++) {
		struct policy_request q = {.name = h->name, .addr = &h->addrs[i], .port = c->port};
		struct verdict v = policy_decide(g->policy, &q);

		if (c->n_candidates && address_eq(&h->addrs[i], &c->candidates[0]))
			continue; /* of a real-mode client, in front already */
		if (v.allowed) {
			c->candidates[c->n_candidates++] = h->addrs[i];
		} else {
			c->closed = v;
			if (!c->n_candidates)
				c->addr = h->addrs[i];
		}
	}
	if (c->n_candidates)
		open_candidates(g, c);
	else if (!c->closed.allowed)
		conn_deny(g, c, c->closed, NULL);
	else
		unreached(g, c, h->error);
}

static void resolve(struct gateway *g, struct conn *c)
{
	if (resolver_ready(g, c->host)) {
		conn_resolved(g, c);
		return;
	}
	c->waiter = (struct waiter){.kind = WAITER_CONN, .host = c->host};
	TAILQ_INSERT_TAIL(&c->host->waiters, &c->waiter, entry);
}

void conn_open_name(struct gateway *g, struct conn *c, const char *name)
{
	struct policy_request q = {.name = name, .port = c->port};

	c->name = name;
	c->verdict = policy_decide(g->policy, &q);
	if (!c->verdict.allowed) {
		conn_deny(g, c, c->verdict, NULL);
		c->name = NULL;
		return;
	}
	if (admit(g, c)) {
		c->host = names_get(&g->names, name);
		if (c->host) {
			start(g, c);
			resolve(g, c);
		} else {
			gateway_error(g, ENOSPC, "too many names in one run");
			conn_deny_reason(g, c, VERDICT_NOT_RESOLVED, NULL);
		}
	}
	c->name = NULL;
}

/*
 * In real mode: the first name that the address was answered for and that may use the port. Return: false where there
 * is none.
 */
static bool open_real(struct gateway *g, struct conn *c, const struct address *addr)
{
	int cursor = -1;

	for (struct host *h = names_find_real(&g->names, addr, &cursor); h; h = names_find_real(&g->names, addr, &cursor)) {
		struct policy_request q = {.name = h->name, .addr = addr, .port = c->port};
		struct verdict v = policy_decide(g->policy, &q);

		if (!v.allowed)
			continue;
		c->addr = *addr;
		c->host = h;
		c->verdict = v;
		c->real = true;
		if (!admit(g, c))
			return true;
		c->candidates[c->n_candidates++] = *addr;
		start(g, c);
		conn_resolved(g, c); /* with the addresses that were answered, this one in front */
		return true;
	}
	return false;
}

static void open_bare(struct gateway *g, struct conn *c, const struct address *addr)
{
	struct policy_request q = {.addr = addr, .port = c->port};

	c->addr = *addr;
	c->verdict = policy_decide(g->policy, &q);
	if (!c->verdict.allowed) {
		conn_deny(g, c, c->verdict, NULL);
		return;
	}
	if (!admit(g, c))
		return;
	c->candidates[c->n_candidates++] = *addr;
	start(g, c);
	open_candidates(g, c);
}

void conn_open_address(struct gateway *g, struct conn *c, const struct address *addr)
{
	struct host *h;

	c->addr = *addr;
	if (names_find_synthetic(&g->names, addr, &h)) {
		if (h && (g->cfg->synthetic || h == g->names.this_host))
			conn_open_name(g, c, h->name);
		else
			conn_deny_reason(g, c, VERDICT_NOT_GIVEN, NULL);
	} else if (g->cfg->synthetic || !open_real(g, c, addr)) {
		open_bare(g, c, addr);
	}
}

/* --- accepting --- */

static struct conn *conn_new(struct gateway *g, int fd)
{
	struct conn *c = mem_zalloc(sizeof(*c));

	c->client = (struct source){SOURCE_CLIENT, fd};
	for (int i = 0; i < ATTEMPTS; i++)
		c->attempts[i].source = (struct source){SOURCE_SERVER, -1};
	for (int i = 0; i < 2; i++)
		c->flows[i].pipe.fd[0] = c->flows[i].pipe.fd[1] = -1;
	c->flows[TO_SERVER].readable = c->flows[TO_CLIENT].writable = true;
	c->server = -1;
	c->id = ++g->next_id;
	c->verdict.rule = -1;
	c->started_ms = g->now_ms;
	TAILQ_INSERT_TAIL(&g->conns, c, entry);
	g->n_conns++;
	return c;
}

/* Where the client wanted to go. */
static bool destination(const struct gateway *g, int fd, struct address *addr, uint16_t *port)
{
	struct sockaddr_storage sa = {0};
	socklen_t len = sizeof(sa);

	if (getsockname(fd, (struct sockaddr *)&sa, &len) < 0)
		return false;
	if (g->redirected) {
		bool v6 = sa.ss_family == AF_INET6;

		len = sizeof(sa);
		if (getsockopt(fd, v6 ? IPPROTO_IPV6 : IPPROTO_IP, ORIGINAL_DST, &sa, &len) < 0)
			return false;
	}
	return address_from_sockaddr((struct sockaddr *)&sa, addr, port);
}

static void open_captured(struct gateway *g, struct conn *c)
{
	struct address addr;
	const char *range;

	if (!destination(g, c->client.fd, &addr, &c->port)) {
		bury(g, c, true, false);
		return;
	}
	/* The box's own loopback is not captured: somebody has connected to the listener itself. */
	range = address_special(&addr);
	if (range && str_eq(range, "loopback")) {
		c->addr = addr;
		conn_deny_reason(g, c, VERDICT_NOT_GIVEN, NULL);
		return;
	}
	conn_open_address(g, c, &addr);
}

/*
 * Those that are refused linger, and whoever opens them faster than that has no more of it: descriptors and memory are
 * bounded. A captured one is named as far as the address says.
 */
static void turn_away(struct gateway *g, struct conn *c, bool captured)
{
	struct verdict v = {.reason = VERDICT_CONNECTIONS, .rule = -1};
	struct host *h;

	if (captured && destination(g, c->client.fd, &c->addr, &c->port) && names_find_synthetic(&g->names, &c->addr, &h) && h)
		c->name = h->name;
	report(g, c, EGRESS_DENIED, &v, NULL, 0);
	c->name = NULL;
	bury(g, c, true, true);
}

static void accepted(struct gateway *g, struct source *listener, int fd, const struct sockaddr_storage *peer)
{
	struct conn *c = conn_new(g, fd); /* TCP_NODELAY comes from the listener */
	struct address addr;

	if (!address_from_sockaddr((const struct sockaddr *)peer, &addr, &c->client_port))
		c->client_port = 0;
	if (listener->kind == SOURCE_PROXY)
		c->via = EGRESS_VIA_PROXY;
	if (g->n_conns > g->max_conns + REFUSED_MAX) {
		turn_away(g, c, listener->kind != SOURCE_PROXY);
		return;
	}
	if (source_watch(g, &c->client, EVENTS) < 0) {
		bury(g, c, true, false);
		return;
	}
	if (listener->kind == SOURCE_PROXY) {
		if (g->n_conns > g->max_conns) {
			conn_deny_reason(g, c, VERDICT_CONNECTIONS, NULL);
			return;
		}
		timer_arm(g, &c->request_timer, TIMER_REQUEST, c);
		return; /* the edge of its first bytes comes, be they there already or not */
	}
	open_captured(g, c);
}

void conn_accept(struct gateway *g, struct source *listener)
{
	for (int i = 0; i < ACCEPTS_A_TURN && gateway_may_accept(g); i++) {
		struct sockaddr_storage peer = {.ss_family = AF_UNSPEC};
		socklen_t peer_len = sizeof(peer);
		int fd = accept4(listener->fd, (struct sockaddr *)&peer, &peer_len, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd >= 0) {
			accepted(g, listener, fd, &peer);
			continue;
		}
		if (errno == EINTR || errno == ECONNABORTED)
			continue;
		if (errno == EAGAIN)
			return;
		gateway_error(g, errno, "a connection could not be accepted");
		gateway_hold(g);
		return;
	}
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
		connected(g, c, a);
		return;
	}
	source_close(&a->source);
	c->last_errno = error;
	connect_next(g, c);
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
		take_result(g, c, TO_SERVER, result);
		return;
	}
	if (c->state == CONN_HANDSHAKE) {
		if (!proxy_run(g, c))
			return;
		if (c->state == CONN_HANDSHAKE && result == PUMP_DONE) {
			bury(g, c, false, false);
			return;
		}
	}
	if (c->state == CONN_HANDSHAKE || c->state == CONN_DEAD || !inspect_run(g, c) || !end_of_client(g, c))
		return;
	if (c->flows[TO_SERVER].eof && c->flows[TO_SERVER].off == c->flows[TO_SERVER].len)
		c->inspected = true; /* it said nothing and never will */
	maybe_relay(g, c);
}

/* The refusal goes out, the client's bytes go nowhere. */
static void refusing(struct gateway *g, struct conn *c)
{
	struct flow *f = &c->flows[TO_SERVER];

	if (relay_flush(c, TO_CLIENT) == PUMP_SINK_RESET) {
		bury(g, c, true, true);
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
			bury(g, c, false, true);
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
			bury(g, c, true, true);
			return;
		}
		pending |= f->off < f->ready || f->piped || !relay_is_sent(conn_fd(c, i, false));
	}
	if (!pending || g->now_ms >= c->drain_until_ms)
		bury(g, c, !c->flows[TO_CLIENT].shut, !c->flows[TO_SERVER].shut);
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
				bury(g, c, true, true);
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
		connect_next(g, c);
		break;
	case TIMER_CONNECT:
		unreached(g, c, ETIMEDOUT);
		break;
	case TIMER_REQUEST:
		if (c->state == CONN_HANDSHAKE)
			bury(g, c, false, false);
		else
			conn_deny_reason(g, c, c->filter == FILTER_TLS ? VERDICT_NOT_TLS : VERDICT_NOT_HTTP, NULL);
		break;
	case TIMER_DRAIN:
		draining(g, c);
		break;
	default:
		bury(g, c, true, true);
		break;
	}
}
