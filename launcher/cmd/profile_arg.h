/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The profile that a command line names: for run, show and why. */
#ifndef AGENTBOX_CMD_PROFILE_ARG_H
#define AGENTBOX_CMD_PROFILE_ARG_H

#include "base/str.h"
#include "profile/profile.h"

/*
 * p: profile_init was called. given: --profile, or NULL. sets: the --set assignments in order; must live as long as p.
 * All faults are said on stderr. Return: STATUS_OK or STATUS_REFUSED.
 */
int profile_arg_load(struct profile *p, const char *given, const struct strv *sets);

#endif
