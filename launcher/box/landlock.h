/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Landlock, the second wall for files: what a mistake in the mounts would open stays closed to writing, and `commands.exec`
 * is kept here alone. The supervisor collects rules (paths in the box); the child opens them in the new root and restricts
 * itself. Not used for the network: TCP fast open and MPTCP pass it.
 *
 * What commands.exec bounds: execve(2) and execveat(2), by anything in the box. Landlock has no right for
 * mapping a file executable, so the dynamic linker, which every listed program needs and which is therefore listed too, still
 * runs what it is given as an argument, and an interpreter runs any script that it can read.
 */
#ifndef AGENTBOX_BOX_LANDLOCK_H
#define AGENTBOX_BOX_LANDLOCK_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/str.h"
#include "profile/profile.h"

enum landlock_class {
	LANDLOCK_READ,      /* read files and directories */
	LANDLOCK_READ_EXEC, /* and execute (with commands.exec: only what is listed there) */
	LANDLOCK_WRITE,     /* and change, make, remove, link, rename, truncate */
	LANDLOCK_DEV,       /* /dev: read, write, ioctl of what is there */
	LANDLOCK_PROC,      /* /proc: read, write what is there (the names of one's own threads, oom_score_adj) */
	LANDLOCK_CLASSES,
};

struct landlock_rule {
	char *path; /* absolute, in the box */
	enum landlock_class class;
};

/* Zero-initialised is "not wanted". */
struct landlock_plan {
	bool wanted;
	int abi;
	const char *why_not; /* where it is not wanted: one clause; static */
	struct landlock_rule *rules;
	size_t n, cap;
	bool exec_listed;  /* execute only what `exec` names */
	struct strv exec;  /* absolute paths in the box; those that are not there are skipped */
	/*
	 * Descriptors above 2 that the command keeps; borrowed, may be NULL. These and 0 to 2 stay usable through
	 * /proc/self/fd: files for what they were opened for, directories for reading.
	 */
	const int *keep_fds;
	size_t n_keep_fds;
};

/* Return: the kernel's ABI (1 and up); -ENOSYS (not built in), -EOPNOTSUPP (off at boot). */
int landlock_probe(void);

/*
 * Supervisor. Decides whether Landlock is used, and takes commands.exec in: absolute paths (a directory allows all beneath),
 * and names, looked up in /usr/local/bin, /usr/bin and /bin of the box.
 * out: zeroed; landlock_free undoes it. Return: 0 (out->why_not says why it is not used); -ENOTSUP where the profile has
 * commands.exec and it cannot be kept; -EINVAL for an entry that is neither a path nor a name.
 */
int landlock_plan_init(const struct profile *p, struct landlock_plan *out, struct err *e);

/* box_path: absolute; copied. A path that is not there when the child looks is skipped. Does nothing where !plan->wanted. */
void landlock_plan_add(struct landlock_plan *plan, const char *box_path, enum landlock_class class);

/*
 * Child, async-signal-safe, after pivot_root; no_new_privs must be set. Restricts the calling thread.
 * Return: 0 or -errno (fail closed: a rule that cannot be added, for another reason than that it is not there, ends it).
 */
int landlock_apply(const struct landlock_plan *plan);

void landlock_free(struct landlock_plan *plan);

#endif
