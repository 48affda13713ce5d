/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "egress/policy.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"

#include "base/banned.h"

/*
 * Rules of one list, found by hash. The key is the host part (kind and name, or family, prefix and masked address);
 * rules with the same key hang on one chain in the order of the list. A look-up costs one probe a label of the name, or
 * one a prefix length in use, whatever the number of rules.
 */
struct rule_set {
	struct rule *rules;
	const struct val_item **items;
	int *next; /* chain: index of the next rule in the bucket, -1 at its end */
	size_t n;
	int *buckets;
	size_t mask;
	uint64_t prefixes4[1]; /* bit P: a rule with prefix P is there; 0 to 32 */
	uint64_t prefixes6[3]; /* 0 to 128 */
};

struct policy {
	struct rule_set allow, deny;
	struct address *own; /* sorted */
	size_t n_own;
};

/* FNV-1a. Only operators' rules are in the table, so nobody can crowd a bucket from within the box. */
static uint32_t hash_bytes(uint32_t h, const void *bytes, size_t len)
{
	const uint8_t *b = bytes;

	for (size_t i = 0; i < len; i++)
		h = (h ^ b[i]) * 16777619U;
	return h;
}

static uint32_t hash_name(enum rule_host kind, const char *name, size_t len)
{
	uint8_t k = (uint8_t)kind;

	return hash_bytes(hash_bytes(2166136261U, &k, 1), name, len);
}

static uint32_t hash_net(int family, const uint8_t *addr, unsigned prefix)
{
	uint8_t k[2] = {family == AF_INET ? 4 : 6, (uint8_t)prefix};

	return hash_bytes(hash_bytes(2166136261U, k, 2), addr, 16);
}

static uint32_t hash_rule(const struct rule *r)
{
	if (r->kind == RULE_ADDRESS)
		return hash_net(r->family, r->addr, r->prefix);
	return hash_name(r->kind, r->name, strlen(r->name));
}

static int set_compile(struct rule_set *s, const struct val_list *list, bool deny, struct err *e)
{
	size_t n_buckets = 16;

	while (n_buckets < list->n * 2)
		n_buckets *= 2;
	s->mask = n_buckets - 1;
	s->buckets = mem_array(NULL, n_buckets, sizeof(*s->buckets));
	for (size_t i = 0; i < n_buckets; i++)
		s->buckets[i] = -1;
	s->rules = mem_array(NULL, list->n, sizeof(*s->rules));
	s->items = mem_array(NULL, list->n, sizeof(*s->items));
	s->next = mem_array(NULL, list->n, sizeof(*s->next));
	for (size_t i = 0; i < list->n; i++) {
		struct rule *r = &s->rules[i];
		int rc = rule_parse(list->items[i].text, r, e);
		char where[256];

		if (rc < 0) {
			err_prefix(e, "%s: [egress] %s", origin_text(list->items[i].from, where, sizeof(where)),
				   deny ? "deny" : "allow");
			return rc;
		}
		/* Whoever denies a name means all of it: the default of 80 and 443 is for grants. */
		if (deny && r->ports_default) {
			r->ports[0] = (struct rule_ports){.first = 1, .last = UINT16_MAX};
			r->n_ports = 1;
		}
		if (r->kind == RULE_ADDRESS) {
			uint64_t *bits = r->family == AF_INET ? s->prefixes4 : s->prefixes6;

			bits[r->prefix / 64] |= 1ULL << (r->prefix % 64);
		}
		s->items[i] = &list->items[i];
		s->n++;
	}
	/* Backwards, so that a chain runs in the list's order and the first rule that fits is the one named. */
	for (size_t i = s->n; i-- > 0;) {
		int *bucket = &s->buckets[hash_rule(&s->rules[i]) & s->mask];

		s->next[i] = *bucket;
		*bucket = (int)i;
	}
	return 0;
}

static void set_free(struct rule_set *s)
{
	free(s->rules);
	free(s->items);
	free(s->next);
	free(s->buckets);
}

int policy_new(const struct profile *p, struct policy **out, struct err *e)
{
	struct policy *new = mem_zalloc(sizeof(*new));
	int rc = set_compile(&new->allow, &p->egress.allow, false, e);

	if (rc == 0)
		rc = set_compile(&new->deny, &p->egress.deny, true, e);
	if (rc < 0) {
		policy_free(new);
		return rc;
	}
	*out = new;
	return 0;
}

void policy_free(struct policy *p)
{
	if (!p)
		return;
	set_free(&p->allow);
	set_free(&p->deny);
	free(p->own);
	free(p);
}

