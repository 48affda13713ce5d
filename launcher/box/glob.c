/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "box/glob.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "sys/path.h"

#include "base/banned.h"

#define GLOB_DEPTH_MAX 64

bool glob_is_pattern(const char *path)
{
	return strpbrk(path, "*?[") != NULL;
}

char *glob_fixed_part(const char *pattern)
{
	const char *wild = strpbrk(pattern, "*?["), *end = wild ? wild : pattern + strlen(pattern);

	while (end > pattern && *end != '/')
		end--;
	return end == pattern ? mem_strdup(*pattern == '/' ? "/" : "") : mem_strndup(pattern, (size_t)(end - pattern));
}

struct glob_walk {
	struct strv *out;
	const char *dir, *pattern;
	size_t entries;
};

static int glob_dir(struct glob_walk *w, int dirfd, const char *path, const char *pattern, int depth, struct err *e);

/* One name against the first component of `pattern`. */
static int glob_name(struct glob_walk *w, int dirfd, const char *path, const struct dirent *d, const char *pattern, int depth,
		     struct err *e)
{
	size_t n = strcspn(pattern, "/");
	cleanup_free char *part = mem_strndup(pattern, n), *full = path_join(path, d->d_name);
	const char *rest = pattern + n + strspn(pattern + n, "/");
	bool any = str_eq(part, "**"), may_be_dir = d->d_type == DT_DIR || d->d_type == DT_UNKNOWN;
	int fd, r = 0;

	/* "**" stands for no directory too. */
	if (any && *rest) {
		r = glob_name(w, dirfd, path, d, rest, depth, e);
		if (r < 0)
			return r;
	}
	if (!any && fnmatch(part, d->d_name, 0) != 0)
		return 0;
	if (!*rest && (!any || !may_be_dir))
		strv_add(w->out, full);
	if (!may_be_dir || (!*rest && !any))
		return 0;
	fd = openat(dirfd, d->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0) /* no directory, or somebody else's; or it is gone */
		return path_unseen(full, errno, e) < 0 ? err_prefix(e, "%s/%s", w->dir, w->pattern) : 0;
	return glob_dir(w, fd, full, any ? pattern : rest, depth + 1, e);
}

/* Owns dirfd. */
static int glob_dir(struct glob_walk *w, int dirfd, const char *path, const char *pattern, int depth, struct err *e)
{
	cleanup_dir DIR *dir = fdopendir(dirfd);
	struct dirent *d;

	if (!dir) {
		int r = err_errno(e, errno, "%s", path);

		close(dirfd);
		return r;
	}
	if (depth > GLOB_DEPTH_MAX)
		return err_set(e, E2BIG, "%s/%s walks over %d levels at %s; name a directory nearer to what is meant", w->dir,
			       w->pattern, GLOB_DEPTH_MAX, path);
	while ((errno = 0, d = readdir(dir))) {
		int r;

		if (str_eq(d->d_name, ".") || str_eq(d->d_name, ".."))
			continue;
		if (++w->entries > GLOB_ENTRIES_MAX)
			return err_set(e, E2BIG, "%s/%s walks over %d names; name a directory nearer to what is meant", w->dir,
				       w->pattern, GLOB_ENTRIES_MAX);
		r = glob_name(w, dirfd, path, d, pattern, depth, e);
		if (r < 0)
			return r;
	}
	return errno ? err_errno(e, errno, "%s", path) : 0;
}

int glob_expand(const char *dir, const char *pattern, struct strv *out, struct err *e)
{
	struct glob_walk w = {.out = out, .dir = dir, .pattern = pattern};
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return path_unseen(dir, errno, e);
	return glob_dir(&w, fd, dir, pattern, 0, e);
}
