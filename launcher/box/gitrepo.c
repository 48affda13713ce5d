/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "box/gitrepo.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "base/num.h"
#include "sys/fd.h"
#include "sys/path.h"
#include "sys/syscalls.h"

#include "base/banned.h"

#define GIT_LINE_MAX 4096
#define GIT_ENTRIES_MAX 1000000
#define GIT_DEPTH_MAX 200 /* a descriptor for each */

const char *const git_parts[] = {"objects", "refs", NULL};

/*
 * A `.git` that somebody else put into a shared directory above ours is not ours (CVE-2022-24765). Root takes what the user
 * owns who called it by sudo, as git does.
 */
static bool is_owned(const struct stat *st)
{
	const char *sudo = getenv("SUDO_UID");
	uint64_t uid;

	if (st->st_uid == getuid())
		return true;
	return getuid() == 0 && sudo && num_u64(sudo, 0, UINT32_MAX, &uid) == 0 && st->st_uid == (uid_t)uid;
}

int git_find_top(const char *dir, char **out, struct err *e)
{
	cleanup_free char *path = mem_strdup(dir);

	*out = NULL;
	for (;;) {
		cleanup_free char *git = path_join(path, ".git");
		struct stat st;
		char *slash;
		int r = lstat(git, &st) < 0 ? path_unseen(git, errno, e) : 1;

		if (r < 0)
			return r;
		if (r > 0 && is_owned(&st)) {
			*out = steal_ptr(&path);
			return 0;
		}
		slash = strrchr(path, '/');
		if (!slash || !path[1])
			return 0;
		slash[slash == path ? 1 : 0] = '\0';
	}
}

/*
 * The first line of dir/name, without its newline; caller frees. *out NULL: no such regular file, or too long. Return: 0 or -errno
 * with `e`: it may be there.
 */
static int read_line(const char *dir, const char *name, char **out, struct err *e)
{
	cleanup_free char *path = path_join(dir, name);
	int r;

	*out = NULL;
	r = fd_read_file(AT_FDCWD, path, GIT_LINE_MAX, out, NULL);
	if (r == 0)
		(*out)[strcspn(*out, "\n")] = '\0';
	return r == 0 || r == -EISDIR || r == -EINVAL || r == -EFBIG ? 0 : path_unseen(path, -r, e);
}

/* *out NULL: it leads nowhere. Caller frees. Return: 0 or -errno with `e`. */
static int real_path(const char *path, const char *base, char **out, struct err *e)
{
	/* As git follows it: ".." behind a link is the parent of where that leads. */
	cleanup_free char *whole = *path == '/' ? mem_strdup(path) : path_join(base, path);

	*out = *path ? realpath(whole, NULL) : NULL;
	return *out || !*path ? 0 : path_unseen(whole, errno, e);
}

/* As real_path, of a path that a line of a file says. line: NULL: nowhere. */
static int real_of_line(const char *line, const char *base, char **out, struct err *e)
{
	*out = NULL;
	return line ? real_path(line, base, out, e) : 0;
}

int git_is_directory(const char *dir, struct err *e)
{
	for (const char *const *n = git_parts; *n; n++) {
		cleanup_free char *path = path_join(dir, *n);
		struct stat st;

		if (lstat(path, &st) < 0)
			return path_unseen(path, errno, e);
	}
	return 1;
}

int git_file_path(const char *tree, char **out, struct err *e)
{
	cleanup_free char *line = NULL;
	int r = read_line(tree, ".git", &line, e);

	*out = line && str_has_prefix(line, "gitdir: ") ? mem_strdup(line + 8) : NULL;
	return r;
}

int git_dir_of(const char *tree, char **out, struct err *e)
{
	cleanup_free char *dot_git = path_join(tree, ".git"), *line = NULL;
	struct stat st;
	int r;

	*out = NULL;
	if (lstat(dot_git, &st) < 0)
		return path_unseen(dot_git, errno, e);
	if (S_ISLNK(st.st_mode))
		return real_path(dot_git, "/", out, e);
	r = git_file_path(tree, &line, e);
	return r < 0 ? r : real_of_line(line, tree, out, e);
}

int git_common_of(const char *git_dir, char **out, struct err *e)
{
	cleanup_free char *line = NULL;
	int r = read_line(git_dir, "commondir", &line, e);

	*out = NULL;
	return r < 0 ? r : real_of_line(line, git_dir, out, e);
}

/*
 * Do the two sides name each other? All of `.git` and of what it names may be the work of whoever wrote the tree, so nothing
 * of it may lie in the tree, and what is to be shown must be a git directory that registered just this tree. Return: 1, 0 or
 * -errno with `e`.
 */
