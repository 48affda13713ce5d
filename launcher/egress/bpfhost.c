/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The loader of host.bpf.c: egress.mode = host. */
#include "egress/bpf.h"

#include "config.h"

#ifdef HAVE_BPF
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "egress/bpfload.h"
#include "egress/given.h"
#include "host.skel.h" /* by bpftool */

#include "base/banned.h"

/* 18,000 records of connections that nobody has read yet. */
#define RING_BYTES (1024 * 1024)

_Static_assert(sizeof(struct host_key) == sizeof(struct bpf_key) && offsetof(struct host_key, addr) == offsetof(struct bpf_key, addr),
	       "the same key");

static int configure(struct host_bpf *skel, const struct bpf_host_config *config, const struct bpf_rules *rules)
{
	struct host_config *c = (struct host_config *)&skel->rodata->config;
	int r;

	c->name_server = given_key(&config->name_server);
	c->deny_host = rules->deny_host;
	c->ring_bytes = RING_BYTES;
	c->rules = rules->allows;
	c->denies = rules->denies;
	c->max_bytes = config->max_bytes;
	r = bpf_map__set_max_entries(skel->maps.nodes, (uint32_t)rules->n_nodes);
	r = r ?: bpf_map__set_max_entries(skel->maps.ports, (uint32_t)rules->n_ports + GIVEN_PORTS_MAX);
	r = r ?: bpf_map__set_max_entries(skel->maps.given, GIVEN_MAX);
	r = r ?: bpf_map__set_max_entries(skel->maps.own, GIVEN_OWN_MAX);
	return r ?: bpf_map__set_max_entries(skel->maps.ring, RING_BYTES);
}

static void destroy(void *object)
{
	host_bpf__destroy(object);
}

static int load(struct bpf_filter *f, const struct bpf_host_config *config, const struct bpf_rules *rules)
{
	struct host_bpf *skel = host_bpf__open();
	int r;

	if (!skel)
		return -errno;
	f->object = skel;
	f->destroy = destroy;
	f->lasting = true;
	f->skeleton = skel->skeleton;
	r = configure(skel, config, rules);
	if (r == 0)
		r = host_bpf__load(skel);
	if (r < 0)
		return r;
	f->ring = bpf_map__fd(skel->maps.ring);
	f->lost = bpf_map__fd(skel->maps.lost);
	f->usage = bpf_map__fd(skel->maps.usage);
	f->given = bpf_map__fd(skel->maps.given);
	f->own = bpf_map__fd(skel->maps.own);
	f->askers = bpf_map__fd(skel->maps.askers);
	f->ports = bpf_map__fd(skel->maps.ports);
	r = bpf_ring_map(f, RING_BYTES);
	return r ?: bpf_fill(bpf_map__fd(skel->maps.nodes), f->ports, rules);
}

int bpf_host_load(struct bpf_filter *f, const struct bpf_host_config *config, struct err *e)
{
	struct bpf_filter new = BPF_FILTER_NONE;
	struct bpf_rules rules;
	int r = bpf_rules_compile(config->policy, false, &rules, e);

	libbpf_set_print(NULL);
	if (r == 0) {
		r = load(&new, config, &rules);
		if (r < 0)
			err_errno(e, -r, "eBPF filters: the kernel does not load the programs");
	}
	bpf_rules_free(&rules);
	if (r < 0)
		bpf_filter_close(&new);
	else
		*f = new;
	return r;
}

int bpf_host_try(struct err *e)
{
	static const uint8_t somewhere[] = {127, 64, 0, 1};
	struct bpf_host_config config = {.name_server = address_from_v4(somewhere)};
	struct bpf_filter f = BPF_FILTER_NONE;
	struct policy *none = NULL;
	struct profile empty = {0};
	int r = policy_new(&empty, &none, e);

	if (r < 0)
		return r;
	config.policy = none;
	r = bpf_host_load(&f, &config, e);
	policy_free(none);
	bpf_filter_close(&f);
	return r;
}

bool bpf_host_usage(const struct bpf_filter *f, struct host_usage *out)
{
	uint32_t zero = 0;

	return f->usage >= 0 && bpf_map_lookup_elem(f->usage, &zero, out) == 0;
}

bool bpf_host_is_own(const struct bpf_filter *f, const struct address *a)
{
	struct host_address key = given_key(a);
	uint8_t value;

	return f->own >= 0 && bpf_map_lookup_elem(f->own, &key, &value) == 0;
}

int bpf_host_close(const struct bpf_filter *f)
{
	struct host_usage u;
	uint32_t zero = 0;

	if (!bpf_host_usage(f, &u))
		return -EIO;
	/* Packets that pass meanwhile are not counted; none passes behind it. */
	u.closed = 1;
	return bpf_map_update_elem(f->usage, &zero, &u, BPF_ANY);
}

#else

#include "base/banned.h"

#endif
