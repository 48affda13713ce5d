/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The plan: a profile and a command line resolved against this host. Flat and final: `--dry-run` prints exactly this, the
 * child executes exactly this, and nothing is decided after it.
 */
#ifndef AGENTBOX_BOX_PLAN_H
#define AGENTBOX_BOX_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/str.h"
#include "box/landlock.h"
#include "box/netns.h"
#include "box/rlimits.h"
#include "box/seccomp.h"
#include "profile/profile.h"

/* What the child does to the new root, in order. Destinations are resolved beneath it, sources in the host's tree. */
enum mount_op {
	MOUNT_DIR,      /* make dest a directory, with what leads to it */
	MOUNT_FILE,     /* make dest a file with `data` */
	MOUNT_SYMLINK,  /* make dest a symbolic link to `source` */
	MOUNT_BIND,     /* source at dest */
	MOUNT_TMPFS,    /* a fresh tmpfs at dest, size_bytes, mode */
	MOUNT_TMP_DIR,  /* a directory of the box's one temporary tmpfs at dest (so /tmp, /run, /dev/shm share tmp-size) */
	MOUNT_OVERLAY,  /* lower (`source`, and `lower2` below it), upper, work at dest; without upper: read-only */
	MOUNT_PROC,     /* /proc of the new PID namespace */
	MOUNT_DEVPTS,   /* an own instance */
	MOUNT_ALIAS,    /* what is at `source` in the box, with all on it, also at dest */
	MOUNT_SELF,     /* a directory that is there, bound onto itself: it can then not be renamed */
	MOUNT_MASK,     /* an empty, unreadable file or directory over dest, if that is there */
	MOUNT_PIN,      /* dest bound read-only onto itself; a symbolic link stays one, and cannot be replaced */
};

enum mount_flags {
	MOUNT_RO = 1 << 0,
	MOUNT_OPTIONAL = 1 << 1,  /* a source or dest that is not there is no failure */
	MOUNT_NODEV = 1 << 2,
	MOUNT_NOEXEC = 1 << 3,
	MOUNT_FLAT = 1 << 4,      /* without the mounts beneath the source */
	MOUNT_VOLATILE = 1 << 6, /* MOUNT_OVERLAY: its layer goes with the run, so nothing of it has to reach the disk */
	MOUNT_WRITABLE_HOST = 1 << 5, /* the command can write to the host here: for Landlock and for the lint of the plan */
};

struct mount_step {
	enum mount_op op;
	unsigned flags;
	char *dest;   /* absolute and normal, in the box */
	char *source; /* absolute and normal, on the host; MOUNT_SYMLINK: the target; MOUNT_ALIAS: in the box */
	char *lower2, *upper, *work; /* MOUNT_OVERLAY: lower2 may be NULL; upper and work both or neither */
	char *data;
	size_t data_len;
	uint64_t size_bytes;
	mode_t mode;
	dev_t dev; /* source as the plan saw it; the child refuses another (ino 0: not checked) */
	ino_t ino;
	struct origin from; /* the profile line, the option, or "built-in" */
};

#define KEEP_FDS_MAX 64

struct plan {
	char *run_id, *task_id; /* task_id may be NULL */
	uid_t host_uid, box_uid;
	gid_t host_gid, box_gid;
	char *hostname;
	struct mount_step *steps;
	size_t n_steps, cap_steps;
	char *cwd;   /* in the box */
	char *repo;  /* on the host; NULL: none */
	enum repo_mode repo_mode;
	char *repo_upper; /* the layer that records changes, on the host; NULL unless overlay */
	struct strv argv, env;
	struct strv make_dirs; /* host directories to make before the start, mode 0700, parents first, all new */
	struct strv make_commondirs; /* host files to make in those: ".\n", see box/covers.c */
	struct strv named; /* host paths as they were given, absolute: what leads to them is held (covers_hold) */
	struct strv leftovers; /* of those, the ones outside the run's directory: to remove after the run, or by prune */
	int *keep_fds; /* sorted, above 2, at most KEEP_FDS_MAX */
	size_t n_keep_fds;
	bool tty;
	bool capture;    /* standard output and error go through the supervisor, which stores them */
	bool one_stream; /* as one: they are the same file of the caller's */
	bool read_stdin; /* standard input is a terminal, and opened again for reading alone: the command could write there past capture */
	bool nested_namespaces;
	bool private_network; /* a network namespace of its own */
	enum egress_mode egress;
	char *name_server;     /* with EGRESS_HOST: the address; NULL: not known yet */
	struct netns_plan net; /* with EGRESS_GATEWAY; what it points to is the policy's */
	struct seccomp_program seccomp;
	struct landlock_plan landlock;
	struct rlimit_plan rlimits;
	struct plan_limits {
		uint64_t wall_ms, memory_bytes, processes, cpus_milli; /* 0: no limit */
	} limits; /* kept by the supervisor: here to be shown */
};

void plan_free(struct plan *p);

/* The next step, zeroed but for op, dest (owned from now on) and from. Valid until the next call. */
struct mount_step *plan_add(struct plan *p, enum mount_op op, char *dest, struct origin from);

/* A path of the box with its leading symbolic links, as far as the plan makes them ("/bin" of merged /usr), followed. Caller frees. */
char *plan_follow(const struct plan *p, const char *box_path);

/*
 * What is at a path of the box as far as the steps so far say: the step of the deepest mount at or above it.
 * Return: NULL for the root itself.
 */
const struct mount_step *plan_at(const struct plan *p, const char *box_path);

/* Prints the plan as text for people (--dry-run, show --plan). */
void plan_print(const struct plan *p, struct str *out);

const char *mount_op_name(enum mount_op op);

#endif
