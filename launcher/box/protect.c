/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "box/protect.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "box/gitconfig.h"
#include "box/gitrepo.h"
#include "sys/path.h"

#include "base/banned.h"

/*
 * gitrepository-layout(5): a file `commondir` in a git directory sends git to another directory for its configuration and
 * hooks. Where it is missing, an empty directory in its place would stop git; a file that names the directory itself does not.
 */
static int protect_commondir(struct covers *c, const char *git_dir, struct err *e)
{
	cleanup_free char *path = path_join(git_dir, "commondir");
	struct stat st;

	if (lstat(path, &st) == 0)
		return covers_host_path(c, path, MOUNT_PIN, (struct origin){0}, e);
	if (errno != ENOENT && errno != ENOTDIR)
		return err_errno(e, errno, "%s", path);
	for (size_t i = 0; i < c->n_places; i++) {
		struct place *p = &c->places[i];
		cleanup_free char *box_path = NULL;

		if (!path_is_beneath(path, p->root) || !p->writable_host)
			continue;
		box_path = path_join(p->dest, path_below(path, p->root));
		if (plan_at(c->plan, box_path) != &c->plan->steps[p->step])
			continue;
		if (strv_has(&p->missing_common, path_below(path, p->root)))
			continue;
		strv_add(&p->missing_common, path_below(path, p->root));
		covers_at(c, p, path_below(path, p->root), MOUNT_PIN, (struct origin){0});
	}
	return 0;
}

static int protect_git_dir(struct covers *c, const char *git_dir, const char *tree, struct err *e);

/* A git directory that is known by what it has: that stays. */
static int protect_found(struct covers *c, const char *git_dir, struct err *e)
{
	int r = protect_git_dir(c, git_dir, git_dir, e);

	for (const char *const *n = git_parts; r == 0 && *n; n++) {
		cleanup_free char *part = path_join(git_dir, *n);

		r = covers_host_path(c, part, MOUNT_SELF, (struct origin){0}, e);
	}
	return r;
}

static int protect_modules(struct covers *c, const char *git_dir, struct err *e)
{
	cleanup_strv struct strv modules = {0};
	int r = git_find_modules(git_dir, &modules, e);

	for (size_t i = 0; r == 0 && i < modules.n; i++)
		r = protect_found(c, modules.v[i], e);
	return r;
}

/* The linked work trees of a git directory: each says in `commondir` where its configuration is. */
static int protect_worktrees(struct covers *c, const char *git_dir, struct err *e)
{
	cleanup_free char *path = path_join(git_dir, "worktrees");
	cleanup_dir DIR *dir = opendir(path);
	struct dirent *d;

	if (!dir)
		return errno == ENOENT || errno == ENOTDIR ? 0 : err_errno(e, errno, "%s", path);
	while ((d = readdir(dir))) {
		cleanup_free char *common = mem_printf("%s/%s/commondir", path, d->d_name);
		cleanup_free char *config = mem_printf("%s/%s/config.worktree", path, d->d_name);
		cleanup_free char *back = mem_printf("%s/%s/gitdir", path, d->d_name);
		int r;

		if (d->d_name[0] == '.')
			continue;
		r = covers_host_path(c, common, MOUNT_PIN, (struct origin){0}, e);
		*strrchr(common, '/') = '\0';
		if (r == 0)
			r = protect_modules(c, common, e);
		if (r == 0)
			r = covers_host_path(c, config, MOUNT_PIN, (struct origin){0}, e);
		if (r == 0)
			r = covers_host_path(c, back, MOUNT_PIN, (struct origin){0}, e);
		if (r < 0)
			return r;
	}
	return 0;
}

#define LINKS_ENTRIES_MAX 100000
#define LINKS_DEPTH_MAX 32