static int is_registered(const char *repo, const char *dot_git, const char *git_dir, const char *common, const char *back, struct err *e)
{
	cleanup_free char *worktrees = path_join(common, "worktrees"), *parent = mem_strdup(git_dir);

	*strrchr(parent, '/') = '\0';
	if (!str_eq(back, dot_git) || !str_eq(parent, worktrees) || path_is_beneath(git_dir, repo) || path_is_beneath(repo, common))
		return 0;
	return git_is_directory(common, e);
}

int git_common_dir(const char *repo, char **common, struct err *e)
{
	cleanup_free char *dot_git = path_join(repo, ".git"), *line = NULL, *git_dir = NULL, *link = NULL, *back = NULL;
	cleanup_free char *back_line = NULL, *found = NULL;
	int r, registered = 0;

	*common = NULL;
	r = git_file_path(repo, &line, e);
	r = r ?: real_of_line(line, repo, &git_dir, e);
	if (r < 0 || !git_dir)
		return r;
	r = read_line(git_dir, "commondir", &link, e);
	if (r < 0 || !link)
		return r; /* a submodule, or --separate-git-dir: no linked work tree */
	r = real_of_line(link, git_dir, &found, e);
	r = r ?: read_line(git_dir, "gitdir", &back_line, e);
	r = r ?: real_of_line(back_line, git_dir, &back, e);
	if (r == 0 && found && back)
		registered = is_registered(repo, dot_git, git_dir, found, back, e);
	if (r < 0 || registered < 0)
		return r ?: registered;
	if (!registered)
		return err_set(e, EINVAL,
			       "%s says that this is a linked work tree of %s, which does not point back to it; "
			       "`git worktree repair` mends a moved one",
			       dot_git, git_dir);
	*common = steal_ptr(&found);
	return 0;
}

#define TOO_LARGE                                                                                                     \
	"too much to find the repositories in it that need protection; use workspace.repo-mode = overlay, or a smaller --repo"

struct nested_walk {
	struct git_nested *out;
	const char *repo;
	size_t entries;
};

static int walk_nested(struct nested_walk *w, int dirfd, const char *rel, int depth, struct err *e);

/* What is there and cannot be looked at must not be left out. path: beneath the walk's root. */
static int walk_failed(const struct nested_walk *w, const char *path, int errnum, struct err *e)
{
	cleanup_free char *full = path_join(w->repo, path);

	return path_unseen(full, errnum, e);
}

