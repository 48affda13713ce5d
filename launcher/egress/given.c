/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "egress/given.h"

#include <errno.h>
#include <linux/bpf.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"
#include "egress/bpfrules.h"

#include "base/banned.h"

/* Open addressing, half full with GIVEN_MAX. */
#define PLACES (2 * GIVEN_MAX)

/*
 * bpf(2) by itself and not through libbpf, as the gateway's filter has three of its commands and no other. value: read, or written
 * by a lookup.
 */
static int map_call(int command, int map, const void *key, const void *value)
{
	union bpf_attr attr;

	memset(&attr, 0, sizeof(attr));
	attr.map_fd = (uint32_t)map;
	attr.key = (uintptr_t)key;
	attr.value = (uintptr_t)value;
	return syscall(SYS_bpf, command, &attr, sizeof(attr)) < 0 ? -errno : 0;
}

struct host_address given_key(const struct address *a)
{
	struct host_address key = {.b = {[10] = 0xff, [11] = 0xff}};

	if (a->family == 4)
		memcpy(key.b + 12, a->b, 4);
	else
		memcpy(key.b, a->b, 16);
	return key;
}

/* --- segments and sets of ports --- */

static int port_compare(const void *a, const void *b)
{
	return *(const uint16_t *)a - *(const uint16_t *)b;
}

static void add_start(struct given *g, size_t *cap, uint32_t port)
{
	if (port < 1 || port > UINT16_MAX)
		return;
	vec_reserve(&g->segments, cap, g->n_segments, sizeof(*g->segments));
	g->segments[g->n_segments++] = (uint16_t)port;
}

void given_init(struct given *g, const struct policy *policy, uint32_t seed)
{
	size_t cap = 0, n = 0;

	*g = (struct given){.addresses = -1, .ports = -1, .own = -1, .askers = -1, .policy = policy, .seed = seed};
	add_start(g, &cap, 1);
	for (int deny = 0; deny < 2; deny++) {
		size_t n_rules;
		const struct rule *rules = policy_rules(policy, deny, &n_rules);

		for (size_t i = 0; i < n_rules; i++) {
			for (size_t k = 0; k < rules[i].n_ports; k++) {
				add_start(g, &cap, rules[i].ports[k].first);
				add_start(g, &cap, (uint32_t)rules[i].ports[k].last + 1);
			}
		}
	}
	qsort(g->segments, g->n_segments, sizeof(*g->segments), port_compare);
	for (size_t i = 0; i < g->n_segments; i++)
		if (!n || g->segments[i] != g->segments[n - 1])
			g->segments[n++] = g->segments[i];
	g->n_segments = n;
	g->words = (n + 63) / 64;
	g->scratch = mem_array(NULL, g->words, sizeof(*g->scratch));
	g->places = mem_zalloc(PLACES * sizeof(*g->places)); /* pages that are not used cost nothing */
	g->mask = PLACES - 1;
}

void given_free(struct given *g)
{
	free(g->segments);
	free(g->sets);
	free(g->places);
	free(g->owned);
	free(g->scratch);
	*g = (struct given){.addresses = -1, .ports = -1, .own = -1, .askers = -1};
}

void given_use(struct given *g, int addresses, int ports, int own, int askers)
{
	g->addresses = addresses;
	g->ports = ports;
	g->own = own;
	g->askers = askers;
}

bool given_asks(const struct given *g, const struct sockaddr_storage *peer, uint16_t protocol, uint64_t now_ms)
{
	const struct sockaddr_in *in = (const struct sockaddr_in *)peer;
	struct host_asker key = {.protocol = protocol};
	uint64_t at_ns = 0;

	if (peer->ss_family != AF_INET)
		return false;
	key.addr = in->sin_addr.s_addr;
	key.port = in->sin_port;
	return map_call(BPF_MAP_LOOKUP_ELEM, g->askers, &key, &at_ns) == 0 && now_ms < at_ns / 1000000 + GIVEN_ASKER_MS;
}

static bool has_segment(const uint64_t *set, size_t i)
{
	return set[i / 64] >> (i % 64) & 1;
}

