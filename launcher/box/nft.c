/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "box/nft.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <netlink/attr.h>
#include <netlink/msg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "box/netns.h"

#include "base/banned.h"

#define TABLE "agentbox"
#define CHAIN_OUT "out"
#define CHAIN_CAPTURE "capture"
#define SET_PORTS "ports"
#define SET_NETS4 "nets4"
#define SET_NETS6 "nets6"
/*
 * More ranges than these are not told to the kernel: the set is then "everything", and what it would have refused early
 * the gateway refuses after the connection was accepted. So the transaction stays below the send buffer of a netlink
 * socket.
 */
#define PORTS_MAX 512
#define NETS_MAX 1024
#define ELEMENTS_A_MESSAGE 256
#define PRIORITY_OUT (-150)     /* before the destination is rewritten at -100 */
#define PRIORITY_CAPTURE (-150) /* mangle: where tproxy belongs */
#define PRIORITY_REDIRECT (-100)

/* --- the batch --- */

struct batch {
	char *bytes;
	size_t len, cap;
	uint32_t seq;
	bool failed; /* out of memory somewhere: seen once at the end */
};

static struct nl_msg *message(struct batch *b, int type, int family, int flags, int res_id)
{
	struct nfgenmsg head = {.nfgen_family = (uint8_t)family, .version = NFNETLINK_V0, .res_id = htons((uint16_t)res_id)};
	bool elements = (type & 0xff) == NFT_MSG_NEWSETELEM;
	struct nl_msg *m = nlmsg_alloc_size(elements ? ELEMENTS_A_MESSAGE * 48 + 1024 : 1024);

	if (!m || !nlmsg_put(m, 0, ++b->seq, type, 0, NLM_F_REQUEST | flags) ||
	    nlmsg_append(m, &head, sizeof(head), NLMSG_ALIGNTO) < 0)
		b->failed = true;
	return m;
}

static struct nl_msg *nft_message(struct batch *b, int type, int flags)
{
	return message(b, NFNL_SUBSYS_NFTABLES << 8 | type, NFPROTO_INET, flags, 0);
}

static void push(struct batch *b, struct nl_msg *m)
{
	struct nlmsghdr *h;
	size_t size;

	if (!b->failed) {
		h = nlmsg_hdr(m);
		size = NLMSG_ALIGN(h->nlmsg_len);
		if (size > b->cap - b->len) {
			b->cap = (b->cap + size) * 2;
			b->bytes = mem_array(b->bytes, b->cap, 1);
		}
		memset(b->bytes + b->len, 0, size);
		memcpy(b->bytes + b->len, h, h->nlmsg_len);
		b->len += size;
	}
	nlmsg_free(m);
}

/* --- attributes: failures are kept in the batch --- */

static void put(struct batch *b, struct nl_msg *m, int attr, const void *value, int len)
{
	if (!b->failed && nla_put(m, attr, len, value) < 0)
		b->failed = true;
}

static void put_text(struct batch *b, struct nl_msg *m, int attr, const char *text)
{
	put(b, m, attr, text, (int)strlen(text) + 1);
}

static void put_be32(struct batch *b, struct nl_msg *m, int attr, uint32_t value)
{
	value = htonl(value);
	put(b, m, attr, &value, 4);
}

static void put_be16(struct batch *b, struct nl_msg *m, int attr, uint16_t value)
{
	value = htons(value);
	put(b, m, attr, &value, 2);
}

static struct nlattr *nest(struct batch *b, struct nl_msg *m, int attr)
{
	struct nlattr *a = b->failed ? NULL : nla_nest_start(m, attr);

	if (!a)
		b->failed = true;
	return a;
}

static void end(struct batch *b, struct nl_msg *m, struct nlattr *a)
{
	if (!b->failed)
		nla_nest_end(m, a);
}

/* --- expressions --- */

struct rule_msg {
	struct batch *b;
	struct nl_msg *m;
	struct nlattr *list, *elem, *data;
};

