/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * This host's own addresses, which are closed to names and `*`: read when the gateway starts, and again whenever the
 * kernel says that they changed (rtnetlink(7)), as a VPN may come up during a run. Those of its interfaces, that is;
 * addresses that are local by a route alone are not among them.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "base/str.h"
#include "egress/state.h"

#include "base/banned.h"

#define OWN_MAX 8192 /* with broadcast addresses */
#define OWN_TRIES 10
#define OWN_WAIT_MS 200 /* for a part of the answer, which the kernel makes at once */

int own_open(void)
{
	struct sockaddr_nl sa = {.nl_family = AF_NETLINK, .nl_groups = RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR};
	struct timeval wait = {.tv_usec = OWN_WAIT_MS * 1000};
	int one = 1, fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);

	if (fd < 0)
		return -errno;
	/*
	 * The kernel filters the dump by what it holds anyway; errors of overrun are seen as ENOBUFS, and we read all
	 * again.
	 */
	setsockopt(fd, SOL_NETLINK, NETLINK_CAP_ACK, &one, sizeof(one));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
	if (bind(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0) {
		int rc = -errno;

		close(fd);
		return rc;
	}
	return fd;
}

struct list {
	struct address *v;
	size_t n, cap;
};

static struct list known; /* as of the last look */

static void add_own(struct list *l, const struct address *a)
{
	vec_reserve(&l->v, &l->cap, l->n, sizeof(*l->v));
	l->v[l->n++] = *a;
}

/* What is sent to the broadcast address of a network comes to this host too. */
static void add_broadcast(struct list *l, const struct address *a, unsigned prefix)
{
	struct address to = *a;
	uint32_t v4;

	if (a->family != 4 || prefix > 30)
		return;
	memcpy(&v4, a->b, 4);
	v4 |= htonl(prefix ? UINT32_MAX >> prefix : UINT32_MAX);
	memcpy(to.b, &v4, 4);
	add_own(l, &to);
}

static void take_address(struct list *l, const struct nlmsghdr *h)
{
	const struct ifaddrmsg *m = NLMSG_DATA(h);
	const struct rtattr *local = NULL, *address = NULL;
	struct address own;
	int len = (int)h->nlmsg_len - (int)NLMSG_LENGTH(sizeof(*m));

	if (len < 0 || (m->ifa_family != AF_INET && m->ifa_family != AF_INET6) || l->n >= OWN_MAX)
		return;
	for (const struct rtattr *a = IFA_RTA(m); RTA_OK(a, len); a = RTA_NEXT(a, len)) {
		if (a->rta_type == IFA_LOCAL)
			local = a;
		else if (a->rta_type == IFA_ADDRESS)
			address = a;
	}
	/* On a point-to-point link IFA_ADDRESS is the peer's (linux/if_addr.h). */
	if (!local)
		local = address;
	if (!local || RTA_PAYLOAD(local) != (m->ifa_family == AF_INET ? 4 : 16))
		return;
	own = m->ifa_family == AF_INET ? address_from_v4(RTA_DATA(local)) : address_from_v6(RTA_DATA(local));
	add_own(l, &own);
	add_broadcast(l, &own, m->ifa_prefixlen);
}

/* Reads up to the end of the dump. Notices of changes meanwhile are taken for what they add. Return: 0 or -errno. */
static int read_dump(struct gateway *g, struct list *l)
{
	for (;;) {
		ssize_t n = recv(g->own.fd, g->scratch, sizeof(g->scratch), 0);
		int len = (int)n;

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		for (const struct nlmsghdr *h = (const struct nlmsghdr *)g->scratch; NLMSG_OK(h, len); h = NLMSG_NEXT(h, len)) {
			if (h->nlmsg_type == NLMSG_DONE)
				return 0;
			if (h->nlmsg_type == NLMSG_ERROR)
				return ((const struct nlmsgerr *)NLMSG_DATA(h))->error ?: -EBADMSG;
			if (h->nlmsg_type == RTM_NEWADDR)
				take_address(l, h);
		}
	}
}

int own_read(struct gateway *g)
{
	struct {
		struct nlmsghdr h;
		struct ifaddrmsg m;
	} ask = {.h = {.nlmsg_len = sizeof(ask), .nlmsg_type = RTM_GETADDR, .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP}};
	struct list l = {0};
	int rc, tries = 0;

	do {
		l.n = 0;
		/* What announced the change, or is left of an earlier try, says less than a new look does. */
		while (recv(g->own.fd, g->scratch, sizeof(g->scratch), MSG_DONTWAIT) > 0 || errno == EINTR || errno == ENOBUFS)
			;
		rc = send(g->own.fd, &ask, sizeof(ask), 0) < 0 ? -errno : read_dump(g, &l);
		/* A dump that was given up half-way is going on in the kernel: -EBUSY until it is read to its end. */
	} while ((rc == -ENOBUFS || rc == -EBUSY || rc == -EAGAIN) && ++tries < OWN_TRIES);
	/* Those beyond would be open to names. */
	if (rc == 0 && l.n >= OWN_MAX)
		rc = -EOVERFLOW;
	if (rc == 0) {
		policy_set_own(g->policy, l.v, l.n);
		g->have_public6 = false;
		for (size_t i = 0; i < l.n; i++)
			g->have_public6 |= l.v[i].family == 6 && !address_special(&l.v[i]);
	}
	if (rc < 0) {
		free(l.v);
		return rc;
	}
	free(known.v);
	known = l;
	return g->given.own < 0 ? 0 : own_enter(g);
}

int own_enter(struct gateway *g)
{
	return given_set_own(&g->given, known.v, known.n);
}
