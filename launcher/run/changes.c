/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The format of an upper layer: Documentation/filesystems/overlayfs.rst, "whiteouts and opaque directories", and
 * fs/overlayfs/util.c. With userxattr the attributes are user.overlay.*; redirect_dir and metacopy are off then, so a
 * rename is a whiteout and a copy, and every file in the layer is whole.
 */
#include "run/changes.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "sys/syscalls.h"
#include "sys/tree.h"

#include "base/banned.h"

/* Bytes of paths in one event: sixfold (as \u00XX) it still is well within EVENT_LINE_MAX. */
#define PATHS_MAX_BYTES (512 * 1024)

struct change_list {
	uint64_t count;
	struct strv paths;
};

struct changes_work {
	int lower;
	struct timespec start;
	struct change_list created, modified, deleted;
	size_t path_bytes;
	uint64_t hidden_seen; /* names of the lower directory looked at under opaque directories */
	bool cut;
	/*
	 * By depth: is the directory there cut off from the lower one, by itself or by one above it? [0]: the layer
	 * itself.
	 */
	bool opaque[TREE_DEPTH_MAX + 1];
};

static void change_add(struct changes_work *w, struct change_list *list, const char *path, bool is_dir)
{
	size_t len = strlen(path) + is_dir;
	cleanup_str struct str text = {0};

	list->count++;
	if (list->paths.n >= CHANGES_MAX_PATHS || w->path_bytes + len > PATHS_MAX_BYTES) {
		w->cut = true;
		return;
	}
	w->path_bytes += len;
	str_add(&text, path);
	if (is_dir)
		str_add(&text, "/");
	strv_take(&list->paths, str_steal(&text));
}

/*
 * The first byte of an attribute, 0 where it is empty; -1 where there is none. By the link of /proc, as getxattr takes
 * no O_PATH descriptor, and the file itself is not to be opened.
 */
static int entry_xattr(const struct tree_entry *entry, const char *attribute)
{
	char value[16] = "", link[64];
	cleanup_fd int fd = openat(entry->parent, entry->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return -1;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	return getxattr(link, attribute, value, sizeof(value)) < 0 ? -1 : value[0];
}

static bool entry_is_whiteout(const struct tree_entry *entry)
{
	const struct stat *st = entry->st;

	if (S_ISCHR(st->st_mode))
		return st->st_rdev == makedev(0, 0);
	/* Since Linux 6.7, in layers that were made by an overlay within an overlay. */
	return S_ISREG(st->st_mode) && st->st_size == 0 && entry_xattr(entry, "user.overlay.whiteout") >= 0;
}

/*
 * What the lower directory has at the path. Return: 1 with *st, 0 where nothing is there, -errno where that cannot be
 * told.
 */
static int lower_stat(const struct changes_work *w, const char *path, struct stat *st)
{
	cleanup_fd int fd = sys_openat2(w->lower, path, O_PATH | O_NOFOLLOW | O_CLOEXEC, 0, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);

	/*
	 * ELOOP, ENOTDIR: what leads there is no directory in the lower one, so nothing there was seen through the
	 * overlay.
	 */
	if (fd < 0)
		return errno == ENOENT || errno == ENOTDIR || errno == ELOOP || errno == ENAMETOOLONG ? 0 : -errno;
	return fstat(fd, st) < 0 ? -errno : 1;
}

static bool work_is_late(const struct changes_work *w)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (now.tv_sec - w->start.tv_sec) * 1000 + (now.tv_nsec - w->start.tv_nsec) / 1000000 >= CHANGES_MAX_MS;
}

