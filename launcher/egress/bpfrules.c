/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "egress/bpfrules.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/mem.h"

#include "base/banned.h"

#define PORTS_MAX (4U << 20)

/* Inclusive, host order. */
struct range {
	uint16_t first, last;
};

/* A set of ports, kept once however many networks have it. */
struct set {
	size_t first; /* of its ranges: sorted, disjoint and not adjacent */
	size_t n;
	uint32_t id;  /* from 1; 0: the empty set, which is not kept */
};

/* One rule, or a special range, at its network. */
struct entry {
	uint8_t family, prefix, addr[16];
	const struct rule *rule; /* NULL: none */
	bool deny, closed;
};

/* What holds within a network, while its inner ones are worked on. */
struct scope {
	const struct entry *at;
	struct set allow, deny; /* allow: of address rules */
	bool closed;
};

struct ranges {
	struct range *v;
	size_t n, cap;
};

struct compiler {
	struct bpf_rules *out;
	size_t cap_nodes, cap_ports, cap_entries, n_entries;
	struct entry *entries;
	struct ranges any;     /* what every address has that is not closed */
	struct ranges deny_host;
	struct ranges all;     /* of all sets */
	struct set *sets;      /* by hash of their contents; n 0: free */
	size_t n_sets, mask;
	struct ranges scratch;
};

static void ranges_add(struct ranges *r, const struct range *v, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		vec_reserve(&r->v, &r->cap, r->n, sizeof(*r->v));
		r->v[r->n++] = v[i];
	}
}

static void ranges_add_rule(struct ranges *r, const struct rule *rule)
{
	for (size_t i = 0; i < rule->n_ports; i++)
		ranges_add(r, &(struct range){rule->ports[i].first, rule->ports[i].last}, 1);
}

static int range_compare(const void *a, const void *b)
{
	const struct range *x = a, *y = b;

	return (x->first > y->first) - (x->first < y->first);
}

/* Sorted, disjoint and not adjacent. */
static void ranges_normalise(struct ranges *r)
{
	size_t n = 1;

	if (!r->n)
		return;
	qsort(r->v, r->n, sizeof(*r->v), range_compare);
	for (size_t i = 1; i < r->n; i++) {
		struct range *last = &r->v[n - 1];

		if (r->v[i].first > (uint32_t)last->last + 1)
			r->v[n++] = r->v[i];
		else if (r->v[i].last > last->last)
			last->last = r->v[i].last;
	}
	r->n = n;
}

static uint32_t hash_ranges(const struct range *v, size_t n)
{
	uint32_t h = 2166136261U;

	for (size_t i = 0; i < n; i++)
		h = ((h ^ v[i].first) * 16777619U ^ v[i].last) * 16777619U;
	return h;
}

static struct set *set_place(struct compiler *c, const struct range *v, size_t n)
{
	size_t i = hash_ranges(v, n) & c->mask;

	while (c->sets[i].n && (c->sets[i].n != n || memcmp(c->all.v + c->sets[i].first, v, n * sizeof(*v)) != 0))
		i = (i + 1) & c->mask;
	return &c->sets[i];
}

static void grow_sets(struct compiler *c)
{
	struct set *old = c->sets;
	size_t n_old = old ? c->mask + 1 : 0;

	if (old && c->n_sets * 2 <= c->mask)
		return;
	c->mask = n_old ? n_old * 2 - 1 : 63;
	c->sets = mem_array(NULL, c->mask + 1, sizeof(*c->sets));
	memset(c->sets, 0, (c->mask + 1) * sizeof(*c->sets));
	for (size_t i = 0; i < n_old; i++)
		if (old[i].n)
			*set_place(c, c->all.v + old[i].first, old[i].n) = old[i];
	free(old);
}

/* The widest prefix that begins at the range's start and does not go beyond its end, and on. */
size_t bpf_port_keys(uint32_t set, uint16_t first, uint16_t last, struct bpf_key_port out[BPF_PORT_KEYS_MAX])
{
	uint32_t at = first;
	size_t n = 0;

	while (at <= last && n < BPF_PORT_KEYS_MAX) {
		unsigned bits = 0; /* free ones */
		struct bpf_key_port key = {.set = set, .port = htons((uint16_t)at)};

		while (bits < 16 && !(at & 1U << bits) && at + (2U << bits) - 1 <= last)
			bits++;
		key.prefix = BPF_PORT_SET_BITS + 16 - bits;
		out[n++] = key;
		at += 1U << bits;
	}
	return n;
}

