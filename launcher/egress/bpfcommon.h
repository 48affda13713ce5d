/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the programs beside the gateway and those of mode = host have in common, beside bpfflags.h. For the programs alone. */
#ifndef AGENTBOX_EGRESS_BPFCOMMON_H
#define AGENTBOX_EGRESS_BPFCOMMON_H

#include <linux/bpf.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "egress/bpfflags.h"
#include "egress/bpfshared.h"

#define SOCK_STREAM 1
#define SOCK_DGRAM 2
#define DNS_PORT 53
#define TCP_SYN 0x02
#define TCP_ACK 0x10

/* The loader sets its size. */
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct bpf_key_port);
	__type(value, __u8);
} ports SEC(".maps");

/* How many records did not fit. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} lost SEC(".maps");

static __always_inline void set_v4(struct bpf_record *r, __u32 addr)
{
	r->d[0] = 0;
	/* In one: of halves the verifier makes a way of their own. */
	r->d[1] = bpf_cpu_to_be64(0xffffULL << 32 | bpf_ntohl(addr));
}

static __always_inline void set_v6(struct bpf_record *r, const struct bpf_sock_addr *ctx)
{
	r->w[0] = ctx->user_ip6[0];
	r->w[1] = ctx->user_ip6[1];
	r->w[2] = ctx->user_ip6[2];
	r->w[3] = ctx->user_ip6[3];
}

static __always_inline void set_owner(struct bpf_record *r)
{
	r->pid = bpf_get_current_pid_tgid() >> 32;
	bpf_get_current_comm(r->comm, sizeof(r->comm));
}

/* Nothing is in set 0. zero: of unknown_zero, so that what was not found is no other way than what was. */
static __always_inline flag in_set(__u32 set, __u16 port, __u64 zero)
{
	struct bpf_key_port key = {.prefix = BPF_PORT_SET_BITS + 16, .set = set, .port = bpf_htons(port)};
	const __u8 *one = bpf_map_lookup_elem(&ports, &key);

	return one ? *one & 1 : zero;
}

/* As address_embedded_v4. Return: is there one? */
static __always_inline flag embedded_v4(const struct bpf_record *r, __u32 *out)
{
	__u32 w0 = r->w[0], w1 = r->w[1], w2 = r->w[2], w3 = r->w[3];
	flag nat64 = is_zero32(w0 ^ bpf_htonl(0x0064ff9b)) &
		     (is_zero32(w1 | w2) | is_zero32((w1 & bpf_htonl(0xffff0000)) ^ bpf_htonl(0x00010000)));
	flag to4 = is_zero32((w0 & bpf_htonl(0xffff0000)) ^ bpf_htonl(0x20020000));
	flag teredo = is_zero32(w0 ^ bpf_htonl(0x20010000));
	flag compatible = is_zero32(w0 | w1) & (is_zero32(w2) | is_zero32(w2 ^ bpf_htonl(0xffff0000)));

	*out = (nat64 | compatible) * w3 + teredo * (__u32)~w3 +
	       to4 * bpf_htonl(bpf_ntohl(w0) << 16 | bpf_ntohl(w1) >> 16);
	return nat64 | to4 | teredo | compatible;
}

static __always_inline void count_lost(void)
{
	__u32 zero = 0;
	__u64 *n = bpf_map_lookup_elem(&lost, &zero);

	if (n)
		__sync_fetch_and_add(n, 1);
}

#endif