/*
 * Shell's sort. Not qsort(3): the gateway calls this behind its filter of system calls, and qsort may ask for the size
 * of memory (stdlib/msort.c).
 */
static void sort_addresses(struct address *v, size_t n)
{
	for (size_t gap = n / 2; gap; gap /= 2) {
		for (size_t i = gap; i < n; i++) {
			struct address a = v[i];
			size_t k = i;

			for (; k >= gap && address_compare(&v[k - gap], &a) > 0; k -= gap)
				v[k] = v[k - gap];
			v[k] = a;
		}
	}
}

void policy_set_own(struct policy *p, const struct address *own, size_t n)
{
	free(p->own);
	p->own = mem_array(NULL, n, sizeof(*own));
	p->n_own = n;
	if (!n)
		return;
	memcpy(p->own, own, n * sizeof(*own));
	sort_addresses(p->own, n);
}

/* --- matching --- */

static bool rule_has_port(const struct rule *r, uint16_t port)
{
	for (size_t i = 0; i < r->n_ports; i++)
		if (port >= r->ports[i].first && port <= r->ports[i].last)
			return true;
	return false;
}

/* Called for each rule that names the host. Return: true to stop. */
typedef bool (*match_fn)(const struct rule *r, int index, void *arg);

static bool visit_name(const struct rule_set *s, enum rule_host kind, const char *name, match_fn fn, void *arg)
{
	size_t len = strlen(name);

	for (int i = s->buckets[hash_name(kind, name, len) & s->mask]; i >= 0; i = s->next[i]) {
		const struct rule *r = &s->rules[i];

		if (r->kind == kind && str_eq(r->name, name) && fn(r, i, arg))
			return true;
	}
	return false;
}

/* The exact name, then its parents from the nearest up, then `*`. */
static bool visit_names(const struct rule_set *s, const char *name, match_fn fn, void *arg)
{
	if (str_eq(name, POLICY_THIS_HOST))
		return visit_name(s, RULE_THIS_HOST, "", fn, arg);
	if (visit_name(s, RULE_NAME, name, fn, arg))
		return true;
	for (const char *dot = strchr(name, '.'); dot; dot = strchr(dot + 1, '.'))
		if (visit_name(s, RULE_SUBDOMAINS, dot + 1, fn, arg))
			return true;
	return visit_name(s, RULE_ANY_PUBLIC, "", fn, arg);
}

/* The longest prefix first. Not `*`. */
static bool visit_nets(const struct rule_set *s, const struct address *a, match_fn fn, void *arg)
{
	const uint64_t *bits = a->family == 4 ? s->prefixes4 : s->prefixes6;
	int family = a->family == 4 ? AF_INET : AF_INET6;
	unsigned max = a->family == 4 ? 32 : 128;
	uint8_t masked[16];

	memcpy(masked, a->b, 16);
	for (int p = (int)max; p >= 0; p--) {
		if (p < (int)max) /* bit p of the address is the first beyond a prefix of p bits */
			masked[p / 8] &= (uint8_t)(0xff00 >> (p % 8));
		if (!(bits[p / 64] >> (p % 64) & 1))
			continue;
		for (int i = s->buckets[hash_net(family, masked, (unsigned)p) & s->mask]; i >= 0; i = s->next[i]) {
			const struct rule *r = &s->rules[i];

			if (r->kind == RULE_ADDRESS && r->family == family && r->prefix == (unsigned)p &&
			    memcmp(r->addr, masked, 16) == 0 && fn(r, i, arg))
				return true;
		}
	}
	return false;
}

struct port_match {
	uint16_t port;
	int found;    /* a rule with the port; -1: none */
	int near;     /* a rule of the host, on other ports; -1: none */
};

static bool match_port(const struct rule *r, int index, void *arg)
{
	struct port_match *m = arg;

	if (rule_has_port(r, m->port)) {
		m->found = index;
		return true;
	}
	if (m->near < 0)
		m->near = index;
	return false;
}

/*
 * Port 0 asks whether any port is left. An allow rule's ranges are walked, and what deny rules cover is skipped; it
 * ends as every step either finds a free port or goes beyond a range.
 */
struct any_match {
	const struct policy *p;
	const char *name;
	int found, denied;
	uint32_t port; /* the walk's place; a deny rule that covers it moves it on */
	bool moved;
};

static bool match_deny_skip(const struct rule *r, int index, void *arg)
{
	struct any_match *m = arg;

	for (size_t i = 0; i < r->n_ports; i++) {
		if (m->port >= r->ports[i].first && m->port <= r->ports[i].last) {
			m->port = (uint32_t)r->ports[i].last + 1;
			m->moved = true;
			m->denied = index;
		}
	}
	return false;
}

