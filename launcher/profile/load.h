/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A profile from bytes that are already in memory: what profile_load does once it has read the file. For tests and
 * fuzzing.
 */
#ifndef AGENTBOX_PROFILE_LOAD_H
#define AGENTBOX_PROFILE_LOAD_H

#include <stddef.h>

#include "profile/profile.h"

/* How many files may extend one another behind the first. */
#define PROFILE_DEPTH_MAX 8
#define PROFILE_FILE_MAX (4U << 20)

/* file: the name that faults and origins bear, and whose folder `extends` starts at. Return: as profile_load. */
int profile_load_bytes(struct profile *p, const char *file, const char *bytes, size_t len,
		       const struct profile_env *env, struct faults *faults);

#endif
