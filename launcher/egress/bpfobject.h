/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Programs of an object file as clang makes it for `-target bpf`, which is part of this program: the instructions of one
 * function, with the descriptors of the maps that they name. Only what egress.bpf.c needs: no calls between functions, no
 * types. libbpf does all of it, and takes 0.6 ms of each start for that: three libraries are opened, the kernel is tried
 * for what it can do, and types are loaded that nobody asks for.
 */
#ifndef AGENTBOX_EGRESS_BPFOBJECT_H
#define AGENTBOX_EGRESS_BPFOBJECT_H

#include <linux/bpf.h>
#include <stdbool.h>
#include <stddef.h>

struct bpf_object_map {
	const char *symbol;
	int fd;
	bool value; /* the symbol is a variable, in the map's only value */
};

/*
 * object: aligned to 8. function: a symbol. maps: all that it names.
 * Allocates nothing. Return: how many instructions there are in out; -ENOEXEC where the object has something else in it
 * than is said above, -E2BIG where they are more than max.
 */
int bpf_object_program(const void *object, const char *function, const struct bpf_object_map *maps, size_t n_maps,
		       struct bpf_insn *out, size_t max);

#endif
