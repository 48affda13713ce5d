/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Of a git configuration file, the values that name other files whose contents git runs or obeys. */
#ifndef AGENTBOX_BOX_GITCONFIG_H
#define AGENTBOX_BOX_GITCONFIG_H

#include "base/err.h"
#include "base/str.h"

/*
 * core.hooksPath and core.fsmonitor (relative to `tree`), include.path and includeIf.*.path (relative to the file), as absolute
 * paths, otherwise as they are written, appended to out; files that are included are looked into as well, to a depth of
 * GITCONFIG_DEPTH. git-config(1). Read by ourselves, as running git would obey the file. What is not there (path_is_absent) or is
 * no plain file says nothing. Return: 0; -errno with `e` where a file could not be read for another reason or is over 1 MiB:
 * what it names is not known then.
 */
#define GITCONFIG_DEPTH 3
int gitconfig_paths(const char *file, const char *tree, struct strv *out, struct err *e);

#endif