static void rule_begin(struct rule_msg *r, struct batch *b, const char *chain)
{
	r->b = b;
	r->m = nft_message(b, NFT_MSG_NEWRULE, NLM_F_CREATE | NLM_F_APPEND);
	put_text(b, r->m, NFTA_RULE_TABLE, TABLE);
	put_text(b, r->m, NFTA_RULE_CHAIN, chain);
	r->list = nest(b, r->m, NFTA_RULE_EXPRESSIONS);
}

static void rule_end(struct rule_msg *r)
{
	end(r->b, r->m, r->list);
	push(r->b, r->m);
}

static void expr(struct rule_msg *r, const char *name)
{
	r->elem = nest(r->b, r->m, NFTA_LIST_ELEM);
	put_text(r->b, r->m, NFTA_EXPR_NAME, name);
	r->data = nest(r->b, r->m, NFTA_EXPR_DATA);
}

static void expr_end(struct rule_msg *r)
{
	end(r->b, r->m, r->data);
	end(r->b, r->m, r->elem);
}

static void put_value(struct rule_msg *r, int attr, const void *value, int len)
{
	struct nlattr *a = nest(r->b, r->m, attr);

	put(r->b, r->m, NFTA_DATA_VALUE, value, len);
	end(r->b, r->m, a);
}

static void compare_by(struct rule_msg *r, uint32_t op, const void *value, int len)
{
	expr(r, "cmp");
	put_be32(r->b, r->m, NFTA_CMP_SREG, NFT_REG_1);
	put_be32(r->b, r->m, NFTA_CMP_OP, op);
	put_value(r, NFTA_CMP_DATA, value, len);
	expr_end(r);
}

static void compare(struct rule_msg *r, const void *value, int len)
{
	compare_by(r, NFT_CMP_EQ, value, len);
}

static void differ(struct rule_msg *r, const void *value, int len)
{
	compare_by(r, NFT_CMP_NEQ, value, len);
}

static void meta_is(struct rule_msg *r, uint32_t key, uint8_t value)
{
	expr(r, "meta");
	put_be32(r->b, r->m, NFTA_META_DREG, NFT_REG_1);
	put_be32(r->b, r->m, NFTA_META_KEY, key);
	expr_end(r);
	compare(r, &value, 1);
}

static void payload(struct rule_msg *r, uint32_t base, uint32_t offset, uint32_t len)
{
	expr(r, "payload");
	put_be32(r->b, r->m, NFTA_PAYLOAD_DREG, NFT_REG_1);
	put_be32(r->b, r->m, NFTA_PAYLOAD_BASE, base);
	put_be32(r->b, r->m, NFTA_PAYLOAD_OFFSET, offset);
	put_be32(r->b, r->m, NFTA_PAYLOAD_LEN, len);
	expr_end(r);
}

static void load_daddr(struct rule_msg *r, bool v6)
{
	meta_is(r, NFT_META_NFPROTO, v6 ? NFPROTO_IPV6 : NFPROTO_IPV4);
	payload(r, NFT_PAYLOAD_NETWORK_HEADER, v6 ? 24 : 16, v6 ? 16 : 4);
}

static void load_dport(struct rule_msg *r, uint8_t protocol)
{
	meta_is(r, NFT_META_L4PROTO, protocol);
	payload(r, NFT_PAYLOAD_TRANSPORT_HEADER, 2, 2);
}

static void in_set(struct rule_msg *r, const char *set)
{
	expr(r, "lookup");
	put_text(r->b, r->m, NFTA_LOOKUP_SET, set);
	put_be32(r->b, r->m, NFTA_LOOKUP_SREG, NFT_REG_1);
	expr_end(r);
}

static void immediate(struct rule_msg *r, uint32_t reg, const void *value, int len)
{
	expr(r, "immediate");
	put_be32(r->b, r->m, NFTA_IMMEDIATE_DREG, reg);
	put_value(r, NFTA_IMMEDIATE_DATA, value, len);
	expr_end(r);
}

static void verdict(struct rule_msg *r, uint32_t code)
{
	struct nlattr *a, *v;

	expr(r, "immediate");
	put_be32(r->b, r->m, NFTA_IMMEDIATE_DREG, NFT_REG_VERDICT);
	a = nest(r->b, r->m, NFTA_IMMEDIATE_DATA);
	v = nest(r->b, r->m, NFTA_DATA_VERDICT);
	put_be32(r->b, r->m, NFTA_VERDICT_CODE, code);
	end(r->b, r->m, v);
	end(r->b, r->m, a);
	expr_end(r);
}

