/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The steps that make /workspace, the profile's grants and the command line's binds. */
#ifndef AGENTBOX_BOX_WORKSPACE_H
#define AGENTBOX_BOX_WORKSPACE_H

#include "box/plan.h"
#include "box/request.h"

/* All: Return 0 or -errno with `e`. */

/* filesystem.read and filesystem.write, parents before children. */
int workspace_add_grants(struct plan *plan, const struct profile *profile, const struct run_host *host, struct err *e);

/* /workspace with its five directories. Sets plan->repo, repo_mode, repo_upper. */
int workspace_add(struct plan *plan, const struct profile *profile, const struct run_request *req, const struct run_host *host,
		  struct err *e);

/* --ro-bind, --bind, --tmpfs, --dir, --symlink in their order. */
int workspace_add_requests(struct plan *plan, const struct run_request *req, const struct run_host *host, struct err *e);

/* workspace.mirror. After all that lies on the repository: what is there is there too. */
int workspace_add_mirror(struct plan *plan, const struct profile *profile, struct err *e);

/* Where the command starts, before --chdir: the caller's directory as the box has it. Caller frees. */
char *workspace_start_dir(const struct plan *plan, const struct profile *profile, const struct run_host *host);

#endif
