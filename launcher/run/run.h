/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* One run: from a loaded profile and a command line to an exit status and a record. */
#ifndef AGENTBOX_RUN_RUN_H
#define AGENTBOX_RUN_RUN_H

#include <stdbool.h>

#include "box/plan.h"
#include "box/request.h"
#include "profile/profile.h"

struct run_options {
	const struct profile *profile;
	const char *profile_name; /* as the user named it */
	struct run_request request;
	int event_fd, status_fd;  /* -1: none */
	bool die_with_parent, quiet, verbose;
	char *title;              /* argv and environment of this process in memory, for the child to overwrite */
	size_t title_len;
};

/*
 * The plan of a run that does not take place (--dry-run, why, show --plan): nothing is made on the host.
 * use: gets the plan; its return is passed on. request.argv may be NULL. Return: what `use` returned, or -errno with `e`.
 */
int run_with_plan(const struct run_options *options, int (*use)(const struct plan *plan, void *arg, struct err *e), void *arg,
		  struct err *e);

/* Prints what went wrong, if something did. Return: the exit status of `agentbox run`. */
int run_command(const struct run_options *options);

#endif