static void log_it(struct rule_msg *r)
{
	expr(r, "log");
	put_be16(r->b, r->m, NFTA_LOG_GROUP, NETNS_NFLOG_GROUP);
	put_be32(r->b, r->m, NFTA_LOG_SNAPLEN, 64);
	put_be16(r->b, r->m, NFTA_LOG_QTHRESHOLD, 1);
	expr_end(r);
}

static void reject(struct rule_msg *r, uint32_t type, uint8_t code)
{
	expr(r, "reject");
	put_be32(r->b, r->m, NFTA_REJECT_TYPE, type);
	put(r->b, r->m, NFTA_REJECT_ICMP_CODE, &code, 1);
	expr_end(r);
}

/* --- table, chains, sets --- */

static void add_table(struct batch *b)
{
	struct nl_msg *m = nft_message(b, NFT_MSG_NEWTABLE, NLM_F_CREATE);

	put_text(b, m, NFTA_TABLE_NAME, TABLE);
	push(b, m);
}

static void add_chain(struct batch *b, const char *name, const char *type, uint32_t hook, int priority)
{
	struct nl_msg *m = nft_message(b, NFT_MSG_NEWCHAIN, NLM_F_CREATE);
	struct nlattr *a;

	put_text(b, m, NFTA_CHAIN_TABLE, TABLE);
	put_text(b, m, NFTA_CHAIN_NAME, name);
	a = nest(b, m, NFTA_CHAIN_HOOK);
	put_be32(b, m, NFTA_HOOK_HOOKNUM, hook);
	put_be32(b, m, NFTA_HOOK_PRIORITY, (uint32_t)priority);
	end(b, m, a);
	put_text(b, m, NFTA_CHAIN_TYPE, type);
	put_be32(b, m, NFTA_CHAIN_POLICY, NF_ACCEPT);
	push(b, m);
}

/* key_type: nft(8)'s number, for its listings; the kernel does not read it. */
static void add_set(struct batch *b, const char *name, uint32_t id, uint32_t key_type, uint32_t key_len)
{
	struct nl_msg *m = nft_message(b, NFT_MSG_NEWSET, NLM_F_CREATE);

	put_text(b, m, NFTA_SET_TABLE, TABLE);
	put_text(b, m, NFTA_SET_NAME, name);
	put_be32(b, m, NFTA_SET_FLAGS, NFT_SET_INTERVAL);
	put_be32(b, m, NFTA_SET_KEY_TYPE, key_type);
	put_be32(b, m, NFTA_SET_KEY_LEN, key_len);
	put_be32(b, m, NFTA_SET_ID, id);
	push(b, m);
}

/* Elements go out in messages of ELEMENTS_A_MESSAGE: a nested attribute holds 64K. */
struct elements {
	struct batch *b;
	const char *set;
	struct nl_msg *m;
	struct nlattr *list;
	size_t n;
};

static void elements_flush(struct elements *s)
{
	if (!s->n)
		return;
	end(s->b, s->m, s->list);
	push(s->b, s->m);
	s->n = 0;
}

static void element(struct elements *s, const void *key, int len, bool is_end)
{
	struct nlattr *a, *k;

	if (!s->n) {
		s->m = nft_message(s->b, NFT_MSG_NEWSETELEM, NLM_F_CREATE);
		put_text(s->b, s->m, NFTA_SET_ELEM_LIST_TABLE, TABLE);
		put_text(s->b, s->m, NFTA_SET_ELEM_LIST_SET, s->set);
		s->list = nest(s->b, s->m, NFTA_SET_ELEM_LIST_ELEMENTS);
	}
	a = nest(s->b, s->m, NFTA_LIST_ELEM);
	k = nest(s->b, s->m, NFTA_SET_ELEM_KEY);
	put(s->b, s->m, NFTA_DATA_VALUE, key, len);
	end(s->b, s->m, k);
	if (is_end)
		put_be32(s->b, s->m, NFTA_SET_ELEM_FLAGS, NFT_SET_ELEM_INTERVAL_END);
	end(s->b, s->m, a);
	if (++s->n == ELEMENTS_A_MESSAGE)
		elements_flush(s);
}

