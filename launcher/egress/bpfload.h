/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What bpf.c and bpfhost.c share of loading programs. Internal to egress/, and only where HAVE_BPF is. */
#ifndef AGENTBOX_EGRESS_BPFLOAD_H
#define AGENTBOX_EGRESS_BPFLOAD_H

#include "egress/bpf.h"
#include "egress/bpflib.h"
#include "egress/bpfrules.h"

/* What the skeletons and the two call. */
#define bpf_object__open_skeleton bpf_library.bpf_object__open_skeleton
#define bpf_object__load_skeleton bpf_library.bpf_object__load_skeleton
#define bpf_object__destroy_skeleton bpf_library.bpf_object__destroy_skeleton
#define bpf_map__set_max_entries bpf_library.bpf_map__set_max_entries
#define bpf_map__fd bpf_library.bpf_map__fd
#define bpf_program__attach_cgroup bpf_library.bpf_program__attach_cgroup
#define bpf_program__fd bpf_library.bpf_program__fd
#define bpf_program__expected_attach_type bpf_library.bpf_program__expected_attach_type
#define bpf_prog_attach bpf_library.bpf_prog_attach
#define bpf_map_lookup_elem bpf_library.bpf_map_lookup_elem
#define bpf_map_update_elem bpf_library.bpf_map_update_elem

/* The rules as they lie in the maps. nodes: keys are struct bpf_key. Return: 0 or -errno. */
int bpf_fill(int nodes, int ports, const struct bpf_rules *rules);
/* Maps f->ring. Return: 0 or -errno. */
int bpf_ring_map(struct bpf_filter *f, size_t bytes);

#endif
