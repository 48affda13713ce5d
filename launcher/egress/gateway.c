/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "egress/gateway.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "egress/confine.h"
#include "egress/state.h"
#include "sys/fd.h"

#include "base/banned.h"

#define EVENTS_A_TURN 128
#define HOLD_MS 100
#define TROUBLE_MS 10000
/*
 * So many connections are accepted as fast as they come, then so many a second: each is two events in a log that nothing
 * else bounds. Later ones wait in the kernel's queue.
 */
#define ACCEPTS_BURST 20000
#define ACCEPTS_A_SECOND 200
#define STOP_STEP_MS 20
#define STOP_MS 1200 /* longer than the first SYN that is sent again waits: RFC 6298 2 */
#define STOP_FLUSH_MS 2000
#define DESCRIPTORS_WANTED (3 * GATEWAY_CONNECTIONS_MAX + 512)
#define DESCRIPTORS_OWN 448 /* pipes for bulk, DNS over TCP, listeners */

/* What the supervisor says on the report pair, a byte each; WORD_RESOLVER has a descriptor with it, or none. */
enum { WORD_END = 1, WORD_RESOLVER };

static struct gateway gateway; /* one a process; in .bss, so pages that are not used cost nothing */

/* --- small services --- */

static uint64_t clock_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

int source_watch(struct gateway *g, struct source *s, uint32_t events)
{
	struct epoll_event e = {.events = events, .data.ptr = s};

	return epoll_ctl(g->epoll, EPOLL_CTL_ADD, s->fd, &e) < 0 ? -errno : 0;
}

/* Closing takes it out of the epoll set, as no descriptor here is a duplicate. */
void source_close(struct source *s)
{
	if (s->fd >= 0)
		close(s->fd);
	s->fd = -1;
}

void timer_arm(struct gateway *g, struct timer *t, enum timer_kind kind, void *owner)
{
	timer_stop(g, t);
	t->kind = kind;
	t->owner = owner;
	t->due_ms = g->now_ms + g->timer_ms[kind];
	TAILQ_INSERT_TAIL(&g->timers[kind], t, entry);
}

void timer_stop(struct gateway *g, struct timer *t)
{
	if (!t->due_ms)
		return;
	TAILQ_REMOVE(&g->timers[t->kind], t, entry);
	t->due_ms = 0;
}

/* The same trouble is told once a while at most. */
void gateway_error(struct gateway *g, int errnum, const char *text)
{
	static struct {
		const char *text;
		uint64_t at_ms;
	} said[16];
	struct egress_report r = {.type = EGRESS_ERROR, .rule = -1, .errnum = errnum};
	size_t i = 0;

	while (i < sizeof(said) / sizeof(said[0]) - 1 && said[i].text && said[i].text != text)
		i++;
	if (said[i].text && g->now_ms - said[i].at_ms < TROUBLE_MS)
		return;
	said[i].text = text;
	said[i].at_ms = g->now_ms;
	memcpy(r.text, text, strnlen(text, sizeof(r.text) - 1));
	reporter_send(&g->reporter, &r);
}

void gateway_hold(struct gateway *g)
{
	g->hold_until_ms = g->now_ms + HOLD_MS;
}

bool gateway_may_accept(struct gateway *g)
{
	if (g->now_ms < g->hold_until_ms || reporter_is_busy(&g->reporter))
		return false;
	if (!g->accepts) {
		gateway_hold(g);
		return false;
	}
	g->accepts--;
	return true;
}

static void refill_accepts(struct gateway *g)
{
	uint64_t n = (g->now_ms - g->accepts_ms) * ACCEPTS_A_SECOND / 1000;

	if (!n)
		return;
	g->accepts_ms = g->now_ms;
	g->accepts = g->accepts + n > ACCEPTS_BURST ? ACCEPTS_BURST : g->accepts + (uint32_t)n;
}

static int failed(struct gateway *g, int rc, const char *text)
{
	struct egress_report r = {.type = EGRESS_FAILED, .rule = -1, .errnum = rc < 0 ? -rc : rc};

	memcpy(r.text, text, strnlen(text, sizeof(r.text) - 1));
	reporter_send(&g->reporter, &r);
	return 1;
}

/* --- starting --- */

