/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What the box's network refused before it could come here: the kernel sends the head of each packet (linux/netfilter/
 * nfnetlink_log.h; without nf_tables packet(7), of all that asks for something), and each attempt becomes a report.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_log.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "egress/state.h"

#include "base/banned.h"

#define MESSAGES_A_TURN 64

struct attempted {
	struct address addr;
	uint16_t port;
	uint8_t protocol;
};

/*
 * Only what a cut header holds; extension headers of IPv6 are not followed, such packets are reported without a port.
 */
static bool parse_packet(const uint8_t *p, size_t len, struct attempted *out)
{
	size_t transport;

	memset(out, 0, sizeof(*out));
	if (len >= 20 && p[0] >> 4 == 4) {
		out->addr = address_from_v4(p + 16);
		out->protocol = p[9];
		transport = (size_t)(p[0] & 15) * 4;
	} else if (len >= 40 && p[0] >> 4 == 6) {
		out->addr = address_from_v6(p + 24);
		out->protocol = p[6];
		transport = 40;
	} else {
		return false;
	}
	if ((out->protocol == IPPROTO_TCP || out->protocol == IPPROTO_UDP) && len >= transport + 4)
		out->port = (uint16_t)(p[transport + 2] << 8 | p[transport + 3]);
	/* Of TCP only a SYN is an attempt. */
	if (out->protocol == IPPROTO_TCP && len > transport + 13 && (p[transport + 13] & 0x12) != 0x02)
		return false;
	return true;
}

static void report(struct gateway *g, const struct attempted *a)
{
	struct policy_request q = {.addr = &a->addr, .port = a->port};
	struct egress_report r = {.type = EGRESS_CONNECT,
				  .id = ++g->next_id,
				  .port = a->port,
				  .outcome = EGRESS_DENIED,
				  .via = EGRESS_VIA_FILTER,
				  .protocol = a->protocol,
				  .addr = a->addr};
	struct verdict v = {.reason = VERDICT_UNSUPPORTED, .rule = -1};
	struct host *h;

	if (names_find_synthetic(&g->names, &a->addr, &h)) {
		if (h) {
			memcpy(r.name, h->name, strlen(h->name) + 1);
			q.name = h->name;
			q.addr = NULL;
		} else {
			v.reason = VERDICT_NOT_GIVEN;
		}
	}
	if (v.reason != VERDICT_NOT_GIVEN && a->protocol == IPPROTO_TCP && a->port)
		v = policy_decide(g->policy, &q);
	/* What a rule allows and what was refused all the same is another protocol to that port. */
	if (v.allowed)
		v = (struct verdict){.reason = VERDICT_UNSUPPORTED, .rule = -1};
	r.reason = (uint8_t)v.reason;
	r.rule = v.rule;
	reporter_send_merged(&g->reporter, &r, g->now_ms);
}

static void take_packet(struct gateway *g, const struct nlmsghdr *h)
{
	const uint8_t *at = (const uint8_t *)NLMSG_DATA(h) + NLMSG_ALIGN(sizeof(struct nfgenmsg));
	const uint8_t *end = (const uint8_t *)h + h->nlmsg_len;
	struct attempted a;

	while (end - at >= (ptrdiff_t)sizeof(struct nlattr)) {
		struct nlattr attr;
		size_t len;

		memcpy(&attr, at, sizeof(attr));
		len = attr.nla_len;
		if (len < sizeof(attr) || len > (size_t)(end - at))
			return;
		if ((attr.nla_type & NLA_TYPE_MASK) == NFULA_PAYLOAD) {
			if (parse_packet(at + sizeof(attr), len - sizeof(attr), &a))
				report(g, &a);
			return;
		}
		len = (len + 3) & ~(size_t)3;
		if (len > (size_t)(end - at))
			return;
		at += len;
	}
}

static void take_messages(struct gateway *g, int len)
{
	for (const struct nlmsghdr *h = (const struct nlmsghdr *)g->scratch; NLMSG_OK(h, len); h = NLMSG_NEXT(h, len))
		if (h->nlmsg_type == (NFNL_SUBSYS_ULOG << 8 | NFULNL_MSG_PACKET) && h->nlmsg_len >= NLMSG_LENGTH(sizeof(struct nfgenmsg)))
			take_packet(g, h);
}

static bool is_own(const struct address *a)
{
	static const char *const own[] = {GATEWAY_OWN4, GATEWAY_OWN6, "::1"};

	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
		uint8_t b[16];
		struct address addr;

		if (inet_pton(AF_INET, own[i], b) == 1)
			addr = address_from_v4(b);
		else if (inet_pton(AF_INET6, own[i], b) == 1)
			addr = address_from_v6(b);
		else
			continue;
		if (address_eq(&addr, a))
			return true;
	}
	return false;
}

/* Something that comes to a listener, and is told of by whoever accepts it. */
static bool is_served(const struct gateway *g, const struct attempted *a)
{
	if (a->protocol != IPPROTO_TCP)
		return false;
	for (size_t i = 0; i < g->n_listeners; i++)
		if (g->listener_ports[i] == a->port)
			return true;
	return a->port == 53;
}

void filterlog_event(struct gateway *g)
{
	for (int i = 0; i < MESSAGES_A_TURN && !reporter_is_busy(&g->reporter); i++) {
		ssize_t n = recv(g->nflog.fd, g->scratch, sizeof(g->scratch), MSG_DONTWAIT);
		struct attempted a;

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == ENOBUFS) {
			gateway_error(g, ENOBUFS, "refused packets came faster than they could be logged");
			continue;
		}
		if (n <= 0)
			return;
		if (!g->packets)
			take_messages(g, (int)n);
		else if (parse_packet((const uint8_t *)g->scratch, (size_t)n, &a) && !is_own(&a.addr) && !is_served(g, &a))
			report(g, &a);
	}
}
