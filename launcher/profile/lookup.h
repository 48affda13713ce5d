/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* From the name of a profile to its file. */
#ifndef AGENTBOX_PROFILE_LOOKUP_H
#define AGENTBOX_PROFILE_LOOKUP_H

#include "base/err.h"
#include "profile/profile.h"

/*
 * name: without "/", NAME.ini in the folder of `beside` (a file, or NULL), then in $AGENTBOX_PROFILES, the caller's,
 * the system's and the installed profiles; with "/", that file, relative to the folder of `beside` or to the current
 * one. A folder that cannot be looked into is an error, so that the next one's profile of that name is not taken
 * instead.
 * missed: the files that would have been taken before are added.
 * Return: 0 with fresh memory in *out; -ENOENT and the like with e.
 */
int profile_lookup(const char *name, const char *beside, const struct profile_env *env, char **out, struct strv *missed, struct err *e);

#endif
