// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * egress.mode = host: programs on the run's control group, which are the only wall between the box and the host's
 * network. The hooks of connect(2), sendmsg(2) and bind(2) give the caller his error; the two for packets look at each one
 * by itself, as some ways pass the others (connected UDP, MPTCP, source routes, raw sockets). Nothing is received from
 * where nothing may be sent to, and no connection is accepted.
 *
 * What may be sent to: what the address rules open (`nodes`), the addresses that were answered for names (`given`, entered
 * by the name server before it answers), never more than that of this host's own addresses (`own`); and the run's name
 * server. No type of the kernel's own is used, so that no BTF of it is needed.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <stdbool.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "egress/bpfshared.h"
#include "egress/hostshared.h"

#define SOCK_STREAM 1
#define SOCK_DGRAM 2
#define DNS_PORT 53
#define TCP_SYN 0x02
#define TCP_ACK 0x10

/* The maps are made by bpfhost.c, which has their sizes and flags: here they are what clang needs to name them. */

const volatile struct host_config config = {};

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct host_key);
	__type(value, struct bpf_node);
} nodes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct bpf_key_port);
	__type(value, __u8);
} ports SEC(".maps");

/* Address -> set of ports. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct host_address);
	__type(value, __u32);
} given SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct host_address);
	__type(value, __u8);
} own SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct host_usage);
} usage SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} ring SEC(".maps");

/* How many records did not fit. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} lost SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct host_owner);
} owners SEC(".maps");

/* The other end. */
struct where {
	struct host_address addr;
	__u16 port; /* host order */
	__u16 protocol;
};

/* --- what is allowed --- */

static __always_inline void set_v4(struct where *a, __u32 addr)
{
	a->addr.w[0] = a->addr.w[1] = 0;
	a->addr.w[2] = bpf_htonl(0xffff);
	a->addr.w[3] = addr;
}

static __always_inline void set_v6(struct where *a, __u32 w0, __u32 w1, __u32 w2, __u32 w3)
{
	a->addr.w[0] = w0;
	a->addr.w[1] = w1;
	a->addr.w[2] = w2;
	a->addr.w[3] = w3;
}

static __always_inline bool same(const struct host_address *a, const struct host_address *b)
{
	return a->w[0] == b->w[0] && a->w[1] == b->w[1] && a->w[2] == b->w[2] && a->w[3] == b->w[3];
}

static __always_inline bool is_v4(const struct where *a)
{
	return !a->addr.w[0] && !a->addr.w[1] && a->addr.w[2] == bpf_htonl(0xffff);
}

/* connect(2) takes it for the loopback. */
static __always_inline bool is_unspecified(const struct where *a)
{
	return !a->addr.w[0] && !a->addr.w[1] && !a->addr.w[3] && (!a->addr.w[2] || is_v4(a));
}

static __always_inline bool is_name_server(const struct where *a)
{
	return a->port == DNS_PORT && (a->protocol == IPPROTO_UDP || a->protocol == IPPROTO_TCP) && is_v4(a) &&
	       a->addr.w[3] == config.name_server.w[3];
}

static __always_inline bool in_set(__u32 set, __u16 port)
{
	struct bpf_key_port key = {.prefix = BPF_PORT_SET_BITS + 16, .set = set};
	__u16 net = bpf_htons(port);

	__builtin_memcpy(&key.port, &net, 2);
	return set && bpf_map_lookup_elem(&ports, &key);
}

/* As address_embedded_v4. */
static __always_inline bool embedded_v4(const struct where *a, __u32 *out)
{
	const __u32 *w = a->addr.w;

	if (w[0] == bpf_htonl(0x0064ff9b) && ((!w[1] && !w[2]) || (w[1] & bpf_htonl(0xffff0000)) == bpf_htonl(0x00010000)))
		*out = w[3];
	else if ((w[0] & bpf_htonl(0xffff0000)) == bpf_htonl(0x20020000))
		*out = bpf_htonl(bpf_ntohl(w[0]) << 16 | bpf_ntohl(w[1]) >> 16);
	else if (w[0] == bpf_htonl(0x20010000))
		*out = ~w[3];
	else if (!w[0] && !w[1] && (!w[2] || w[2] == bpf_htonl(0xffff0000)))
		*out = w[3];
	else
		return false;
	return true;
}

