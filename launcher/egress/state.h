/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the parts of the gateway process share. Internal to egress/. */
#ifndef AGENTBOX_EGRESS_STATE_H
#define AGENTBOX_EGRESS_STATE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "egress/address.h"
#include "egress/gateway.h"
#include "egress/given.h"
#include "egress/h2.h"
#include "egress/http.h"
#include "egress/names.h"
#include "egress/policy.h"
#include "egress/report.h"

/* What an epoll event is about: the first member of every object that has a descriptor in the set. */
enum source_kind {
	SOURCE_LISTENER,   /* captured connections */
	SOURCE_PROXY,      /* the proxy port */
	SOURCE_DNS_UDP,
	SOURCE_DNS_LISTENER,
	SOURCE_DNS_TCP,    /* struct dns_client */
	SOURCE_CLIENT,     /* struct conn, the box's side */
	SOURCE_SERVER,     /* struct attempt */
	SOURCE_RESOLVER,
	SOURCE_OWN,        /* this host's addresses changed */
	SOURCE_NFLOG,
	SOURCE_REPORT,
};

struct source {
	enum source_kind kind;
	int fd; /* -1: closed */
};

/* Timers of one duration each, so that a list is sorted by itself. */
enum timer_kind {
	TIMER_CONNECT, /* resolving and connecting */
	TIMER_STAGE,   /* the next address is tried beside the one that has not answered */
	TIMER_REQUEST, /* a head or a hello must be whole by then */
	TIMER_LINGER,  /* a refusal was written, and the client has not closed */
	TIMER_DRAIN,   /* max-bytes is reached: has the kernel delivered what was counted? */
	TIMERS
};

#define STAGE_MS 250     /* RFC 8305 5 */
#define REQUEST_MS 120000 /* browsers open connections ahead of use */
#define LINGER_MS 2000
#define DRAIN_STEP_MS 20 /* and LINGER_MS in all */

struct timer {
	TAILQ_ENTRY(timer) entry;
	uint64_t due_ms; /* 0: not armed */
	enum timer_kind kind;
	void *owner; /* struct conn, or struct dns_client for TIMER_REQUEST with `dns` */
	bool dns;
};
TAILQ_HEAD(timer_list, timer);

struct bulk_pipe {
	int fd[2]; /* -1: none */
	uint32_t bytes;
};

/*
 * One direction of a connection. Bytes wait in `buf` (from `off`; up to `ready` they may go on, behind that they are
 * not yet judged) or, for bulk, in a pipe.
 */
struct flow {
	char *buf;
	uint32_t cap, off, ready, len;
	struct bulk_pipe pipe;
	uint32_t piped;
	bool readable, writable; /* the source has bytes or an end; the destination has room: as far as epoll last said */
	bool hangup;             /* the source said that its end is near: a short read does not mean that it is empty */
	bool eof, shut;          /* the source has ended; the destination was told */
	uint8_t streak;          /* full reads in a row: bulk */
	uint64_t bytes;
};

struct conn;

/* A connection attempt to one address; the one that succeeds is the server's side. */
struct attempt {
	struct source source;
	struct conn *conn;
	struct address addr;
};
#define ATTEMPTS 2   /* at a time */
#define CANDIDATES 8 /* addresses that are tried at all */

/*
 * HANDSHAKE  the proxy port's client has not yet said where it wants to go
 * RESOLVING  the name is with the resolver
 * OPENING    connecting and inspecting; a byte goes neither way but for the proxy's own answer
 * RELAY      both ways
 * REFUSING   a refusal is being written; then the client's bytes are thrown away until it closes
 * DRAINING   nothing is read any more; what was read goes out
 */
enum conn_state { CONN_HANDSHAKE, CONN_RESOLVING, CONN_OPENING, CONN_RELAY, CONN_REFUSING, CONN_DRAINING, CONN_DEAD };