static int links_in(struct covers *c, const char *path, struct origin from, size_t *entries, int depth, struct err *e)
{
	cleanup_dir DIR *dir = opendir(path);
	struct dirent *d;
	int r = 0;

	if (!dir)
		return path_unseen(path, errno, e);
	while (r == 0 && (errno = 0, d = readdir(dir))) {
		cleanup_free char *entry = path_join(path, d->d_name);
		struct stat st;

		if (str_eq(d->d_name, ".") || str_eq(d->d_name, ".."))
			continue;
		if (++*entries > LINKS_ENTRIES_MAX || depth > LINKS_DEPTH_MAX)
			return err_set(e, E2BIG,
				       "%s is protected, and has too much in it to look for links (%d entries, %d levels); use "
				       "workspace.repo-mode = overlay",
				       path, LINKS_ENTRIES_MAX, LINKS_DEPTH_MAX);
		if (lstat(entry, &st) < 0)
			r = path_unseen(entry, errno, e);
		else if (S_ISLNK(st.st_mode))
			r = covers_host_path(c, entry, MOUNT_PIN, from, e);
		else if (S_ISDIR(st.st_mode))
			r = links_in(c, entry, from, entries, depth + 1, e);
	}
	return r == 0 && errno ? err_errno(e, errno, "%s", path) : r;
}

/* A protected directory's links: where they lead is run or obeyed as what is in it. One that is a link has been followed itself. */
static int protect_links(struct covers *c, const char *path, struct origin from, struct err *e)
{
	size_t entries = 0;

	return links_in(c, path, from, &entries, 0, e);
}

/* The caller's configuration of git, where it was not told of another. */
static void add_user_configs(const struct covers *c, struct strv *files)
{
	const char *home = c->host->home, *xdg = getenv("XDG_CONFIG_HOME"), *global = getenv("GIT_CONFIG_GLOBAL");

	strv_add(files, "/etc/gitconfig");
	if (global && *global == '/') {
		strv_add(files, global);
		return;
	}
	if (home)
		strv_take(files, path_join(home, ".gitconfig"));
	if (xdg && *xdg == '/')
		strv_take(files, path_join(xdg, "git/config"));
	else if (home)
		strv_take(files, path_join(home, ".config/git/config"));
}

/* The files that the configuration sends git to, where the box could write them: hooks elsewhere, included files. */
static int protect_configured(struct covers *c, const char *git_dir, const char *tree, struct err *e)
{
	cleanup_strv struct strv files = {0}, paths = {0};
	int r = 0;

	strv_take(&files, path_join(git_dir, "config"));
	strv_take(&files, path_join(git_dir, "config.worktree"));
	add_user_configs(c, &files);
	for (size_t i = 0; r == 0 && i < files.n; i++) {
		r = covers_hold(c, files.v[i], MOUNT_PIN, e);
		r = r ?: gitconfig_paths(files.v[i], tree, &paths, e);
	}
	for (size_t i = 0; r == 0 && i < paths.n; i++) {
		r = covers_hold(c, paths.v[i], MOUNT_PIN, e);
		r = r ?: protect_links(c, paths.v[i], (struct origin){0}, e);
	}
	return r;
}

/* What runs code on the host from a git directory. tree: the work tree that it belongs to. */
static int protect_git_dir(struct covers *c, const char *git_dir, const char *tree, struct err *e)
{
	static const char *const names[] = {"hooks", "config", "config.worktree", NULL};
	int r = protect_commondir(c, git_dir, e);

	for (const char *const *n = names; r == 0 && *n; n++) {
		cleanup_free char *path = path_join(git_dir, *n);

		r = covers_host_path(c, path, MOUNT_PIN, (struct origin){0}, e);
	}
	if (r == 0) {
		cleanup_free char *hooks = path_join(git_dir, "hooks");

		r = protect_links(c, hooks, (struct origin){0}, e);
	}
	if (r == 0)
		r = protect_configured(c, git_dir, tree, e);
	return r == 0 ? protect_worktrees(c, git_dir, e) : r;
}