static bool match_any(const struct rule *r, int index, void *arg)
{
	struct any_match *m = arg;

	for (size_t i = 0; i < r->n_ports; i++) {
		m->port = r->ports[i].first;
		do {
			m->moved = false;
			visit_names(&m->p->deny, m->name, match_deny_skip, m);
		} while (m->moved && m->port <= r->ports[i].last);
		if (m->port <= r->ports[i].last) {
			m->found = index;
			return true;
		}
	}
	return false;
}

static struct verdict verdict_no(enum verdict_reason reason, int rule)
{
	return (struct verdict){.allowed = false, .reason = reason, .rule = rule};
}

static struct verdict verdict_yes(int rule)
{
	return (struct verdict){.allowed = true, .reason = VERDICT_ALLOWED, .rule = rule};
}

/* Deny rules are numbered behind the allow rules. */
static struct verdict verdict_deny_rule(const struct policy *p, int index)
{
	return verdict_no(VERDICT_DENY_RULE, (int)p->allow.n + index);
}

static struct verdict decide_any_port(const struct policy *p, const char *name)
{
	struct any_match m = {.p = p, .name = name, .found = -1, .denied = -1};

	visit_names(&p->allow, name, match_any, &m);
	if (m.found >= 0)
		return verdict_yes(m.found);
	return m.denied >= 0 ? verdict_deny_rule(p, m.denied) : verdict_no(VERDICT_NO_RULE, -1);
}

static bool is_own(const struct policy *p, const struct address *a)
{
	return p->n_own && bsearch(a, p->own, p->n_own, sizeof(*a), address_compare);
}

static bool is_loopback(const struct address *a)
{
	const char *range = address_special(a);

	return range && str_eq(range, "loopback");
}

static bool is_this_host(const struct policy *p, const struct address *a)
{
	return is_loopback(a) || is_own(p, a);
}

/*
 * Is the address, or the IPv4 address that it stands for, denied? `deny = *` denies every address too, `deny = @host`
 * those that are this host.
 */
static int denied_address(const struct policy *p, const struct address *a, uint16_t port)
{
	struct port_match m = {.port = port, .found = -1, .near = -1};
	struct address v4;
	bool embedded = address_embedded_v4(a, &v4);

	if (visit_nets(&p->deny, a, match_port, &m))
		return m.found;
	if (embedded && visit_nets(&p->deny, &v4, match_port, &m))
		return m.found;
	if ((is_this_host(p, a) || (embedded && is_this_host(p, &v4))) && visit_name(&p->deny, RULE_THIS_HOST, "", match_port, &m))
		return m.found;
	visit_name(&p->deny, RULE_ANY_PUBLIC, "", match_port, &m);
	return m.found;
}

/* What closes the address to names and to `*`: sets the reason. Return: false where nothing does. */
static bool address_closed(const struct policy *p, const struct address *a, struct verdict *v)
{
	const char *range = address_special(a);

	if (range) {
		*v = verdict_no(VERDICT_SPECIAL, -1);
		v->range = range;
		return true;
	}
	if (is_own(p, a)) {
		*v = verdict_no(VERDICT_OWN, -1);
		return true;
	}
	return false;
}

static struct verdict decide_address(const struct policy *p, const struct address *a, uint16_t port)
{
	struct port_match m = {.port = port, .found = -1, .near = -1}, any = m;
	struct verdict v;
	int rule = denied_address(p, a, port);

	if (rule >= 0)
		return verdict_deny_rule(p, rule);
	/* connect(2) takes them for the loopback; whoever means that writes it. */
	if (address_is_unspecified(a)) {
		v = verdict_no(VERDICT_SPECIAL, -1);
		v.range = "unspecified";
		return v;
	}
	if (visit_nets(&p->allow, a, match_port, &m))
		return verdict_yes(m.found);
	visit_name(&p->allow, RULE_ANY_PUBLIC, "", match_port, &any);
	if (any.found >= 0 && !address_closed(p, a, &v))
		return verdict_yes(any.found);
	if (m.near >= 0)
		return verdict_no(VERDICT_PORT, m.near);
	if (any.found < 0 && any.near < 0)
		return verdict_no(VERDICT_NO_RULE, -1);
	return address_closed(p, a, &v) ? v : verdict_no(VERDICT_PORT, any.near);
}

static struct verdict decide_name(const struct policy *p, const char *name, uint16_t port)
{
	struct port_match m = {.port = port, .found = -1, .near = -1};
	struct verdict v = policy_denied_name(p, name, port);

