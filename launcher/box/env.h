/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The command's environment, made from nothing. */
#ifndef AGENTBOX_BOX_ENV_H
#define AGENTBOX_BOX_ENV_H

#include "box/plan.h"
#include "box/request.h"

/*
 * Fills plan->env: what the profile passes and sets, --setenv and --unsetenv in their order, and what is always there.
 * Return: 0 or -errno.
 */
int env_add(struct plan *plan, const struct profile *profile, const struct run_request *req, const struct run_host *host,
	    struct err *e);

/* Variables that make a dynamic loader or libc run or read other files: never passed on, whatever a pattern says. */
bool env_is_loader(const char *name, size_t len);

#endif
