/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The box's name server, at any address, port 53. A name that no rule allows is NXDOMAIN and is never looked up; a name
 * that one allows is looked up before it is answered, so that a name without addresses fails as it should.
 */
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "egress/dns.h"
#include "egress/state.h"

#include "base/banned.h"

#define QUERIES_A_TURN 64
#define WAITS_MAX 512   /* questions that wait for the resolver */
#define CLIENTS_MAX 64  /* DNS over TCP */
#define TTL_SYNTHETIC_S 60
#define TTL_REAL_S 30
#define TTL_NONE_S 5

/* One connection of DNS over TCP (RFC 7766): one question at a time, the next when it is answered. */
struct dns_client {
	struct source source;
	TAILQ_ENTRY(dns_client) entry;
	struct timer timer;
	uint8_t buf[2 + DNS_QUERY_MAX];
	size_t len;
	uint8_t out[2 + DNS_TCP_MAX];
	size_t out_len, out_off;
	struct dns_wait *wait; /* the question that waits */
	bool dead, eof;
};

/* Where an answer goes. */
struct asker {
	struct source *udp;        /* NULL: over TCP */
	struct dns_client *client;
	struct sockaddr_storage peer;
	socklen_t peer_len;
	uint8_t local[16]; /* the address that was asked: the answer's source */
};

struct dns_wait {
	struct waiter waiter;
	struct asker asker;
	struct dns_query query;
	struct verdict verdict;
};

/* --- answers --- */

static void send_udp(const struct asker *o, const uint8_t *msg, size_t len)
{
	union {
		char buf[CMSG_SPACE(sizeof(struct in6_pktinfo))];
		struct cmsghdr align;
	} control;
	struct iovec iov = {.iov_base = (void *)msg, .iov_len = len};
	struct msghdr m = {.msg_name = (void *)&o->peer, .msg_namelen = o->peer_len, .msg_iov = &iov, .msg_iovlen = 1};
	bool v6 = o->peer.ss_family == AF_INET6;
	struct in_pktinfo info = {.ipi_ifindex = 0};
	struct in6_pktinfo info6 = {.ipi6_ifindex = 0};
	struct cmsghdr *c;

	memset(&control, 0, sizeof(control));
	memcpy(&info.ipi_spec_dst, o->local, 4);
	memcpy(&info6.ipi6_addr, o->local, 16);
	m.msg_control = control.buf;
	m.msg_controllen = v6 ? CMSG_SPACE(sizeof(info6)) : CMSG_SPACE(sizeof(info));
	c = CMSG_FIRSTHDR(&m);
	c->cmsg_level = v6 ? IPPROTO_IPV6 : IPPROTO_IP;
	c->cmsg_type = v6 ? IPV6_PKTINFO : IP_PKTINFO;
	c->cmsg_len = v6 ? CMSG_LEN(sizeof(info6)) : CMSG_LEN(sizeof(info));
	memcpy(CMSG_DATA(c), v6 ? (void *)&info6 : (void *)&info, v6 ? sizeof(info6) : sizeof(info));
	/* An answer that does not fit is lost, as on any network; the client asks again. */
	while (sendmsg(o->udp->fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 && errno == EINTR)
		;
}

static void client_write(struct gateway *g, struct dns_client *c);
static void client_pump(struct gateway *g, struct dns_client *c);

static void answer(struct gateway *g, const struct asker *o, const struct dns_query *q, enum dns_rcode rcode,
		   const struct address *addrs, size_t n, uint32_t ttl_s)
{
	uint8_t out[DNS_ANSWER_MAX];
	size_t len;

	if (o->udp) {
		len = dns_answer(q, rcode, addrs, n, ttl_s, out, dns_udp_cap(q));
		send_udp(o, out, len);
		return;
	}
	len = dns_answer(q, rcode, addrs, n, ttl_s, o->client->out + 2, DNS_TCP_MAX);
	o->client->out[0] = (uint8_t)(len >> 8);
	o->client->out[1] = (uint8_t)len;
	o->client->out_len = len + 2;
	o->client->out_off = 0;
	client_write(g, o->client);
}

static void report(struct gateway *g, const struct dns_query *q, enum egress_outcome outcome, const struct verdict *v,
		   const struct address *addr, int errnum)
{
	struct egress_report r = {.type = EGRESS_DNS,
				  .rule = v->rule,
				  .errnum = errnum,
				  .port = 53,
				  .qtype = q->type,
				  .outcome = (uint8_t)outcome,
				  .reason = (uint8_t)v->reason,
				  .protocol = IPPROTO_UDP};

	if (addr)
		r.addr = *addr;
	memcpy(r.name, q->name, sizeof(r.name));
	reporter_send_merged(&g->reporter, &r, g->now_ms);
}

/* mode = host. So that what is connected to can be told by name. */
static void report_given(struct gateway *g, const struct host *h, const struct address *addr)
{
	struct egress_report r = {.type = EGRESS_GIVEN, .rule = -1, .addr = *addr};

	memcpy(r.name, h->name, strlen(h->name) + 1);
	reporter_send(&g->reporter, &r);
}

/* The addresses of the family that was asked for, remembered with the name. */
static size_t real_addresses(struct gateway *g, struct host *h, uint16_t type, struct address *out)
{
	size_t n = 0;

	for (unsigned i = 0; i < h->n; i++) {
		if (h->addrs[i].family != (type == DNS_A ? 4 : 6))
			continue;
		/* Without a public IPv6 address this host cannot go there, and the program would not see why. */
		if (type == DNS_AAAA && !g->have_public6 && !address_special(&h->addrs[i]))
			continue;
		if (h != g->names.this_host) {
			if (g->cfg->host && !names_has_real(&g->names, h, &h->addrs[i]))
				report_given(g, h, &h->addrs[i]);
			names_add_real(&g->names, h, &h->addrs[i]);
		}
		out[n++] = h->addrs[i];
	}
	return n;
}

/* mode = host: the programs know the addresses before the box does. Return: false where they do not: no answer then. */
static bool give(struct gateway *g, struct host *h, const struct address *addrs, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		int rc = given_enter(&g->given, h->name, &addrs[i]);

		if (rc < 0) {
			gateway_error(g, -rc, "an address of a name could not be entered in the eBPF maps");
			return false;
		}
	}
	return true;
}

