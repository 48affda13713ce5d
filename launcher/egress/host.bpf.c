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

#include "egress/bpfcommon.h"
#include "egress/hostshared.h"


/* bpfhost.c sets the sizes of those that are 1 here, and no array. */

const volatile struct host_config config = {};

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct host_key);
	__type(value, struct bpf_node);
} nodes SEC(".maps");

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
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct host_asker);
	__type(value, __u64);
} askers SEC(".maps");

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

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct host_owner);
} owners SEC(".maps");

/*
 * As in egress.bpf.c, each program fills one record on its stack, of the other end, IPv4 as v4-mapped; and conditions are
 * numbers, so that the verifier is done with all of it in 3 ms, and not in 15.
 */

/* --- what is allowed --- */

/* connect(2) takes it for the loopback. */
static __always_inline flag is_unspecified(const struct bpf_record *r)
{
	return is_zero(r->d[0] | r->w[3]) & (is_zero32(r->w[2]) | is_zero32(r->w[2] ^ bpf_htonl(0xffff)));
}

/* Of TCP and UDP. */
static __always_inline flag is_name_server(const struct bpf_record *r)
{
	return is_zero(r->d[0] | (r->w[2] ^ bpf_htonl(0xffff)) | (r->w[3] ^ config.name_server.w[3])) & is_zero32(r->port ^ DNS_PORT);
}

static __always_inline struct bpf_node find(const struct host_key *key, __u64 zero)
{
	const struct bpf_node *found = bpf_map_lookup_elem(&nodes, key);
	struct bpf_node node;

	node.allow = found ? found->allow : zero;
	node.deny = found ? found->deny : zero;
	node.listed = found ? found->listed : zero;
	return node;
}

static __always_inline flag is_own(const struct host_address *a, __u64 zero)
{
	const __u8 *one = bpf_map_lookup_elem(&own, a);

	return one ? *one & 1 : zero;
}

static __always_inline flag denied_within(const struct bpf_record *r, __u64 zero)
{
	struct host_key key = {.prefix = 128, .addr.w = {0, 0, bpf_htonl(0xffff), 0}};
	flag has = embedded_v4(r, &key.addr.w[3]), denied = in_set(find(&key, zero).deny, r->port, zero);

	if (config.deny_host)
		denied |= is_own(&key.addr, zero) & in_set(config.deny_host, r->port, zero);
	return has & denied;
}

/* any: a number that the verifier does not know. */
static __always_inline flag allowed(const struct bpf_record *r, __u64 any)
{
	struct host_key key = {.prefix = 128, .addr.w = {r->w[0], r->w[1], r->w[2], r->w[3]}};
	__u64 zero = unknown_zero(any);
	const __u32 *set = bpf_map_lookup_elem(&given, &key.addr);
	flag may = in_set(set ? *set : zero, r->port, zero), mine = is_own(&key.addr, zero), listed = 0;
	struct bpf_node node;

	if (config.rules | config.denies)
		node = find(&key, zero);
	if (config.rules) {
		may |= in_set(node.allow, r->port, zero);
		listed = in_set(node.listed, r->port, zero);
	}
	if (config.deny_host)
		listed &= not(in_set(config.deny_host, r->port, zero));
	/* `*` does not open an address of this host, nor does a name that resolves to one. */
	may = (mine & listed) | (not(mine) & may);
	if (config.denies)
		may &= not(in_set(node.deny, r->port, zero) | denied_within(r, zero));
	return may & not(is_unspecified(r));
}

static __always_inline flag is_open(void)
{
	__u32 zero = 0;
	const struct host_usage *u = bpf_map_lookup_elem(&usage, &zero);

	return u ? is_zero32(u->closed) : 0;
}

