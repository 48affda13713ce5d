/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* egress.mode = host: the name server's address and sockets, and how they come to it. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "egress/gateway.h"
#include "sys/fd.h"

#include "base/banned.h"

#define DNS_PORT 53
#define BACKLOG 64
#define TRIES 16

_Static_assert(GATEWAY_HOST_FDS <= FD_SEND_MAX, "all descriptors must fit one message");

/* 127.64.0.0/10: away from what programs of the host use of 127/8 (127.0.0.53, 127.0.1.1). */
static uint32_t random_address(void)
{
	uint32_t n = 0;

	if (getrandom(&n, sizeof(n), GRND_NONBLOCK) != sizeof(n))
		n = (uint32_t)getpid() * 0x9e3779b1U;
	/* The last byte is neither 0 nor 255. */
	return 0x7f400000U | (n & 0x3fff00U) | (1 + (n & 0xff) % 254);
}

/*
 * Without SO_REUSEADDR: with it another program could bind the same place, and take the questions over. Return: a socket or
 * -errno.
 */
static int bind_socket(int type, uint32_t addr)
{
	struct sockaddr_in sa = {.sin_family = AF_INET, .sin_port = htons(DNS_PORT), .sin_addr.s_addr = htonl(addr)};
	int fd = socket(AF_INET, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), one = 1, rc;

	if (fd < 0)
		return -errno;
	/* The answer's source is the address that was asked (dnsserver.c). */
	if (type == SOCK_DGRAM && setsockopt(fd, IPPROTO_IP, IP_PKTINFO, &one, sizeof(one)) < 0)
		rc = -errno;
	else if (bind(fd, (struct sockaddr *)&sa, sizeof(sa)) == 0 && (type != SOCK_STREAM || listen(fd, BACKLOG) == 0))
		return fd;
	else
		rc = -errno;
	close(fd);
	return rc;
}

int gateway_host_bind(struct address *out, int sockets[2], struct err *e)
{
	int rc = 0;

	for (int i = 0; i < TRIES; i++) {
		uint32_t addr = random_address(), net = htonl(addr);

		sockets[0] = bind_socket(SOCK_DGRAM, addr);
		if (sockets[0] < 0) {
			rc = sockets[0];
			continue;
		}
		sockets[1] = bind_socket(SOCK_STREAM, addr);
		if (sockets[1] >= 0) {
			*out = address_from_v4(&net);
			return 0;
		}
		rc = sockets[1];
		close(sockets[0]);
	}
	sockets[0] = sockets[1] = -1;
	if (rc == -EACCES)
		return err_set(e, EACCES, "egress.mode = host: port 53 of the loopback, for the box's name server, needs CAP_NET_BIND_SERVICE");
	return err_set(e, -rc,
		       "egress.mode = host: port 53 of the loopback, for the box's name server, cannot be had: %s; does another name "
		       "server listen on it at all addresses (0.0.0.0)? Bind that to the addresses it is for",
		       strerrordesc_np(-rc));
}

int gateway_host_send(int sock, const int fds[GATEWAY_HOST_FDS])
{
	uint32_t n = GATEWAY_HOST_FDS;

	return fd_send(sock, &n, sizeof(n), fds, GATEWAY_HOST_FDS);
}

int gateway_host_receive(int sock, int fds[GATEWAY_HOST_FDS])
{
	size_t n_fds = 0;
	uint32_t count;
	ssize_t n = fd_recv(sock, &count, sizeof(count), fds, GATEWAY_HOST_FDS, &n_fds);

	if (n == sizeof(count) && count == GATEWAY_HOST_FDS && n_fds == GATEWAY_HOST_FDS)
		return 0;
	for (size_t i = 0; i < n_fds; i++)
		close(fds[i]);
	return n < 0 ? (int)n : n == 0 ? -ENODATA : -EBADMSG;
}