static void add_ports(struct batch *b, const struct nft_plan *p)
{
	struct elements s = {.b = b, .set = SET_PORTS};

	for (size_t i = 0; i < p->n_ports; i++) {
		uint16_t first = htons(p->ports[i].first), after = htons((uint16_t)(p->ports[i].last + 1));

		element(&s, &first, 2, false);
		if (p->ports[i].last != UINT16_MAX)
			element(&s, &after, 2, true);
	}
	elements_flush(&s);
}

/* A network as its first address and the first behind it (open: there is none). */
struct net_range {
	uint8_t first[16], after[16];
	bool open;
};

static struct net_range range_of(const uint8_t *addr, unsigned prefix, int len)
{
	struct net_range r = {.open = true};
	int carry;

	memcpy(r.first, addr, (size_t)len);
	memcpy(r.after, addr, (size_t)len);
	if (!prefix)
		return r;
	carry = 1 << (7 - (prefix - 1) % 8);
	for (int i = (int)(prefix - 1) / 8; i >= 0 && carry; i--) {
		carry += r.after[i];
		r.after[i] = (uint8_t)carry;
		carry >>= 8;
	}
	r.open = carry != 0;
	return r;
}

/* By start; of those that start together, the widest first. */
static int range_compare(const void *a, const void *b)
{
	const struct net_range *x = a, *y = b;
	int order = memcmp(x->first, y->first, 16);

	if (order)
		return order;
	if (x->open != y->open)
		return x->open ? -1 : 1;
	return memcmp(y->after, x->after, 16);
}

/*
 * Networks nest or are apart, so after sorting one that starts before the end of the last written one lies within it.
 */
static void add_nets(struct batch *b, const struct nft_plan *p, int family)
{
	struct elements s = {.b = b, .set = family == AF_INET ? SET_NETS4 : SET_NETS6};
	int len = family == AF_INET ? 4 : 16;
	struct net_range *ranges = mem_array(NULL, p->n_nets + 1, sizeof(*ranges)), *last = NULL;
	size_t n = 0;

	if (family == AF_INET) {
		uint32_t synthetic = htonl(NETNS_SYNTHETIC_FIRST);

		ranges[n++] = range_of((const uint8_t *)&synthetic, NETNS_SYNTHETIC_PREFIX, len);
	}
	for (size_t i = 0; i < p->n_nets; i++)
		if (p->nets[i].family == family)
			ranges[n++] = range_of(p->nets[i].addr, p->nets[i].prefix, len);
	if (n)
		qsort(ranges, n, sizeof(*ranges), range_compare);
	for (size_t i = 0; i < n; i++) {
		if (last && (last->open || memcmp(ranges[i].first, last->after, (size_t)len) < 0))
			continue;
		last = &ranges[i];
		element(&s, ranges[i].first, len, false);
		if (!ranges[i].open)
			element(&s, ranges[i].after, len, true);
	}
	elements_flush(&s);
	free(ranges);
}

/* --- rules --- */

/* What stays in the box: its loopback and its own addresses. */
static void pass_own(struct batch *b, const struct nft_plan *p, const char *chain)
{
	struct rule_msg r;
	uint8_t loopback = 127;

	rule_begin(&r, b, chain);
	meta_is(&r, NFT_META_NFPROTO, NFPROTO_IPV4);
	payload(&r, NFT_PAYLOAD_NETWORK_HEADER, 16, 1);
	compare(&r, &loopback, 1);
	verdict(&r, NF_ACCEPT);
	rule_end(&r);
	rule_begin(&r, b, chain);
	load_daddr(&r, false);
	compare(&r, &p->own4, 4);
	verdict(&r, NF_ACCEPT);
	rule_end(&r);
	rule_begin(&r, b, chain);
	load_daddr(&r, true);
	compare(&r, &in6addr_loopback, 16);
	verdict(&r, NF_ACCEPT);
	rule_end(&r);
	rule_begin(&r, b, chain);
	load_daddr(&r, true);
	compare(&r, &p->own6, 16);
	verdict(&r, NF_ACCEPT);
	rule_end(&r);
}

