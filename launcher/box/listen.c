/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "box/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"

#include "base/banned.h"

#define BACKLOG 4096
#define LOOPBACK_INDEX 1
#define DNS_PORT 53

static int option(int fd, int level, int name)
{
	int one = 1;

	return setsockopt(fd, level, name, &one, sizeof(one));
}

void listen_options(int fd)
{
	option(fd, IPPROTO_TCP, TCP_NODELAY);
	setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, NETNS_CONGESTION_CONTROL, strlen(NETNS_CONGESTION_CONTROL));
}

/* Return: a listener at the port of every address of the family, or -errno. */
static int listen_port(int family, uint16_t port)
{
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(port)};
	bool v6 = family == AF_INET6;
	cleanup_fd int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0 || (v6 && option(fd, IPPROTO_IPV6, IPV6_V6ONLY) < 0))
		return -errno;
	listen_options(fd);
	if (bind(fd, v6 ? (struct sockaddr *)&in6 : (struct sockaddr *)&in, v6 ? sizeof(in6) : sizeof(in)) < 0 ||
	    listen(fd, BACKLOG) < 0)
		return -errno;
	return steal_fd(&fd);
}

int listen_ports(const struct netns_plan *plan, bool have6, struct netns_sockets *out)
{
	size_t ports = 0;

	for (size_t i = 0; i < plan->n_ports; i++) {
		for (unsigned port = plan->ports[i].first; port <= plan->ports[i].last; port++) {
			if (!port || port == DNS_PORT || port == NETNS_PROXY_PORT)
				continue;
			if (++ports > NETNS_LISTEN_PORTS)
				return -E2BIG;
			for (int v6 = 0; v6 < (have6 ? 2 : 1); v6++) {
				int fd = listen_port(v6 ? AF_INET6 : AF_INET, (uint16_t)port);

				if (fd < 0)
					return fd;
				out->listeners[out->n_listeners++] = fd;
			}
		}
	}
	return 0;
}

/* Where the program of below goes on: a jump counts from the instruction behind it. */
#define TO(target, here) ((target) - (here) - 1)
enum { V4 = 4, V6 = 12, TCP = 16, UDP = 19, TAKE = 21, LEAVE = 22 };

/* The packet begins at its network header. A fragment but the first has no ports. Extension headers are not followed. */
static const struct sock_filter asks[] = {
	/* 0 */ BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 0),
	/* 1 */ BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xf0),
	/* 2 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0x40, TO(V4, 2), 0),
	/* 3 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0x60, TO(V6, 3), TO(LEAVE, 3)),
	/* V4: not what goes to 127/8, which is the box's own */
	/* 4 */ BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 16),
	/* 5 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 127, TO(LEAVE, 5), 0),
	/* 6 */ BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 6),
	/* 7 */ BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 0x1fff, TO(LEAVE, 7), 0),
	/* 8 */ BPF_STMT(BPF_LDX | BPF_B | BPF_MSH, 0),
	/* 9 */ BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 9),
	/* 10 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_TCP, TO(TCP, 10), 0),
	/* 11 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_UDP, TO(UDP, 11), TO(LEAVE, 11)),
	/* V6 */
	/* 12 */ BPF_STMT(BPF_LDX | BPF_W | BPF_IMM, 40),
	/* 13 */ BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 6),
	/* 14 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_TCP, TO(TCP, 14), 0),
	/* 15 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_UDP, TO(UDP, 15), TO(LEAVE, 15)),
	/* TCP, which begins at X: SYN, and none of ACK, RST and FIN */
	/* 16 */ BPF_STMT(BPF_LD | BPF_B | BPF_IND, 13),
	/* 17 */ BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0x17),
	/* 18 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0x02, TO(TAKE, 18), TO(LEAVE, 18)),
	/* UDP */
	/* 19 */ BPF_STMT(BPF_LD | BPF_H | BPF_IND, 2),
	/* 20 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, DNS_PORT, TO(LEAVE, 20), TO(TAKE, 20)),
	/* 21 */ BPF_STMT(BPF_RET | BPF_K, 128),
	/* 22 */ BPF_STMT(BPF_RET | BPF_K, 0),
};

int listen_log(void)
{
	struct sock_fprog program = {.len = sizeof(asks) / sizeof(asks[0]), .filter = (struct sock_filter *)asks};
	struct sockaddr_ll lo = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL), .sll_ifindex = LOOPBACK_INDEX};
	/* Of no protocol, so that nothing comes before the filter is there. */
	cleanup_fd int fd = socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) < 0 ||
	    option(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING) < 0 || bind(fd, (struct sockaddr *)&lo, sizeof(lo)) < 0)
		return -errno;
	return steal_fd(&fd);
}
