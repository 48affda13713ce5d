/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* From profile and command line to the plan. Nothing is made on the host here: --dry-run ends after it. */
#ifndef AGENTBOX_BOX_BUILD_H
#define AGENTBOX_BOX_BUILD_H

#include "box/plan.h"
#include "box/request.h"

/* plan: zeroed; plan_free undoes it, also after a failure. Return: 0 or -errno with `e`. */
int plan_build(struct plan *plan, const struct profile *profile, const struct run_request *req, const struct run_host *host,
	       struct err *e);

#endif