/* DNS at any address is ours. */
static void pass_dns(struct batch *b, const char *chain, uint8_t protocol)
{
	uint16_t port = htons(53);
	struct rule_msg r;

	rule_begin(&r, b, chain);
	load_dport(&r, protocol);
	compare(&r, &port, 2);
	verdict(&r, NF_ACCEPT);
	rule_end(&r);
}

static void pass_tcp(struct batch *b, const char *ports, const char *nets, bool v6)
{
	struct rule_msg r;

	rule_begin(&r, b, CHAIN_OUT);
	if (nets) {
		load_daddr(&r, v6);
		in_set(&r, nets);
	}
	if (ports) {
		load_dport(&r, IPPROTO_TCP);
		in_set(&r, ports);
	} else {
		meta_is(&r, NFT_META_L4PROTO, IPPROTO_TCP);
	}
	verdict(&r, NF_ACCEPT);
	rule_end(&r);
}

/* The output chain: what is not on its way to the gateway is refused at once. */
static void add_refusals(struct batch *b, const struct nft_plan *p)
{
	bool all_ports = p->n_ports > PORTS_MAX, all_nets = p->any_address || p->n_nets > NETS_MAX;
	const char *ports = all_ports ? NULL : SET_PORTS;
	struct rule_msg r;

	if (!all_ports) {
		add_set(b, SET_PORTS, 1, 13, 2);
		add_ports(b, p);
	}
	if (!all_nets) {
		add_set(b, SET_NETS4, 2, 7, 4);
		add_nets(b, p, AF_INET);
		add_set(b, SET_NETS6, 3, 8, 16);
		add_nets(b, p, AF_INET6);
	}
	add_chain(b, CHAIN_OUT, "filter", NF_INET_LOCAL_OUT, PRIORITY_OUT);
	pass_own(b, p, CHAIN_OUT);
	pass_dns(b, CHAIN_OUT, IPPROTO_UDP);
	pass_dns(b, CHAIN_OUT, IPPROTO_TCP);
	if (!p->log) {
		pass_tcp(b, NULL, NULL, false);
	} else if (all_nets) {
		pass_tcp(b, ports, NULL, false);
	} else {
		pass_tcp(b, ports, SET_NETS4, false);
		pass_tcp(b, ports, SET_NETS6, true);
	}
	rule_begin(&r, b, CHAIN_OUT);
	meta_is(&r, NFT_META_L4PROTO, IPPROTO_TCP);
	if (p->log)
		log_it(&r);
	reject(&r, NFT_REJECT_TCP_RST, 0);
	rule_end(&r);
	/* A connected UDP socket sees ECONNREFUSED, so that QUIC clients turn to TCP at once. */
	rule_begin(&r, b, CHAIN_OUT);
	meta_is(&r, NFT_META_L4PROTO, IPPROTO_UDP);
	if (p->log)
		log_it(&r);
	reject(&r, NFT_REJECT_ICMPX_UNREACH, NFT_REJECT_ICMPX_PORT_UNREACH);
	rule_end(&r);
	rule_begin(&r, b, CHAIN_OUT);
	if (p->log)
		log_it(&r);
	reject(&r, NFT_REJECT_ICMPX_UNREACH, NFT_REJECT_ICMPX_ADMIN_PROHIBITED);
	rule_end(&r);
}

/*
 * All TCP but to the box's own addresses and to DNS. In one rule a family, and not after rules that accept those: the kernel
 * takes a microsecond and more for each expression, and a start waits for that.
 */