/* may: is it to pass, as far as the rules say? Return: does it? */
static __always_inline flag count(const struct __sk_buff *skb, flag may, int received)
{
	__u32 zero = 0;
	struct host_usage *u = bpf_map_lookup_elem(&usage, &zero);
	__u64 len = may * skb->len;

	if (!u)
		return 0;
	if (config.max_bytes) {
		flag over = may & (config.max_bytes - u->sent_bytes - u->received_bytes - len) >> 63;

		u->used_up |= over;
		u->closed |= over;
	}
	may &= is_zero32(u->closed);
	len *= may;
	__sync_fetch_and_add(received ? &u->received_bytes : &u->sent_bytes, len);
	__sync_fetch_and_add(received ? &u->received_packets : &u->sent_packets, may);
	return may;
}

/* --- what is told --- */

/*
 * What was refused wakes, by force, as a record behind one that did not wake does not by itself; the rest is read within half
 * a second, or when there is much of it.
 */
static __always_inline void submit(struct bpf_record *r, __u8 kind)
{
	__u64 room = config.ring_bytes / 4 - bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA);
	flag quiet = is_zero32(kind ^ BPF_RECORD_SENT) & not(room >> 63);

	r->kind = kind;
	if (bpf_ringbuf_output(&ring, r, sizeof(*r), BPF_RB_FORCE_WAKEUP - quiet) != 0)
		count_lost();
}

static __always_inline void keep_owner(struct bpf_sock *sk, const struct bpf_record *r)
{
	struct host_owner *kept = bpf_sk_storage_get(&owners, sk, NULL, BPF_SK_STORAGE_GET_F_CREATE);

	if (kept) {
		kept->pid = r->pid;
		kept->port = 0;
		__builtin_memcpy(kept->comm, r->comm, sizeof(kept->comm));
	}
}

/* --- sockets --- */

static __always_inline void take_sock(const struct bpf_sock_addr *ctx, struct bpf_record *r)
{
	r->family = 6;
	r->port = bpf_ntohs(ctx->user_port);
	r->protocol = ctx->protocol;
}

/*
 * A UDP connect sends nothing, and resolvers use it on every address that a name has to sort them (RFC 6724): it is not
 * refused, the packets are.
 */
static __always_inline int on_connect(struct bpf_sock_addr *ctx, struct bpf_record *r)
{
	flag tcp = is_zero32(r->protocol ^ IPPROTO_TCP), udp = is_zero32(r->protocol ^ IPPROTO_UDP);
	flag may = udp | (tcp & (is_name_server(r) | (allowed(r, ctx->user_port) & is_open())));

	set_owner(r);
	keep_owner(ctx->sk, r);
	if (not(may))
		submit(r, BPF_RECORD_DENIED);
	return verdict(may);
}

/* The hook is UDP's alone. */
static __always_inline int on_sendmsg(struct bpf_sock_addr *ctx, struct bpf_record *r)
{
	flag may = is_name_server(r) | (allowed(r, ctx->user_port) & is_open());

	set_owner(r);
	if (not(may))
		submit(r, BPF_RECORD_DENIED);
	return verdict(may);
}

/*
 * The ports are this host's, and whoever has one could take the place of a program of the host's. Addresses, and ports that
 * the kernel chooses (0), are what clients ask for.
 */
static __always_inline int on_bind(struct bpf_record *r)
{
	if (!r->port)
		return 1;
	set_owner(r);
	submit(r, BPF_RECORD_BIND);
	return 0;
}

SEC("cgroup/connect4")
int host_connect4(struct bpf_sock_addr *ctx)
{
	struct bpf_record r = {};

	take_sock(ctx, &r);
	set_v4(&r, ctx->user_ip4);
	return on_connect(ctx, &r);
}

SEC("cgroup/connect6")
int host_connect6(struct bpf_sock_addr *ctx)
{
	struct bpf_record r = {};

	take_sock(ctx, &r);
	set_v6(&r, ctx);
	return on_connect(ctx, &r);
}

SEC("cgroup/sendmsg4")
int host_sendmsg4(struct bpf_sock_addr *ctx)
{
	struct bpf_record r = {};

	take_sock(ctx, &r);
	set_v4(&r, ctx->user_ip4);
	return on_sendmsg(ctx, &r);
}

