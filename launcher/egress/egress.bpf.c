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

#include "egress/bpfcommon.h"

#ifndef IPPROTO_MPTCP
#define IPPROTO_MPTCP 262
#endif
#define PROTO_ICMPV6 58
#define SOCK_RAW 3

const volatile struct bpf_config config = {};

/* Of both families: IPv4 as it is mapped into IPv6. bpf.c sets the sizes of the two. */
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct bpf_key);
	__type(value, struct bpf_node);
} nodes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, BPF_RING_BYTES);
} ring SEC(".maps");

/* A packet has no process. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct bpf_owner);
} owners SEC(".maps");

/*
 * What every run pays for is the verifier's time: 1 us for each instruction that it looks at, on each way that leads to it.
 * So each program fills one record on its stack and decides with few branches: a condition is a flag that is computed, 0 or
 * 1, which leaves one way. What the rules do not need (config.rules, config.denies) is not looked at, as the verifier knows
 * what .rodata holds.
 */

/* --- what is allowed --- */

/* 0 where it is IPv4. */
static __always_inline __u64 beyond_v4(const struct bpf_record *r)
{
	return r->d[0] | (r->w[2] ^ bpf_htonl(0xffff));
}

/* The loopback, the unspecified address (which connect(2) takes for it) and the box's own. */
static __always_inline flag is_local4(__u32 addr)
{
	return is_zero32((addr & bpf_htonl(0xff000000)) ^ bpf_htonl(0x7f000000)) | is_zero32(addr) | is_zero32(addr ^ config.own4);
}

static __always_inline flag is_local(const struct bpf_record *r)
{
	return (is_zero(beyond_v4(r)) & is_local4(r->w[3])) | is_zero(r->d[0] | (r->d[1] & ~bpf_cpu_to_be64(1))) |
	       is_zero((r->d[0] ^ config.own6[0]) | (r->d[1] ^ config.own6[1]));
}

/* TCP to a name server, whatever its address, or to an address that stands for a name; not to @host where that is denied. */
static __always_inline flag is_named(const struct bpf_record *r, __u64 any)
{
	flag synthetic = is_zero(beyond_v4(r)) & is_zero32((r->w[3] & config.synthetic_mask) ^ config.synthetic);

	if (config.deny_host)
		synthetic &= not(is_zero32(r->w[3] ^ config.this_host) & in_set(config.deny_host, r->port, unknown_zero(any)));
	return is_zero32(r->port ^ DNS_PORT) | (config.synthetic_mask ? synthetic : 0);
}

static __always_inline struct bpf_node find(const struct bpf_key *key, __u64 zero)
{
	const struct bpf_node *found = bpf_map_lookup_elem(&nodes, key);
	struct bpf_node node;

	node.allow = found ? found->allow : zero;
	node.deny = found ? found->deny : zero;
	return node;
}

static __always_inline flag denied_within(const struct bpf_record *r, __u64 zero)
{
	struct bpf_key key = {.prefix = 128, .addr = {[10] = 0xff, [11] = 0xff}};
	__u32 v4;
	flag has = embedded_v4(r, &v4);

	__builtin_memcpy(key.addr + 12, &v4, 4);
	return has & in_set(find(&key, zero).deny, r->port, zero);
}

/* By the address rules. zero: of unknown_zero, so that what was not found is no other way than what was. */
static __always_inline flag rules_allow(const struct bpf_record *r, __u64 zero)
{
	struct bpf_key key = {.prefix = 128};
	struct bpf_node node;
	flag may;

	__builtin_memcpy(key.addr, r->addr, 16);
	node = find(&key, zero);
	may = in_set(node.allow, r->port, zero);
	if (config.denies)
		may &= not(in_set(node.deny, r->port, zero) | denied_within(r, zero));
	return may;
}

/* --- what is told --- */

/* A connection that is allowed is read with the gateway's report of it; none of them wakes, but to make room. */
static __always_inline void submit(struct bpf_record *r, int kind)
{
	__u64 room = BPF_RING_BYTES / 2 - bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA), flags;

	r->kind = kind;
	/* By force, as a record behind one that did not wake does not by itself. Without a branch: the sign is a flag. */
	flags = BPF_RB_FORCE_WAKEUP - (~(room >> 63) & r->kind >> 1 & BPF_RB_NO_WAKEUP);
	if (bpf_ringbuf_output(&ring, r, sizeof(*r), flags) != 0)
		count_lost();
}

static __always_inline void keep_owner(struct bpf_sock *sk, const struct bpf_record *r)
{
	struct bpf_owner *kept = bpf_sk_storage_get(&owners, sk, NULL, BPF_SK_STORAGE_GET_F_CREATE);

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
	r->protocol = ctx->protocol - is_zero32(ctx->protocol ^ IPPROTO_MPTCP) * (IPPROTO_MPTCP - IPPROTO_TCP);
}

