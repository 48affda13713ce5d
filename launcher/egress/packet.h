/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Heads of packets that the box sent: where they were to go. */
#ifndef AGENTBOX_EGRESS_PACKET_H
#define AGENTBOX_EGRESS_PACKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "egress/address.h"

struct packet_attempt {
	struct address addr;
	uint16_t port; /* host order; 0 where the head is cut, or the protocol has none */
	uint8_t protocol;
};

/*
 * bytes: a packet from its IP head on, cut anywhere. Extension headers of IPv6 are not followed: such packets have no port.
 * Return: is it an attempt? Of TCP only a SYN is.
 */
bool packet_parse(const uint8_t *bytes, size_t len, struct packet_attempt *out);

/*
 * The next packet in what an NFLOG socket gave (linux/netfilter/nfnetlink_log.h).
 * at, len: what is left, moved on. Return: the packet's first byte, within what was given, with *packet_len; NULL at the end.
 */
const uint8_t *packet_next(const uint8_t **at, size_t *len, size_t *packet_len);

#endif
