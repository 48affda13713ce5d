/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The nf_tables rules of a box's network namespace, as one transaction of raw netlink. Internal to box/netns.c. */
#ifndef AGENTBOX_BOX_NFT_H
#define AGENTBOX_BOX_NFT_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>

#include "profile/rule.h"

struct nft_plan {
	const struct rule_ports *ports; /* sorted, disjoint */
	size_t n_ports;
	const struct rule *nets;
	size_t n_nets;
	bool any_address;
	struct in_addr own4;
	struct in6_addr own6;
	bool have6;
	bool redirect; /* instead of tproxy */
	bool log;      /* refused packets go to NETNS_NFLOG_GROUP; without it TCP is not refused here, so that the gateway can tell */
};

/* All or nothing. Return: 0 or -errno (ENOENT, EOPNOTSUPP: the kernel lacks a kind of rule). */
int nft_apply(const struct nft_plan *plan);

#endif