/* As many connections as descriptors allow, three each: two ends, and one more while a second address is tried. */
static void size_by_descriptors(struct gateway *g)
{
	struct rlimit r = {1024, 1024};
	uint64_t wanted = g->cfg->max_connections ? g->cfg->max_connections : GATEWAY_CONNECTIONS_MAX;
	uint64_t can;

	if (getrlimit(RLIMIT_NOFILE, &r) == 0) {
		r.rlim_cur = r.rlim_max < DESCRIPTORS_WANTED ? r.rlim_max : DESCRIPTORS_WANTED;
		r.rlim_max = r.rlim_cur;
		setrlimit(RLIMIT_NOFILE, &r);
	}
	can = r.rlim_cur > 2 * DESCRIPTORS_OWN ? (r.rlim_cur - DESCRIPTORS_OWN) / 3 : r.rlim_cur / 8;
	if (wanted > can)
		wanted = can;
	g->max_conns = (uint32_t)(wanted < GATEWAY_CONNECTIONS_MAX ? wanted : GATEWAY_CONNECTIONS_MAX);
}

static void init(struct gateway *g, const struct gateway_config *cfg, int report_fd)
{
	uint64_t timeout = cfg->connect_timeout_ms ? cfg->connect_timeout_ms : GATEWAY_CONNECT_TIMEOUT_MS;
	uint32_t seed = 0;

	g->cfg = cfg;
	g->policy = cfg->policy;
	g->now_ms = clock_ms();
	g->report = (struct source){SOURCE_REPORT, report_fd};
	g->reporter = (struct reporter){.fd = report_fd};
	g->epoll = g->resolver.fd = g->own.fd = g->nflog.fd = g->proxy.fd = -1;
	for (int i = 0; i < 2; i++)
		g->tcp[i].fd = g->udp[i].fd = g->dns_tcp[i].fd = -1;
	g->timer_ms[TIMER_CONNECT] = (uint32_t)(timeout < INT32_MAX ? timeout : INT32_MAX);
	g->timer_ms[TIMER_STAGE] = STAGE_MS;
	g->timer_ms[TIMER_REQUEST] = REQUEST_MS;
	g->timer_ms[TIMER_LINGER] = LINGER_MS;
	g->timer_ms[TIMER_DRAIN] = DRAIN_STEP_MS;
	for (int i = 0; i < TIMERS; i++)
		TAILQ_INIT(&g->timers[i]);
	TAILQ_INIT(&g->conns);
	TAILQ_INIT(&g->ready);
	TAILQ_INIT(&g->dead);
	TAILQ_INIT(&g->dns_clients);
	TAILQ_INIT(&g->dead_dns);
	g->accepts = ACCEPTS_BURST;
	g->accepts_ms = g->now_ms;
	g->limited = cfg->max_bytes != 0;
	g->bytes_left = cfg->max_bytes;
	g->inspect_bare = policy_denies_names(cfg->policy);
	if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) != sizeof(seed))
		seed = (uint32_t)g->now_ms;
	names_init(&g->names, seed);
	g->given.own = -1;
	if (cfg->host)
		given_init(&g->given, g->policy, seed);
	size_by_descriptors(g);
}

static int watch(struct gateway *g, struct source *s, enum source_kind kind, int fd)
{
	*s = (struct source){kind, fd};
	return fd < 0 ? 0 : source_watch(g, s, EPOLLIN);
}

/* Everything that needs a right which is given up afterwards. */
static int open_all(struct gateway *g, const char **what)
{
	int fd, rc;

	*what = "epoll";
	g->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (g->epoll < 0)
		return -errno;
	*what = "this host's own addresses";
	fd = own_open();
	if (fd < 0)
		return fd;
	rc = watch(g, &g->own, SOURCE_OWN, fd);
	if (rc == 0)
		rc = own_read(g);
	if (rc == 0)
		rc = watch(g, &g->report, SOURCE_REPORT, g->report.fd);
	return rc;
}

/* mode = host. What stands for @host is known from the start. */
static int take_host(struct gateway *g, int socket_fd)
{
	int fds[GATEWAY_HOST_FDS], rc = gateway_host_receive(socket_fd, fds);

	close(socket_fd);
	if (rc < 0)
		return rc;
	given_use(&g->given, fds[GATEWAY_HOST_GIVEN], fds[GATEWAY_HOST_PORTS], fds[GATEWAY_HOST_OWN], fds[GATEWAY_HOST_ASKERS]);
	rc = own_enter(g);
	for (unsigned i = 0; rc == 0 && i < g->names.this_host->n; i++)
		rc = given_enter(&g->given, g->names.this_host->name, &g->names.this_host->addrs[i]);
	rc = rc ?: watch(g, &g->udp[0], SOURCE_DNS_UDP, fds[GATEWAY_HOST_UDP]);
	return rc ?: watch(g, &g->dns_tcp[0], SOURCE_DNS_LISTENER, fds[GATEWAY_HOST_TCP]);
}

