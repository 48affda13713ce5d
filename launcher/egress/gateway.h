/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The gateway: a process in the host's network namespace that accepts what the box's network captured, decides by the
 * policy, and relays. It parses hostile bytes, so it has no capabilities, no files (Landlock), its own filter of system
 * calls, bounded memory, and dies with the supervisor. When it dies, the box's network ends nowhere.
 */
#ifndef AGENTBOX_EGRESS_GATEWAY_H
#define AGENTBOX_EGRESS_GATEWAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "egress/policy.h"

/* The sockets of the box's network, in the order of box/netns.h's enum netns_fd. */
enum gateway_socket {
	GATEWAY_TCP4,
	GATEWAY_TCP6,
	GATEWAY_DNS_UDP4,
	GATEWAY_DNS_UDP6,
	GATEWAY_DNS_TCP4,
	GATEWAY_DNS_TCP6,
	GATEWAY_PROXY,
	GATEWAY_NFLOG,
	GATEWAY_SOCKETS
};

/*
 * egress.mode = host: the same process is the box's name server alone. What it needs comes over its socket once the eBPF
 * programs are attached.
 */
enum gateway_host_fd {
	GATEWAY_HOST_UDP, /* the name server's sockets */
	GATEWAY_HOST_TCP,
	GATEWAY_HOST_GIVEN, /* maps */
	GATEWAY_HOST_PORTS,
	GATEWAY_HOST_OWN,
	GATEWAY_HOST_ASKERS,
	GATEWAY_HOST_FDS
};

/* fds: borrowed. Return: 0 or -errno. */
int gateway_host_send(int sock, const int fds[GATEWAY_HOST_FDS]);
/* fds: owned by the caller. Return: 0 or -errno. */
int gateway_host_receive(int sock, int fds[GATEWAY_HOST_FDS]);

/*
 * Supervisor. Binds a name server's sockets at an address of the run's own in 127/8, port 53, that nobody else has.
 * sockets: UDP and TCP, owned by the caller. Return: 0 or -errno with `e`: no right to the port, or another program has it
 * at all addresses.
 */
int gateway_host_bind(struct address *out, int sockets[2], struct err *e);

#define GATEWAY_LISTENERS_MAX 128

struct gateway_sockets {
	int fds[GATEWAY_SOCKETS]; /* -1 where there is none */
	/* Captured by redirection: where a connection wanted to go is its SO_ORIGINAL_DST, and else its own name. */
	bool redirected;
	/* Without a filter: listeners at the ports that may be reached, in the place of GATEWAY_TCP4 and GATEWAY_TCP6. */
	int listeners[GATEWAY_LISTENERS_MAX];
	size_t n_listeners;
	bool packets; /* GATEWAY_NFLOG is a packet socket: what asks for something, be it let through or not */
};

/* `@host` in the box is this address: 198.18.0.1. */
#define GATEWAY_THIS_HOST4 "198.18.0.1"
/* The box's own addresses, as box/netns.h has them. */
#define GATEWAY_OWN4 "198.18.255.254"
#define GATEWAY_OWN6 "fd00:ab::ffff"

struct gateway_config {
	bool host;             /* egress.mode = host: take_sockets is not called */
	struct policy *policy; /* the forked process has its own copy */
	bool synthetic;        /* egress.addresses */
	bool inspect;
	uint64_t max_bytes;             /* both ways together; 0: no limit */
	uint64_t max_connections;       /* at once; 0: as many as descriptors do, GATEWAY_CONNECTIONS_MAX at most */
	uint64_t connect_timeout_ms;    /* resolving and connecting together; 0: GATEWAY_CONNECT_TIMEOUT_MS */
	pid_t parent;                   /* whoever this process must not outlive: getpid() before fork */
	/*
	 * Waits for the box's sockets (netns_receive, called by the supervisor's adapter; egress does not know box).
	 * Return: 0 or -errno.
	 */
	int (*take_sockets)(int sock, struct gateway_sockets *out);
};

#define GATEWAY_CONNECTIONS_MAX 8192
#define GATEWAY_CONNECT_TIMEOUT_MS 30000

/*
 * Runs in a fresh fork of the single-threaded supervisor. Sets itself up while the box is being made, then waits for
 * the sockets.
 * report_fd: the gateway's end of a SOCK_SEQPACKET pair; when the other end closes, the gateway ends.
 * socket_fd: the end that the sockets come from. Both owned from now on; every other descriptor above 2 is closed.
 * Return: an exit status: 0 when the supervisor ended it, else 1, after EGRESS_FAILED. The caller leaves with _exit.
 */
int gateway_main(const struct gateway_config *cfg, int report_fd, int socket_fd);

/*
 * Supervisor, over its end of the report pair: the run is over. What is on its way is passed on, what is to be reported
 * is, and then the gateway closes its end. Return: 0 or -errno.
 */
int gateway_end(int report_fd);

/*
 * Supervisor: the answer to EGRESS_RESOLVER. resolver_fd: one end of a SOCK_SEQPACKET pair whose other end resolver_main
 * has; -1: there is none to be had, so names are not resolved. Stays the caller's. Return: 0 or -errno.
 */
int gateway_give_resolver(int report_fd, int resolver_fd);

/*
 * The resolver, which the gateway asks for at the first name; a run that needs none has none. In a fresh fork of the
 * single-threaded supervisor, as gateway_main. sock: its end of the pair, owned from now on; when the other end closes it
 * ends. parent: getpid() before the fork.
 */
void resolver_main(int sock, pid_t parent) __attribute__((noreturn));

#endif
