/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* One run: from a loaded profile and a command line to an exit status and a record. */
#ifndef AGENTBOX_RUN_RUN_H
#define AGENTBOX_RUN_RUN_H

#include <stdbool.h>

#include "box/request.h"
#include "profile/profile.h"

struct run_options {
	const struct profile *profile;
	const char *profile_name; /* as the user named it */
	struct run_request request;
	int event_fd, status_fd;  /* -1: none */
	bool die_with_parent, dry_run, quiet, verbose;
	char *title;              /* argv and environment of this process in memory, for the child to overwrite */
	size_t title_len;
};

/* Prints what went wrong, if something did. Return: the exit status of `agentbox run`. */
int run_command(const struct run_options *options);

#endif
