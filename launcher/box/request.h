/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the command line of `run` asks beside the profile, and what the supervisor knows of the host. All borrowed. */
#ifndef AGENTBOX_BOX_REQUEST_H
#define AGENTBOX_BOX_REQUEST_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/str.h"

enum request_op { REQUEST_RO_BIND, REQUEST_BIND, REQUEST_TMPFS, REQUEST_DIR, REQUEST_SYMLINK };

struct request_mount {
	enum request_op op;
	const char *source; /* NULL for TMPFS and DIR; the target for SYMLINK */
	const char *dest;
};

struct run_request {
	const char *repo;      /* --repo; NULL: found from the working directory */
	struct strv inputs;    /* SRC[:NAME] */
	const char *artifacts; /* --artifacts; NULL: the run's own */
	struct request_mount *mounts;
	size_t n_mounts, cap_mounts;
	struct strv environment; /* in order: NAME=VALUE sets, NAME alone removes */
	const char *chdir;
	bool tty;
	int keep_fds[64];
	size_t n_keep_fds;
	char **argv;
};

struct run_host {
	const char *run_id, *task_id; /* task_id may be NULL */
	const char *run_dir;          /* the run's directory, absolute and real: runs/ID */
	const char *state_dir;        /* the state directory, absolute and real */
	const char *cwd;              /* absolute and real */
	const char *home;             /* absolute and real, or NULL */
	uid_t uid;
	gid_t gid;
	char *const *environ;
	const char *name_server;      /* egress.mode = host: the run's own; NULL: not known yet */
	bool in_box;                  /* agentbox itself runs in a box */
};

#endif
