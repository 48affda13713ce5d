/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Globs of `deny`: `*` and `?` and `[...]` within a name, `**` for any number of directories. Existing names only. */
#ifndef AGENTBOX_BOX_GLOB_H
#define AGENTBOX_BOX_GLOB_H

#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"

bool glob_is_pattern(const char *path);

/* The part of a pattern before its first component with a wildcard. Caller frees. */
char *glob_fixed_part(const char *pattern);

/*
 * Names beneath `dir` that match `pattern` (relative to it), appended to out as absolute paths. Symbolic links are matched,
 * not followed. Return: 0; -E2BIG with `e` after GLOB_ENTRIES_MAX names: a deny that cannot be worked out is not ignored.
 */
#define GLOB_ENTRIES_MAX 500000
int glob_expand(const char *dir, const char *pattern, struct strv *out, struct err *e);

#endif