static __always_inline bool denied_within(const struct where *a)
{
	struct host_key key = {.prefix = 128, .addr.w = {0, 0, bpf_htonl(0xffff), 0}};
	const struct bpf_node *node;

	if (is_v4(a) || !embedded_v4(a, &key.addr.w[3]))
		return false;
	node = bpf_map_lookup_elem(&nodes, &key);
	if (node && in_set(node->deny, a->port))
		return true;
	return config.deny_host && bpf_map_lookup_elem(&own, &key.addr) && in_set(config.deny_host, a->port);
}

static __always_inline bool allowed(const struct where *a)
{
	struct host_key key = {.prefix = 128};
	const struct bpf_node *node;
	const __u32 *set;

	if ((a->protocol != IPPROTO_TCP && a->protocol != IPPROTO_UDP) || is_unspecified(a))
		return false;
	key.addr = a->addr;
	node = bpf_map_lookup_elem(&nodes, &key);
	if (!node || in_set(node->deny, a->port) || denied_within(a))
		return false;
	/* `*` does not open an address of this host, nor does a name that resolves to one. */
	if (bpf_map_lookup_elem(&own, &key.addr))
		return in_set(node->listed, a->port) && !in_set(config.deny_host, a->port);
	if (in_set(node->allow, a->port))
		return true;
	set = bpf_map_lookup_elem(&given, &key.addr);
	return set && in_set(*set, a->port);
}

static __always_inline struct host_usage *usage_of(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&usage, &zero);
}

static __always_inline bool is_closed(void)
{
	const struct host_usage *u = usage_of();

	return !u || u->closed;
}

/* Return: false where nothing may pass any more. */
static __always_inline bool count(const struct __sk_buff *skb, bool received)
{
	struct host_usage *u = usage_of();

	if (!u || u->closed)
		return false;
	if (config.max_bytes && u->sent_bytes + u->received_bytes + skb->len > config.max_bytes) {
		u->used_up = u->closed = 1;
		return false;
	}
	__sync_fetch_and_add(received ? &u->received_bytes : &u->sent_bytes, skb->len);
	__sync_fetch_and_add(received ? &u->received_packets : &u->sent_packets, 1);
	return true;
}

/* --- what is told --- */

static __always_inline void record(int kind, const struct where *a, __u16 source_port, const struct host_owner *o)
{
	struct bpf_record *r = bpf_ringbuf_reserve(&ring, sizeof(*r), 0);
	__u32 zero = 0;
	__u64 *n;

	if (!r) {
		n = bpf_map_lookup_elem(&lost, &zero);
		if (n)
			__sync_fetch_and_add(n, 1);
		return;
	}
	__builtin_memset(r, 0, sizeof(*r));
	r->kind = kind;
	r->protocol = a->protocol;
	r->port = a->port;
	r->source_port = source_port;
	if (is_v4(a)) {
		r->family = 4;
		__builtin_memcpy(r->addr, a->addr.b + 12, 4);
	} else if (kind == BPF_RECORD_BIND || !is_unspecified(a)) {
		r->family = 6;
		__builtin_memcpy(r->addr, a->addr.b, 16);
	}
	if (o) {
		r->pid = o->pid;
		__builtin_memcpy(r->comm, o->comm, sizeof(r->comm));
	}
	/* What was refused is told at once; the rest is read within half a second, or when there is much of it. */
	bpf_ringbuf_submit(r, kind != BPF_RECORD_SENT || bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA) > config.ring_bytes / 4
				      ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP);
}

static __always_inline void current_owner(struct host_owner *o)
{
	__builtin_memset(o, 0, sizeof(*o));
	o->pid = bpf_get_current_pid_tgid() >> 32;
	bpf_get_current_comm(o->comm, sizeof(o->comm));
}

static __always_inline void keep_owner(struct bpf_sock *sk, const struct host_owner *o)
{
	struct host_owner *kept;

	if (!sk)
		return;
	kept = bpf_sk_storage_get(&owners, sk, NULL, BPF_SK_STORAGE_GET_F_CREATE);
	if (kept)
		*kept = *o;
}

