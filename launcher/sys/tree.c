/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "sys/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "base/str.h"
#include "sys/syscalls.h"

#include "base/banned.h"

/*
 * A directory beneath `parent`, which must be one of the same mount, whatever stands there. Return: descriptor or
 * -errno.
 */
static int tree_open(int parent, const char *name, uint64_t flags)
{
	struct stat above, st;
	int fd = sys_openat2(parent, name, flags | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0,
			     RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV);

	if (fd >= 0 || errno != ENOSYS)
		return fd < 0 ? -errno : fd;
	/* In a box the filter answers so (box/seccomp_args.c). Names here are single components, so the device does. */
	fd = openat(parent, name, (int)flags | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (fstat(parent, &above) == 0 && fstat(fd, &st) == 0 && above.st_dev == st.st_dev)
		return fd;
	close(fd);
	return -EXDEV;
}

static bool tree_is_dot(const char *name)
{
	return name[0] == '.' && (name[1] == '\0' || (name[1] == '.' && name[2] == '\0'));
}

/* --- removing --- */

/* A directory that is being emptied. */
struct remove_level {
	DIR *dir;
	char name[NAME_MAX + 1]; /* in the level above */
	bool removed;            /* this pass over it removed something */
	bool stuck;              /* something beneath it could not be removed */
};

struct remove_state {
	struct remove_level levels[TREE_OPEN_MAX];
	size_t n;
	int start; /* holds the tree's own name */
	struct err *e;
	int first; /* the first failure's -errno; 0 */
};

static int remove_parent(const struct remove_state *s)
{
	return s->n > 1 ? dirfd(s->levels[s->n - 2].dir) : s->start;
}

/* name: in the directory on top of the stack. */
static void remove_failed(struct remove_state *s, int errnum, const char *name)
{
	char path[ERR_MSG_MAX / 2] = "";
	size_t len = 0;

	if (s->n)
		s->levels[s->n - 1].stuck = true;
	if (s->first)
		return;
	s->first = -errnum;
	for (size_t i = 0; i < s->n && len + 1 < sizeof(path); i++)
		len += (size_t)snprintf(path + len, sizeof(path) - len, "%s/", s->levels[i].name);
	if (errnum == EXDEV)
		err_set(s->e, errnum, "cannot remove %s%.200s: something is mounted there; unmount it first", path, name);
	else
		err_errno(s->e, errnum, "cannot remove %s%.200s", path, name);
}

/* Opens a directory to be emptied, and gives its owner all rights on it. Return: descriptor or -errno. */
static int remove_open(int parent, const char *name)
{
	int fd = tree_open(parent, name, O_RDONLY);
	struct stat st;

	if (fd == -EACCES) {
		/*
		 * fchmod does not take O_PATH descriptors, so by its /proc link: not by name, which may stand for
		 * another by now.
		 */
		cleanup_fd int path_fd = tree_open(parent, name, O_PATH);
		char link[64];

		if (path_fd < 0)
			return path_fd;
		snprintf(link, sizeof(link), "/proc/self/fd/%d", path_fd);
		if (chmod(link, 0700) < 0)
			return -errno;
		fd = tree_open(parent, name, O_RDONLY);
	}
	if (fd < 0)
		return fd;
	/*
	 * A directory that its owner may not write to keeps what is in it, and cannot be moved itself (its ".." would
	 * change).
	 */
	if (fstat(fd, &st) == 0 && (st.st_mode & 0700) != 0700 && fchmod(fd, 0700) < 0) {
		int r = -errno;

		close(fd);
		return r;
	}
	return fd;
}

/* Moves a directory that lies too deep into the top one. Its name there says nothing and was not foreseeable. */
static int remove_move_up(struct remove_state *s, int parent, const char *name)
{
	int top = dirfd(s->levels[0].dir);

	for (int i = 0; i < 16; i++) {
		char fresh[32];
		uint64_t random;

		if (getrandom(&random, sizeof(random), 0) != sizeof(random))
			return -EAGAIN;
		snprintf(fresh, sizeof(fresh), ".deep-%016" PRIx64, random);
		if (renameat2(parent, name, top, fresh, RENAME_NOREPLACE) == 0)
			return 0;
		/*
		 * EINVAL: the filesystem does not know RENAME_NOREPLACE. A directory only ever replaces an empty one.
		 */
		if (errno == EINVAL && renameat(parent, name, top, fresh) == 0)
			return 0;
		if (errno != EEXIST && errno != ENOTEMPTY && errno != ENOTDIR)
			return -errno;
	}
	return -EEXIST;
}

static void remove_push(struct remove_state *s, int parent, const char *name)
{
	int fd = remove_open(parent, name);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);

	if (!dir) {
		int errnum = fd < 0 ? -fd : errno;

		if (fd >= 0)
			close(fd);
		if (errnum != ENOENT)
			remove_failed(s, errnum, name);
		return;
	}
	s->levels[s->n] = (struct remove_level){.dir = dir};
	snprintf(s->levels[s->n].name, sizeof(s->levels[s->n].name), "%s", name);
	s->n++;
}

