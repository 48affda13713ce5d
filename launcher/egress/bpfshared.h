/* SPDX-License-Identifier: LGPL-2.1-or-later OR BSD-2-Clause */
/* What egress.bpf.c and its loader both know: keys and values of the maps, and the records of the ring. */
#ifndef AGENTBOX_EGRESS_BPFSHARED_H
#define AGENTBOX_EGRESS_BPFSHARED_H

#include <linux/types.h>

/* Key of the trie of networks (linux/bpf.h, struct bpf_lpm_trie_key): IPv6, and IPv4 as ::ffff:0:0/96. In network order. */
struct bpf_key {
	__u32 prefix;
	__u8 addr[16];
};

/* A range of ports of a set, as a prefix. Its value says nothing: what is there is in the set. */
#define BPF_PORT_SET_BITS 32
struct bpf_key_port {
	__u32 prefix;
	__u32 set;    /* host order: all of its bits count */
	__u16 port;   /* network order */
	__u16 pad;
};

/*
 * What holds for addresses whose longest match this is: two sets of ports, 0 for the empty one. The rules of wider
 * networks around it are in them already, as a trie gives the longest match alone.
 */
struct bpf_node {
	__u32 allow, deny;
	__u32 listed; /* of allow, what address rules open and not `*` alone (mode = host) */
};

#define BPF_RING_BYTES (256 * 1024)

enum bpf_record_kind {
	BPF_RECORD_DENIED = 1,
	BPF_RECORD_TRIED, /* connect(2), before the port of this side is known */
	BPF_RECORD_SYN,   /* the first packet of a TCP connection: with this side's port */
	BPF_RECORD_SENT,  /* mode = host: a socket's first packet to a place */
	BPF_RECORD_BIND,  /* mode = host: a port of this host's that was asked for, and refused */
};

struct bpf_record {
	__u8 kind;
	__u8 family; /* 4 or 6; 0: a socket that may not be opened. The programs write 6 for both */
	__u16 protocol;
	__u16 port, source_port; /* host order; 0: none */
	__u32 pid;               /* 0: not known (a packet of a socket that was opened by the kernel) */
	__u32 pad;               /* 0 */
	union {
		__u8 addr[16];
		__u32 w[4]; /* as they lie in memory */
		__u64 d[2];
	};
	char comm[16];
};

/* Who opened or last connected a socket. */
struct bpf_owner {
	__u64 comm[2];
	__u64 pid;
};

/* In .rodata, set before the programs are loaded. Addresses in network order as they lie in memory. */
struct bpf_config {
	__u64 own6[2];
	__u32 own4;
	__u32 synthetic, synthetic_mask; /* mask 0: there are none */
	__u32 this_host, deny_host;      /* what stands for @host, and the set of ports that are denied there; 0: none */
	__u16 proxy_port, capture_port;  /* of the box's own addresses: their SYNs are recorded */
	__u8 rules, denies;              /* is there a rule that allows an address, one that denies? */
	__u8 pad[2];
};

#endif