/* Of the process that calls. Return: 0, for the hook. */
static __always_inline int refuse(int kind, const struct where *a)
{
	struct host_owner o;

	current_owner(&o);
	record(kind, a, 0, &o);
	return 0;
}

/* --- sockets --- */

static __always_inline void take_sock(const struct bpf_sock_addr *ctx, struct where *a)
{
	a->port = bpf_ntohs(ctx->user_port);
	a->protocol = ctx->protocol;
}

/*
 * A UDP connect sends nothing, and resolvers use it on every address that a name has to sort them (RFC 6724): it is not
 * refused, the packets are. Return: as the kernel wants it; 0 is EPERM.
 */
static __always_inline int on_connect(struct bpf_sock_addr *ctx, const struct where *a)
{
	struct host_owner o;

	current_owner(&o);
	keep_owner(ctx->sk, &o);
	if (a->protocol == IPPROTO_UDP || is_name_server(a) || (allowed(a) && !is_closed()))
		return 1;
	record(BPF_RECORD_DENIED, a, 0, &o);
	return 0;
}

static __always_inline int on_sendmsg(const struct where *a)
{
	return is_name_server(a) || (allowed(a) && !is_closed()) ? 1 : refuse(BPF_RECORD_DENIED, a);
}

/*
 * The ports are this host's, and whoever has one could take the place of a program of the host's. Addresses, and ports that
 * the kernel chooses (0), are what clients ask for.
 */
static __always_inline int on_bind(const struct where *a)
{
	return a->port ? refuse(BPF_RECORD_BIND, a) : 1;
}

SEC("cgroup/connect4")
int host_connect4(struct bpf_sock_addr *ctx)
{
	struct where a = {};

	set_v4(&a, ctx->user_ip4);
	take_sock(ctx, &a);
	return on_connect(ctx, &a);
}

SEC("cgroup/connect6")
int host_connect6(struct bpf_sock_addr *ctx)
{
	struct where a = {};

	set_v6(&a, ctx->user_ip6[0], ctx->user_ip6[1], ctx->user_ip6[2], ctx->user_ip6[3]);
	take_sock(ctx, &a);
	return on_connect(ctx, &a);
}

SEC("cgroup/sendmsg4")
int host_sendmsg4(struct bpf_sock_addr *ctx)
{
	struct where a = {};

	set_v4(&a, ctx->user_ip4);
	take_sock(ctx, &a);
	return on_sendmsg(&a);
}

SEC("cgroup/sendmsg6")
int host_sendmsg6(struct bpf_sock_addr *ctx)
{
	struct where a = {};

	set_v6(&a, ctx->user_ip6[0], ctx->user_ip6[1], ctx->user_ip6[2], ctx->user_ip6[3]);
	take_sock(ctx, &a);
	return on_sendmsg(&a);
}

SEC("cgroup/bind4")
int host_bind4(struct bpf_sock_addr *ctx)
{
	struct where a = {};

	set_v4(&a, ctx->user_ip4);
	take_sock(ctx, &a);
	return on_bind(&a);
}

SEC("cgroup/bind6")
int host_bind6(struct bpf_sock_addr *ctx)
{
	struct where a = {};

	set_v6(&a, ctx->user_ip6[0], ctx->user_ip6[1], ctx->user_ip6[2], ctx->user_ip6[3]);
	take_sock(ctx, &a);
	return on_bind(&a);
}

/* TCP and UDP. No MPTCP: its path manager connects to whatever the other end names. */
SEC("cgroup/sock_create")
int host_sock_create(struct bpf_sock *sk)
{
	struct where a = {.protocol = sk->protocol};
	struct host_owner o;

	current_owner(&o);
	if ((sk->type == SOCK_STREAM && sk->protocol == IPPROTO_TCP) || (sk->type == SOCK_DGRAM && sk->protocol == IPPROTO_UDP)) {
		keep_owner(sk, &o);
		return 1;
	}
	record(BPF_RECORD_DENIED, &a, 0, &o);
	return 0;
}

/* --- packets --- */

struct transport {
	__u16 own_port;
	__u8 flags; /* TCP's */
	bool whole; /* the ports and flags are there */
};