/* The name is allowed and its addresses are known. */
static void answer_host(struct gateway *g, const struct asker *o, const struct dns_query *q, const struct verdict *v,
			struct host *h)
{
	struct address addrs[HOST_ADDRESSES];
	size_t n = 0;
	bool synthetic = !g->cfg->host && (g->cfg->synthetic || h == g->names.this_host);

	if (!h->n) {
		report(g, q, EGRESS_UNREACHED, v, NULL, h->error);
		answer(g, o, q, h->error ? DNS_SERVFAIL : DNS_NXDOMAIN, NULL, 0, TTL_NONE_S);
		return;
	}
	if (synthetic && q->type == DNS_A)
		addrs[n++] = names_synthetic(&g->names, h);
	else if (!synthetic)
		n = real_addresses(g, h, q->type, addrs);
	if (g->cfg->host && !give(g, h, addrs, n)) {
		report(g, q, EGRESS_UNREACHED, v, NULL, ENOSPC);
		answer(g, o, q, DNS_SERVFAIL, NULL, 0, TTL_NONE_S);
		return;
	}
	report(g, q, EGRESS_ALLOWED, v, n ? &addrs[0] : NULL, 0);
	answer(g, o, q, DNS_NOERROR, addrs, n, n ? synthetic ? TTL_SYNTHETIC_S : TTL_REAL_S : TTL_NONE_S);
}

/* --- questions --- */

/* Waits for the name's addresses. */
static void wait_for(struct gateway *g, const struct asker *o, const struct dns_query *q, const struct verdict *v, struct host *h)
{
	struct dns_wait *w;

	if (g->n_dns_waits == WAITS_MAX) {
		answer(g, o, q, DNS_SERVFAIL, NULL, 0, TTL_NONE_S);
		return;
	}
	w = mem_zalloc(sizeof(*w));
	g->n_dns_waits++;
	w->waiter = (struct waiter){.kind = WAITER_DNS, .host = h};
	w->asker = *o;
	w->query = *q;
	w->verdict = *v;
	TAILQ_INSERT_TAIL(&h->waiters, &w->waiter, entry);
	if (o->client)
		o->client->wait = w;
}

void dns_resolved(struct gateway *g, struct waiter *waiter, struct host *h)
{
	struct dns_wait *w = (struct dns_wait *)((char *)waiter - offsetof(struct dns_wait, waiter));

	if (w->asker.client)
		w->asker.client->wait = NULL;
	answer_host(g, &w->asker, &w->query, &w->verdict, h);
	if (w->asker.client)
		client_pump(g, w->asker.client);
	g->n_dns_waits--;
	free(w);
}

