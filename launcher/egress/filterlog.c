/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What the box's network refused before it could come here (linux/netfilter/nfnetlink_log.h): the kernel sends the head
 * of each packet, and each attempt becomes a report.
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

void filterlog_event(struct gateway *g)
{
	for (int i = 0; i < MESSAGES_A_TURN && !reporter_is_busy(&g->reporter); i++) {
		ssize_t n = recv(g->nflog.fd, g->scratch, sizeof(g->scratch), MSG_DONTWAIT);
		int len = (int)n;

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == ENOBUFS) {
			gateway_error(g, ENOBUFS, "refused packets came faster than they could be logged");
			continue;
		}
		if (n <= 0)
			return;
		for (const struct nlmsghdr *h = (const struct nlmsghdr *)g->scratch; NLMSG_OK(h, len); h = NLMSG_NEXT(h, len))
			if (h->nlmsg_type == (NFNL_SUBSYS_ULOG << 8 | NFULNL_MSG_PACKET) &&
			    h->nlmsg_len >= NLMSG_LENGTH(sizeof(struct nfgenmsg)))
				take_packet(g, h);
	}
}