static __always_inline void take_transport(struct __sk_buff *skb, __u32 at, bool received, struct where *a, struct transport *t)
{
	__u8 head[14];
	__u16 source, dest;

	if (a->protocol == IPPROTO_UDP && bpf_skb_load_bytes(skb, at, head, 8) == 0) {
		t->whole = true;
	} else if (a->protocol == IPPROTO_TCP && bpf_skb_load_bytes(skb, at, head, 14) == 0) {
		t->whole = true;
		t->flags = head[13];
	} else {
		return;
	}
	source = head[0] << 8 | head[1];
	dest = head[2] << 8 | head[3];
	a->port = received ? source : dest;
	t->own_port = received ? dest : source;
}

/*
 * The other end of a packet. IPv4 options and IPv6's extension headers are not followed: a source route has its end in
 * them, and its first hop where the destination is (ip(7), IP_OPTIONS; RFC 8754). Nor is a later fragment, which has no
 * ports. Return: false where it is no packet that could be understood; a->protocol may be 0 then.
 */
static __always_inline bool take_packet(struct __sk_buff *skb, bool received, struct where *a, struct transport *t)
{
	__u32 head[10];

	if (skb->protocol == bpf_htons(ETH_P_IP)) {
		if (bpf_skb_load_bytes(skb, 0, head, 20) < 0)
			return false;
		set_v4(a, received ? head[3] : head[4]);
		if ((bpf_ntohl(head[0]) >> 24 & 15) != 5 || bpf_ntohl(head[1]) & 0x1fff)
			return false;
		a->protocol = bpf_ntohl(head[2]) >> 16 & 0xff;
		take_transport(skb, 20, received, a, t);
	} else if (skb->protocol == bpf_htons(ETH_P_IPV6)) {
		if (bpf_skb_load_bytes(skb, 0, head, 40) < 0)
			return false;
		if (received)
			set_v6(a, head[2], head[3], head[4], head[5]);
		else
			set_v6(a, head[6], head[7], head[8], head[9]);
		a->protocol = bpf_ntohl(head[1]) >> 8 & 0xff;
		take_transport(skb, 40, received, a, t);
	}
	return t->whole;
}

static __always_inline bool is_syn(const struct transport *t)
{
	return (t->flags & (TCP_SYN | TCP_ACK)) == TCP_SYN;
}

/* sent: told once a socket and place. A SYN that is sent again is no other connection. */
static __always_inline void tell_packet(struct __sk_buff *skb, const struct where *a, __u16 own_port, bool sent)
{
	struct bpf_sock *sk = skb->sk;
	struct host_owner *o = NULL;

	if (sk)
		sk = bpf_sk_fullsock(sk);
	if (sk)
		o = bpf_sk_storage_get(&owners, sk, NULL, BPF_SK_STORAGE_GET_F_CREATE);
	if (sent && o) {
		if (o->port == a->port && same(&o->to, &a->addr))
			return;
		o->port = a->port;
		o->to = a->addr;
	}
	record(sent ? BPF_RECORD_SENT : BPF_RECORD_DENIED, a, own_port, o);
}

SEC("cgroup_skb/egress")
int host_sent(struct __sk_buff *skb)
{
	struct transport t = {};
	struct where a = {};
	bool may = take_packet(skb, false, &a, &t);

	if (may && is_name_server(&a))
		return 1;
	may = may && allowed(&a) && count(skb, false);
	/* Of TCP only a SYN is an attempt. */
	if (a.protocol != IPPROTO_TCP || is_syn(&t))
		tell_packet(skb, &a, t.own_port, may);
	return may;
}

/* A SYN asks for a connection that begins outside: whatever listens hears nothing. */
SEC("cgroup_skb/ingress")
int host_received(struct __sk_buff *skb)
{
	struct transport t = {};
	struct where a = {};

	if (!take_packet(skb, true, &a, &t) || is_syn(&t))
		return 0;
	return is_name_server(&a) || (allowed(&a) && count(skb, true));
}

/* The kernel's helpers that are used are for GPL-compatible programs. */
char _license[] SEC("license") = "Dual BSD/GPL";