static void deny(struct gateway *g, const struct asker *o, const struct dns_query *q, struct verdict v)
{
	report(g, q, EGRESS_DENIED, &v, NULL, 0);
	answer(g, o, q, DNS_NXDOMAIN, NULL, 0, TTL_NONE_S);
}

/* Return: false where no answer goes out at all. */
static bool handle(struct gateway *g, const struct asker *o, const uint8_t *msg, size_t len)
{
	struct verdict v = {.reason = VERDICT_BAD_NAME, .rule = -1};
	struct policy_request ask = {.port = 0};
	struct dns_query q;
	struct host *h;
	int rcode = dns_parse(msg, len, &q);

	if (rcode < 0)
		return false;
	if (rcode != DNS_NOERROR) {
		answer(g, o, &q, (enum dns_rcode)rcode, NULL, 0, TTL_NONE_S);
		return true;
	}
	if (!q.name[0]) {
		deny(g, o, &q, v);
		return true;
	}
	ask.name = q.name;
	v = policy_decide(g->policy, &ask);
	if (!v.allowed) {
		deny(g, o, &q, v);
		return true;
	}
	/* Other types would tell of other names and keys; there are none. */
	if (q.type != DNS_A && q.type != DNS_AAAA) {
		report(g, &q, EGRESS_ALLOWED, &v, NULL, 0);
		answer(g, o, &q, DNS_NOERROR, NULL, 0, TTL_NONE_S);
		return true;
	}
	h = names_get(&g->names, q.name);
	if (!h) {
		gateway_error(g, ENOSPC, "too many names in one run");
		answer(g, o, &q, DNS_SERVFAIL, NULL, 0, TTL_NONE_S);
	} else if (resolver_ready(g, h)) {
		answer_host(g, o, &q, &v, h);
	} else {
		wait_for(g, o, &q, &v, h);
	}
	return true;
}

/* mode = host: the sockets are the host's, and not the box alone can send to them. */
static bool may_ask(const struct gateway *g, const struct sockaddr_storage *peer, uint16_t protocol)
{
	return !g->cfg->host || given_asks(&g->given, peer, protocol, g->now_ms);
}

/* --- UDP --- */

static void take_local(struct msghdr *m, struct asker *o)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		struct in6_pktinfo info6;
		struct in_pktinfo info;

		if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO) {
			memcpy(&info, CMSG_DATA(c), sizeof(info));
			memcpy(o->local, &info.ipi_addr, 4);
		} else if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_PKTINFO) {
			memcpy(&info6, CMSG_DATA(c), sizeof(info6));
			memcpy(o->local, &info6.ipi6_addr, 16);
		}
	}
}

