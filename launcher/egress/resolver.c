/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The resolver: a process of its own that asks getaddrinfo(3), so that the host's nsswitch.conf, hosts file, caches and
 * VPN settings hold. Only names that a rule allows ever reach it. It keeps files and sockets, which NSS modules need,
 * and may neither execute nor write anything. Several threads take questions from one socket, so that a slow name does
 * not hold up the others.
 */
#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <resolv.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "egress/confine.h"
#include "egress/state.h"

#include "base/banned.h"

#define THREADS_MAX 16
#define STACK_BYTES (512 * 1024)
#define KEEP_MS 30000      /* getaddrinfo tells no lifetime */
#define KEEP_FAILED_MS 2000

struct question {
	uint32_t index;
	char name[HOSTNAME_MAX + 1];
};

struct answer {
	uint32_t index;
	int32_t error; /* 0: looked up (n may be 0: no such name); else an errno */
	uint32_t n;
	struct address addrs[HOST_ADDRESSES];
};

/* --- the process --- */

struct pool {
	int sock;
	atomic_int idle, threads;
};

static int error_of(int rc)
{
	switch (rc) {
	case EAI_NONAME:
	case EAI_NODATA:
	case EAI_ADDRFAMILY:
		return 0;
	case EAI_AGAIN:
		return EAGAIN;
	case EAI_SYSTEM:
		return errno ? errno : EIO;
	default:
		return EIO;
	}
}

static void look_up(const struct question *q, struct answer *a)
{
	struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *list = NULL;
	int rc;

	/* The name as it is: a search domain would make another name of it. A bare word is the host's own affair. */
	if (strchr(q->name, '.'))
		_res.options &= ~(unsigned long)(RES_DNSRCH | RES_DEFNAMES);
	else
		_res.options |= RES_DNSRCH | RES_DEFNAMES;
	*a = (struct answer){.index = q->index};
	rc = getaddrinfo(q->name, NULL, &hints, &list);
	if (rc != 0) {
		a->error = error_of(rc);
		return;
	}
	for (const struct addrinfo *i = list; i && a->n < HOST_ADDRESSES; i = i->ai_next)
		if (address_from_sockaddr(i->ai_addr, &a->addrs[a->n], NULL))
			a->n++;
	freeaddrinfo(list);
}

static void *serve(void *arg);

/* One more, where all are at work. */
static void spawn(struct pool *p)
{
	pthread_attr_t attr;
	pthread_t t;

	if (atomic_fetch_add(&p->threads, 1) >= THREADS_MAX || pthread_attr_init(&attr) != 0) {
		atomic_fetch_sub(&p->threads, 1);
		return;
	}
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	if (pthread_create(&t, &attr, serve, p) != 0)
		atomic_fetch_sub(&p->threads, 1);
	pthread_attr_destroy(&attr);
}

static void *serve(void *arg)
{
	struct pool *p = arg;

	res_init();
	for (;;) {
		struct question q;
		struct answer a;
		ssize_t n;

		atomic_fetch_add(&p->idle, 1);
		n = recv(p->sock, &q, sizeof(q), 0);
		if (atomic_fetch_sub(&p->idle, 1) == 1 && n > 0)
			spawn(p);
		if (n < 0 && errno == EINTR)
			continue;
		if (n != sizeof(q))
			_exit(0); /* the gateway is gone */
		q.name[sizeof(q.name) - 1] = '\0';
		look_up(&q, &a);
		if (send(p->sock, &a, sizeof(a), MSG_NOSIGNAL) < 0)
			_exit(0);
	}
}

void resolver_main(int sock, pid_t parent)
{
	static struct pool pool;

	pool.sock = sock;
	atomic_store(&pool.threads, 1);
	if (leave_supervisor(parent, "agentbox-dns", false, &sock, 1) < 0 || confine_resolver() < 0)
		_exit(1);
	serve(&pool);
	_exit(0);
}

/* --- the gateway's side --- */

bool resolver_ready(struct gateway *g, struct host *h)
{
	if (h->state == HOST_KNOWN && h->expires_ms > g->now_ms)
		return true;
	if (h->state != HOST_ASKED)
		resolver_ask(g, h);
	return h->state == HOST_KNOWN;
}

