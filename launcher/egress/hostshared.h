/* SPDX-License-Identifier: LGPL-2.1-or-later OR BSD-2-Clause */
/* What host.bpf.c and its loader both know, beside bpfshared.h. */
#ifndef AGENTBOX_EGRESS_HOSTSHARED_H
#define AGENTBOX_EGRESS_HOSTSHARED_H

#include <linux/types.h>

/* An address in network order, IPv4 as v4-mapped (RFC 4291 2.5.5.2), so that there is one form of each. */
struct host_address {
	union {
		__u8 b[16];
		__u32 w[4];
	};
};

/* Key of the trie of networks. prefix: of 128; an IPv4 network's is 96 more than its own. */
struct host_key {
	__u32 prefix;
	struct host_address addr;
};

/* Sets of ports of the rules are numbered from 1 (bpfrules.c), those of addresses that were answered for names from here. */
#define HOST_GIVEN_SETS 0x80000000U

/* A socket of the box that asks the name server, in network order; with the time of its last packet to it, CLOCK_MONOTONIC in ns. */
struct host_asker {
	__u32 addr;
	__u16 port, protocol;
};

/* IP packets with their headers, but for those of the run's own name server. */
struct host_usage {
	__u64 sent_bytes, sent_packets, received_bytes, received_packets;
	__u32 used_up; /* max-bytes was reached */
	__u32 closed;  /* nothing passes any more */
};

/* Who opened or last connected a socket, as a packet has no process; and where it was told to send last. */
struct host_owner {
	__u64 to[2];
	char comm[16];
	__u32 pid;
	__u32 port;
};

/* In .rodata, set before the programs are loaded. */
struct host_config {
	struct host_address name_server; /* the run's own, at port 53 */
	__u32 deny_host;                 /* the set of ports that `deny = @host` closes; 0: none */
	__u32 ring_bytes;
	__u32 rules, denies;             /* is there a rule that allows an address, one that denies? */
	__u64 max_bytes;                 /* both ways together; 0: no limit */
};

#endif