	if (!v.allowed)
		return v;
	if (visit_names(&p->allow, name, match_port, &m))
		return verdict_yes(m.found);
	return m.near >= 0 ? verdict_no(VERDICT_PORT, m.near) : verdict_no(VERDICT_NO_RULE, -1);
}

static int denied_loopback(const struct policy *p, uint16_t port)
{
	static const uint8_t v4[4] = {127, 0, 0, 1}, v6[16] = {[15] = 1};
	struct address a4 = address_from_v4(v4), a6 = address_from_v6(v6);
	int rule = denied_address(p, &a4, port);

	return rule >= 0 ? rule : denied_address(p, &a6, port);
}

/* May the address be connected to for the name, which `v` allowed? */
static struct verdict decide_resolved(const struct policy *p, const struct policy_request *q, struct verdict v)
{
	struct port_match m = {.port = q->port, .found = -1, .near = -1};
	struct verdict closed;
	int rule;

	rule = denied_address(p, q->addr, q->port);
	if (rule >= 0)
		return verdict_deny_rule(p, rule);
	/* @host is the loopback and nothing else; what denies it in one family means the host. */
	if (str_eq(q->name, POLICY_THIS_HOST)) {
		rule = denied_loopback(p, q->port);
		if (rule >= 0)
			return verdict_deny_rule(p, rule);
		return is_loopback(q->addr) ? v : verdict_no(VERDICT_NO_RULE, -1);
	}
	if (!address_closed(p, q->addr, &closed))
		return v;
	if (!address_is_unspecified(q->addr) && visit_nets(&p->allow, q->addr, match_port, &m))
		return verdict_yes(m.found);
	return closed;
}

struct verdict policy_decide(const struct policy *p, const struct policy_request *q)
{
	struct verdict v;

	if (!q->name)
		return q->addr ? decide_address(p, q->addr, q->port) : verdict_no(VERDICT_BAD_NAME, -1);
	v = q->port ? decide_name(p, q->name, q->port) : decide_any_port(p, q->name);
	if (!v.allowed || !q->addr)
		return v;
	return decide_resolved(p, q, v);
}

struct verdict policy_decide_shared(const struct policy *p, const struct address *addr, uint16_t port)
{
	static const uint8_t v4[4] = {127, 0, 0, 1}, v6[16] = {[15] = 1};
	struct address a4 = address_from_v4(v4), a6 = address_from_v6(v6);
	struct verdict v = decide_address(p, addr, port), by_name;
	struct policy_request q = {.name = POLICY_THIS_HOST, .addr = addr, .port = port};

	if (v.allowed || v.reason == VERDICT_DENY_RULE || (!address_eq(addr, &a4) && !address_eq(addr, &a6)))
		return v;
	by_name = policy_decide(p, &q);
	return by_name.reason == VERDICT_NO_RULE ? v : by_name;
}

struct verdict policy_denied_name(const struct policy *p, const char *name, uint16_t port)
{
	struct port_match m = {.port = port, .found = -1, .near = -1};

	if (visit_names(&p->deny, name, match_port, &m))
		return verdict_deny_rule(p, m.found);
	return (struct verdict){.allowed = true, .reason = VERDICT_ALLOWED, .rule = -1};
}

bool policy_denies_names(const struct policy *p)
{
	for (size_t i = 0; i < p->deny.n; i++)
		if (p->deny.rules[i].kind == RULE_NAME || p->deny.rules[i].kind == RULE_SUBDOMAINS)
			return true;
	return false;
}

bool policy_denies_this_host(const struct policy *p)
{
	for (size_t i = 0; i < p->deny.n; i++)
		if (p->deny.rules[i].kind == RULE_THIS_HOST)
			return true;
	return false;
}

const struct address *policy_own(const struct policy *p, size_t *n)
{
	*n = p->n_own;
	return p->own;
}

bool policy_is_address_rule(const struct policy *p, int rule)
{
	return rule >= 0 && (size_t)rule < p->allow.n && p->allow.rules[rule].kind == RULE_ADDRESS;
}

/* --- words --- */

const struct val_item *policy_rule(const struct policy *p, int rule)
{
	if (rule < 0)
		return NULL;
	if ((size_t)rule < p->allow.n)
		return p->allow.items[rule];
	rule -= (int)p->allow.n;
	return (size_t)rule < p->deny.n ? p->deny.items[rule] : NULL;
}

