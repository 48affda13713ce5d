/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "egress/names.h"

#include <arpa/inet.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "egress/gateway.h"

#include "base/banned.h"

#define SYNTHETIC_BASE 0xc6120000U /* 198.18.0.0/15 */
#define SYNTHETIC_MASK 0xfffe0000U
#define SYNTHETIC_FIRST 2 /* .0 is the network's, .1 is @host's */
#define BUCKETS 4096

/* The box chooses the names, so the hash starts from a number that it does not know. */
static uint32_t hash(uint32_t seed, const void *bytes, size_t len)
{
	const uint8_t *b = bytes;
	uint32_t h = seed;

	for (size_t i = 0; i < len; i++) {
		h = (h ^ b[i]) * 0x9e3779b1U;
		h ^= h >> 15;
	}
	return h;
}

static struct host *host_new(const char *name, uint32_t index)
{
	struct host *h = mem_zalloc(sizeof(*h));

	h->name = mem_strdup(name);
	h->index = index;
	TAILQ_INIT(&h->waiters);
	return h;
}

/* @host is known from the start: the loopback, IPv4 first. */
static struct host *this_host_new(void)
{
	static const uint8_t v4[4] = {127, 0, 0, 1}, v6[16] = {[15] = 1};
	struct host *h = host_new(POLICY_THIS_HOST, 0);

	h->addrs = mem_array(NULL, 2, sizeof(*h->addrs));
	h->addrs[0] = address_from_v4(v4);
	h->addrs[1] = address_from_v6(v6);
	h->n = 2;
	h->state = HOST_KNOWN;
	h->expires_ms = UINT64_MAX;
	return h;
}

static int *buckets_new(size_t n)
{
	int *b = mem_array(NULL, n, sizeof(*b));

	for (size_t i = 0; i < n; i++)
		b[i] = -1;
	return b;
}

void names_init(struct names *n, uint32_t seed)
{
	*n = (struct names){.seed = seed};
	n->this_host = this_host_new();
}

static void host_free(struct host *h)
{
	free(h->name);
	free(h->addrs);
	free(h);
}

void names_free(struct names *n)
{
	for (size_t i = 0; i < n->n; i++)
		host_free(n->hosts[i]);
	if (n->this_host)
		host_free(n->this_host);
	free(n->hosts);
	free(n->buckets);
	free(n->real);
	free(n->real_buckets);
	*n = (struct names){0};
}

/* Open addressing, at most half full. */
static void names_rehash(struct names *n, size_t buckets)
{
	free(n->buckets);
	n->buckets = buckets_new(buckets);
	n->mask = buckets - 1;
	for (size_t i = 0; i < n->n; i++) {
		size_t at = hash(n->seed, n->hosts[i]->name, strlen(n->hosts[i]->name)) & n->mask;

		while (n->buckets[at] >= 0)
			at = (at + 1) & n->mask;
		n->buckets[at] = (int)i;
	}
}

struct host *names_get(struct names *n, const char *name)
{
	size_t at;

	if (str_eq(name, POLICY_THIS_HOST))
		return n->this_host;
	if (!n->buckets)
		names_rehash(n, BUCKETS / 64);
	at = hash(n->seed, name, strlen(name)) & n->mask;
	for (; n->buckets[at] >= 0; at = (at + 1) & n->mask)
		if (str_eq(n->hosts[n->buckets[at]]->name, name))
			return n->hosts[n->buckets[at]];
	if (n->n == NAMES_MAX)
		return NULL;
	vec_reserve(&n->hosts, &n->cap, n->n, sizeof(*n->hosts));
	n->hosts[n->n] = host_new(name, (uint32_t)n->n);
	n->buckets[at] = (int)n->n++;
	if (n->n * 2 > n->mask)
		names_rehash(n, (n->mask + 1) * 2);
	return n->hosts[n->n - 1];
}

struct address names_synthetic(const struct names *n, const struct host *h)
{
	uint32_t a = htonl(SYNTHETIC_BASE + (h == n->this_host ? 1 : SYNTHETIC_FIRST + h->index));

	return address_from_v4(&a);
}

bool names_find_synthetic(const struct names *n, const struct address *a, struct host **out)
{
	uint32_t v4;

	*out = NULL;
	if (a->family != 4)
		return false;
	memcpy(&v4, a->b, 4);
	v4 = ntohl(v4);
	if ((v4 & SYNTHETIC_MASK) != SYNTHETIC_BASE)
		return false;
	v4 -= SYNTHETIC_BASE;
	if (v4 == 1)
		*out = n->this_host;
	else if (v4 >= SYNTHETIC_FIRST && v4 - SYNTHETIC_FIRST < n->n)
		*out = n->hosts[v4 - SYNTHETIC_FIRST];
	return true;
}

void names_add_real(struct names *n, struct host *h, const struct address *addr)
{
	size_t at = hash(n->seed, addr, sizeof(*addr)) & (BUCKETS - 1);

	if (names_has_real(n, h, addr) || n->n_real == NAMES_REAL_MAX)
		return;
	if (!n->real_buckets)
		n->real_buckets = buckets_new(BUCKETS);
	vec_reserve(&n->real, &n->cap_real, n->n_real, sizeof(*n->real));
	n->real[n->n_real] = (struct names_real){*addr, h->index, n->real_buckets[at]};
	n->real_buckets[at] = (int)n->n_real++;
}

struct host *names_find_real(const struct names *n, const struct address *addr, int *cursor)
{
	int i;

	if (!n->real_buckets)
		return NULL;
	i = *cursor < 0 ? n->real_buckets[hash(n->seed, addr, sizeof(*addr)) & (BUCKETS - 1)] : n->real[*cursor].next;
	for (; i >= 0; i = n->real[i].next) {
		if (!address_eq(&n->real[i].addr, addr))
			continue;
		*cursor = i;
		return n->hosts[n->real[i].host];
	}
	return NULL;
}

bool names_has_real(const struct names *n, const struct host *h, const struct address *addr)
{
	int cursor = -1;

	for (struct host *o = names_find_real(n, addr, &cursor); o; o = names_find_real(n, addr, &cursor))
		if (o == h)
			return true;
	return false;
}