enum handshake { HANDSHAKE_FIRST, HANDSHAKE_SOCKS_GREETING, HANDSHAKE_SOCKS_REQUEST, HANDSHAKE_HTTP };

/* What stands between the client and the server in the client's direction. */
enum filter {
	FILTER_NONE,
	FILTER_TLS,     /* the hello's name */
	FILTER_HTTP,    /* the Host of the next request */
	FILTER_BODY,    /* the request's body, then FILTER_HTTP or FILTER_UPGRADE */
	FILTER_UPGRADE, /* the answer decides whether more requests come, or another protocol */
	FILTER_H2,      /* the authority of each request of HTTP/2 */
	FILTER_ONE_BODY, /* the body of the one request that a proxy's absolute URL stands for, then FILTER_DROP */
	FILTER_DROP,    /* what comes is read and thrown away */
};

struct conn {
	struct source client;
	struct attempt attempts[ATTEMPTS];
	int server; /* index of the attempt that won; -1: none yet */
	TAILQ_ENTRY(conn) entry, ready_entry;
	bool queued; /* in the ready list */
	uint32_t id;
	enum conn_state state;
	enum handshake handshake;
	enum filter filter;
	enum egress_via via;
	struct host *host;        /* the name that it is for; NULL: a bare address */
	const char *name;         /* of one that no rule allows, while it is being refused; not owned */
	struct address addr;      /* a bare address, or the one that a real-mode client asked for */
	uint16_t port;
	uint16_t client_port;
	struct verdict verdict;
	bool inspected, opened;   /* FILTER_TLS or the first head is done; the CONNECT report is sent */
	bool absolute;            /* a proxied absolute URL */
	bool last_request;        /* the server was told to close after its answer */
	bool next_request;        /* of such a connection: the client sent more than its one request */
	bool pipelined;           /* a request came before the answer to the one before it had begun */
	bool answered;            /* the proxy's client was told yes; what it sends now is for the server */
	bool real;                /* host was found by the address: another name of the same address may turn out */
	struct address candidates[CANDIDATES];
	uint8_t n_candidates, next_candidate;
	int last_errno;           /* of the last attempt that failed */
	struct verdict closed;    /* why an address of the name was not tried */
	struct waiter waiter;
	struct timer connect_timer, stage_timer, request_timer; /* the last one is TIMER_LINGER's too */
	struct flow flows[2];     /* TO_SERVER, TO_CLIENT */
	size_t scanned;
	struct http_body body;
	struct http_watch watch;
	struct h2 *h2;            /* FILTER_H2; owned */
	bool upgrade_pending;
	uint32_t requests;        /* heads that were judged */
	uint64_t answers_from;    /* what the server had sent when the last of them was */
	uint64_t started_ms, drain_until_ms;
};
enum { TO_SERVER, TO_CLIENT };

TAILQ_HEAD(conn_list, conn);

/* At a time; each may hold H2_BLOCK_MAX of a block and a table of H2_TABLE_MAX. */
#define H2_CONNECTIONS_MAX 256

#define SCRATCH (256 * 1024)

