/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* libbpf, opened when a run has programs to load. Internal to egress/, and only where HAVE_BPF is. */
#ifndef AGENTBOX_EGRESS_BPFLIB_H
#define AGENTBOX_EGRESS_BPFLIB_H

#include "config.h"

#ifdef HAVE_BPF
#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "base/err.h"

/* Its first major version has kept all of them since 1.0. */
#define BPF_LIBRARY_FUNCTIONS(X)                                                                                       \
	X(libbpf_set_print)                                                                                            \
	X(bpf_object__open_skeleton) X(bpf_object__load_skeleton) X(bpf_object__destroy_skeleton)                      \
	X(bpf_map__set_max_entries) X(bpf_map__fd) X(bpf_program__attach_cgroup) X(bpf_program__fd)                    \
	X(bpf_program__expected_attach_type) X(bpf_prog_attach) X(bpf_map_lookup_elem) X(bpf_map_update_elem)

#define BPF_LIBRARY_MEMBER(name) __typeof__(name) *name;
struct bpf_library {
	BPF_LIBRARY_FUNCTIONS(BPF_LIBRARY_MEMBER)
};
#undef BPF_LIBRARY_MEMBER

extern struct bpf_library bpf_library;

/* Once; it stays open. Return: 0, or -ENOTSUP with `e` saying what is missing. */
int bpf_library_open(struct err *e);

#endif

#endif