/* One entry of the directory on top of the stack. */
static void remove_entry(struct remove_state *s, const char *name)
{
	struct remove_level *level = &s->levels[s->n - 1];
	int parent = dirfd(level->dir), r;

	if (unlinkat(parent, name, 0) == 0) {
		level->removed = true;
		return;
	}
	if (errno == ENOENT)
		return;
	if (errno != EISDIR && errno != EPERM) { /* unlink(2): EPERM by POSIX, EISDIR on Linux, for a directory */
		remove_failed(s, errno, name);
		return;
	}
	r = errno;
	if (unlinkat(parent, name, AT_REMOVEDIR) == 0) {
		level->removed = true;
		return;
	}
	if (errno == ENOTDIR) { /* a file that may not be removed, say an immutable one */
		remove_failed(s, r, name);
		return;
	}
	if (s->n < TREE_OPEN_MAX) {
		remove_push(s, parent, name);
		return;
	}
	r = remove_open(parent, name);
	if (r >= 0) {
		close(r);
		r = remove_move_up(s, parent, name);
	}
	if (r == 0) {
		level->removed = true;
		s->levels[0].removed = true;
	} else if (r != -ENOENT) {
		remove_failed(s, -r, name);
	}
}

/*
 * The directory on top of the stack was read to its end: remove it, or read it again where entries may have been
 * passed over.
 */
static void remove_pop(struct remove_state *s)
{
	struct remove_level *level = &s->levels[s->n - 1];
	bool stuck = level->stuck;
	int errnum;

	if (unlinkat(remove_parent(s), level->name, AT_REMOVEDIR) == 0 || errno == ENOENT) {
		closedir(level->dir);
		s->n--;
		if (s->n)
			s->levels[s->n - 1].removed = true;
		return;
	}
	errnum = errno;
	if (level->removed && (errnum == ENOTEMPTY || errnum == EEXIST)) {
		level->removed = false;
		rewinddir(level->dir);
		return;
	}
	closedir(level->dir);
	s->n--;
	if (!stuck)
		remove_failed(s, errnum, level->name);
	if (s->n)
		s->levels[s->n - 1].stuck = true;
}

int tree_remove(int dirfd, const char *name, struct err *e)
{
	struct remove_state *s;
	int r;

	if (!*name || strchr(name, '/') || tree_is_dot(name))
		return err_set(e, EINVAL, "cannot remove \"%s\": not one name in a directory", name);
	if (unlinkat(dirfd, name, 0) == 0 || errno == ENOENT)
		return 0;
	if (errno != EISDIR && errno != EPERM)
		return err_errno(e, errno, "cannot remove %s", name);
	s = mem_zalloc(sizeof(*s));
	s->start = dirfd;
	s->e = e;
	remove_push(s, dirfd, name);
	while (s->n) {
		const struct dirent *d;

		errno = 0;
		d = readdir(s->levels[s->n - 1].dir);
		if (d && !tree_is_dot(d->d_name))
			remove_entry(s, d->d_name);
		else if (!d && errno)
			remove_failed(s, errno, ".");
		if (!d)
			remove_pop(s);
	}
	r = s->first;
	free(s);
	return r;
}

/* --- looking --- */

struct walk_level {
	DIR *dir;
	size_t path_len; /* of the directory's own path */
};