struct gateway {
	const struct gateway_config *cfg;
	struct policy *policy;
	bool redirected, packets; /* see struct gateway_sockets */
	struct source *listeners;
	uint16_t *listener_ports; /* of each, as it is bound */
	size_t n_listeners;
	int epoll;
	uint64_t now_ms;
	struct reporter reporter;
	struct source report, resolver, own, nflog, tcp[2], udp[2], dns_tcp[2], proxy;
	struct given given;   /* mode = host */
	struct names names;
	struct timer_list timers[TIMERS];
	uint32_t timer_ms[TIMERS];
	struct conn_list conns, ready, dead;
	uint32_t n_conns, max_conns, next_id;
	uint64_t hold_until_ms;   /* nothing is accepted: there are no descriptors */
	uint32_t accepts;         /* that may follow at once, see ACCEPTS_BURST */
	uint64_t accepts_ms;      /* as of then */
	bool busy, held;          /* which listeners are out of the epoll set: all that make reports; those that accept */
	uint32_t n_dns_clients, n_dns_waits, n_h2;
	TAILQ_HEAD(, dns_client) dns_clients, dead_dns;
	bool limited;        /* max-bytes is set */
	uint64_t bytes_left;
	bool bytes_used_up;
	bool inspect_bare;   /* bare addresses are inspected too, as a deny rule names names */
	struct bulk_pipe pipes[16]; /* empty ones, kept for the next bulk */
	unsigned n_pipes;
	uint64_t pipe_bytes; /* of all that are open */
	bool have_public6;   /* this host has a public IPv6 address */
	bool writing;        /* the report socket is watched for room */
	bool resolver_asked, resolver_lost; /* for one, of the supervisor; there will be none any more */
	bool stop, broken, orphan; /* the run is over; the gateway failed; the supervisor is gone */
	/* Netlink messages are read in place. */
	char scratch[SCRATCH] __attribute__((aligned(16)));
};

/* --- gateway.c --- */
int source_watch(struct gateway *g, struct source *s, uint32_t events);
void source_close(struct source *s);
void timer_arm(struct gateway *g, struct timer *t, enum timer_kind kind, void *owner);
void timer_stop(struct gateway *g, struct timer *t);
void gateway_error(struct gateway *g, int errnum, const char *text);
/* accept4 failed, for want of a descriptor or memory: the listeners rest, as they would be ready all the time. */
void gateway_hold(struct gateway *g);
/* One more is about to be accepted. Return: false where it has to wait. */
bool gateway_may_accept(struct gateway *g);

enum pump_result { PUMP_WAIT, PUMP_MORE, PUMP_DONE, PUMP_SOURCE_RESET, PUMP_SINK_RESET, PUMP_LIMIT, PUMP_ENDED };

/* --- conn.c --- */
void conn_event(struct gateway *g, struct conn *c, struct attempt *a, uint32_t events);
void conn_turn(struct gateway *g, struct conn *c); /* its turn in the ready list */
void conn_timer(struct gateway *g, struct conn *c, enum timer_kind kind);
void conn_free(struct gateway *g, struct conn *c);
/* Ends it. reset_*: that side gets a reset instead of an end. Reported where it was opened. */
void conn_end(struct gateway *g, struct conn *c, enum egress_end end, bool reset_client, bool reset_server);
/* max-bytes: reported as ended, and what was read before is delivered; a moment is left for that. */
void conn_limit(struct gateway *g, struct conn *c);
/* Is all that the client sent with the server, and will there be no more? Or is it not on its way there at all? */
bool conn_is_done(const struct conn *c);
/* The run is over. */
void conn_stop(struct gateway *g, struct conn *c);
/* Says no, in the client's protocol where that can be, and reports it. seen: the name in the stream, or NULL. */
void conn_deny(struct gateway *g, struct conn *c, struct verdict v, const char *seen);
void conn_deny_reason(struct gateway *g, struct conn *c, enum verdict_reason reason, const char *seen);
const char *conn_name(const struct conn *c); /* "" for a bare address */

/* For connect.c. Frees it at the end of the turn. */
void conn_bury(struct gateway *g, struct conn *c, bool reset_client, bool reset_server);
/* The report of what was decided; errnum: with EGRESS_UNREACHED. */
void conn_report(struct gateway *g, struct conn *c, enum egress_outcome outcome, const struct verdict *v, const char *seen,
		 int errnum);
void conn_stop_waiting(struct conn *c);
/* No address of it answered. */
void conn_unreached(struct gateway *g, struct conn *c, int errnum);
/* Both sides are there, and what the filter must see first was seen: bytes may go. */
void conn_maybe_relay(struct gateway *g, struct conn *c);
/* Return: false where the connection has ended with it. */
bool conn_take_result(struct gateway *g, struct conn *c, int direction, enum pump_result result);