static int take_listeners(struct gateway *g, const struct gateway_sockets *s)
{
	int rc = 0;

	g->listeners = mem_zalloc((s->n_listeners + 1) * sizeof(*g->listeners));
	g->listener_ports = mem_zalloc((s->n_listeners + 1) * sizeof(*g->listener_ports));
	for (size_t i = 0; i < s->n_listeners && rc == 0; i++) {
		struct sockaddr_storage sa;
		socklen_t len = sizeof(sa);
		struct address any;

		if (getsockname(s->listeners[i], (struct sockaddr *)&sa, &len) < 0)
			return -errno;
		if (!address_from_sockaddr((struct sockaddr *)&sa, &any, &g->listener_ports[i]))
			return -EBADMSG;
		rc = watch(g, &g->listeners[i], SOURCE_LISTENER, s->listeners[i]);
		g->n_listeners = i + 1;
	}
	return rc;
}

static int take_sockets(struct gateway *g, int socket_fd)
{
	struct gateway_sockets s = {.n_listeners = 0};
	int rc = g->cfg->take_sockets(socket_fd, &s), *fds = s.fds;

	close(socket_fd);
	if (rc < 0)
		return rc;
	if (fds[GATEWAY_DNS_UDP4] < 0 || (fds[GATEWAY_TCP4] < 0 && !s.packets))
		return -EBADMSG;
	g->redirected = s.redirected;
	g->packets = s.packets;
	rc = watch(g, &g->tcp[0], SOURCE_LISTENER, fds[GATEWAY_TCP4]);
	rc = rc ?: watch(g, &g->tcp[1], SOURCE_LISTENER, fds[GATEWAY_TCP6]);
	rc = rc ?: take_listeners(g, &s);
	rc = rc ?: watch(g, &g->udp[0], SOURCE_DNS_UDP, fds[GATEWAY_DNS_UDP4]);
	rc = rc ?: watch(g, &g->udp[1], SOURCE_DNS_UDP, fds[GATEWAY_DNS_UDP6]);
	rc = rc ?: watch(g, &g->dns_tcp[0], SOURCE_DNS_LISTENER, fds[GATEWAY_DNS_TCP4]);
	rc = rc ?: watch(g, &g->dns_tcp[1], SOURCE_DNS_LISTENER, fds[GATEWAY_DNS_TCP6]);
	rc = rc ?: watch(g, &g->proxy, SOURCE_PROXY, fds[GATEWAY_PROXY]);
	return rc ?: watch(g, &g->nflog, SOURCE_NFLOG, fds[GATEWAY_NFLOG]);
}

/* --- serving --- */

/* What the supervisor says. Anything else, and its end, is the end. */
static void take_word(struct gateway *g)
{
	uint8_t word = 0;
	size_t n_fds = 0;
	int fd = -1;
	ssize_t n = fd_recv(g->report.fd, &word, sizeof(word), &fd, 1, &n_fds);

	if (n == sizeof(word) && word == WORD_RESOLVER) {
		resolver_arrived(g, n_fds ? fd : -1);
		return;
	}
	if (n_fds)
		close(fd);
	g->stop = true;
	g->orphan |= n <= 0;
}

static void report_event(struct gateway *g, uint32_t events)
{
	if (events & (EPOLLHUP | EPOLLERR))
		g->stop = g->orphan = true;
	else if (events & EPOLLIN)
		take_word(g);
	else
		reporter_flush(&g->reporter);
}

static void dispatch(struct gateway *g, struct source *s, uint32_t events)
{
	switch (s->kind) {
	case SOURCE_LISTENER:
	case SOURCE_PROXY:
		conn_accept(g, s);
		break;
	case SOURCE_CLIENT:
		conn_event(g, (struct conn *)((char *)s - offsetof(struct conn, client)), NULL, events);
		break;
	case SOURCE_SERVER:
		conn_event(g, ((struct attempt *)s)->conn, (struct attempt *)s, events);
		break;
	case SOURCE_DNS_UDP:
		dns_udp(g, s);
		break;
	case SOURCE_DNS_LISTENER:
		dns_accept(g, s);
		break;
	case SOURCE_DNS_TCP:
		dns_tcp_event(g, (struct dns_client *)s, events);
		break;
	case SOURCE_RESOLVER:
		resolver_event(g);
		break;
	case SOURCE_OWN:
		/* Not knowing them would leave new ones open to names. */
		if (own_read(g) < 0)
			g->stop = g->broken = failed(g, EIO, "this host's own addresses cannot be read any more");
		break;
	case SOURCE_NFLOG:
		filterlog_event(g);
		break;
	case SOURCE_REPORT:
		report_event(g, events);
		break;
	}
}

