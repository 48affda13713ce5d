/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The loader of host.bpf.c: egress.mode = host. */
#include "egress/bpf.h"

#include "config.h"

#ifdef HAVE_BPF
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "base/cleanup.h"
#include "egress/bpfload.h"
#include "egress/given.h"

#include "base/banned.h"

/* 18,000 records of connections that nobody has read yet. */
#define RING_BYTES (1024 * 1024)

_Static_assert(sizeof(struct host_key) == sizeof(struct bpf_key) && offsetof(struct host_key, addr) == offsetof(struct bpf_key, addr),
	       "the same key");

/* host.bpf.o. */
__asm__(".pushsection .rodata.host_bpf, \"a\"\n"
	".balign 8\n"
	"host_bpf_object:\n"
	".incbin \"" HOST_BPF_OBJECT "\"\n"
	".popsection\n");
extern const char host_bpf_object[] __attribute__((visibility("hidden")));

/* The packets' hooks first: with them the others are a kindness. */
static const struct bpf_program programs[BPF_FILTER_PROGRAMS] = {
	{"host_sent", BPF_PROG_TYPE_CGROUP_SKB, BPF_CGROUP_INET_EGRESS},
	{"host_received", BPF_PROG_TYPE_CGROUP_SKB, BPF_CGROUP_INET_INGRESS},
	{"host_sock_create", BPF_PROG_TYPE_CGROUP_SOCK, BPF_CGROUP_INET_SOCK_CREATE},
	{"host_bind4", BPF_PROG_TYPE_CGROUP_SOCK_ADDR, BPF_CGROUP_INET4_BIND},
	{"host_bind6", BPF_PROG_TYPE_CGROUP_SOCK_ADDR, BPF_CGROUP_INET6_BIND},
	{"host_connect4", BPF_PROG_TYPE_CGROUP_SOCK_ADDR, BPF_CGROUP_INET4_CONNECT},
	{"host_connect6", BPF_PROG_TYPE_CGROUP_SOCK_ADDR, BPF_CGROUP_INET6_CONNECT},
	{"host_sendmsg4", BPF_PROG_TYPE_CGROUP_SOCK_ADDR, BPF_CGROUP_UDP4_SENDMSG},
	{"host_sendmsg6", BPF_PROG_TYPE_CGROUP_SOCK_ADDR, BPF_CGROUP_UDP6_SENDMSG},
};

static int make_constant(const struct bpf_host_config *config, const struct bpf_rules *rules)
{
	struct host_config c = {.name_server = given_key(&config->name_server),
				.deny_host = rules->deny_host,
				.ring_bytes = RING_BYTES,
				.rules = rules->allows,
				.denies = rules->denies,
				.max_bytes = config->max_bytes};

	return bpf_map_make_constant(&c, sizeof(c));
}

static int load_all(struct bpf_filter *f, const struct bpf_host_config *config, const struct bpf_rules *rules)
{
	cleanup_fd int nodes = bpf_map_make("nodes", BPF_MAP_TYPE_LPM_TRIE, sizeof(struct host_key), sizeof(struct bpf_node),
					    rules->n_nodes, BPF_F_NO_PREALLOC);
	cleanup_fd int owners = bpf_map_make_storage(sizeof(struct host_owner)), constant = make_constant(config, rules);
	size_t address = sizeof(struct host_address);
	struct bpf_object_map maps[9];
	int r;

	f->ring = bpf_map_make("ring", BPF_MAP_TYPE_RINGBUF, 0, 0, RING_BYTES, 0);
	f->lost = bpf_map_make("lost", BPF_MAP_TYPE_ARRAY, 4, 8, 1, 0);
	f->usage = bpf_map_make("usage", BPF_MAP_TYPE_ARRAY, 4, sizeof(struct host_usage), 1, 0);
	f->given = bpf_map_make("given", BPF_MAP_TYPE_HASH, address, 4, GIVEN_MAX, BPF_F_NO_PREALLOC);
	f->own = bpf_map_make("own", BPF_MAP_TYPE_HASH, address, 1, GIVEN_OWN_MAX, BPF_F_NO_PREALLOC);
	f->ports = bpf_map_make("ports", BPF_MAP_TYPE_LPM_TRIE, sizeof(struct bpf_key_port), 1, rules->n_ports + GIVEN_PORTS_MAX,
				BPF_F_NO_PREALLOC);
	maps[0] = (struct bpf_object_map){"nodes", nodes, false};
	maps[1] = (struct bpf_object_map){"ports", f->ports, false};
	maps[2] = (struct bpf_object_map){"owners", owners, false};
	maps[3] = (struct bpf_object_map){"config", constant, true};
	maps[4] = (struct bpf_object_map){"ring", f->ring, false};
	maps[5] = (struct bpf_object_map){"lost", f->lost, false};
	maps[6] = (struct bpf_object_map){"usage", f->usage, false};
	maps[7] = (struct bpf_object_map){"given", f->given, false};
	maps[8] = (struct bpf_object_map){"own", f->own, false};
	r = bpf_programs_load(f, host_bpf_object, programs, BPF_FILTER_PROGRAMS, maps, 9);
	return r < 0 ? r : bpf_fill(nodes, f->ports, rules);
}

int bpf_host_load(struct bpf_filter *f, const struct bpf_host_config *config, struct err *e)
{
	struct bpf_filter new = BPF_FILTER_NONE;
	struct bpf_rules rules;
	int r = bpf_rules_compile(config->policy, false, &rules, e);

	if (r == 0) {
		r = load_all(&new, config, &rules);
		r = r ?: bpf_ring_map(&new, RING_BYTES);
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
	union bpf_attr attr = {.map_fd = (uint32_t)f->usage, .key = (uintptr_t)&zero, .value = (uintptr_t)out};

	return f->usage >= 0 && sys_bpf(BPF_MAP_LOOKUP_ELEM, &attr) == 0;
}

bool bpf_host_is_own(const struct bpf_filter *f, const struct address *a)
{
	struct host_address key = given_key(a);
	uint8_t value;
	union bpf_attr attr = {.map_fd = (uint32_t)f->own, .key = (uintptr_t)&key, .value = (uintptr_t)&value};

	return sys_bpf(BPF_MAP_LOOKUP_ELEM, &attr) == 0;
}

int bpf_host_close(const struct bpf_filter *f)
{
	struct host_usage u;
	uint32_t zero = 0;

	if (!bpf_host_usage(f, &u))
		return -EIO;
	/* Packets that pass meanwhile are not counted; none passes behind it. */
	u.closed = 1;
	return bpf_map_put(f->usage, &zero, &u);
}

#else

#include "base/banned.h"

#endif