/* --- connect.c --- */
void conn_accept(struct gateway *g, struct source *listener);
void conn_resolved(struct gateway *g, struct conn *c);
/* Where it goes is known: decide, resolve, connect. */
void conn_open_name(struct gateway *g, struct conn *c, const char *name);
void conn_open_address(struct gateway *g, struct conn *c, const struct address *addr);
/* The next addresses are tried; when none is left it is unreached. */
void conn_connect_next(struct gateway *g, struct conn *c);
/* That attempt is the server's side now. */
void conn_connected(struct gateway *g, struct conn *c, struct attempt *a);

/* --- inspect.c --- */
/* Which filter the connection needs, by port and verdict. */
void inspect_start(struct gateway *g, struct conn *c);
/* Judges what lies in the client's direction behind `ready`. Return: false where the connection was denied or ended. */
bool inspect_run(struct gateway *g, struct conn *c);
/* The server's bytes, while FILTER_UPGRADE waits for its answer. */
void inspect_answer(struct conn *c, const char *bytes, size_t len);

/* --- answer.c --- */
/*
 * Puts the refusal that the client understands into the flow to it. v: why; NULL: the server was not reached, errnum
 * says why.
 * Return: false where the client can be told nothing: reset it.
 */
bool answer_no(struct gateway *g, struct conn *c, const struct verdict *v, int errnum);
/* A request, after one that was let through: is every answer out, as far as can be seen, so that a refusal is the next? */
bool answer_is_due(const struct conn *c);
/* The proxy's yes. */
void answer_yes(struct conn *c);

/* --- proxy.c --- */
/* Goes on with the handshake at the proxy port. Return: false where the connection ended. */
bool proxy_run(struct gateway *g, struct conn *c);

/* --- relay.c --- */
enum pump_result relay_pump(struct gateway *g, struct conn *c, int direction);
/* Only writes what is ready. */
enum pump_result relay_flush(struct conn *c, int direction);
/* Only reads from the client into the buffer, up to `cap` bytes of unjudged ones. PUMP_DONE: the client has ended. */
enum pump_result relay_fill(struct gateway *g, struct conn *c, uint32_t cap);
/* The client sent more behind its last request, and it was thrown away. */
void conn_dropped(struct conn *c);
void flow_append(struct flow *f, const void *bytes, size_t len);
void flow_free(struct gateway *g, struct flow *f);
int conn_fd(const struct conn *c, int direction, bool source);
/* Has the kernel nothing left to send there (fd -1: none)? */
bool relay_is_sent(int fd);
/* Are there so many bytes held back that a long head is not waited for? */
bool relay_is_crowded(const struct flow *f);

/* --- dnsserver.c --- */
struct dns_client;
void dns_udp(struct gateway *g, struct source *s);
void dns_accept(struct gateway *g, struct source *listener);
void dns_tcp_event(struct gateway *g, struct dns_client *c, uint32_t events);
void dns_tcp_timeout(struct gateway *g, struct dns_client *c);
void dns_reap(struct gateway *g);
/* Goes on with the questions that came while the reports were behind. */
void dns_resume(struct gateway *g);
void dns_resolved(struct gateway *g, struct waiter *w, struct host *h);

/* --- resolver.c --- */
/* The supervisor started it; -1: could not. What was asked meanwhile is asked now. */
void resolver_arrived(struct gateway *g, int fd);
void resolver_ask(struct gateway *g, struct host *h);
void resolver_event(struct gateway *g);
/* The addresses of a name, now or later: true where they are there (or are known not to be). */
bool resolver_ready(struct gateway *g, struct host *h);

/* --- own.c --- */
int own_open(void); /* a netlink socket that hears of changes; Return: it or -errno */
int own_read(struct gateway *g);
int own_enter(struct gateway *g); /* mode = host: what was read last, in the programs' map */

/* --- filterlog.c --- */
void filterlog_event(struct gateway *g);

#endif