/* `.git` of a tree: the git directory, or a file or link that leads to it. */
static int protect_dot_git(struct covers *c, const char *tree, struct err *e)
{
	cleanup_free char *dot_git = path_join(tree, ".git"), *git_dir = NULL, *line = NULL, *common = NULL;
	struct stat st;
	int r = git_is_directory(tree, e);

	if (r > 0) /* a bare repository is its own git directory, where there is no .git */
		r = protect_found(c, tree, e);
	if (r < 0)
		return r;
	if (lstat(dot_git, &st) < 0) {
		r = path_unseen(dot_git, errno, e);
		return r < 0 ? r : protect_commondir(c, dot_git, e); /* of one that the command makes */
	}
	if (S_ISDIR(st.st_mode))
		return protect_git_dir(c, dot_git, tree, e);
	/* The link itself must not be replaced; and where it leads may lie in what the box can write. */
	r = covers_host_path(c, dot_git, MOUNT_PIN, (struct origin){0}, e);
	r = r ?: git_file_path(tree, &line, e);
	if (r == 0 && line) {
		cleanup_free char *way = *line == '/' ? mem_strdup(line) : path_join(tree, line);

		r = covers_hold(c, way, MOUNT_SELF, e);
	}
	r = r ?: git_dir_of(tree, &git_dir, e);
	if (r < 0 || !git_dir)
		return r;
	r = protect_git_dir(c, git_dir, tree, e);
	/* Of a linked work tree: its hooks are what the common configuration says, from here. */
	r = r ?: git_common_of(git_dir, &common, e);
	return r == 0 && common ? protect_configured(c, common, tree, e) : r;
}

static int protect_tree(struct covers *c, const struct profile *profile, const char *tree, struct err *e)
{
	int r = protect_dot_git(c, tree, e);

	for (size_t i = 0; r == 0 && i < profile->workspace.protect.n; i++) {
		const struct val_item *item = &profile->workspace.protect.items[i];
		cleanup_free char *path = path_join(tree, item->text);

		r = covers_host_path(c, path, MOUNT_PIN, item->from, e);
		if (r == 0)
			r = protect_links(c, path, item->from, e);
	}
	return r;
}

/* What the next run of the same command line is made of: the profile's files, and what the paths lead to that it names. */
static int hold_request(struct covers *c, const struct profile *profile, struct err *e)
{
	const struct {
		const struct strv *paths;
		enum mount_op op;
	} held[] = {{&profile->files, MOUNT_PIN}, {&profile->missed, MOUNT_PIN}, {&c->plan->named, MOUNT_SELF}};
	int r = 0;

	for (size_t k = 0; k < sizeof(held) / sizeof(*held); k++) {
		for (size_t i = 0; r == 0 && i < held[k].paths->n; i++) {
			const char *path = held[k].paths->v[i];
			cleanup_free char *whole = *path == '/' ? mem_strdup(path) : path_join(c->host->cwd, path);

			r = covers_hold(c, whole, held[k].op, e);
		}
	}
	return r;
}

int protect_add(struct covers *c, const struct profile *profile, struct err *e)
{
	const char *repo = c->plan->repo;
	cleanup_free char *common = NULL;
	struct git_nested nested = {0};
	int r = hold_request(c, profile, e);

	if (r < 0 || !repo)
		return r;
	/* A linked work tree's repository is shared with others: held in every mode. */
	r = git_common_dir(repo, &common, e);
	if (r == 0 && common)
		r = protect_git_dir(c, common, repo, e);
	if (r == 0 && common)
		r = protect_modules(c, common, e);
	if (r < 0 || c->plan->repo_mode != REPO_WRITE)
		return r;
	r = protect_tree(c, profile, repo, e);
	if (r == 0)
		r = git_find_nested(repo, &nested, e);
	for (size_t i = 0; r == 0 && i < nested.trees.n; i++) {
		cleanup_free char *tree = path_join(repo, nested.trees.v[i]);

		r = protect_tree(c, profile, tree, e);
	}
	for (size_t i = 0; r == 0 && i < nested.git_dirs.n; i++) {
		cleanup_free char *path = path_join(repo, nested.git_dirs.v[i]);

		r = protect_found(c, path, e);
	}
	strv_free(&nested.trees);
	strv_free(&nested.git_dirs);
	return r;
}
