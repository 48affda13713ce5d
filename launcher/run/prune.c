/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "run/prune.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "box/cgroup.h"
#include "event/event.h"
#include "sys/path.h"
#include "sys/syscalls.h"
#include "sys/tree.h"

#include "base/banned.h"

#define CGROUP_WAIT_MS 2000

/*
 * The directory that holds an absolute path's last component, without following any link. *name points into `path`.
 * Return: descriptor; -ENOENT where it is gone; -errno with `e`.
 */
static int prune_parent(char *path, const char **name, struct err *e)
{
	char *slash = strrchr(path, '/');
	int fd;

	if (path[0] != '/' || !slash[1] || str_eq(slash + 1, "..") || str_eq(slash + 1, "."))
		return err_set(e, EINVAL, "run.json: %.200s is no absolute path that could be removed", path);
	*name = slash + 1;
	*slash = '\0';
	fd = sys_openat2(AT_FDCWD, *path ? path : "/", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0, RESOLVE_NO_SYMLINKS);
	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
		return -ENOENT;
	return fd < 0 ? err_errno(e, errno, "cannot open %.200s to clean it up", path) : fd;
}

static int prune_leftover(char *path, struct err *e)
{
	const char *name = "";
	cleanup_fd int parent = prune_parent(path, &name, e);
	struct stat st;

	if (parent < 0)
		return parent == -ENOENT ? 0 : parent;
	if (!str_has_prefix(name, ".agentbox-"))
		return err_set(e, EPERM, "run.json: %.200s/%.200s is not named as agentbox names things; left alone", path, name);
	if (fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : err_errno(e, errno, "%.200s/%.200s", path, name);
	if (st.st_uid != geteuid())
		return err_set(e, EPERM, "%.200s/%.200s belongs to uid %u, not to you; left alone", path, name, st.st_uid);
	if (tree_remove(parent, name, e) < 0)
		return err_prefix(e, "%.200s/%.200s", path, name);
	return 0;
}

/* Kills what is left in it, and removes it with the groups in it; anything that is no group of ours is refused. */
static int prune_cgroup(char *path, struct err *e)
{
	return cgroup_remove_path(path, CGROUP_WAIT_MS, e);
}

static int prune_each(const json_t *paths, int (*remove)(char *path, struct err *e), struct err *e)
{
	const json_t *item;
	size_t i;
	int first = 0;

	json_array_foreach(paths, i, item) {
		cleanup_str struct str path = {0};
		struct err later;
		int r;

		if (!json_is_string(item))
			continue;
		event_text_bytes(json_string_value(item), &path);
		if (!path.len)
			continue;
		r = remove(path.text, first ? &later : e);
		first = first ? first : r;
	}
	return first;
}

int prune_leftovers(const json_t *run, struct err *e)
{
	struct err later;
	int r = prune_each(json_object_get(run, "leftovers"), prune_leftover, e);
	int cgroups = prune_each(json_object_get(run, "cgroups"), prune_cgroup, r < 0 ? &later : e);

	return r < 0 ? r : cgroups;
}

/* What a box was made of in its run's directory (box/workspace.c, box/covers.c); not what it has to show. */
static bool is_of_the_box(const char *name)
{
	return str_has_prefix(name, "skeleton-") || str_has_prefix(name, "work-") || str_has_suffix(name, "-work") ||
	       str_has_suffix(name, "-layer");
}

static int prune_box_dirs(int run_dir, struct err *e)
{
	int fd = openat(run_dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cleanup_dir DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *d;
	int first = 0;

	if (!dir) {
		int r = err_errno(e, errno, "the run's directory");

		if (fd >= 0)
			close(fd);
		return r;
	}
	while ((d = readdir(dir))) {
		struct err later;
		int r = is_of_the_box(d->d_name) ? tree_remove(run_dir, d->d_name, first ? &later : e) : 0;

		first = first ? first : r;
	}
	return first;
}

int prune_ended(int run_dir, const json_t *run, struct err *e)
{
	struct err later;
	int r = prune_leftovers(run, e);
	int dirs = prune_box_dirs(run_dir, r < 0 ? &later : e);

	return r < 0 ? r : dirs;
}