static void range_to_ports(struct compiler *c, uint32_t set, const struct range *range)
{
	struct bpf_key_port keys[BPF_PORT_KEYS_MAX];
	size_t n = bpf_port_keys(set, range->first, range->last, keys);

	for (size_t i = 0; i < n; i++) {
		vec_reserve(&c->out->ports, &c->cap_ports, c->out->n_ports, sizeof(*c->out->ports));
		c->out->ports[c->out->n_ports++] = keys[i];
	}
}

/* The set of what is in c->scratch. */
static struct set set_of(struct compiler *c)
{
	struct ranges *s = &c->scratch;
	struct set *found;

	ranges_normalise(s);
	if (!s->n)
		return (struct set){0};
	grow_sets(c);
	found = set_place(c, s->v, s->n);
	if (found->n)
		return *found;
	*found = (struct set){.first = c->all.n, .n = s->n, .id = (uint32_t)++c->n_sets};
	ranges_add(&c->all, s->v, s->n);
	for (size_t i = 0; i < s->n; i++)
		range_to_ports(c, found->id, &s->v[i]);
	return *found;
}

/* --- entries --- */

static void entry_add(struct compiler *c, struct entry entry)
{
	vec_reserve(&c->entries, &c->cap_entries, c->n_entries, sizeof(*c->entries));
	c->entries[c->n_entries++] = entry;
}

static void own_add(struct compiler *c, const struct address *a, const struct rule *rule)
{
	struct entry entry = {
		.family = a->family, .prefix = a->family == 4 ? 32 : 128, .rule = rule, .deny = rule != NULL, .closed = !rule};

	memcpy(entry.addr, a->b, 16);
	entry_add(c, entry);
}

/*
 * `deny = @host`: the loopback, and this host's own addresses. What stands for @host, and a map of addresses, ask for the set
 * by itself.
 */
static void take_deny_host(struct compiler *c, const struct policy *p, const struct rule *r, bool any_address)
{
	size_t n;
	const struct address *own = policy_own(p, &n);

	entry_add(c, (struct entry){.family = 4, .prefix = 8, .addr = {127}, .rule = r, .deny = true});
	entry_add(c, (struct entry){.family = 6, .prefix = 128, .addr = {[15] = 1}, .rule = r, .deny = true});
	for (size_t i = 0; i < n; i++)
		own_add(c, &own[i], r);
	/* Where every address is open, what stands for @host is one of them (GATEWAY_THIS_HOST4). */
	if (any_address)
		entry_add(c, (struct entry){.family = 4, .prefix = 32, .addr = {198, 18, 0, 1}, .rule = r, .deny = true});
	ranges_add_rule(&c->deny_host, r);
}

static void take_rules(struct compiler *c, const struct policy *p, bool deny, bool any_address)
{
	size_t n;
	const struct rule *rules = policy_rules(p, deny, &n);

	for (size_t i = 0; i < n; i++) {
		const struct rule *r = &rules[i];
		struct entry entry = {.prefix = (uint8_t)r->prefix, .rule = r, .deny = deny};

		if (!deny && (any_address || r->kind == RULE_ANY_PUBLIC))
			ranges_add_rule(&c->any, r);
		/* `deny = *` is about every address, the special ones too. */
		for (int family = 4; deny && r->kind == RULE_ANY_PUBLIC && family <= 6; family += 2)
			entry_add(c, (struct entry){.family = (uint8_t)family, .rule = r, .deny = true});
		if (deny && r->kind == RULE_THIS_HOST)
			take_deny_host(c, p, r, any_address);
		if (r->kind != RULE_ADDRESS)
			continue;
		entry.family = r->family == AF_INET ? 4 : 6;
		memcpy(entry.addr, r->addr, 16);
		entry_add(c, entry);
	}
}

/* What closes an address to `*`. With real addresses the gateway sees to it, which knows the name and says it. */
static void take_special(struct compiler *c, const struct policy *p)
{
	size_t n;
	const struct address *own = policy_own(p, &n);

	for (size_t i = 0; i < n; i++)
		own_add(c, &own[i], NULL);
	for (uint8_t family = 4; family <= 6; family += 2) {
		struct address a;
		unsigned prefix;

		for (size_t i = 0; address_special_range(family, i, &a, &prefix); i++) {
			struct entry entry = {.family = family, .prefix = (uint8_t)prefix, .closed = true};

			memcpy(entry.addr, a.b, 16);
			entry_add(c, entry);
		}
	}
}