/* Return: 1: a git directory; 0; -errno. */
static int is_git_dir(const struct nested_walk *w, int fd, const char *path, struct err *e)
{
	for (const char *const *n = git_parts; *n; n++) {
		cleanup_free char *name = path_join(path, *n);

		if (faccessat(fd, *n, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
			return walk_failed(w, name, errno, e);
	}
	return 1;
}

static int walk_entry(struct nested_walk *w, int dirfd, const char *rel, const struct dirent *d, int depth, struct err *e)
{
	cleanup_free char *path = *rel ? path_join(rel, d->d_name) : mem_strdup(d->d_name);
	bool in_git = str_has_prefix(path, ".git/");
	cleanup_fd int fd = -1;
	int r = 0;

	if (strlen(w->repo) + strlen(path) + NAME_MAX >= PATH_MAX)
		return err_set(e, ENAMETOOLONG, "%s has a directory with a path of over %d bytes: " TOO_LARGE, w->repo, PATH_MAX - NAME_MAX);
	if (str_eq(d->d_name, ".git") && *rel)
		strv_add(&w->out->trees, rel);
	/* Of the repository's own .git only the submodules matter. */
	if (in_git && !str_eq(path, ".git/modules") && !str_has_prefix(path, ".git/modules/"))
		return 0;
	if (d->d_type != DT_DIR && d->d_type != DT_UNKNOWN)
		return 0;
	fd = openat(dirfd, d->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return walk_failed(w, path, errno, e);
	if (!str_eq(d->d_name, ".git"))
		r = is_git_dir(w, fd, path, e);
	if (r > 0)
		strv_add(&w->out->git_dirs, path);
	return r < 0 ? r : walk_nested(w, steal_fd(&fd), path, depth + 1, e);
}

/* Owns dirfd. */
static int walk_nested(struct nested_walk *w, int dirfd, const char *rel, int depth, struct err *e)
{
	cleanup_dir DIR *dir = fdopendir(dirfd);
	struct dirent *d;

	if (!dir) {
		int r = err_errno(e, errno, "%s/%s", w->repo, rel);

		close(dirfd);
		return r;
	}
	if (depth > GIT_DEPTH_MAX)
		return err_set(e, E2BIG, "%s/%s is over %d directories deep: " TOO_LARGE, w->repo, rel, GIT_DEPTH_MAX);
	while ((errno = 0, d = readdir(dir))) {
		int r;

		if (str_eq(d->d_name, ".") || str_eq(d->d_name, ".."))
			continue;
		if (++w->entries > GIT_ENTRIES_MAX)
			return err_set(e, E2BIG, "%s has over %d entries: " TOO_LARGE, w->repo, GIT_ENTRIES_MAX);
		r = walk_entry(w, dirfd, rel, d, depth, e);
		if (r < 0)
			return r;
	}
	return errno ? err_errno(e, errno, "%s/%s", w->repo, rel) : 0;
}

int git_find_nested(const char *repo, struct git_nested *out, struct err *e)
{
	struct nested_walk w = {.out = out, .repo = repo};
	int fd = open(repo, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return err_errno(e, errno, "%s", repo);
	return walk_nested(&w, fd, "", 0, e);
}

int git_find_modules(const char *git_dir, struct strv *out, struct err *e)
{
	cleanup_free char *path = path_join(git_dir, "modules");
	struct git_nested found = {0};
	struct nested_walk w = {.out = &found, .repo = path};
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW), r;

	if (fd < 0)
		return path_unseen(path, errno, e);
	r = walk_nested(&w, fd, "", 0, e);
	for (size_t i = 0; i < found.git_dirs.n; i++)
		strv_take(out, path_join(path, found.git_dirs.v[i]));
	strv_free(&found.trees);
	strv_free(&found.git_dirs);
	return r;
}

static bool is_commit_id(const char *s)
{
	size_t n = strspn(s, "0123456789abcdef");

	return (n == 40 || n == 64) && s[n] == '\0';
}

/*
 * A file of a git directory, reached without any symbolic link and not outside of it: what is read is shown to the box.
 * Caller frees. NULL: there is none.
 */
static char *read_beneath(int git_dir, const char *path, size_t max_bytes)
{
	cleanup_fd int fd = sys_openat2(git_dir, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0,
					RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
	cleanup_free char *text = NULL;
	struct stat st;
	ssize_t n;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || (uint64_t)st.st_size > max_bytes)
		return NULL;
	text = mem_alloc((size_t)st.st_size + 1);
	n = fd_read_all(fd, text, (size_t)st.st_size);
	if (n < 0)
		return NULL;
	text[n] = '\0';
	return steal_ptr(&text);
}

/* The id of a ref in packed-refs; NULL: not there. */
static char *packed_ref(int git_dir, const char *ref)
{
	cleanup_free char *text = read_beneath(git_dir, "packed-refs", 16 << 20);

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

/* The commit that HEAD of one git directory names, with its refs in another (of a linked work tree) or the same. */
static char *head_commit(int head_dir, int refs_dir)
{
	cleanup_free char *head = read_beneath(head_dir, "HEAD", GIT_LINE_MAX), *id = NULL;

	if (!head)
		return NULL;
	head[strcspn(head, "\n")] = '\0';
	if (strncmp(head, "ref: ", 5) != 0)
		return is_commit_id(head) ? steal_ptr(&head) : NULL;
	if (!str_has_prefix(head + 5, "refs/"))
		return NULL;
	id = read_beneath(refs_dir, head + 5, GIT_LINE_MAX);
	if (!id)
		return packed_ref(refs_dir, head + 5);
	id[strcspn(id, "\n")] = '\0';
	return is_commit_id(id) ? steal_ptr(&id) : NULL;
}

char *git_head_commit(const char *repo)
{
	cleanup_free char *dot_git = path_join(repo, ".git"), *common = NULL, *git_dir = NULL;
	cleanup_fd int head = -1, refs = -1;
	struct err ignored;
	struct stat st;

	if (lstat(dot_git, &st) < 0)
		return NULL;
	if (S_ISDIR(st.st_mode)) {
		head = open(dot_git, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		return head < 0 ? NULL : head_commit(head, head);
	}
	if (git_common_dir(repo, &common, &ignored) < 0 || !common || git_dir_of(repo, &git_dir, &ignored) < 0 || !git_dir)
		return NULL;
	head = open(git_dir, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	refs = open(common, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return head < 0 || refs < 0 ? NULL : head_commit(head, refs);
}