static void run_timers(struct gateway *g)
{
	for (int i = 0; i < TIMERS; i++) {
		struct timer *t;

		while ((t = TAILQ_FIRST(&g->timers[i])) && t->due_ms <= g->now_ms) {
			timer_stop(g, t);
			if (t->dns)
				dns_tcp_timeout(g, t->owner);
			else
				conn_timer(g, t->owner, (enum timer_kind)i);
		}
	}
}

/* Those that were queued before this turn. */
static void run_ready(struct gateway *g)
{
	struct conn *c;
	unsigned n = 0;

	TAILQ_FOREACH(c, &g->ready, ready_entry)
		n++;
	while (n-- && (c = TAILQ_FIRST(&g->ready))) {
		TAILQ_REMOVE(&g->ready, c, ready_entry);
		c->queued = false;
		conn_turn(g, c);
	}
}

/* max-bytes: every connection ends. */
static void run_limit(struct gateway *g)
{
	struct conn *c, *next;

	if (!g->bytes_used_up || !g->limited)
		return;
	g->limited = false;
	gateway_error(g, EDQUOT, "max-bytes");
	for (c = TAILQ_FIRST(&g->conns); c; c = next) {
		next = TAILQ_NEXT(c, entry);
		conn_limit(g, c);
	}
}

static int timeout_ms(const struct gateway *g)
{
	uint64_t due = UINT64_MAX;

	if (!TAILQ_EMPTY(&g->ready))
		return 0;
	for (int i = 0; i < TIMERS; i++) {
		const struct timer *t = TAILQ_FIRST(&g->timers[i]);

		if (t && t->due_ms < due)
			due = t->due_ms;
	}
	if (g->hold_until_ms > g->now_ms && g->hold_until_ms < due)
		due = g->hold_until_ms;
	if (g->reporter.n_repeated && g->reporter.due_ms < due)
		due = g->reporter.due_ms;
	if (due == UINT64_MAX)
		return -1;
	return due <= g->now_ms ? 0 : due - g->now_ms > 60000 ? 60000 : (int)(due - g->now_ms);
}

static void rewatch(struct gateway *g, struct source *s, uint32_t events)
{
	struct epoll_event e = {.events = events, .data.ptr = s};

	if (s->fd >= 0)
		epoll_ctl(g->epoll, EPOLL_CTL_MOD, s->fd, &e);
}

/* Takes the listeners out of the epoll set and puts them back, as reports and descriptors have it. */
static void pace(struct gateway *g)
{
	bool busy = reporter_is_busy(&g->reporter), held = busy || g->now_ms < g->hold_until_ms;

	if (held != g->held) {
		for (int i = 0; i < 2; i++) {
			rewatch(g, &g->tcp[i], held ? 0 : EPOLLIN);
			rewatch(g, &g->dns_tcp[i], held ? 0 : EPOLLIN);
		}
		for (size_t i = 0; i < g->n_listeners; i++)
			rewatch(g, &g->listeners[i], held ? 0 : EPOLLIN);
		rewatch(g, &g->proxy, held ? 0 : EPOLLIN);
	}
	g->held = held;
	if (busy == g->busy)
		return;
	g->busy = busy;
	for (int i = 0; i < 2; i++)
		rewatch(g, &g->udp[i], busy ? 0 : EPOLLIN);
	rewatch(g, &g->nflog, busy ? 0 : EPOLLIN);
	if (!busy)
		dns_resume(g);
}

