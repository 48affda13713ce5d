/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Whole directory trees that a hostile box may have written: removing them, and looking through them within bounds. */
#ifndef AGENTBOX_SYS_TREE_H
#define AGENTBOX_SYS_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/err.h"

/*
 * Removes dirfd/name and all beneath it. Symbolic links are removed, never followed; another mount is never entered
 * (-EXDEV); directories without permissions are given them first. Any depth and any number of entries, with bounded
 * memory and at most TREE_OPEN_MAX descriptors: what lies deeper is moved up to the top under a fresh name and comes
 * later.
 * name: one component. What is not there is no error. What cannot be removed stays, with what leads to it, and the rest
 * goes.
 * Return: 0, or the -errno of the first thing that could not be removed, with its name in `e`.
 */
#define TREE_OPEN_MAX 48
int tree_remove(int dirfd, const char *name, struct err *e);

struct tree_limits {
	uint64_t max_entries;
	unsigned max_depth; /* entries of the start have depth 1; at most TREE_DEPTH_MAX; a directory below is cut, not its entry */
	uint64_t max_ms;
};
#define TREE_DEPTH_MAX 256

struct tree_entry {
	int parent;           /* the directory that holds it, open for reading; borrowed */
	const char *name;
	const char *path;     /* from the start, without leading slash; valid during the call */
	const struct stat *st; /* lstat; all zero where even that is refused (then `unreadable`) */
	unsigned depth;       /* 1: directly in the start */
	bool unreadable;      /* refused: a directory that cannot be opened comes a second time with this, after its entry */
};

/*
 * Return of a callback: 0 go on; TREE_SKIP not into this directory; TREE_STOP end, and the walk counts as cut; -errno
 * fail.
 */
enum { TREE_SKIP = 1, TREE_STOP = 2 };
typedef int (*tree_callback)(void *arg, const struct tree_entry *entry, struct err *e);

struct tree_walked {
	uint64_t entries, unreadable;
	bool cut;        /* a limit or TREE_STOP ended it before all was seen */
	const char *why; /* "entries", "depth", "time", "stop"; NULL where not cut */
};

/*
 * Looks through the directory dirfd: each entry once, a directory before what it holds, otherwise in no order. Nothing
 * is opened but directories (O_NOFOLLOW), no other mount is entered (such a directory counts as unreadable).
 * dirfd: any descriptor of the directory (O_PATH too); stays open. out: filled also on failure.
 * Return: 0 (also where it was cut), or -errno: the start cannot be read, or the callback failed.
 */
int tree_walk(int dirfd, const struct tree_limits *limits, tree_callback callback, void *arg, struct tree_walked *out,
	      struct err *e);

#endif
