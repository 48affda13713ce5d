/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "box/gitrepo.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "sys/fd.h"
#include "sys/path.h"

#include "base/banned.h"

#define GIT_LINE_MAX 4096
#define GIT_ENTRIES_MAX 1000000
#define GIT_DEPTH_MAX 32

char *git_find_top(const char *dir)
{
	char *path = mem_strdup(dir);

	for (;;) {
		cleanup_free char *git = path_join(path, ".git");
		struct stat st;
		char *slash;

		if (lstat(git, &st) == 0)
			return path;
		slash = strrchr(path, '/');
		if (!slash || !path[1])
			break;
		slash[slash == path ? 1 : 0] = '\0';
	}
	free(path);
	return NULL;
}

/* The first line of dir/name, without its newline. NULL: no such regular file, or too long. */
static char *read_line(const char *dir, const char *name)
{
	cleanup_free char *path = path_join(dir, name);
	char *text;

	if (fd_read_file(AT_FDCWD, path, GIT_LINE_MAX, &text, NULL) < 0)
		return NULL;
	text[strcspn(text, "\n")] = '\0';
	return text;
}

static char *real_or_null(const char *path, const char *base)
{
	cleanup_free char *normal = path_normal(path, base);

	return normal ? realpath(normal, NULL) : NULL;
}

int git_common_dir(const char *repo, char **common, struct err *e)
{
	cleanup_free char *dot_git = path_join(repo, ".git"), *line = NULL, *git_dir = NULL, *link = NULL, *back = NULL;
	cleanup_free char *back_line = NULL, *found = NULL, *worktrees = NULL;
	struct stat st;

	*common = NULL;
	if (lstat(dot_git, &st) < 0 || !S_ISREG(st.st_mode))
		return 0;
	line = read_line(repo, ".git");
	if (!line || strncmp(line, "gitdir: ", 8) != 0)
		return 0;
	git_dir = real_or_null(line + 8, repo);
	if (!git_dir)
		return 0;
	link = read_line(git_dir, "commondir");
	if (!link)
		return 0; /* a submodule, or --separate-git-dir: no linked work tree */
	found = real_or_null(link, git_dir);
	back_line = read_line(git_dir, "gitdir");
	back = back_line ? real_or_null(back_line, git_dir) : NULL;
	worktrees = found ? path_join(found, "worktrees") : NULL;
	if (!found || !back || !str_eq(back, dot_git) || !path_is_beneath(git_dir, worktrees))
		return err_set(e, EINVAL,
			       "%s says that this is a linked work tree of %s, which does not point back to it; "
			       "`git worktree repair` mends a moved one",
			       dot_git, git_dir);
	*common = steal_ptr(&found);
	return 0;
}

struct nested_walk {
	struct git_nested *out;
	const char *repo;
	size_t entries;
};

static int walk_nested(struct nested_walk *w, int dirfd, const char *rel, int depth, struct err *e);

static int walk_entry(struct nested_walk *w, int dirfd, const char *rel, const struct dirent *d, int depth, struct err *e)
{
	cleanup_free char *path = *rel ? path_join(rel, d->d_name) : mem_strdup(d->d_name);
	bool in_git = str_has_prefix(path, ".git/");
	cleanup_fd int fd = -1;

	if (str_eq(d->d_name, ".git") && *rel)
		strv_add(&w->out->trees, rel);
	/* Of the repository's own .git only the submodules matter. */
	if (in_git && !str_eq(path, ".git/modules") && !str_has_prefix(path, ".git/modules/"))
		return 0;
	if (d->d_type != DT_DIR && d->d_type != DT_UNKNOWN)
		return 0;
	fd = openat(dirfd, d->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return 0; /* no directory, or unreadable for us, and so for git on our behalf */
	if (in_git && faccessat(fd, "HEAD", F_OK, AT_SYMLINK_NOFOLLOW) == 0 &&
	    faccessat(fd, "objects", F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		strv_add(&w->out->git_dirs, path);
	return walk_nested(w, steal_fd(&fd), path, depth + 1, e);
}

/* Owns dirfd. */
static int walk_nested(struct nested_walk *w, int dirfd, const char *rel, int depth, struct err *e)
{
	cleanup_dir DIR *dir = fdopendir(dirfd);
	struct dirent *d;

	if (!dir) {
		close(dirfd);
		return 0;
	}
	if (depth > GIT_DEPTH_MAX)
		return 0;
	while ((d = readdir(dir))) {
		int r;

		if (str_eq(d->d_name, ".") || str_eq(d->d_name, ".."))
			continue;
		if (++w->entries > GIT_ENTRIES_MAX)
			return err_set(e, E2BIG,
				       "%s has over %d entries, too many to find the repositories in it that need protection; "
				       "use workspace.repo-mode = overlay, or a smaller --repo",
				       w->repo, GIT_ENTRIES_MAX);
		r = walk_entry(w, dirfd, rel, d, depth, e);
		if (r < 0)
			return r;
	}
	return 0;
}

int git_find_nested(const char *repo, struct git_nested *out, struct err *e)
{
	struct nested_walk w = {.out = out, .repo = repo};
	int fd = open(repo, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return err_errno(e, errno, "%s", repo);
	return walk_nested(&w, fd, "", 0, e);
}

static bool is_commit_id(const char *s)
{
	size_t n = strspn(s, "0123456789abcdef");

	return (n == 40 || n == 64) && s[n] == '\0';
}

/* The id of a ref in packed-refs; NULL: not there. */
static char *packed_ref(const char *git_dir, const char *ref)
{
	cleanup_free char *path = path_join(git_dir, "packed-refs"), *text = NULL;

	if (fd_read_file(AT_FDCWD, path, 16 << 20, &text, NULL) < 0)
		return NULL;
	for (char *line = text; line && *line;) {
		char *end = strchr(line, '\n'), *space;

		if (end)
			*end = '\0';
		space = strchr(line, ' ');
		if (space && str_eq(space + 1, ref)) {
			*space = '\0';
			return is_commit_id(line) ? mem_strdup(line) : NULL;
		}
		line = end ? end + 1 : NULL;
	}
	return NULL;
}

char *git_head_commit(const char *repo)
{
	cleanup_free char *git_dir = path_join(repo, ".git"), *common = NULL, *head = NULL, *id = NULL;
	struct stat st;

	if (lstat(git_dir, &st) < 0)
		return NULL;
	if (S_ISREG(st.st_mode)) {
		cleanup_free char *line = read_line(repo, ".git");

		if (git_common_dir(repo, &common, NULL) < 0 || !common || !line)
			return NULL;
		free(git_dir);
		git_dir = real_or_null(line + 8, repo);
		if (!git_dir)
			return NULL;
	}
	head = read_line(git_dir, "HEAD");
	if (!head)
		return NULL;
	if (strncmp(head, "ref: ", 5) != 0)
		return is_commit_id(head) ? steal_ptr(&head) : NULL;
	/* A ref's name leads nowhere but into the git directory. */
	if (!str_has_prefix(head + 5, "refs/") || strstr(head, ".."))
		return NULL;
	id = read_line(common ? common : git_dir, head + 5);
	if (id)
		return is_commit_id(id) ? steal_ptr(&id) : NULL;
	return packed_ref(common ? common : git_dir, head + 5);
}
