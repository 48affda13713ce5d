/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A connection's way to its server: accepted, whom it is for, whether it may, resolving, connecting. */
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
/* SO_ORIGINAL_DST and IP6T_SO_ORIGINAL_DST: the headers that have them do not compile beside netinet/in.h. */
#define ORIGINAL_DST 80

/* --- connecting --- */

void conn_connected(struct gateway *g, struct conn *c, struct attempt *a)
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
		if (!conn_take_result(g, c, TO_CLIENT, relay_flush(c, TO_CLIENT)))
			return;
	}
	conn_maybe_relay(g, c);
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

void conn_connect_next(struct gateway *g, struct conn *c)
{
	while (c->next_candidate < c->n_candidates) {
		struct attempt *a = free_attempt(c);
		int rc;

		if (!a)
			return;
		rc = attempt_start(g, c, a);
		if (rc == 1) {
			conn_connected(g, c, a);
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
		conn_unreached(g, c, c->last_errno ? c->last_errno : EHOSTUNREACH);
}

static void open_candidates(struct gateway *g, struct conn *c)
{
	c->state = CONN_OPENING;
	conn_connect_next(g, c);
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

	conn_stop_waiting(c);
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
		conn_unreached(g, c, h->error);
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
		conn_bury(g, c, true, false);
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
	conn_report(g, c, EGRESS_DENIED, &v, NULL, 0);
	c->name = NULL;
	conn_bury(g, c, true, true);
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
		conn_bury(g, c, true, false);
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
