/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What bpf.c and bpfhost.c share of loading programs. Internal to egress/, and only where HAVE_BPF is. */
#ifndef AGENTBOX_EGRESS_BPFLOAD_H
#define AGENTBOX_EGRESS_BPFLOAD_H

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "egress/bpf.h"
#include "egress/bpfrules.h"

/* The rules as they lie in the maps. nodes: keys are struct bpf_key. Return: 0 or -errno. */
int bpf_fill(int nodes, int ports, const struct bpf_rules *rules);
/* Maps f->ring. Return: 0 or -errno. */
int bpf_ring_map(struct bpf_filter *f, size_t bytes);

#endif
