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

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct bpf_key4);
	__type(value, struct bpf_node);
} nodes4 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct bpf_key6);
	__type(value, struct bpf_node);
} nodes6 SEC(".maps");

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

/* In normal form: v4-mapped is IPv4 (RFC 4291 2.5.5.2). Network order; w[0] is an IPv4 address. */
struct where {
	__u32 family;
	__u32 w[4];
	__u16 port; /* host order */
	__u16 protocol;
};

/* --- what is allowed --- */

static __always_inline void where_set6(struct where *a, __u32 w0, __u32 w1, __u32 w2, __u32 w3)
{
	a->family = 6;
	a->w[0] = w0;
	a->w[1] = w1;
	a->w[2] = w2;
	a->w[3] = w3;
	if (!w0 && !w1 && w2 == bpf_htonl(0xffff)) {
		a->family = 4;
		a->w[0] = w3;
		a->w[2] = a->w[3] = 0;
	}
}

static __always_inline void where_set4(struct where *a, __u32 w0)
{
	a->family = 4;
	a->w[0] = w0;
	a->w[1] = a->w[2] = a->w[3] = 0;
}

/* The loopback, the unspecified address (which connect(2) takes for it) and the box's own. */
static __always_inline bool is_local(const struct where *a)
{
	if (a->family == 4)
		return (a->w[0] & bpf_htonl(0xff000000)) == bpf_htonl(0x7f000000) || !a->w[0] || a->w[0] == config.own4;
	if (!a->w[0] && !a->w[1] && !a->w[2] && (!a->w[3] || a->w[3] == bpf_htonl(1)))
		return true;
	return a->w[0] == config.own6[0] && a->w[1] == config.own6[1] && a->w[2] == config.own6[2] && a->w[3] == config.own6[3];
}

static __always_inline bool is_synthetic(const struct where *a)
{
	return a->family == 4 && config.synthetic_mask && (a->w[0] & config.synthetic_mask) == config.synthetic;
}

static __always_inline bool in_set(__u32 set, __u16 port)
{
	struct bpf_key_port key = {.prefix = BPF_PORT_SET_BITS + 16, .set = set, .port = {port >> 8, port & 0xff}};

	return set && bpf_map_lookup_elem(&ports, &key);
}

static __always_inline const struct bpf_node *find4(__u32 addr)
{
	struct bpf_key4 key = {.prefix = 32};

	__builtin_memcpy(key.addr, &addr, 4);
	return bpf_map_lookup_elem(&nodes4, &key);
}

/* As address_embedded_v4. */
static __always_inline bool embedded_v4(const struct where *a, __u32 *out)
{
	if (a->w[0] == bpf_htonl(0x0064ff9b) &&
	    ((!a->w[1] && !a->w[2]) || (a->w[1] & bpf_htonl(0xffff0000)) == bpf_htonl(0x00010000)))
		*out = a->w[3];
	else if ((a->w[0] & bpf_htonl(0xffff0000)) == bpf_htonl(0x20020000))
		*out = bpf_htonl(bpf_ntohl(a->w[0]) << 16 | bpf_ntohl(a->w[1]) >> 16);
	else if (a->w[0] == bpf_htonl(0x20010000))
		*out = ~a->w[3];
	else if (!a->w[0] && !a->w[1] && (!a->w[2] || a->w[2] == bpf_htonl(0xffff0000)))
		*out = a->w[3];
	else
		return false;
	return true;
}

/* By the address rules. */
static __always_inline bool rules_allow(const struct where *a)
{
	struct bpf_key6 key = {.prefix = 128};
	const struct bpf_node *node, *node4;
	__u32 v4;

	if (a->family == 4) {
		node = find4(a->w[0]);
		return node && in_set(node->allow, a->port) && !in_set(node->deny, a->port);
	}
	__builtin_memcpy(key.addr, a->w, 16);
	node = bpf_map_lookup_elem(&nodes6, &key);
	if (!node || !in_set(node->allow, a->port) || in_set(node->deny, a->port))
		return false;
	if (!embedded_v4(a, &v4))
		return true;
	node4 = find4(v4);
	return !node4 || !in_set(node4->deny, a->port);
}

/*
 * Not static: the verifier looks at a global function once, and not at each call of it with all that came before
 * (Documentation/bpf/verifier.rst): loading all programs takes 2 ms, and not 50.
 */