struct walk_state {
	struct walk_level levels[TREE_DEPTH_MAX];
	size_t n;
	struct str path;
	const struct tree_limits *limits;
	struct timespec start;
	tree_callback callback;
	void *arg;
	struct tree_walked *out;
	struct err *e;
};

static void walk_cut(struct walk_state *s, const char *why)
{
	s->out->cut = true;
	if (!s->out->why)
		s->out->why = why;
}

static bool walk_is_late(const struct walk_state *s)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)((now.tv_sec - s->start.tv_sec) * 1000 + (now.tv_nsec - s->start.tv_nsec) / 1000000) >= s->limits->max_ms;
}

static int walk_push(struct walk_state *s, int parent, const char *name)
{
	int fd = tree_open(parent, name, O_RDONLY);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);

	if (!dir) {
		int r = fd < 0 ? fd : -errno;

		if (fd >= 0)
			close(fd);
		return r;
	}
	s->levels[s->n++] = (struct walk_level){dir, s->path.len};
	return 0;
}

static void walk_pop(struct walk_state *s)
{
	closedir(s->levels[--s->n].dir);
}

/* A directory after its own entry was announced. Return: 0, TREE_STOP or -errno. */
static int walk_into(struct walk_state *s, struct tree_entry *entry)
{
	if (s->n >= s->limits->max_depth || s->n >= TREE_DEPTH_MAX) {
		walk_cut(s, "depth");
		return 0;
	}
	if (walk_push(s, entry->parent, entry->name) == 0)
		return 0;
	s->out->unreadable++;
	entry->unreadable = true;
	return s->callback(s->arg, entry, s->e);
}

/* One name of the directory on top of the stack. Return: 0, TREE_STOP or -errno. */
static int walk_entry(struct walk_state *s, const char *name)
{
	const struct walk_level *level = &s->levels[s->n - 1];
	struct tree_entry entry = {.parent = dirfd(level->dir), .name = name, .depth = (unsigned)s->n};
	struct stat st = {0};
	int r;

	if (s->out->entries >= s->limits->max_entries || walk_is_late(s)) {
		walk_cut(s, s->out->entries >= s->limits->max_entries ? "entries" : "time");
		return TREE_STOP;
	}
	if (fstatat(entry.parent, name, &st, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) < 0) {
		if (errno == ENOENT)
			return 0;
		/*
		 * A directory with r and without x: its names can be read, and nothing else. That must not end the
		 * walk.
		 */
		entry.unreadable = true;
		s->out->unreadable++;
	}
	s->out->entries++;
	s->path.len = level->path_len;
	if (s->path.len)
		str_add(&s->path, "/");
	str_add(&s->path, name);
	entry.path = s->path.text;
	entry.st = &st;
	r = s->callback(s->arg, &entry, s->e);
	if (r == TREE_SKIP)
		return 0;
	if (r == 0 && S_ISDIR(st.st_mode)) /* st is all zero where it is unreadable */
		r = walk_into(s, &entry);
	return r == TREE_SKIP ? 0 : r;
}

int tree_walk(int dirfd, const struct tree_limits *limits, tree_callback callback, void *arg, struct tree_walked *out,
	      struct err *e)
{
	struct walk_state *s = mem_zalloc(sizeof(*s));
	int r;

	*out = (struct tree_walked){0};
	s->limits = limits;
	s->callback = callback;
	s->arg = arg;
	s->out = out;
	s->e = e;
	clock_gettime(CLOCK_MONOTONIC, &s->start);
	r = walk_push(s, dirfd, ".");
	if (r < 0)
		err_errno(e, -r, "the directory cannot be read");
	while (r == 0 && s->n) {
		const struct dirent *d;

		errno = 0;
		d = readdir(s->levels[s->n - 1].dir);
		if (d && !tree_is_dot(d->d_name))
			r = walk_entry(s, d->d_name);
		else if (!d && errno)
			out->unreadable++;
		if (!d)
			walk_pop(s);
	}
	if (r == TREE_STOP) {
		walk_cut(s, "stop");
		r = 0;
	}
	while (s->n)
		walk_pop(s);
	str_free(&s->path);
	free(s);
	return r;
}