/* Return: how many events there were. */
static int turn(struct gateway *g, int timeout)
{
	struct epoll_event events[EVENTS_A_TURN];
	struct conn *c;
	int n;

	/* Before the wait: the first report of all, that the gateway is ready, may have found no room too. */
	if (g->reporter.waiting != g->writing)
		rewatch(g, &g->report, EPOLLIN | (g->reporter.waiting ? EPOLLOUT : 0));
	g->writing = g->reporter.waiting;
	n = epoll_wait(g->epoll, events, EVENTS_A_TURN, timeout);
	g->now_ms = clock_ms();
	refill_accepts(g);
	run_ready(g);
	for (int i = 0; i < n; i++)
		dispatch(g, events[i].data.ptr, events[i].events);
	run_timers(g);
	run_limit(g);
	while ((c = TAILQ_FIRST(&g->dead)))
		conn_free(g, c);
	reporter_send_counts(&g->reporter, g->now_ms, false);
	pace(g);
	dns_reap(g);
	return n;
}

/* Has everything that came from the box gone on? */
static bool is_done(const struct gateway *g)
{
	const struct conn *c;

	if (g->held || !TAILQ_EMPTY(&g->ready))
		return false;
	TAILQ_FOREACH(c, &g->conns, entry)
		if (!conn_is_done(c))
			return false;
	return true;
}

/* The supervisor is behind: nothing but its socket is waited for. */
static void flush_last(struct gateway *g)
{
	struct source *const others[] = {&g->tcp[0], &g->tcp[1], &g->udp[0], &g->udp[1], &g->dns_tcp[0], &g->dns_tcp[1],
					 &g->proxy, &g->nflog, &g->resolver, &g->own};
	uint64_t end = g->now_ms + STOP_FLUSH_MS;

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		source_close(others[i]);
	for (size_t i = 0; i < g->n_listeners; i++)
		source_close(&g->listeners[i]);
	rewatch(g, &g->report, EPOLLOUT);
	for (; g->reporter.waiting && !g->orphan && g->now_ms < end; reporter_flush(&g->reporter)) {
		struct epoll_event e;

		if (epoll_wait(g->epoll, &e, 1, (int)(end - g->now_ms)) > 0 && e.events & EPOLLHUP)
			break;
		g->now_ms = clock_ms();
	}
}

/*
 * The box is gone, and what its last programs sent and asked for may be on its way yet: that is taken in and passed on.
 * Then all ends, and everything that is to be said is.
 */
static void stop(struct gateway *g)
{
	uint64_t end = g->now_ms + STOP_MS;
	struct conn *c, *next;

	while (g->now_ms < end && !g->broken && !g->orphan) {
		bool done = is_done(g);

		if (!turn(g, done ? 0 : STOP_STEP_MS) && done && is_done(g))
			break;
	}
	for (c = TAILQ_FIRST(&g->conns); c; c = next) {
		next = TAILQ_NEXT(c, entry);
		conn_stop(g, c);
	}
	reporter_send_counts(&g->reporter, g->now_ms, true);
	reporter_flush(&g->reporter);
	if (g->reporter.waiting)
		flush_last(g);
	reporter_free(&g->reporter);
}

static int say(int report_fd, uint8_t word, int fd)
{
	return fd_send(report_fd, &word, sizeof(word), &fd, fd < 0 ? 0 : 1);
}

int gateway_end(int report_fd)
{
	return say(report_fd, WORD_END, -1);
}

int gateway_give_resolver(int report_fd, int resolver_fd)
{
	return say(report_fd, WORD_RESOLVER, resolver_fd);
}

int gateway_main(const struct gateway_config *cfg, int report_fd, int socket_fd)
{
	struct egress_report ready = {.type = EGRESS_READY, .rule = -1};
	struct gateway *g = &gateway;
	const char *what = NULL;
	int keep[2] = {report_fd < socket_fd ? report_fd : socket_fd, report_fd < socket_fd ? socket_fd : report_fd};
	int rc = leave_supervisor(cfg->parent, "agentbox-gate", false, keep, 2);

	init(g, cfg, report_fd);
	if (rc < 0)
		return failed(g, rc, "the gateway process cannot be separated from the supervisor");
	rc = open_all(g, &what);
	if (rc < 0)
		return failed(g, rc, what);
	rc = confine_gateway(cfg->host, &what);
	if (rc < 0)
		return failed(g, rc, what);
	rc = cfg->host ? take_host(g, socket_fd) : take_sockets(g, socket_fd);
	if (rc < 0)
		return failed(g, rc, "the sockets of the box's network did not come");
	reporter_send(&g->reporter, &ready);
	while (!g->stop)
		turn(g, timeout_ms(g));
	stop(g);
	/* The supervisor need not wait for the rest of our end: the kernel closes all else. */
	source_close(&g->report);
	return g->broken;
}
