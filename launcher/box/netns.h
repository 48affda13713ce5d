/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The plumbing in the box's network namespace, which has no way out of its own: every address leads to `lo`, and what
 * is sent to it is handed to listeners whose descriptors leave the namespace for the gateway. Nothing here decides: a
 * port or an address that no rule names is refused early so that the program sees ECONNREFUSED, and the gateway checks
 * everything again.
 */
#ifndef AGENTBOX_BOX_NETNS_H
#define AGENTBOX_BOX_NETNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "profile/rule.h"

/*
 * The box's own addresses, on `lo`. Without one that is not 127/8, getaddrinfo with AI_ADDRCONFIG finds nothing at all.
 */
#define NETNS_OWN4 "198.18.255.254"
#define NETNS_OWN6 "fd00:ab::ffff"
/* From this range come the addresses that stand for names (RFC 2544: benchmarking, on no public network). */
#define NETNS_SYNTHETIC_FIRST 0xc6120000U /* 198.18.0.0 */
#define NETNS_SYNTHETIC_PREFIX 15
#define NETNS_CAPTURE_PORT 18254
#define NETNS_PROXY_PORT 18255 /* on 127.0.0.1 and the own IPv4 address: HTTP proxy and SOCKS 5 */
#define NETNS_NFLOG_GROUP 7

/*
 * Nothing is lost between box and gateway, and nothing is to be paced. With the host's own congestion control, where that
 * is BBR, half of the bulk's time goes into pacing it. Reno is in every kernel, and for everybody (net/ipv4/tcp_cong.c).
 */
#define NETNS_CONGESTION_CONTROL "reno"

/* How connections are captured, from the best down. */
enum netns_capture {
	NETNS_TPROXY,   /* getsockname(2) of the accepted socket is where the program wanted to go */
	NETNS_REDIRECT, /* getsockopt(2) SO_ORIGINAL_DST is */
	NETNS_LISTEN,   /* without nf_tables: a listener a port, see box/listen.h; getsockname(2) is */
	NETNS_CAPTURES
};

struct netns_plan {
	/* What the rules can reach at all; borrowed. */
	const struct rule_ports *ports; /* sorted, disjoint */
	size_t n_ports;
	const struct rule *nets; /* address rules */
	size_t n_nets;
	bool any_address; /* every address may be reached: a `*` rule, or egress.addresses = real */
	enum netns_capture best; /* none of those before it, though they may be there; for tests of the others */
};

/* The sockets that leave the namespace. -1: not there (no IPv6, no NFLOG). */
enum netns_fd {
	NETNS_TCP4,
	NETNS_TCP6,
	NETNS_DNS_UDP4,
	NETNS_DNS_UDP6,
	NETNS_DNS_TCP4,
	NETNS_DNS_TCP6,
	NETNS_PROXY,
	NETNS_NFLOG, /* what was refused early, as nfnetlink_log messages; with NETNS_LISTEN the packets themselves */
	NETNS_FDS
};

#define NETNS_LISTEN_PORTS 64
#define NETNS_LISTENERS_MAX (2 * NETNS_LISTEN_PORTS)

struct netns_sockets {
	int fds[NETNS_FDS];
	enum netns_capture capture;
	int listeners[NETNS_LISTENERS_MAX]; /* NETNS_LISTEN: in place of NETNS_TCP4 and NETNS_TCP6 */
	size_t n_listeners;
};

/*
 * Sent over a UNIX socket with the descriptors that `present` names, in the order of enum netns_fd. The listeners follow,
 * FD_SEND_MAX a message but for the last.
 */
struct netns_message {
	uint32_t present; /* bit N: enum netns_fd N comes along */
	uint32_t capture; /* enum netns_capture */
	uint32_t n_listeners;
};

enum netns_step {
	NETNS_STEP_NAMESPACE = 1,
	NETNS_STEP_LOOPBACK,
	NETNS_STEP_SOCKET,   /* object: enum netns_fd */
	NETNS_STEP_NETLINK,  /* a netlink socket */
	NETNS_STEP_ADDRESS,  /* object: 4 or 6 */
	NETNS_STEP_ROUTE,    /* object: 4 or 6 */
	NETNS_STEP_LISTEN,   /* the listeners in the place of nf_tables; object: the errno of those */
	NETNS_STEP_SEND,
};

struct netns_failure {
	int step; /* enum netns_step */
	int object;
};

/* `lo` up and nothing else: egress.mode = none. One ioctl. Async-signal-safe. Return: 0 or -errno. */
int netns_loopback_up(void);

/*
 * Everything for egress.mode = gateway, and the sockets sent over `sock`. For the cloned child, in the new network
 * namespace with CAP_NET_ADMIN over it, before capabilities go; leaves no descriptor open. It allocates a few KiB
 * through libnl, which is safe
 * there: the parent is single-threaded, so no other thread can have held malloc's lock at the clone.
 * Return: 0; -errno with *failure set. Whatever fails, nothing can leave the namespace.
 */
int netns_setup(const struct netns_plan *plan, int sock, struct netns_failure *failure);

/* For the supervisor: the failure in words, and what to do. Return: -errnum. */
int netns_failure_text(const struct netns_failure *failure, int errnum, struct err *e);

/*
 * Receives what netns_setup sent. out: the caller's to close, with netns_close; fds are -1 where none came, and all after a
 * failure. Return: 0; -errno (EBADMSG: not such a message; ENODATA: the other end is closed).
 */
int netns_receive(int sock, struct netns_sockets *out);
void netns_close(struct netns_sockets *s);

#endif
