/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What bpf.c and bpfhost.c share of loading programs. Internal to egress/, and only where HAVE_BPF is. */
#ifndef AGENTBOX_EGRESS_BPFLOAD_H
#define AGENTBOX_EGRESS_BPFLOAD_H

#include <linux/bpf.h>

#include "egress/bpf.h"
#include "egress/bpfobject.h"
#include "egress/bpfrules.h"

struct bpf_program {
	const char *name; /* of the function */
	enum bpf_prog_type type;
	enum bpf_attach_type attach;
};

/* Return: as bpf(2), or -errno. */
int sys_bpf(int command, union bpf_attr *attr);

/* Maps. Return: the descriptor or -errno. */
int bpf_map_make(const char *name, enum bpf_map_type type, size_t key, size_t value, size_t entries, unsigned flags);
/* One value for each socket. bytes: a multiple of 8. */
int bpf_map_make_storage(size_t bytes);
/* One value, which nobody can write to any more: what it holds is constant to the verifier. */
int bpf_map_make_constant(const void *value, size_t bytes);

/* Return: 0 or -errno. */
int bpf_map_put(int map, const void *key, const void *value);
/* The rules as they lie in the maps. nodes: keys are struct bpf_key. Return: 0 or -errno. */
int bpf_fill(int nodes, int ports, const struct bpf_rules *rules);
/* Maps f->ring. Return: 0 or -errno. */
int bpf_ring_map(struct bpf_filter *f, size_t bytes);
/*
 * f->programs. object: a file as bpf_object_program takes it. kinds: n, static. maps: those that could not be made have their
 * -errno. Return: 0 or -errno.
 */
int bpf_programs_load(struct bpf_filter *f, const void *object, const struct bpf_program *kinds, int n,
		      const struct bpf_object_map *maps, size_t n_maps);

#endif