__noinline int allowed(const struct where *a)
{
	if (!a)
		return false;
	if (is_local(a))
		return true;
	if (a->protocol != IPPROTO_TCP && a->protocol != IPPROTO_UDP)
		return false;
	if (a->port == DNS_PORT)
		return true;
	return a->protocol == IPPROTO_TCP && (is_synthetic(a) || rules_allow(a));
}

/* --- what is told --- */

static __always_inline void record(int kind, const struct where *a, __u16 source_port, const struct owner *o)
{
	struct bpf_record *r = bpf_ringbuf_reserve(&ring, sizeof(*r), 0);
	__u32 zero = 0;
	__u64 *count;

	if (!r) {
		count = bpf_map_lookup_elem(&lost, &zero);
		if (count)
			__sync_fetch_and_add(count, 1);
		return;
	}
	r->kind = kind;
	r->family = a->family;
	r->protocol = a->protocol;
	r->port = a->port;
	r->source_port = source_port;
	r->pid = 0;
	__builtin_memcpy(r->addr, a->w, 16);
	__builtin_memset(r->comm, 0, sizeof(r->comm));
	if (o) {
		r->pid = o->pid;
		__builtin_memcpy(r->comm, o->comm, sizeof(r->comm));
	}
	/* A connection that is allowed is read with the gateway's report of it; none of them wakes, but to make room. */
	bpf_ringbuf_submit(r, kind == BPF_RECORD_DENIED || bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA) > RING_BYTES / 2
				      ? 0 : BPF_RB_NO_WAKEUP);
}

static __always_inline void current_owner(struct owner *o)
{
	__builtin_memset(o, 0, sizeof(*o));
	o->pid = bpf_get_current_pid_tgid() >> 32;
	bpf_get_current_comm(o->comm, sizeof(o->comm));
}

static __always_inline void keep_owner(struct bpf_sock *sk, const struct owner *o)
{
	struct owner *kept;

	if (!sk)
		return;
	kept = bpf_sk_storage_get(&owners, sk, NULL, BPF_SK_STORAGE_GET_F_CREATE);
	if (kept)
		*kept = *o;
}

/* --- sockets --- */

static __always_inline void take_sock(const struct bpf_sock_addr *ctx, struct where *a)
{
	a->port = bpf_ntohs(ctx->user_port);
	a->protocol = ctx->protocol == IPPROTO_MPTCP ? IPPROTO_TCP : ctx->protocol;
}

/*
 * A UDP connect sends nothing, and resolvers use it on every address that a name has to sort them (RFC 6724): it is not
 * refused, the packets are. Return: as the kernel wants it; 0 is EPERM.
 */
static __always_inline int on_connect(struct bpf_sock_addr *ctx, const struct where *a)
{
	bool may = allowed(a), local = is_local(a);
	struct owner o;

	if (local && a->port != config.proxy_port)
		return 1;
	current_owner(&o);
	keep_owner(ctx->sk, &o);
	may |= a->protocol == IPPROTO_UDP;
	if (!may || (!local && a->port))
		record(may ? BPF_RECORD_TRIED : BPF_RECORD_DENIED, a, 0, &o);
	return may;
}

SEC("cgroup/connect4")
int egress_connect4(struct bpf_sock_addr *ctx)
{
	struct where a = {};

	where_set4(&a, ctx->user_ip4);
	take_sock(ctx, &a);
	return on_connect(ctx, &a);
}

SEC("cgroup/connect6")
int egress_connect6(struct bpf_sock_addr *ctx)
{
	struct where a = {};

	where_set6(&a, ctx->user_ip6[0], ctx->user_ip6[1], ctx->user_ip6[2], ctx->user_ip6[3]);
	take_sock(ctx, &a);
	return on_connect(ctx, &a);
}

static __always_inline int on_sendmsg(const struct where *a)
{
	struct owner o;

	if (allowed(a))
		return 1;
	current_owner(&o);
	record(BPF_RECORD_DENIED, a, 0, &o);
	return 0;
}

SEC("cgroup/sendmsg4")
int egress_sendmsg4(struct bpf_sock_addr *ctx)
{
	struct where a = {};

	where_set4(&a, ctx->user_ip4);
	take_sock(ctx, &a);
	return on_sendmsg(&a);
}

