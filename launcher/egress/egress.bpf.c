// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Programs on the run's control group: the second wall beside the gateway, and whose connection it is. What may be
 * connected to: the box's own addresses, the synthetic ones, name servers (port 53 of any address leads to the gateway),
 * and what the address rules open. The hooks for connect(2) and sendmsg(2) give the caller his error; the one for packets
 * is the wall, as some ways pass the others (MPTCP has no pre_connect, net/mptcp/protocol.c; a connected UDP socket; raw
 * sockets). Written for 6.1's verifier; no type of the kernel's own is used, so that no BTF of it is needed.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <stdbool.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "egress/bpfshared.h"

#ifndef IPPROTO_MPTCP
#define IPPROTO_MPTCP 262
#endif
#define PROTO_ICMPV6 58
#define SOCK_STREAM 1
#define SOCK_DGRAM 2
#define SOCK_RAW 3
#define DNS_PORT 53
#define RING_BYTES (256 * 1024)
#define TCP_SYN 0x02
#define TCP_ACK 0x10

const volatile struct bpf_config config = {};
/* For the loader, which maps the ring. */
const volatile __u32 ring_bytes = RING_BYTES;

/* Of both families: IPv4 as it is mapped into IPv6. */
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct bpf_key);
	__type(value, struct bpf_node);
} nodes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct bpf_key_port);
	__type(value, __u8);
} ports SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, RING_BYTES);
} ring SEC(".maps");

/* How many records did not fit. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} lost SEC(".maps");

/* Who opened or last connected a socket: a packet has no process. */
struct owner {
	__u32 pid;
	char comm[16];
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct owner);
} owners SEC(".maps");

/*
 * What every run pays for is the verifier's time, 1 us for each instruction that it looks at, on each way that leads to it.
 * So each program fills one record on its stack and decides with few branches; what the rules do not need (config.rules, config.denies) is not looked at, as the verifier knows what .rodata holds.
 */

/* --- what is allowed --- */

static __always_inline void set_v4(struct bpf_record *r, __u32 addr)
{
	r->d[0] = 0;
	r->w[2] = bpf_htonl(0xffff);
	r->w[3] = addr;
}

/* The loopback, the unspecified address (which connect(2) takes for it) and the box's own. */
static __always_inline bool is_local4(__u32 addr)
{
	return (addr & bpf_htonl(0xff000000)) == bpf_htonl(0x7f000000) || !addr || addr == config.own4;
}

static __always_inline bool is_mapped(const struct bpf_record *r)
{
	return !r->d[0] && r->w[2] == bpf_htonl(0xffff);
}

static __always_inline bool is_local(const struct bpf_record *r)
{
	if (r->d[0])
		return r->d[0] == config.own6[0] && r->d[1] == config.own6[1];
	return r->w[2] == bpf_htonl(0xffff) ? is_local4(r->w[3]) : !(r->d[1] & ~bpf_cpu_to_be64(1));
}

static __always_inline bool is_synthetic(const struct bpf_record *r)
{
	return config.synthetic_mask && (r->w[3] & config.synthetic_mask) == config.synthetic && is_mapped(r);
}

static __always_inline bool in_set(__u32 set, __u16 port)
{
	struct bpf_key_port key = {.prefix = BPF_PORT_SET_BITS + 16, .set = set, .port = bpf_htons(port)};

	return set && bpf_map_lookup_elem(&ports, &key);
}

/* As address_embedded_v4. */
static __always_inline bool embedded_v4(const struct bpf_record *r, __u32 *out)
{
	if (r->w[0] == bpf_htonl(0x0064ff9b) &&
	    ((!r->w[1] && !r->w[2]) || (r->w[1] & bpf_htonl(0xffff0000)) == bpf_htonl(0x00010000)))
		*out = r->w[3];
	else if ((r->w[0] & bpf_htonl(0xffff0000)) == bpf_htonl(0x20020000))
		*out = bpf_htonl(bpf_ntohl(r->w[0]) << 16 | bpf_ntohl(r->w[1]) >> 16);
	else if (r->w[0] == bpf_htonl(0x20010000))
		*out = ~r->w[3];
	else if (!r->w[0] && !r->w[1] && (!r->w[2] || r->w[2] == bpf_htonl(0xffff0000)))
		*out = r->w[3];
	else
		return false;
	return true;
}

static __always_inline bool denied_within(const struct bpf_record *r)
{
	struct bpf_key key = {.prefix = 128, .addr = {[10] = 0xff, [11] = 0xff}};
	const struct bpf_node *node;
	__u32 v4;

	if (!embedded_v4(r, &v4))
		return false;
	__builtin_memcpy(key.addr + 12, &v4, 4);
	node = bpf_map_lookup_elem(&nodes, &key);
	return node && in_set(node->deny, r->port);
}