static const struct {
	const char *word, *text;
} reasons[VERDICT_REASONS] = {
	[VERDICT_ALLOWED] = {"allowed", "allowed"},
	[VERDICT_DENY_RULE] = {"deny-rule", "a deny rule names it"},
	[VERDICT_NO_RULE] = {"no-rule", "no rule allows it"},
	[VERDICT_PORT] = {"port", "no rule allows this port of it"},
	[VERDICT_SPECIAL] = {"special-address", "the address lies in a special range, which only an address rule opens"},
	[VERDICT_OWN] = {"own-address", "the address is this host's own, which only an address rule or @host opens"},
	[VERDICT_BAD_NAME] = {"bad-name", "it is not a host name"},
	[VERDICT_NOT_RESOLVED] = {"not-resolved", "the name has no address"},
	[VERDICT_NOT_GIVEN] = {"not-given", "the address stands for no name"},
	[VERDICT_NAME_MISMATCH] = {"name-mismatch", "the name in the stream is not the one that was connected to"},
	[VERDICT_NO_SNI] = {"no-sni", "the TLS hello has no server name"},
	[VERDICT_NOT_TLS] = {"not-tls", "no TLS hello came; egress.inspect = no lets other protocols pass on port 443"},
	[VERDICT_NOT_HTTP] = {"not-http", "no HTTP/1 request came; egress.inspect = no lets other protocols pass on port 80"},
	[VERDICT_CONNECTIONS] = {"max-connections", "too many connections at once (egress.max-connections)"},
	[VERDICT_BYTES] = {"max-bytes", "the bytes are used up (egress.max-bytes)"},
	[VERDICT_PROTOCOL] = {"protocol", "only TCP and UDP leave the box"},
	[VERDICT_LISTEN] = {"listen", "ports of this host are not the box's to listen on"},
	[VERDICT_CLOSED] = {"closed", "the box's name server is gone, and the network is closed"},
	[VERDICT_UNSUPPORTED] = {"unsupported", "only TCP connections leave the box"},
};

const char *policy_reason_text(enum verdict_reason reason)
{
	return (unsigned)reason < VERDICT_REASONS ? reasons[reason].text : "unknown";
}

const char *policy_reason_word(enum verdict_reason reason)
{
	return (unsigned)reason < VERDICT_REASONS ? reasons[reason].word : "unknown";
}

const char *policy_verdict_text(const struct policy *p, const struct verdict *v, char *buf, size_t len)
{
	const struct val_item *item = policy_rule(p, v->rule);
	char where[256];

	if (v->reason == VERDICT_SPECIAL)
		snprintf(buf, len, "a %s address, which only an address rule opens", v->range ? v->range : "special");
	else if (item)
		snprintf(buf, len, "%s%s (%s)", v->reason == VERDICT_PORT ? "no rule allows this port of it; nearest is " : "",
			 origin_text(item->from, where, sizeof(where)), item->text);
	else
		snprintf(buf, len, "%s", policy_reason_text(v->reason));
	return buf;
}

/* --- reach --- */

static int ports_compare(const void *a, const void *b)
{
	const struct rule_ports *x = a, *y = b;

	return (x->first > y->first) - (x->first < y->first);
}

void policy_reach(const struct policy *p, struct policy_reach *out)
{
	size_t cap = 0, n = 0, cap_nets = 0;

	*out = (struct policy_reach){0};
	for (size_t i = 0; i < p->allow.n; i++) {
		const struct rule *r = &p->allow.rules[i];

		for (size_t k = 0; k < r->n_ports; k++) {
			vec_reserve(&out->ports, &cap, n, sizeof(*out->ports));
			out->ports[n++] = r->ports[k];
		}
		if (r->kind == RULE_ANY_PUBLIC)
			out->any_address = true;
		if (r->kind != RULE_ADDRESS)
			continue;
		vec_reserve(&out->nets, &cap_nets, out->n_nets, sizeof(*out->nets));
		out->nets[out->n_nets++] = *r;
	}
	if (!n)
		return;
	qsort(out->ports, n, sizeof(*out->ports), ports_compare);
	out->n_ports = 1;
	for (size_t i = 1; i < n; i++) {
		struct rule_ports *last = &out->ports[out->n_ports - 1];

		if (out->ports[i].first > (uint32_t)last->last + 1)
			out->ports[out->n_ports++] = out->ports[i];
		else if (out->ports[i].last > last->last)
			last->last = out->ports[i].last;
	}
}

void policy_reach_free(struct policy_reach *r)
{
	free(r->ports);
	free(r->nets);
	*r = (struct policy_reach){0};
}

const struct rule *policy_rules(const struct policy *p, bool deny, size_t *n)
{
	const struct rule_set *s = deny ? &p->deny : &p->allow;

	*n = s->n;
	return s->rules;
}