static void set_failed(struct gateway *g, struct host *h, int error)
{
	h->n = 0;
	h->error = error;
	h->state = HOST_KNOWN;
	h->expires_ms = g->now_ms + KEEP_FAILED_MS;
}

static bool send_question(struct gateway *g, const struct host *h)
{
	struct question q = {.index = h->index};
	ssize_t n;

	memcpy(q.name, h->name, strlen(h->name) + 1);
	do
		n = send(g->resolver.fd, &q, sizeof(q), MSG_DONTWAIT | MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n == sizeof(q);
}

/* Return: false where the supervisor cannot be told. */
static bool want_resolver(struct gateway *g)
{
	struct egress_report r = {.type = EGRESS_RESOLVER, .rule = -1};
	uint32_t lost = g->reporter.lost;

	if (!g->resolver_asked)
		reporter_send(&g->reporter, &r);
	g->resolver_asked = g->reporter.lost == lost;
	return g->resolver_asked;
}

void resolver_ask(struct gateway *g, struct host *h)
{
	bool asked = g->resolver.fd >= 0 ? send_question(g, h) : !g->resolver_lost && want_resolver(g);

	if (asked)
		h->state = HOST_ASKED;
	else
		set_failed(g, h, EAGAIN);
}

static void wake(struct gateway *g, struct host *h)
{
	struct waiter *w;

	while ((w = TAILQ_FIRST(&h->waiters))) {
		if (w->kind == WAITER_DNS) {
			TAILQ_REMOVE(&h->waiters, w, entry);
			w->host = NULL;
			dns_resolved(g, w, h);
		} else { /* takes itself off */
			conn_resolved(g, (struct conn *)((char *)w - offsetof(struct conn, waiter)));
		}
	}
}

static void take(struct gateway *g, const struct answer *a)
{
	struct host *h;

	if (a->index >= g->names.n || a->n > HOST_ADDRESSES)
		return;
	h = g->names.hosts[a->index];
	if (h->state != HOST_ASKED)
		return;
	if (a->error || !a->n) {
		set_failed(g, h, a->error);
	} else {
		h->addrs = mem_array(h->addrs, a->n, sizeof(*h->addrs));
		memcpy(h->addrs, a->addrs, a->n * sizeof(*h->addrs));
		h->n = a->n;
		h->error = 0;
		h->state = HOST_KNOWN;
		h->expires_ms = g->now_ms + KEEP_MS;
	}
	wake(g, h);
}

/* Without it, names are as if no server answered; addresses that rules name go on. */
static void resolver_gone(struct gateway *g)
{
	gateway_error(g, EPIPE, "the resolver process is gone; names cannot be resolved any more");
	source_close(&g->resolver);
	g->resolver_lost = true;
	for (size_t i = 0; i < g->names.n; i++) {
		struct host *h = g->names.hosts[i];

		if (h->state != HOST_ASKED)
			continue;
		set_failed(g, h, EAGAIN);
		wake(g, h);
	}
}

void resolver_arrived(struct gateway *g, int fd)
{
	if (g->resolver.fd >= 0 || g->resolver_lost) {
		if (fd >= 0)
			close(fd);
		return;
	}
	g->resolver = (struct source){SOURCE_RESOLVER, fd};
	if (fd < 0 || source_watch(g, &g->resolver, EPOLLIN) < 0) {
		resolver_gone(g);
		return;
	}
	for (size_t i = 0; i < g->names.n; i++) {
		struct host *h = g->names.hosts[i];

		if (h->state != HOST_ASKED || send_question(g, h))
			continue;
		set_failed(g, h, EAGAIN);
		wake(g, h);
	}
}

void resolver_event(struct gateway *g)
{
	for (int i = 0; i < 64; i++) {
		struct answer a;
		ssize_t n = recv(g->resolver.fd, &a, sizeof(a), MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		if (n != sizeof(a)) {
			resolver_gone(g);
			return;
		}
		for (unsigned k = 0; k < HOST_ADDRESSES; k++) /* normal, whatever the process sent */
			if (a.addrs[k].family != 4)
				a.addrs[k] = a.addrs[k].family == 6 ? address_from_v6(a.addrs[k].b) : (struct address){0};
		take(g, &a);
	}
}