/* A network before those in it. */
static int entry_compare(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;
	int order = x->family - y->family;

	if (!order)
		order = memcmp(x->addr, y->addr, 16);
	return order ? order : x->prefix - y->prefix;
}

static bool entry_holds(const struct entry *outer, const struct entry *inner)
{
	unsigned whole = outer->prefix / 8U, rest = outer->prefix % 8U;

	if (outer->family != inner->family || outer->prefix > inner->prefix || memcmp(outer->addr, inner->addr, whole) != 0)
		return false;
	return !rest || (outer->addr[whole] ^ inner->addr[whole]) >> (8 - rest) == 0;
}

/* --- nodes --- */

static struct set inner_set(struct compiler *c, struct set outer, const struct entry *first, size_t n, bool deny)
{
	c->scratch.n = 0;
	ranges_add(&c->scratch, c->all.v + outer.first, outer.n);
	for (size_t i = 0; i < n; i++)
		if (first[i].rule && first[i].deny == deny)
			ranges_add_rule(&c->scratch, first[i].rule);
	return set_of(c);
}

/* The entries of one network as a node. */
static void node_add(struct compiler *c, const struct scope *outer, const struct entry *first, size_t n, struct scope *scope)
{
	struct bpf_rules_node node = {.family = first->family, .prefix = first->prefix};
	struct set allow;

	*scope = (struct scope){.at = first, .closed = outer && outer->closed};
	for (size_t i = 0; i < n; i++)
		scope->closed |= first[i].closed;
	scope->allow = inner_set(c, outer ? outer->allow : (struct set){0}, first, n, false);
	scope->deny = inner_set(c, outer ? outer->deny : (struct set){0}, first, n, true);
	c->scratch.n = 0;
	ranges_add(&c->scratch, c->all.v + scope->allow.first, scope->allow.n);
	if (!scope->closed)
		ranges_add(&c->scratch, c->any.v, c->any.n);
	allow = set_of(c);
	memcpy(node.addr, first->addr, 16);
	node.value = (struct bpf_node){.allow = allow.id, .deny = scope->deny.id, .listed = scope->allow.id};
	vec_reserve(&c->out->nodes, &c->cap_nodes, c->out->n_nodes, sizeof(*c->out->nodes));
	c->out->nodes[c->out->n_nodes++] = node;
	c->out->allows |= allow.id != 0;
	c->out->denies |= scope->deny.id != 0;
}

static int add_nodes(struct compiler *c, struct err *e)
{
	struct scope scopes[130]; /* a prefix of each length, and one */
	size_t depth = 0, n;

	qsort(c->entries, c->n_entries, sizeof(*c->entries), entry_compare);
	for (size_t i = 0; i < c->n_entries; i += n) {
		const struct entry *first = &c->entries[i];

		for (n = 1; i + n < c->n_entries && entry_compare(first, first + n) == 0; n++)
			;
		while (depth && !entry_holds(scopes[depth - 1].at, first))
			depth--;
		node_add(c, depth ? &scopes[depth - 1] : NULL, first, n, &scopes[depth]);
		depth++;
		if (c->out->n_ports > PORTS_MAX)
			return err_set(e, E2BIG, "the egress rules name too many ports for the eBPF maps; egress.ebpf = off does without");
	}
	return 0;
}

int bpf_rules_compile(const struct policy *p, bool any_address, struct bpf_rules *out, struct err *e)
{
	struct compiler c = {.out = out};
	int r;

	*out = (struct bpf_rules){0};
	for (uint8_t family = 4; family <= 6; family += 2)
		entry_add(&c, (struct entry){.family = family});
	take_rules(&c, p, false, any_address);
	take_rules(&c, p, true, any_address);
	ranges_normalise(&c.any);
	if (c.any.n && !any_address)
		take_special(&c, p);
	r = add_nodes(&c, e);
	c.scratch.n = 0;
	ranges_add(&c.scratch, c.deny_host.v, c.deny_host.n);
	out->deny_host = set_of(&c).id;
	free(c.deny_host.v);
	free(c.entries);
	free(c.any.v);
	free(c.all.v);
	free(c.sets);
	free(c.scratch.v);
	return r;
}

void bpf_rules_free(struct bpf_rules *r)
{
	free(r->nodes);
	free(r->ports);
	*r = (struct bpf_rules){0};
}