SEC("cgroup/sendmsg6")
int host_sendmsg6(struct bpf_sock_addr *ctx)
{
	struct bpf_record r = {};

	take_sock(ctx, &r);
	set_v6(&r, ctx);
	return on_sendmsg(ctx, &r);
}

SEC("cgroup/bind4")
int host_bind4(struct bpf_sock_addr *ctx)
{
	struct bpf_record r = {};

	take_sock(ctx, &r);
	set_v4(&r, ctx->user_ip4);
	return on_bind(&r);
}

SEC("cgroup/bind6")
int host_bind6(struct bpf_sock_addr *ctx)
{
	struct bpf_record r = {};

	take_sock(ctx, &r);
	set_v6(&r, ctx);
	return on_bind(&r);
}

/* TCP and UDP. No MPTCP: its path manager connects to whatever the other end names. */
SEC("cgroup/sock_create")
int host_sock_create(struct bpf_sock *sk)
{
	struct bpf_record r = {.protocol = sk->protocol};
	flag may = (is_zero32(sk->type ^ SOCK_STREAM) & is_zero32(r.protocol ^ IPPROTO_TCP)) |
		   (is_zero32(sk->type ^ SOCK_DGRAM) & is_zero32(r.protocol ^ IPPROTO_UDP));

	set_owner(&r);
	keep_owner(sk, &r);
	if (not(may))
		submit(&r, BPF_RECORD_DENIED);
	return verdict(may);
}

#define IP_ADD_MEMBERSHIP 35 /* linux/in.h has them as numbers up to MCAST_MSFILTER, all of multicast groups */
#define MCAST_JOIN_GROUP 42
#define MCAST_MSFILTER 48
#define IPV6_ADD_MEMBERSHIP 20
#define IPV6_JOIN_ANYCAST 27
#define IPPROTO_ICMPV6 58

/*
 * Whoever joins a multicast group has the kernel send a report of it (RFC 3376, RFC 3810): a packet that is no socket's, so
 * that no program sees it, with an address of up to 112 bits that the box chooses. Nor is there anything to hear, as the
 * ports are not the box's.
 */
SEC("cgroup/setsockopt")
int host_setsockopt(struct bpf_sockopt *ctx)
{
	struct bpf_record r = {};
	__u32 name = ctx->optname;
	flag v4 = is_zero32(ctx->level ^ IPPROTO_IP), v6 = is_zero32(ctx->level ^ IPPROTO_IPV6);
	flag groups4 = v4 & (name >= IP_ADD_MEMBERSHIP) & (name <= MCAST_MSFILTER);
	flag groups6 = v6 & (is_zero32(name ^ IPV6_ADD_MEMBERSHIP) | is_zero32(name ^ IPV6_JOIN_ANYCAST) |
			     ((name >= MCAST_JOIN_GROUP) & (name <= MCAST_MSFILTER)));

	if (!(groups4 | groups6))
		return 1;
	r.protocol = v4 ? IPPROTO_IGMP : IPPROTO_ICMPV6;
	set_owner(&r);
	submit(&r, BPF_RECORD_DENIED);
	return 0;
}

/* --- packets --- */

struct packet {
	flag tcp, whole, syn; /* whole: it could be understood, and has ports */
};

/*
 * The other end of a packet. IPv4 options and IPv6's extension headers are not followed: a source route has its end in
 * them, and its first hop where the destination is (ip(7), IP_OPTIONS; RFC 8754). Nor is a later fragment, which has no
 * ports.
 */
