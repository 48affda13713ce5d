/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Paths: as text (nothing is looked up), and resolved beneath a root by descriptor. */
#ifndef AGENTBOX_SYS_PATH_H
#define AGENTBOX_SYS_PATH_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"

/*
 * An absolute path without "//", "." and ".." (".." at the root stays there), as text only.
 * base: an absolute path that a relative `path` starts at; NULL where `path` must be absolute.
 * Return: fresh memory (caller frees); NULL where `path` is relative and base is NULL, or it is empty.
 */
char *path_normal(const char *path, const char *base);

/* Is `path` equal to `root` or beneath it? Both absolute and normal. */
bool path_is_beneath(const char *path, const char *root);

/* What follows `root` in `path`, without leading slash ("" where equal). Only where path_is_beneath. Points into `path`. */
const char *path_below(const char *path, const char *root);

/* root + "/" + rest, where rest may be empty. Caller frees. */
char *path_join(const char *root, const char *rest);

/* realpath(3) with the error in words. Caller frees *out. Return: 0 or -errno. */
int path_real(const char *path, char **out, struct err *e);

/*
 * Does `errnum`, of opening or looking at `path`, say that for this user nothing is there? EACCES does only where somebody else
 * closed the way: what the user owns a command of the same uid can open again (chmod), and write to what was not looked at.
 */
bool path_is_absent(const char *path, int errnum);

/* What could not be looked at: 0 where it is absent, else -errnum with `e`, which says what to do. */
int path_unseen(const char *path, int errnum, struct err *e);

/* mkdir -p for an absolute path, new ones with `mode`; existing ones are left. Return: 0 or -errno. */
int path_make_dirs(const char *path, mode_t mode, struct err *e);

#endif