SEC("cgroup/sendmsg6")
int egress_sendmsg6(struct bpf_sock_addr *ctx)
{
	struct where a = {};

	where_set6(&a, ctx->user_ip6[0], ctx->user_ip6[1], ctx->user_ip6[2], ctx->user_ip6[3]);
	take_sock(ctx, &a);
	return on_sendmsg(&a);
}

/* Raw sockets and protocols that the other hooks do not see. */
SEC("cgroup/sock_create")
int egress_sock_create(struct bpf_sock *sk)
{
	struct where a = {.protocol = sk->protocol};
	struct owner o;
	bool may;

	switch (sk->protocol) {
	case IPPROTO_TCP:
	case IPPROTO_MPTCP:
		may = sk->type == SOCK_STREAM;
		break;
	case IPPROTO_UDP:
	case IPPROTO_ICMP:
	case PROTO_ICMPV6:
		may = sk->type == SOCK_DGRAM;
		break;
	default:
		may = false;
	}
	current_owner(&o);
	if (!may) {
		record(BPF_RECORD_DENIED, &a, 0, &o);
		return 0;
	}
	keep_owner(sk, &o);
	return 1;
}

/* --- packets --- */

struct transport {
	__u16 source_port;
	__u8 flags; /* TCP's */
	bool whole; /* the ports and flags are there */
};

/* Reads the head at `at`. Options and extension headers of IPv6 count as a protocol that is not known. */
static __always_inline void take_transport(struct __sk_buff *skb, __u32 at, struct where *a, struct transport *t)
{
	__u8 head[14];

	if (a->protocol == IPPROTO_UDP && bpf_skb_load_bytes(skb, at, head, 8) == 0) {
		t->whole = true;
	} else if (a->protocol == IPPROTO_TCP && bpf_skb_load_bytes(skb, at, head, 14) == 0) {
		t->whole = true;
		t->flags = head[13];
	} else {
		return;
	}
	t->source_port = head[0] << 8 | head[1];
	a->port = head[2] << 8 | head[3];
}

/* Return: false where it is no packet that could be understood. */
static __always_inline bool take_packet(struct __sk_buff *skb, struct where *a, struct transport *t)
{
	__u32 head[10], at;

	if (skb->protocol == bpf_htons(ETH_P_IP)) {
		if (bpf_skb_load_bytes(skb, 0, head, 20) < 0)
			return false;
		where_set4(a, head[4]);
		a->protocol = bpf_ntohl(head[2]) >> 16 & 0xff;
		/* A later fragment has no ports. */
		if (bpf_ntohl(head[1]) & 0x1fff)
			a->protocol = 0xff;
		at = (bpf_ntohl(head[0]) >> 24 & 15) * 4;
	} else if (skb->protocol == bpf_htons(ETH_P_IPV6)) {
		if (bpf_skb_load_bytes(skb, 0, head, 40) < 0)
			return false;
		where_set6(a, head[6], head[7], head[8], head[9]);
		a->protocol = bpf_ntohl(head[1]) >> 8 & 0xff;
		at = 40;
	} else {
		return false;
	}
	take_transport(skb, at, a, t);
	return true;
}

static __always_inline void record_packet(int kind, struct __sk_buff *skb, const struct where *a, __u16 source_port)
{
	struct bpf_sock *sk = skb->sk;
	struct owner *o = NULL;

	if (sk)
		sk = bpf_sk_fullsock(sk);
	if (sk)
		o = bpf_sk_storage_get(&owners, sk, NULL, 0);
	record(kind, a, source_port, o);
}

SEC("cgroup_skb/egress")
int egress_packet(struct __sk_buff *skb)
{
	struct transport t = {};
	struct where a = {};
	bool syn, local, may;

	if (!take_packet(skb, &a, &t))
		return 0;
	local = is_local(&a);
	syn = (t.flags & (TCP_SYN | TCP_ACK)) == TCP_SYN;
	if (local && (!syn || (a.port != config.proxy_port && a.port != config.capture_port)))
		return 1;
	may = local || (t.whole && allowed(&a));
	/* Of TCP only a SYN is an attempt. */
	if (syn || (!may && a.protocol != IPPROTO_TCP))
		record_packet(may ? BPF_RECORD_SYN : BPF_RECORD_DENIED, skb, &a, t.source_port);
	return may;
}

/* The kernel's helpers that are used are for GPL-compatible programs. */
char _license[] SEC("license") = "Dual BSD/GPL";