void dns_udp(struct gateway *g, struct source *s)
{
	union {
		char buf[CMSG_SPACE(sizeof(struct in6_pktinfo)) + CMSG_SPACE(sizeof(struct in_pktinfo))];
		struct cmsghdr align;
	} control;
	uint8_t msg[DNS_QUERY_MAX + 1];

	for (int i = 0; i < QUERIES_A_TURN && !reporter_is_busy(&g->reporter); i++) {
		struct asker o = {.udp = s};
		struct iovec iov = {.iov_base = msg, .iov_len = sizeof(msg)};
		struct msghdr m = {.msg_name = &o.peer,
				   .msg_namelen = sizeof(o.peer),
				   .msg_iov = &iov,
				   .msg_iovlen = 1,
				   .msg_control = control.buf,
				   .msg_controllen = sizeof(control.buf)};
		ssize_t n = recvmsg(s->fd, &m, MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return; /* EAGAIN, or an ICMP error of an earlier answer */
		if (!may_ask(g, &o.peer, IPPROTO_UDP))
			continue;
		o.peer_len = m.msg_namelen;
		take_local(&m, &o);
		handle(g, &o, msg, (size_t)n); /* a message that was cut is over DNS_QUERY_MAX, and dropped for it */
	}
}

/* --- TCP --- */

static void client_bury(struct gateway *g, struct dns_client *c)
{
	if (c->dead)
		return;
	c->dead = true;
	if (c->wait) {
		TAILQ_REMOVE(&c->wait->waiter.host->waiters, &c->wait->waiter, entry);
		free(c->wait);
		c->wait = NULL;
		g->n_dns_waits--;
	}
	timer_stop(g, &c->timer);
	source_close(&c->source);
	g->n_dns_clients--;
	TAILQ_REMOVE(&g->dns_clients, c, entry);
	TAILQ_INSERT_TAIL(&g->dead_dns, c, entry);
}

void dns_reap(struct gateway *g)
{
	struct dns_client *c;

	while ((c = TAILQ_FIRST(&g->dead_dns))) {
		TAILQ_REMOVE(&g->dead_dns, c, entry);
		free(c);
	}
}

static void client_write(struct gateway *g, struct dns_client *c)
{
	while (c->out_off < c->out_len) {
		ssize_t n = send(c->source.fd, c->out + c->out_off, c->out_len - c->out_off, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n >= 0) {
			c->out_off += (size_t)n;
		} else if (errno == EAGAIN) {
			return;
		} else if (errno != EINTR) {
			client_bury(g, c);
			return;
		}
	}
	c->out_len = c->out_off = 0;
}

/* The questions that are whole, one after the other; not while one waits, or its answer is not out. */
static void client_run(struct gateway *g, struct dns_client *c)
{
	while (!c->dead && !c->wait && !c->out_len && c->len >= 2 && !reporter_is_busy(&g->reporter)) {
		struct asker o = {.client = c};
		size_t want = (size_t)c->buf[0] << 8 | c->buf[1];

		if (want > DNS_QUERY_MAX) {
			client_bury(g, c);
			return;
		}
		if (c->len < want + 2)
			break;
		if (!handle(g, &o, c->buf + 2, want)) {
			client_bury(g, c);
			return;
		}
		c->len -= want + 2;
		memmove(c->buf, c->buf + want + 2, c->len);
	}
	if (!c->dead && c->eof && !c->wait && !c->out_len)
		client_bury(g, c);
}

/*
 * Writes, answers and reads until the socket gives no more or a question waits: the next edge, or the resolver, comes
 * back here.
 */
static void client_pump(struct gateway *g, struct dns_client *c)
{
	for (;;) {
		ssize_t n;

		if (!c->dead)
			client_write(g, c);
		client_run(g, c);
		if (c->dead || c->wait || c->out_len || c->eof || reporter_is_busy(&g->reporter))
			return;
		n = recv(c->source.fd, c->buf + c->len, sizeof(c->buf) - c->len, MSG_DONTWAIT);
		if (n > 0) {
			c->len += (size_t)n;
		} else if (n == 0) {
			c->eof = true;
		} else if (errno == EAGAIN) {
			return;
		} else if (errno != EINTR) {
			client_bury(g, c);
			return;
		}
	}
}

void dns_tcp_event(struct gateway *g, struct dns_client *c, uint32_t events)
{
	if (c->dead)
		return;
	if (events & (EPOLLERR | EPOLLHUP))
		client_bury(g, c);
	else
		client_pump(g, c);
}

void dns_resume(struct gateway *g)
{
	struct dns_client *c, *next;

	for (c = TAILQ_FIRST(&g->dns_clients); c; c = next) {
		next = TAILQ_NEXT(c, entry);
		client_pump(g, c);
	}
}

void dns_tcp_timeout(struct gateway *g, struct dns_client *c)
{
	client_bury(g, c);
}

void dns_accept(struct gateway *g, struct source *listener)
{
	struct sockaddr_storage peer = {.ss_family = AF_UNSPEC};
	socklen_t len = sizeof(peer);
	struct dns_client *c;
	int fd;

	if (!gateway_may_accept(g))
		return;
	fd = accept4(listener->fd, (struct sockaddr *)&peer, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (fd < 0) {
		if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
			gateway_hold(g);
		return;
	}
	if (g->n_dns_clients >= CLIENTS_MAX || !may_ask(g, &peer, IPPROTO_TCP)) {
		close(fd);
		return;
	}
	c = mem_zalloc(sizeof(*c));
	c->source = (struct source){SOURCE_DNS_TCP, fd};
	g->n_dns_clients++;
	TAILQ_INSERT_TAIL(&g->dns_clients, c, entry);
	if (source_watch(g, &c->source, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET) < 0) {
		client_bury(g, c);
		return;
	}
	timer_arm(g, &c->timer, TIMER_REQUEST, c);
	c->timer.dns = true;
}