/*
 * A UDP connect sends nothing, and resolvers use it on every address that a name has to sort them (RFC 6724): it is not
 * refused, the packets are. Return: as the kernel wants it; 0 is EPERM.
 */
static __always_inline int on_connect(struct bpf_sock_addr *ctx, struct bpf_record *r, flag local)
{
	flag tcp = is_zero32(r->protocol ^ IPPROTO_TCP), udp = is_zero32(r->protocol ^ IPPROTO_UDP);
	flag may = local | udp | (tcp & is_named(r, ctx->user_port));

	set_owner(r);
	keep_owner(ctx->sk, r);
	if (config.rules && (tcp & not(may)))
		may = rules_allow(r, unknown_zero(ctx->user_port));
	if (not(local) & (not(may) | not(is_zero32(r->port))))
		submit(r, BPF_RECORD_DENIED + may * (BPF_RECORD_TRIED - BPF_RECORD_DENIED));
	return verdict(may);
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
static __always_inline int on_sendmsg(struct bpf_record *r, flag local)
{
	if (local | is_zero32(r->port ^ DNS_PORT))
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
 * The destination, the protocol and where its head is. A later fragment, which has no ports, and options and extension
 * headers of IPv6 count as a protocol that is not known. Return: false where it is no packet that could be understood.
 */
static __always_inline bool take_v4(struct __sk_buff *skb, struct bpf_record *r, __u32 *at)
{
	__u8 head[20];
	__u32 fragment;

	if (bpf_skb_load_bytes(skb, 0, head, 20) < 0)
		return false;
	set_v4(r, *(__u32 *)(head + 16));
	r->d[0] = unknown_zero(skb->len);
	/* All bits of a byte where it is not 0. */
	fragment = (head[6] & 0x1f) | head[7];
	r->protocol = head[9] | -fragment >> 24;
	*at = (head[0] & 15) * 4;
	return true;
}

static __always_inline bool take_v6(struct __sk_buff *skb, struct bpf_record *r, __u32 *at)
{
	__u8 next;

	if (bpf_skb_load_bytes(skb, 6, &next, 1) < 0 || bpf_skb_load_bytes(skb, 24, r->addr, 16) < 0)
		return false;
	r->protocol = next;
	*at = 40;
	return true;
}

static __always_inline void submit_packet(struct __sk_buff *skb, struct bpf_record *r, int kind)
{
	struct bpf_sock *sk = skb->sk;
	struct bpf_owner *o;

	if (sk)
		sk = bpf_sk_fullsock(sk);
	if (sk) {
		o = bpf_sk_storage_get(&owners, sk, NULL, 0);
		if (o) {
			r->pid = o->pid;
			__builtin_memcpy(r->comm, o->comm, sizeof(r->comm));
		}
	}
	submit(r, kind);
}

SEC("cgroup_skb/egress")
int egress_packet(struct __sk_buff *skb)
{
	struct bpf_record r = {.family = 6};
	flag tcp, udp, whole, syn, local, may, told;
	__u16 head[4], flags;
	__u32 at;

	if (skb->protocol != bpf_htons(ETH_P_IP) && skb->protocol != bpf_htons(ETH_P_IPV6))
		return 0;
	if (skb->protocol == bpf_htons(ETH_P_IP) ? !take_v4(skb, &r, &at) : !take_v6(skb, &r, &at))
		return 0;
	tcp = is_zero32(r.protocol ^ IPPROTO_TCP);
	udp = is_zero32(r.protocol ^ IPPROTO_UDP);
	/* What is not there is 0. */
	whole = is_zero32(bpf_skb_load_bytes(skb, at, head, 8)) & (tcp | udp);
	whole &= is_zero32(bpf_skb_load_bytes(skb, at + 12, &flags, 2)) | udp;
	r.source_port = whole * bpf_ntohs(head[0]);
	r.port = whole * bpf_ntohs(head[1]);
	syn = whole & tcp & is_zero32((flags & bpf_htons(TCP_SYN | TCP_ACK)) ^ bpf_htons(TCP_SYN));
	local = is_local(&r);
	may = local | (whole & (tcp | is_zero32(r.port ^ DNS_PORT)) & is_named(&r, skb->len));
	if (config.rules && (whole & tcp & not(may)))
		may = rules_allow(&r, unknown_zero(skb->len));
	/* Of TCP only a SYN is an attempt; to this side one that the gateway will tell of. */
	told = syn & (not(local) | is_zero32((r.port ^ config.proxy_port) * (r.port ^ config.capture_port)));
	if (told | not(may | tcp))
		submit_packet(skb, &r, BPF_RECORD_DENIED + may * (BPF_RECORD_SYN - BPF_RECORD_DENIED));
	return verdict(may);
}

/* The kernel's helpers that are used are for GPL-compatible programs. */
char _license[] SEC("license") = "Dual BSD/GPL";
