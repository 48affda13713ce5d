/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "egress/packet.h"

#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_log.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <string.h>

#include "base/banned.h"

bool packet_parse(const uint8_t *p, size_t len, struct packet_attempt *out)
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
	return out->protocol != IPPROTO_TCP || len <= transport + 13 || (p[transport + 13] & 0x12) == 0x02;
}

/* The payload among the attributes of one message. */
static const uint8_t *payload(const uint8_t *at, size_t len, size_t *packet_len)
{
	struct nlattr attr;

	while (len >= sizeof(attr)) {
		size_t whole;

		memcpy(&attr, at, sizeof(attr));
		if (attr.nla_len < sizeof(attr) || attr.nla_len > len)
			return NULL;
		if ((attr.nla_type & NLA_TYPE_MASK) == NFULA_PAYLOAD) {
			*packet_len = attr.nla_len - sizeof(attr);
			return at + sizeof(attr);
		}
		whole = NLA_ALIGN((size_t)attr.nla_len);
		if (whole > len)
			return NULL;
		at += whole;
		len -= whole;
	}
	return NULL;
}

const uint8_t *packet_next(const uint8_t **at, size_t *len, size_t *packet_len)
{
	const size_t head = NLMSG_LENGTH(sizeof(struct nfgenmsg));
	struct nlmsghdr h;

	while (*len >= sizeof(h)) {
		const uint8_t *message = *at, *found = NULL;
		size_t whole;

		memcpy(&h, message, sizeof(h));
		if (h.nlmsg_len < sizeof(h) || h.nlmsg_len > *len)
			return NULL;
		if (h.nlmsg_type == (NFNL_SUBSYS_ULOG << 8 | NFULNL_MSG_PACKET) && h.nlmsg_len >= head)
			found = payload(message + head, h.nlmsg_len - head, packet_len);
		whole = NLMSG_ALIGN((size_t)h.nlmsg_len);
		if (whole > *len)
			whole = *len;
		*at += whole;
		*len -= whole;
		if (found)
			return found;
	}
	return NULL;
}