static void tproxy(struct batch *b, const struct nft_plan *p, bool v6)
{
	struct in_addr loopback = {htonl(INADDR_LOOPBACK)};
	uint16_t port = htons(NETNS_CAPTURE_PORT), dns = htons(53);
	uint8_t loopback_net = 127;
	struct rule_msg r;

	rule_begin(&r, b, CHAIN_CAPTURE);
	load_daddr(&r, v6);
	differ(&r, v6 ? (const void *)&p->own6 : (const void *)&p->own4, v6 ? 16 : 4);
	if (v6) {
		differ(&r, &in6addr_loopback, 16);
	} else {
		payload(&r, NFT_PAYLOAD_NETWORK_HEADER, 16, 1);
		differ(&r, &loopback_net, 1);
	}
	load_dport(&r, IPPROTO_TCP);
	differ(&r, &dns, 2);
	immediate(&r, NFT_REG_1, v6 ? (const void *)&in6addr_loopback : (const void *)&loopback, v6 ? 16 : 4);
	immediate(&r, NFT_REG_2, &port, 2);
	expr(&r, "tproxy");
	put_be32(b, r.m, NFTA_TPROXY_FAMILY, v6 ? NFPROTO_IPV6 : NFPROTO_IPV4);
	put_be32(b, r.m, NFTA_TPROXY_REG_ADDR, NFT_REG_1);
	put_be32(b, r.m, NFTA_TPROXY_REG_PORT, NFT_REG_2);
	expr_end(&r);
	rule_end(&r);
}

/* To the loopback, as output redirection goes (net/netfilter/nf_nat_redirect.c). */
static void redirect(struct batch *b)
{
	uint16_t port = htons(NETNS_CAPTURE_PORT);
	struct rule_msg r;

	rule_begin(&r, b, CHAIN_CAPTURE);
	meta_is(&r, NFT_META_L4PROTO, IPPROTO_TCP);
	immediate(&r, NFT_REG_1, &port, 2);
	expr(&r, "redir");
	put_be32(b, r.m, NFTA_REDIR_REG_PROTO_MIN, NFT_REG_1);
	expr_end(&r);
	rule_end(&r);
}

static void add_capture(struct batch *b, const struct nft_plan *p)
{
	if (p->redirect)
		add_chain(b, CHAIN_CAPTURE, "nat", NF_INET_LOCAL_OUT, PRIORITY_REDIRECT);
	else
		add_chain(b, CHAIN_CAPTURE, "filter", NF_INET_PRE_ROUTING, PRIORITY_CAPTURE);
	if (p->redirect) {
		pass_own(b, p, CHAIN_CAPTURE);
		pass_dns(b, CHAIN_CAPTURE, IPPROTO_TCP);
		redirect(b);
		return;
	}
	tproxy(b, p, false);
	if (p->have6)
		tproxy(b, p, true);
}

/* --- sending --- */

/*
 * The kernel applies a batch whole or not at all, and answers for each message that failed, and for the one that asks:
 * the last (net/netfilter/nfnetlink.c, nfnetlink_rcv_batch). So the first answer tells.
 */
static int send_batch(const struct batch *b)
{
	struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
	cleanup_fd int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER);
	union {
		struct nlmsghdr h;
		char bytes[4096];
	} answer;
	ssize_t n;

	if (fd < 0)
		return -errno;
	if (sendto(fd, b->bytes, b->len, 0, (struct sockaddr *)&kernel, sizeof(kernel)) < 0)
		return -errno;
	do
		n = recv(fd, &answer, sizeof(answer), 0);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	if ((size_t)n < NLMSG_LENGTH(sizeof(struct nlmsgerr)) || answer.h.nlmsg_type != NLMSG_ERROR)
		return -EBADMSG;
	return ((struct nlmsgerr *)NLMSG_DATA(&answer.h))->error;
}

/* The message that asks for the answer: the table's name again, which changes nothing. */
static void add_last(struct batch *b)
{
	struct nl_msg *m = nft_message(b, NFT_MSG_NEWTABLE, NLM_F_ACK);

	put_text(b, m, NFTA_TABLE_NAME, TABLE);
	push(b, m);
}

int nft_apply(const struct nft_plan *plan)
{
	struct batch b = {.cap = 16384};
	int rc;

	b.bytes = mem_alloc(b.cap);
	push(&b, message(&b, NFNL_MSG_BATCH_BEGIN, AF_UNSPEC, 0, NFNL_SUBSYS_NFTABLES));
	add_table(&b);
	add_refusals(&b, plan);
	add_capture(&b, plan);
	add_last(&b);
	push(&b, message(&b, NFNL_MSG_BATCH_END, AF_UNSPEC, 0, NFNL_SUBSYS_NFTABLES));
	rc = b.failed ? -ENOMEM : send_batch(&b);
	free(b.bytes);
	return rc;
}