/*
 * By the address rules. Not static: the verifier looks at a global function once, and not at each call of it with all that
 * came before (Documentation/bpf/verifier.rst).
 */
__noinline int rules_allow(const struct bpf_record *r)
{
	struct bpf_key key = {.prefix = 128};
	const struct bpf_node *node;

	if (!r)
		return false;
	__builtin_memcpy(key.addr, r->addr, 16);
	node = bpf_map_lookup_elem(&nodes, &key);
	if (!node || !in_set(node->allow, r->port))
		return false;
	return !config.denies || (!in_set(node->deny, r->port) && !denied_within(r));
}

/* TCP to what is not local. */
static __always_inline bool tcp_allowed(const struct bpf_record *r)
{
	return r->port == DNS_PORT || is_synthetic(r) || (config.rules && rules_allow(r));
}

/* --- what is told --- */

/* A connection that is allowed is read with the gateway's report of it; none of them wakes, but to make room. */
__noinline int submit(struct bpf_record *r, int kind)
{
	__u64 room = RING_BYTES / 2 - bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA), flags, *count;
	__u32 zero = 0;

	if (!r)
		return 0;
	r->kind = kind;
	/* Without a branch: the sign is a flag. */
	flags = ~(room >> 63) & r->kind >> 1 & BPF_RB_NO_WAKEUP;
	if (bpf_ringbuf_output(&ring, r, sizeof(*r), flags) == 0)
		return 0;
	count = bpf_map_lookup_elem(&lost, &zero);
	if (count)
		__sync_fetch_and_add(count, 1);
	return 0;
}

static __always_inline void set_owner(struct bpf_record *r)
{
	r->pid = bpf_get_current_pid_tgid() >> 32;
	bpf_get_current_comm(r->comm, sizeof(r->comm));
}

static __always_inline void keep_owner(struct bpf_sock *sk, const struct bpf_record *r)
{
	struct owner *kept = bpf_sk_storage_get(&owners, sk, NULL, BPF_SK_STORAGE_GET_F_CREATE);

	if (kept) {
		kept->pid = r->pid;
		__builtin_memcpy(kept->comm, r->comm, sizeof(kept->comm));
	}
}

/* --- sockets --- */

static __always_inline void take_sock(const struct bpf_sock_addr *ctx, struct bpf_record *r)
{
	r->family = 6;
	r->port = bpf_ntohs(ctx->user_port);
	r->protocol = ctx->protocol == IPPROTO_MPTCP ? IPPROTO_TCP : ctx->protocol;
}

static __always_inline void set_v6(struct bpf_record *r, const struct bpf_sock_addr *ctx)
{
	r->w[0] = ctx->user_ip6[0];
	r->w[1] = ctx->user_ip6[1];
	r->w[2] = ctx->user_ip6[2];
	r->w[3] = ctx->user_ip6[3];
}

/*
 * A UDP connect sends nothing, and resolvers use it on every address that a name has to sort them (RFC 6724): it is not
 * refused, the packets are. Return: as the kernel wants it; 0 is EPERM.
 */
static __always_inline int on_connect(struct bpf_sock_addr *ctx, struct bpf_record *r, bool local)
{
	set_owner(r);
	keep_owner(ctx->sk, r);
	if (local)
		return 1;
	if (r->protocol == IPPROTO_UDP || (r->protocol == IPPROTO_TCP && tcp_allowed(r))) {
		if (r->port)
			submit(r, BPF_RECORD_TRIED);
		return 1;
	}
	submit(r, BPF_RECORD_DENIED);
	return 0;
}

SEC("cgroup/connect4")
int egress_connect4(struct bpf_sock_addr *ctx)
{
	struct bpf_record r = {};

	take_sock(ctx, &r);
	set_v4(&r, ctx->user_ip4);
	return on_connect(ctx, &r, is_local4(r.w[3]));
}

SEC("cgroup/connect6")
int egress_connect6(struct bpf_sock_addr *ctx)
{
	struct bpf_record r = {};

	take_sock(ctx, &r);
	set_v6(&r, ctx);
	return on_connect(ctx, &r, is_local(&r));
}

/* The hook is UDP's alone. */
static __always_inline int on_sendmsg(struct bpf_record *r, bool local)
{
	if (local || r->port == DNS_PORT)
		return 1;
	set_owner(r);
	submit(r, BPF_RECORD_DENIED);
	return 0;
}

SEC("cgroup/sendmsg4")
int egress_sendmsg4(struct bpf_sock_addr *ctx)
{
	struct bpf_record r = {};

	take_sock(ctx, &r);
	set_v4(&r, ctx->user_ip4);
	return on_sendmsg(&r, is_local4(r.w[3]));
}

