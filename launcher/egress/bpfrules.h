/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The policy's address rules as the eBPF programs' maps hold them. A trie gives the longest match alone, while the policy
 * takes a port from any network around an address: so each node gets what its wider networks have too.
 */
#ifndef AGENTBOX_EGRESS_BPFRULES_H
#define AGENTBOX_EGRESS_BPFRULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "egress/bpfshared.h"
#include "egress/policy.h"

struct bpf_rules_node {
	uint8_t family; /* 4 or 6 */
	uint8_t prefix;
	uint8_t addr[16]; /* network order, the host bits zero */
	struct bpf_node value;
};

struct bpf_rules {
	struct bpf_rules_node *nodes; /* owned */
	size_t n_nodes;
	struct bpf_key_port *ports;   /* owned */
	size_t n_ports;
	bool allows, denies;          /* is there any node that allows, that denies something? */
	uint32_t deny_host;           /* the set of ports that `deny = @host` closes; 0: none */
};

/* The most keys that a range of ports comes to: two a bit. */
#define BPF_PORT_KEYS_MAX 32
/* A range of ports (inclusive) as keys of the set. Return: how many. */
size_t bpf_port_keys(uint32_t set, uint16_t first, uint16_t last, struct bpf_key_port out[BPF_PORT_KEYS_MAX]);

/*
 * Compiles. any_address: names resolve to real addresses in the box, so that an address alone does not say whether it is
 * allowed: every address then has the ports of all allow rules. This host's own addresses, which `*` does not open and
 * `deny = @host` closes, are those that the policy has now; they change, and the gateway sees to it, or with mode = host
 * a map that it keeps. What `allow = @host` opens is an address that is given for a name, see egress/given.h.
 * out: set whole; freed by bpf_rules_free, also on failure. Return: 0; -E2BIG where the rules do not fit the maps.
 */
int bpf_rules_compile(const struct policy *p, bool any_address, struct bpf_rules *out, struct err *e);
void bpf_rules_free(struct bpf_rules *r);

#endif
