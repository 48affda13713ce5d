/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "sys/path.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"

#include "base/banned.h"

static void path_add_parts(struct str *s, const char *path)
{
	while (*path) {
		size_t n = strcspn(path, "/");

		if (n == 2 && path[0] == '.' && path[1] == '.') {
			while (s->len && s->text[--s->len] != '/')
				;
			if (s->text)
				s->text[s->len] = '\0';
		} else if (n && !(n == 1 && path[0] == '.')) {
			str_add(s, "/");
			str_add_n(s, path, n);
		}
		path += n;
		path += strspn(path, "/");
	}
}

char *path_normal(const char *path, const char *base)
{
	struct str s = {0};

	if (!*path || (*path != '/' && !base))
		return NULL;
	if (*path != '/')
		path_add_parts(&s, base);
	path_add_parts(&s, path);
	if (!s.len)
		str_add(&s, "/");
	return str_steal(&s);
}

bool path_is_beneath(const char *path, const char *root)
{
	size_t n = strlen(root);

	if (n == 1) /* "/" */
		return true;
	return strncmp(path, root, n) == 0 && (path[n] == '/' || path[n] == '\0');
}

const char *path_below(const char *path, const char *root)
{
	size_t n = strlen(root);

	if (n == 1)
		return path + 1;
	return path[n] == '/' ? path + n + 1 : path + n;
}

char *path_join(const char *root, const char *rest)
{
	size_t n = str_eq(root, "/") ? 0 : strlen(root), m = strlen(rest);
	char *path;

	if (!m)
		return mem_strdup(root);
	path = mem_alloc(n + m + 2);
	memcpy(path, root, n);
	path[n] = '/';
	memcpy(path + n + 1, rest, m + 1);
	return path;
}

int path_real(const char *path, char **out, struct err *e)
{
	char *real = realpath(path, NULL);

	if (!real)
		return err_errno(e, errno, "%s", path);
	*out = real;
	return 0;
}

/* Is it the caller who owns what keeps him from `path`: itself, or the last directory on the way that can be looked at? */
static bool is_closed_by_caller(const char *path)
{
	char *p = mem_strdup(path), *slash;
	bool his = true;
	struct stat st;

	while (stat(p, &st) < 0 && (slash = strrchr(p, '/')) && slash != p)
		*slash = '\0';
	if (stat(p, &st) == 0)
		his = st.st_uid == geteuid();
	free(p);
	return his;
}

bool path_is_absent(const char *path, int errnum)
{
	if (errnum == EACCES)
		return !is_closed_by_caller(path);
	return errnum == ENOENT || errnum == ENOTDIR || errnum == ELOOP || errnum == ENAMETOOLONG;
}

int path_unseen(const char *path, int errnum, struct err *e)
{
	if (path_is_absent(path, errnum))
		return 0;
	if (errnum != EACCES)
		return err_errno(e, errnum, "%s", path);
	return err_set(e, EACCES,
		       "%s cannot be looked at, and the command could open it again, as the user owns what is closed: chmod u+rwx that, or "
		       "leave it out of what the command can write to",
		       path);
}

int path_make_dirs(const char *path, mode_t mode, struct err *e)
{
	char *copy = mem_strdup(path);
	int r = 0;

	for (char *p = copy + 1; r == 0; p++) {
		char c = *p;

		if (c != '/' && c != '\0')
			continue;
		*p = '\0';
		if (mkdir(copy, mode) < 0 && errno != EEXIST)
			r = err_errno(e, errno, "cannot create the directory %s", copy);
		*p = c;
		if (c == '\0')
			break;
	}
	free(copy);
	return r;
}