/* The ports of g->scratch as keys of a set in the map. */
static int put_ports(struct given *g, uint32_t id)
{
	struct bpf_key_port keys[BPF_PORT_KEYS_MAX];
	uint8_t there = 1;

	for (size_t i = 0, end; i < g->n_segments; i = end) {
		uint32_t last;
		size_t n;

		end = i + 1;
		if (!has_segment(g->scratch, i))
			continue;
		while (end < g->n_segments && has_segment(g->scratch, end))
			end++;
		last = end < g->n_segments ? g->segments[end] - 1U : UINT16_MAX;
		n = bpf_port_keys(id, g->segments[i], (uint16_t)last, keys);
		g->n_port_keys += n;
		if (g->n_port_keys > GIVEN_PORTS_MAX)
			return -ENOSPC;
		for (size_t k = 0; k < n; k++) {
			int r = map_call(BPF_MAP_UPDATE_ELEM, g->ports, &keys[k], &there);

			if (r < 0)
				return r;
		}
	}
	return 0;
}

/* The set that g->scratch is; kept once. Rules make few. Return: index + 1, or -errno. */
static int set_of(struct given *g)
{
	size_t bytes = g->words * sizeof(*g->sets);
	int r;

	for (size_t i = 0; i < g->n_sets; i++)
		if (memcmp(g->sets + i * g->words, g->scratch, bytes) == 0)
			return (int)i + 1;
	r = put_ports(g, HOST_GIVEN_SETS + (uint32_t)g->n_sets + 1);
	if (r < 0)
		return r;
	vec_reserve(&g->sets, &g->cap_sets, g->n_sets * g->words + g->words, sizeof(*g->sets));
	memcpy(g->sets + g->n_sets * g->words, g->scratch, bytes);
	return (int)++g->n_sets;
}

/* --- addresses --- */

static struct given_place *place_of(struct given *g, const struct address *a)
{
	uint32_t h = g->seed;
	size_t at;

	for (int i = 0; i < 16; i++) {
		h = (h ^ a->b[i]) * 0x9e3779b1U;
		h ^= h >> 15;
	}
	for (at = h & g->mask; g->places[at].addr.family && !address_eq(&g->places[at].addr, a); at = (at + 1) & g->mask)
		;
	return &g->places[at];
}

/* Return: is there any port? */
static bool decide_ports(struct given *g, const char *name, const struct address *addr)
{
	bool any = false;

	memset(g->scratch, 0, g->words * sizeof(*g->scratch));
	for (size_t i = 0; i < g->n_segments; i++) {
		struct policy_request q = {.name = name, .addr = addr, .port = g->segments[i]};

		if (!policy_decide(g->policy, &q).allowed)
			continue;
		g->scratch[i / 64] |= 1ULL << (i % 64);
		any = true;
	}
	return any;
}

int given_enter(struct given *g, const char *name, const struct address *addr)
{
	struct host_address key = given_key(addr);
	struct given_place *p;
	uint32_t id;
	int set, r;

	if (!decide_ports(g, name, addr))
		return 0;
	p = place_of(g, addr);
	if (!p->addr.family && g->n_places == GIVEN_MAX)
		return -ENOSPC;
	for (size_t i = 0; p->set && i < g->words; i++)
		g->scratch[i] |= g->sets[(p->set - 1) * g->words + i];
	set = set_of(g);
	if (set < 0)
		return set;
	if (p->set == (uint32_t)set)
		return 0;
	id = HOST_GIVEN_SETS + (uint32_t)set;
	r = map_call(BPF_MAP_UPDATE_ELEM, g->addresses, &key, &id);
	if (r < 0)
		return r;
	if (!p->addr.family)
		g->n_places++;
	*p = (struct given_place){*addr, (uint32_t)set};
	return 0;
}

static bool is_listed(const struct address *list, size_t n, const struct address *a)
{
	for (size_t i = 0; i < n; i++)
		if (address_eq(&list[i], a))
			return true;
	return false;
}

static bool is_loopback(const struct address *a)
{
	const char *range = address_special(a);

	return range && str_eq(range, "loopback");
}

/* New ones before old ones go: none of them is open in between. */
int given_set_own(struct given *g, const struct address *own, size_t n)
{
	uint8_t there = 1;

	for (size_t i = 0; i < n; i++) {
		struct host_address key = given_key(&own[i]);
		int r = is_loopback(&own[i]) ? 0 : map_call(BPF_MAP_UPDATE_ELEM, g->own, &key, &there);

		if (r < 0)
			return r;
	}
	for (size_t i = 0; i < g->n_owned; i++) {
		struct host_address key = given_key(&g->owned[i]);

		if (!is_listed(own, n, &g->owned[i]))
			map_call(BPF_MAP_DELETE_ELEM, g->own, &key, NULL);
	}
	free(g->owned);
	g->owned = mem_array(NULL, n, sizeof(*own));
	if (n)
		memcpy(g->owned, own, n * sizeof(*own));
	g->n_owned = n;
	return 0;
}