static __always_inline void take_packet(struct __sk_buff *skb, int received, struct bpf_record *r, struct packet *p)
{
	flag v4 = is_zero32(skb->protocol ^ bpf_htons(ETH_P_IP)), v6 = is_zero32(skb->protocol ^ bpf_htons(ETH_P_IPV6)), udp, plain;
	__u32 at = v4 * 20 + v6 * 40;
	__u16 ports_of[2] = {}, flags = 0;
	__u8 head[10] = {};
	__u32 addr4 = 0;

	/* What cannot be read stays 0. */
	bpf_skb_load_bytes(skb, 0, head, 10);
	bpf_skb_load_bytes(skb, received ? 12 : 16, &addr4, 4);
	bpf_skb_load_bytes(skb, received ? 8 : 24, r->addr, 16);
	plain = v6 | (v4 & is_zero32((head[0] & 15) ^ 5) & is_zero32((head[6] & 0x1f) | head[7]));
	r->protocol = v4 * head[9] + v6 * head[6];
	r->w[0] *= v6;
	r->w[1] *= v6;
	r->w[2] = v6 * r->w[2] + v4 * bpf_htonl(0xffff);
	r->w[3] = v6 * r->w[3] + v4 * addr4;
	p->tcp = is_zero32(r->protocol ^ IPPROTO_TCP);
	udp = is_zero32(r->protocol ^ IPPROTO_UDP);
	p->whole = plain & is_zero32(bpf_skb_load_bytes(skb, at, ports_of, 4)) & (p->tcp | udp);
	p->whole &= is_zero32(bpf_skb_load_bytes(skb, at + 12, &flags, 2)) | udp;
	r->port = p->whole * bpf_ntohs(ports_of[!received]);
	r->source_port = p->whole * bpf_ntohs(ports_of[received]);
	p->syn = p->whole & p->tcp & is_zero32((flags & bpf_htons(TCP_SYN | TCP_ACK)) ^ bpf_htons(TCP_SYN));
}

/* The name server answers nobody else: any process of the host can send to it. Its address is an IPv4 one, and so are theirs. */
static __always_inline void note_asker(const struct __sk_buff *skb, const struct bpf_record *r)
{
	struct host_asker a = {.port = bpf_htons(r->source_port), .protocol = r->protocol};
	__u64 now = bpf_ktime_get_ns();

	if (bpf_skb_load_bytes(skb, 12, &a.addr, 4) == 0)
		bpf_map_update_elem(&askers, &a, &now, BPF_ANY);
}

/* What is sent is told once a socket and place. A SYN that is sent again is no other connection. */
static __always_inline void tell_packet(struct __sk_buff *skb, struct bpf_record *r, flag sent)
{
	struct bpf_sock *sk = skb->sk;
	struct host_owner *o = NULL;

	if (sk)
		sk = bpf_sk_fullsock(sk);
	if (sk)
		o = bpf_sk_storage_get(&owners, sk, NULL, BPF_SK_STORAGE_GET_F_CREATE);
	if (o) {
		if (sent & is_zero((r->d[0] ^ o->to[0]) | (r->d[1] ^ o->to[1]) | (r->port ^ o->port)))
			return;
		o->port = sent * r->port;
		o->to[0] = r->d[0];
		o->to[1] = r->d[1];
		r->pid = o->pid;
		__builtin_memcpy(r->comm, o->comm, sizeof(r->comm));
	}
	submit(r, BPF_RECORD_DENIED + sent * (BPF_RECORD_SENT - BPF_RECORD_DENIED));
}

SEC("cgroup_skb/egress")
int host_sent(struct __sk_buff *skb)
{
	struct bpf_record r = {.family = 6};
	struct packet p;
	flag server, may;

	take_packet(skb, 0, &r, &p);
	server = p.whole & is_name_server(&r);
	if (server)
		note_asker(skb, &r);
	may = count(skb, p.whole & not(server) & allowed(&r, skb->len), 0);
	/* Of TCP only a SYN is an attempt. */
	if (not(server) & (p.syn | not(p.tcp)))
		tell_packet(skb, &r, may);
	return verdict(may | server);
}

/* A SYN asks for a connection that begins outside: whatever listens hears nothing. */
SEC("cgroup_skb/ingress")
int host_received(struct __sk_buff *skb)
{
	struct bpf_record r = {.family = 6};
	struct packet p;
	flag server, may;

	take_packet(skb, 1, &r, &p);
	server = p.whole & not(p.syn) & is_name_server(&r);
	may = count(skb, p.whole & not(p.syn | server) & allowed(&r, skb->len), 1);
	return verdict(may | server);
}

/* The kernel's helpers that are used are for GPL-compatible programs. */
char _license[] SEC("license") = "Dual BSD/GPL";