/* The names of the lower directory that a directory of the layer hides, and has not itself: they are deleted. */
static void changes_hidden(struct changes_work *w, const struct tree_entry *entry)
{
	int fd = sys_openat2(w->lower, entry->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0,
			     RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
	cleanup_dir DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	cleanup_fd int upper = openat(entry->parent, entry->name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	const struct dirent *d;

	if (!dir || upper < 0) {
		if (fd >= 0 && !dir)
			close(fd);
		w->cut = true;
		return;
	}
	while ((d = readdir(dir))) {
		cleanup_str struct str path = {0};
		struct stat st;

		if (str_eq(d->d_name, ".") || str_eq(d->d_name, ".."))
			continue;
		if (++w->hidden_seen > CHANGES_MAX_ENTRIES || work_is_late(w)) {
			w->cut = true;
			return;
		}
		/*
		 * A whiteout in an opaque directory says the same as nothing there; the walk meets it and does not
		 * count it twice.
		 */
		if (fstatat(upper, d->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0)
			continue;
		str_addf(&path, "%s/%s", entry->path, d->d_name);
		change_add(w, &w->deleted, path.text, false);
	}
}

static int changes_dir(struct changes_work *w, const struct tree_entry *entry, int in_lower, const struct stat *lower)
{
	bool both = in_lower == 1 && S_ISDIR(lower->st_mode);
	/*
	 * "x" only says that whiteouts of the attribute kind are within; such a directory is merged
	 * (ovl_get_opaquedir_val).
	 */
	bool opaque = w->opaque[entry->depth - 1] || !both || entry_xattr(entry, "user.overlay.opaque") == 'y';

	w->opaque[entry->depth] = opaque;
	if (!in_lower)
		change_add(w, &w->created, entry->path, true);
	else if (!both || (lower->st_mode & 07777) != (entry->st->st_mode & 07777))
		change_add(w, &w->modified, entry->path, true);
	if (both && opaque)
		changes_hidden(w, entry);
	return 0;
}

static int changes_entry(void *arg, const struct tree_entry *entry, struct err *e)
{
	struct changes_work *w = arg;
	struct stat lower = {0};
	int in_lower;

	(void)e;
	if (entry->unreadable && S_ISDIR(entry->st->st_mode)) /* it was counted when it came first */
		return 0;
	in_lower = lower_stat(w, entry->path, &lower);
	if (entry_is_whiteout(entry)) {
		if (in_lower)
			change_add(w, &w->deleted, entry->path, false);
		return 0;
	}
	if (S_ISDIR(entry->st->st_mode))
		return changes_dir(w, entry, in_lower, &lower);
	change_add(w, in_lower ? &w->modified : &w->created, entry->path, false);
	return 0;
}

static int path_compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void change_fields(json_t *fields, struct change_list *list, const char *count, const char *paths)
{
	json_t *array = json_array();

	if (list->paths.n)
		qsort(list->paths.v, list->paths.n, sizeof(*list->paths.v), path_compare);
	for (size_t i = 0; i < list->paths.n; i++)
		json_array_append_new(array, event_text_z(list->paths.v[i]));
	json_object_set_new(fields, count, json_integer((json_int_t)list->count));
	json_object_set_new(fields, paths, array);
	strv_free(&list->paths);
}

int changes_record(int upper_dirfd, int lower_dirfd, struct event_log *log, struct err *e)
{
	static const struct tree_limits limits = {CHANGES_MAX_ENTRIES, TREE_DEPTH_MAX, CHANGES_MAX_MS};
	struct changes_work w = {.lower = lower_dirfd};
	struct tree_walked walked;
	json_t *fields = json_object();
	int r;

	clock_gettime(CLOCK_MONOTONIC, &w.start);
	r = tree_walk(upper_dirfd, &limits, changes_entry, &w, &walked, e);
	change_fields(fields, &w.created, "created", "created_paths");
	change_fields(fields, &w.modified, "modified", "modified_paths");
	change_fields(fields, &w.deleted, "deleted", "deleted_paths");
	json_object_set_new(fields, "unreadable", json_integer((json_int_t)walked.unreadable));
	json_object_set_new(fields, "cut", json_boolean(w.cut || walked.cut || walked.unreadable));
	if (r < 0) {
		json_decref(fields);
		return err_prefix(e, "listing the changes of the repository");
	}
	return event_write(log, EVENT_FS_CHANGES, fields, e);
}
