/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What agentbox needs to know of git's layout (gitrepository-layout(5)), read without running git. */
#ifndef AGENTBOX_BOX_GITREPO_H
#define AGENTBOX_BOX_GITREPO_H

#include "base/err.h"
#include "base/str.h"

/*
 * The work tree that holds `dir`: the nearest directory upwards with a ".git". *out: caller frees; NULL: none. Return: 0 or -errno
 * with `e`.
 */
int git_find_top(const char *dir, char **out, struct err *e);

/*
 * What a git directory is known by; NULL ends them. Not HEAD, which git itself replaces, so that it cannot be held: a command could
 * move it away in one run and back in the next.
 */
extern const char *const git_parts[];

/*
 * The repository that a linked work tree belongs to. `.git` is text that anybody who can write to the tree may have
 * written, so it is believed only where the other side points back: GITDIR/gitdir names this tree.
 * repo: absolute and real. *common: the repository's git directory, real, caller frees; NULL where `repo` is no linked work
 * tree. Return: 0, or -errno with `e`; -EINVAL: `.git` is a file that cannot be believed.
 */
int git_common_dir(const char *repo, char **common, struct err *e);

/* Here and below a failure to look is one, but where nothing is there (path_is_absent): something could stay unprotected. */

/* Has `dir` the parts of a git directory? Return: 1, 0, or -errno with `e`. */
int git_is_directory(const char *dir, struct err *e);

/*
 * Where a tree's `.git` leads that is a file ("gitdir: ...") or a symbolic link, real. *out: caller frees; NULL: nowhere.
 * Return: 0 or -errno with `e`.
 */
int git_dir_of(const char *tree, char **out, struct err *e);

/* The path in a tree's file `.git`, as it is written; NULL: there is none. Caller frees. Return: 0 or -errno with `e`. */
int git_file_path(const char *tree, char **out, struct err *e);

/*
 * Where a git directory's `commondir` leads, real and unchecked (git_common_dir checks). *out: caller frees; NULL: nowhere. Return: 0
 * or -errno with `e`.
 */
int git_common_of(const char *git_dir, char **out, struct err *e);

/*
 * Repositories beneath `repo`, as paths relative to it: directories that hold a ".git", and the git directories of
 * submodules (.git/modules/NAME) and of bare repositories. Not `repo` itself. Symbolic links are not followed.
 * Return: 0 or -errno with `e`; -E2BIG: the tree is too large or too deep to look through.
 */
struct git_nested {
	struct strv trees;    /* "vendor/lib": a work tree */
	struct strv git_dirs; /* ".git/modules/lib", "mirror.git": a git directory */
};
int git_find_nested(const char *repo, struct git_nested *out, struct err *e);

/* The git directories of submodules in `git_dir`/modules, absolute, added to out. Return: as git_find_nested. */
int git_find_modules(const char *git_dir, struct strv *out, struct err *e);

/* HEAD's commit id, read from loose and packed refs; NULL where there is none. Caller frees. */
char *git_head_commit(const char *repo);

#endif