SEC("cgroup/sendmsg6")
int egress_sendmsg6(struct bpf_sock_addr *ctx)
{
	struct bpf_record r = {};

	take_sock(ctx, &r);
	set_v6(&r, ctx);
	return on_sendmsg(&r, is_local(&r));
}

/* Raw sockets and protocols that the other hooks do not see. */
SEC("cgroup/sock_create")
int egress_sock_create(struct bpf_sock *sk)
{
	struct bpf_record r = {.protocol = sk->protocol};

	set_owner(&r);
	if (sk->type == SOCK_STREAM && (r.protocol == IPPROTO_TCP || r.protocol == IPPROTO_MPTCP))
		goto may;
	if (sk->type == SOCK_DGRAM && (r.protocol == IPPROTO_UDP || r.protocol == IPPROTO_ICMP || r.protocol == PROTO_ICMPV6))
		goto may;
	submit(&r, BPF_RECORD_DENIED);
	return 0;
may:
	keep_owner(sk, &r);
	return 1;
}

/* --- packets --- */

/*
 * The destination and where the transport's head is. Options and extension headers of IPv6 count as a protocol that is not
 * known, and so does a later fragment, which has no ports. Return: 0 where it is no packet that could be understood.
 */
static __always_inline __u32 take_addresses(struct __sk_buff *skb, struct bpf_record *r)
{
	__u8 head[20];
	__u32 fragment;

	r->family = 6;
	if (skb->protocol == bpf_htons(ETH_P_IP)) {
		if (bpf_skb_load_bytes(skb, 0, head, 20) < 0)
			return 0;
		set_v4(r, *(__u32 *)(head + 16));
		r->protocol = head[9];
		fragment = (head[6] & 0x1f) | head[7];
		/* Not 0, without a branch: all bits of a byte. */
		r->protocol |= -fragment >> 24;
		return (head[0] & 15) * 4;
	}
	if (skb->protocol != bpf_htons(ETH_P_IPV6) || bpf_skb_load_bytes(skb, 6, head, 1) < 0 ||
	    bpf_skb_load_bytes(skb, 24, r->addr, 16) < 0)
		return 0;
	r->protocol = head[0];
	return 40;
}

static __always_inline bool is_syn(const __u16 *head)
{
	return (head[6] & bpf_htons(TCP_SYN | TCP_ACK)) == bpf_htons(TCP_SYN);
}

static __always_inline void take_ports(struct bpf_record *r, const __u16 *head)
{
	r->source_port = bpf_ntohs(head[0]);
	r->port = bpf_ntohs(head[1]);
}

__noinline int submit_packet(struct __sk_buff *skb, struct bpf_record *r, int kind)
{
	struct bpf_sock *sk = skb->sk;
	struct owner *o;

	if (!r)
		return 0;
	if (sk)
		sk = bpf_sk_fullsock(sk);
	if (sk) {
		o = bpf_sk_storage_get(&owners, sk, NULL, 0);
		if (o) {
			r->pid = o->pid;
			__builtin_memcpy(r->comm, o->comm, sizeof(r->comm));
		}
	}
	return submit(r, kind);
}

SEC("cgroup_skb/egress")
int egress_packet(struct __sk_buff *skb)
{
	struct bpf_record r = {};
	__u32 at = take_addresses(skb, &r);
	__u16 head[7];

	if (!at)
		return 0;
	if (is_local(&r)) {
		/* Keeps clang from one way for both with a flag, of which the verifier would see each way twice. */
		asm volatile("" ::: "memory");
		if (r.protocol != IPPROTO_TCP || bpf_skb_load_bytes(skb, at, head, 14) < 0 || !is_syn(head))
			return 1;
		take_ports(&r, head);
		if (r.port != config.proxy_port && r.port != config.capture_port)
			return 1;
		submit_packet(skb, &r, BPF_RECORD_SYN);
		return 1;
	}
	if (r.protocol == IPPROTO_TCP) {
		if (bpf_skb_load_bytes(skb, at, head, 14) < 0)
			return 0;
		take_ports(&r, head);
		if (tcp_allowed(&r)) {
			if (!is_syn(head))
				return 1;
			submit_packet(skb, &r, BPF_RECORD_SYN);
			return 1;
		}
		/* Of TCP only a SYN is an attempt. */
		if (!is_syn(head))
			return 0;
	} else if (r.protocol == IPPROTO_UDP && bpf_skb_load_bytes(skb, at, head, 8) == 0) {
		take_ports(&r, head);
		if (r.port == DNS_PORT)
			return 1;
	}
	submit_packet(skb, &r, BPF_RECORD_DENIED);
	return 0;
}

/* The kernel's helpers that are used are for GPL-compatible programs. */
char _license[] SEC("license") = "Dual BSD/GPL";
