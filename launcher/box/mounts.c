/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "box/mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/mount.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "sys/fd.h"
#include "sys/syscalls.h"

#include "base/banned.h"

/* File systems that the box made for itself: only there are destinations created. */
#define OWN_MAX 64

struct mounts {
	const struct plan *plan;
	int root;       /* the new root */
	int tmp;        /* the one temporary tmpfs (MOUNT_TMP_DIR), -1 until it is needed */
	unsigned n_tmp; /* directories made on it, named by their number */
	int mask_file, mask_dir; /* attached, read-only, mode 000: what MOUNT_MASK binds */
	dev_t own[OWN_MAX];
	size_t n_own;
	int parent;             /* the directory of the last destination, -1: none; most steps follow one in the same */
	bool parent_is_own;
	char parent_path[PATH_MAX];
};

#define RESOLVE_STRICT (RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_SYMLINKS)

/* "/proc/self/fd/N": mount(2) of an overlay takes paths, and this one is short and needs no escaping. */
static void fd_path(int fd, char out[32])
{
	static const char prefix[] = "/proc/self/fd/";
	char digits[12];
	size_t n = 0, i = sizeof(prefix) - 1;

	memcpy(out, prefix, i);
	do
		digits[n++] = (char)('0' + fd % 10);
	while ((fd /= 10));
	while (n)
		out[i++] = digits[--n];
	out[i] = '\0';
}

static int note_own(struct mounts *m, int fd)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (m->n_own == OWN_MAX)
		return -ENOSPC;
	m->own[m->n_own++] = st.st_dev;
	return 0;
}

static bool is_own(const struct mounts *m, int fd)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return false;
	for (size_t i = 0; i < m->n_own; i++)
		if (m->own[i] == st.st_dev)
			return true;
	return false;
}

/* A file system of this type with options of "name", value pairs (value NULL: a flag). Return: its mount's fd or -errno. */
static int make_fs(const char *type, const char *const *options, unsigned attr)
{
	cleanup_fd int fs = fsopen(type, FSOPEN_CLOEXEC);
	int mnt;

	if (fs < 0)
		return -errno;
	for (; options && options[0]; options += 2) {
		unsigned cmd = options[1] ? FSCONFIG_SET_STRING : FSCONFIG_SET_FLAG;

		if (fsconfig(fs, cmd, options[0], options[1], 0) < 0)
			return -errno;
	}
	if (fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return -errno;
	mnt = fsmount(fs, FSMOUNT_CLOEXEC, attr);
	return mnt < 0 ? -errno : mnt;
}

static void decimal(uint64_t v, char out[24])
{
	char digits[24];
	size_t n = 0;

	do
		digits[n++] = (char)('0' + v % 10);
	while ((v /= 10));
	while (n)
		*out++ = digits[--n];
	*out = '\0';
}

static int make_tmpfs(uint64_t size_bytes, mode_t mode, unsigned attr)
{
	char size[24], mode_text[8];
	const char *options[] = {"size", size, "mode", mode_text, NULL};

	/* size=0 would mean "no limit" to tmpfs (Documentation/filesystems/tmpfs.rst). */
	decimal(size_bytes ? size_bytes : 4096, size);
	mode_text[0] = (char)('0' + (mode >> 9 & 7));
	mode_text[1] = (char)('0' + (mode >> 6 & 7));
	mode_text[2] = (char)('0' + (mode >> 3 & 7));
	mode_text[3] = (char)('0' + (mode & 7));
	mode_text[4] = '\0';
	return make_fs("tmpfs", options, attr);
}

/* --- destinations --- */

static int open_dest(const struct mounts *m, const char *dest, int flags)
{
	int fd = sys_openat2(m->root, dest, (uint64_t)(O_PATH | O_NOFOLLOW | O_CLOEXEC | flags), 0, RESOLVE_STRICT);

	return fd < 0 ? -errno : fd;
}

static bool is_same_parent(const struct mounts *m, const char *dest, size_t len)
{
	return m->parent >= 0 && memcmp(m->parent_path, dest, len) == 0 && m->parent_path[len] == '\0';
}

/* A mount may have come to lie over it: the next destination looks again. */
static void forget_parent(struct mounts *m)
{
	cleanup_fd_p(&m->parent);
}

/* path, a directory, made with what leads to it where that lies on a file system of ours. path: changed meanwhile. */
static int make_dirs(struct mounts *m, char *path)
{
	int fd = open_dest(m, path, O_DIRECTORY);
	cleanup_fd int parent = -1;
	char *slash;
	int r;

	if (fd != -ENOENT)
		return fd;
	slash = strrchr(path, '/');
	if (!slash)
		return -ENOENT;
	*slash = '\0';
	parent = make_dirs(m, *path ? path : (char[]){"."});
	*slash = '/';
	if (parent < 0)
		return parent;
	if (!is_own(m, parent))
		return -EROFS;
	r = mkdirat(parent, slash + 1, 0755);
	return r < 0 ? -errno : open_dest(m, path, O_DIRECTORY);
}

/*
 * The directory that holds dest's last component, which is *last; made where that is ours to do. Borrowed: the next call
 * may close it.
 */
static int open_parent(struct mounts *m, const char *dest, const char **last)
{
	size_t len = strlen(dest);

	if (len >= sizeof(m->parent_path))
		return -ENAMETOOLONG;
	while (len && dest[len - 1] != '/')
		len--;
	*last = dest + len;
	if (len)
		len--; /* without its slash */
	if (is_same_parent(m, dest, len))
		return m->parent;
	forget_parent(m);
	memcpy(m->parent_path, dest, len);
	m->parent_path[len] = '\0';
	if (len)
		m->parent = make_dirs(m, m->parent_path);
	else
		m->parent = open_dest(m, ".", O_DIRECTORY);
	if (m->parent < 0) {
		int r = m->parent;

		m->parent = -1;
		return r;
	}
	m->parent_is_own = is_own(m, m->parent);
	return m->parent;
}

static int make_object(int parent, const char *name, bool is_dir, mode_t mode)
{
	int rc = is_dir ? mkdirat(parent, name, mode) : mknodat(parent, name, S_IFREG | mode, 0);

	return rc < 0 ? -errno : 0;
}

/* dest as a directory or a file, made where it is not there and its place is ours. mode: of a new one (the umask is 0). */
static int make_dest(struct mounts *m, const char *dest, bool is_dir, mode_t mode)
{
	const char *last;
	int parent, fd, r = -EROFS;

	if (!dest[1])
		return open_dest(m, ".", 0);
	parent = open_parent(m, dest, &last);
	if (parent < 0)
		return parent;
	/* Making it first saves looking in vain: most destinations are new. */
	if (m->parent_is_own)
		r = make_object(parent, last, is_dir, mode);
	if (r < 0 && r != -EEXIST && r != -EROFS)
		return r;
	fd = sys_openat2(parent, last, O_PATH | O_NOFOLLOW | O_CLOEXEC, 0, RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_SYMLINKS);
	if (fd < 0)
		return errno == ENOENT ? -EROFS : -errno;
	return fd;
}

/* --- attaching --- */

static int attach(struct mounts *m, int mnt, int dest, const char *path)
{
	size_t n = strlen(path);

	if (strncmp(m->parent_path, path, n) == 0 && (m->parent_path[n] == '\0' || m->parent_path[n] == '/'))
		forget_parent(m);
	return move_mount(mnt, "", dest, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0 ? -errno : 0;
}

static uint64_t mount_attr_of(const struct mount_step *s)
{
	uint64_t attr = MOUNT_ATTR_NOSUID;

	if (s->flags & MOUNT_RO)
		attr |= MOUNT_ATTR_RDONLY;
	if (s->flags & MOUNT_NODEV)
		attr |= MOUNT_ATTR_NODEV;
	if (s->flags & MOUNT_NOEXEC)
		attr |= MOUNT_ATTR_NOEXEC;
	return attr;
}

/* A copy of the tree at `fd` with the attributes set on every mount of it before anybody sees it. Return: fd or -errno. */
static int clone_tree(int fd, bool recursive, uint64_t attr_set)
{
	unsigned flat = recursive ? AT_RECURSIVE : 0;
	struct mount_attr attr = {.attr_set = attr_set};
	int tree = open_tree(fd, "", AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | flat);

	if (tree < 0)
		return -errno;
	if (mount_setattr(tree, "", AT_EMPTY_PATH | flat, &attr, sizeof(attr)) < 0) {
		int r = -errno;

		close(tree);
		return r;
	}
	return tree;
}

static int open_source(const char *path, int flags)
{
	int fd = sys_openat2(AT_FDCWD, path, (uint64_t)(O_PATH | O_CLOEXEC | flags), 0,
			     RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);

	return fd < 0 ? -errno : fd;
}

static int step_bind(struct mounts *m, const struct mount_step *s, enum mounts_object *object)
{
	cleanup_fd int source = -1, dest = -1, tree = -1;
	struct stat st;

	*object = MOUNTS_SOURCE;
	source = open_source(s->source, 0);
	if (source < 0)
		return source;
	if (fstat(source, &st) < 0)
		return -errno;
	if (s->ino && (s->ino != st.st_ino || s->dev != st.st_dev))
		return -ESTALE;
	tree = clone_tree(source, !(s->flags & MOUNT_FLAT), mount_attr_of(s));
	if (tree < 0)
		return tree;
	*object = MOUNTS_DEST;
	dest = make_dest(m, s->dest, S_ISDIR(st.st_mode), 0755);
	if (dest < 0)
		return dest;
	*object = MOUNTS_ATTACH;
	return attach(m, tree, dest, s->dest);
}

static int step_fresh(struct mounts *m, const struct mount_step *s, int mnt, enum mounts_object *object)
{
	cleanup_fd int dest = -1;
	int r;

	*object = MOUNTS_DEST;
	dest = make_dest(m, s->dest, true, 0755);
	if (dest < 0)
		return dest;
	*object = MOUNTS_ATTACH;
	r = attach(m, mnt, dest, s->dest);
	if (r < 0)
		return r;
	return s->op == MOUNT_TMPFS ? note_own(m, mnt) : 0;
}

static int step_tmpfs(struct mounts *m, const struct mount_step *s, enum mounts_object *object)
{
	cleanup_fd int mnt = make_tmpfs(s->size_bytes, s->mode, (unsigned)mount_attr_of(s));

	*object = MOUNTS_ATTACH;
	return mnt < 0 ? mnt : step_fresh(m, s, mnt, object);
}

/*
 * One tmpfs holds all temporary directories of the box. It has to be attached before a part of it can be bound (open_tree
 * refuses an unattached mount before Linux 6.15), so its first directory's step attaches it there, and a directory "t" of
 * it is bound over it.
 */
static int step_tmp_dir(struct mounts *m, const struct mount_step *s, enum mounts_object *object)
{
	cleanup_fd int dest = -1, sub = -1, tree = -1;
	char name[24];
	int r;

	*object = MOUNTS_DEST;
	dest = make_dest(m, s->dest, true, 0755);
	if (dest < 0)
		return dest;
	*object = MOUNTS_ATTACH;
	if (m->tmp < 0) {
		m->tmp = make_tmpfs(s->size_bytes, 0700, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
		if (m->tmp < 0)
			return m->tmp;
		r = attach(m, m->tmp, dest, s->dest);
		if (r < 0)
			return r;
		r = note_own(m, m->tmp);
		if (r < 0)
			return r;
		close(dest);
		dest = open_dest(m, s->dest, 0);
		if (dest < 0)
			return dest;
	}
	decimal(m->n_tmp++, name);
	if (mkdirat(m->tmp, name, s->mode) < 0)
		return -errno;
	sub = openat(m->tmp, name, O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (sub < 0)
		return -errno;
	tree = clone_tree(sub, false, mount_attr_of(s));
	if (tree < 0)
		return tree;
	return attach(m, tree, dest, s->dest);
}

static int step_overlay(struct mounts *m, const struct mount_step *s, enum mounts_object *object)
{
	cleanup_fd int lower = -1, lower2 = -1, upper = -1, work = -1, mnt = -1;
	char lower_text[72], upper_text[32], work_text[32];
	/* Pairs; the last place is for "volatile". */
	const char *options[] = {"lowerdir", lower_text, "userxattr", NULL, "upperdir", upper_text, "workdir", work_text, NULL, NULL, NULL};
	struct stat st;

	*object = MOUNTS_SOURCE;
	lower = open_source(s->source, O_DIRECTORY);
	if (lower < 0)
		return lower;
	if (fstat(lower, &st) < 0)
		return -errno;
	if (s->ino && (s->ino != st.st_ino || s->dev != st.st_dev))
		return -ESTALE;
	fd_path(lower, lower_text);
	if (s->lower2) {
		char *end = lower_text + strlen(lower_text);

		lower2 = open_source(s->lower2, O_DIRECTORY);
		if (lower2 < 0)
			return lower2;
		*end = ':';
		fd_path(lower2, end + 1);
	}
	if (s->upper) {
		upper = open_source(s->upper, O_DIRECTORY);
		if (upper < 0)
			return upper;
		work = open_source(s->work, O_DIRECTORY);
		if (work < 0)
			return work;
		fd_path(upper, upper_text);
		fd_path(work, work_text);
		/* Without it the last unmount writes out all of the layer's file system, whoever dirtied it (ovl_sync_fs). */
		if (s->flags & MOUNT_VOLATILE)
			options[8] = "volatile";
	} else {
		options[4] = NULL;
	}
	*object = MOUNTS_ATTACH;
	mnt = make_fs("overlay", options, (unsigned)mount_attr_of(s));
	return mnt < 0 ? mnt : step_fresh(m, s, mnt, object);
}

static int step_file(struct mounts *m, const struct mount_step *s, enum mounts_object *object)
{
	cleanup_fd int fd = -1;
	const char *last;
	int parent;

	*object = MOUNTS_DEST;
	parent = open_parent(m, s->dest, &last);
	if (parent < 0)
		return parent;
	if (!m->parent_is_own)
		return -EROFS;
	fd = openat(parent, last, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC | O_NOFOLLOW, s->mode);
	if (fd < 0)
		return -errno;
	return fd_write_all(fd, s->data, s->data_len);
}

static int step_symlink(struct mounts *m, const struct mount_step *s, enum mounts_object *object)
{
	const char *last;
	int parent;

	*object = MOUNTS_DEST;
	parent = open_parent(m, s->dest, &last);
	if (parent < 0)
		return parent;
	if (!m->parent_is_own)
		return -EROFS;
	return symlinkat(s->source, parent, last) < 0 ? -errno : 0;
}

static int step_dir(struct mounts *m, const struct mount_step *s, enum mounts_object *object)
{
	int fd;

	*object = MOUNTS_DEST;
	fd = make_dest(m, s->dest, true, s->mode);
	if (fd < 0)
		return fd;
	close(fd);
	return 0;
}

/*
 * No user namespace below this one, unless the profile says so. The file speaks of the opener's own namespace
 * (user_namespaces(7)); the capability to change it back goes before the command starts.
 */
static int close_namespaces(const struct mounts *m, int proc)
{
	return m->plan->nested_namespaces ? 0 : fd_write_file(proc, "sys/user/max_user_namespaces", "0");
}

static int step_proc(struct mounts *m, const struct mount_step *s, enum mounts_object *object)
{
	static const char *const devpts[] = {"newinstance", NULL, "ptmxmode", "0666", "mode", "620", NULL};
	unsigned attr = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC;
	cleanup_fd int mnt = -1;

	*object = MOUNTS_ATTACH;
	if (s->op == MOUNT_DEVPTS) {
		mnt = make_fs("devpts", devpts, attr);
	} else {
		mnt = make_fs("proc", NULL, attr | MOUNT_ATTR_NODEV);
		if (mnt >= 0) {
			int r = close_namespaces(m, mnt);

			if (r < 0)
				return r;
		}
	}
	return mnt < 0 ? mnt : step_fresh(m, s, mnt, object);
}

/* A mount over what is at dest already: itself (SELF, PIN), or what hides it (MASK). */
static int step_over(struct mounts *m, const struct mount_step *s, enum mounts_object *object)
{
	cleanup_fd int dest = -1, tree = -1;
	struct stat st;
	int cover = -1;

	*object = MOUNTS_DEST;
	dest = open_dest(m, s->dest, 0);
	if (dest < 0)
		return dest;
	if (fstat(dest, &st) < 0)
		return -errno;
	*object = MOUNTS_ATTACH;
	if (s->op == MOUNT_MASK)
		cover = S_ISDIR(st.st_mode) ? m->mask_dir : m->mask_file;
	/* PIN of a symbolic link: bound onto itself it stays one, and cannot be replaced. */
	if (cover >= 0)
		tree = clone_tree(cover, false, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
	else
		tree = clone_tree(dest, true, s->op == MOUNT_PIN ? MOUNT_ATTR_RDONLY : 0);
	if (tree < 0)
		return tree;
	return attach(m, tree, dest, s->dest);
}

static int step_alias(struct mounts *m, const struct mount_step *s, enum mounts_object *object)
{
	cleanup_fd int source = -1, tree = -1, dest = -1;

	*object = MOUNTS_SOURCE;
	source = open_dest(m, s->source, O_DIRECTORY);
	if (source < 0)
		return source;
	*object = MOUNTS_ATTACH;
	tree = clone_tree(source, true, 0);
	if (tree < 0)
		return tree;
	*object = MOUNTS_DEST;
	dest = make_dest(m, s->dest, true, 0755);
	if (dest < 0)
		return dest;
	*object = MOUNTS_ATTACH;
	return attach(m, tree, dest, s->dest);
}

static int execute_step(struct mounts *m, const struct mount_step *s, enum mounts_object *object)
{
	switch (s->op) {
	case MOUNT_DIR:
		return step_dir(m, s, object);
	case MOUNT_FILE:
		return step_file(m, s, object);
	case MOUNT_SYMLINK:
		return step_symlink(m, s, object);
	case MOUNT_BIND:
		return step_bind(m, s, object);
	case MOUNT_TMPFS:
		return step_tmpfs(m, s, object);
	case MOUNT_TMP_DIR:
		return step_tmp_dir(m, s, object);
	case MOUNT_OVERLAY:
		return step_overlay(m, s, object);
	case MOUNT_PROC:
	case MOUNT_DEVPTS:
		return step_proc(m, s, object);
	case MOUNT_ALIAS:
		return step_alias(m, s, object);
	case MOUNT_SELF:
	case MOUNT_MASK:
	case MOUNT_PIN:
		return step_over(m, s, object);
	}
	return -EINVAL;
}

/* The root's tmpfs on "/", and on it the two objects that masks bind. */
static int make_root(struct mounts *m)
{
	int r;

	m->root = make_tmpfs(16 << 20, 0755, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
	if (m->root < 0)
		return m->root;
	if (move_mount(m->root, "", AT_FDCWD, "/", MOVE_MOUNT_F_EMPTY_PATH) < 0)
		return -errno;
	r = note_own(m, m->root);
	if (r < 0)
		return r;
	if (mkdirat(m->root, ".mask", 0) < 0)
		return -errno;
	m->mask_dir = openat(m->root, ".mask", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (m->mask_dir < 0)
		return -errno;
	r = openat(m->root, ".mask-file", O_CREAT | O_EXCL | O_RDONLY | O_CLOEXEC, 0);
	if (r < 0)
		return -errno;
	close(r);
	m->mask_file = openat(m->root, ".mask-file", O_PATH | O_CLOEXEC);
	return m->mask_file < 0 ? -errno : 0;
}

/* The helpers' names go (mounts of them stay), and the root cannot be written to any more. */
static int finish_root(struct mounts *m)
{
	struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY};

	if (unlinkat(m->root, ".mask", AT_REMOVEDIR) < 0 || unlinkat(m->root, ".mask-file", 0) < 0)
		return -errno;
	if (mount_setattr(m->root, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0)
		return -errno;
	return fchdir(m->root) < 0 ? -errno : 0;
}

int mounts_execute(const struct plan *plan, struct mounts_failure *failure)
{
	struct mounts m = {.plan = plan, .root = -1, .tmp = -1, .mask_file = -1, .mask_dir = -1, .parent = -1};
	int r;

	*failure = (struct mounts_failure){.step = -1, .object = MOUNTS_ROOT};
	/* Nothing that the host mounts or unmounts from now on reaches us, nor the other way. */
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return -errno;
	r = make_root(&m);
	for (size_t i = 0; r == 0 && i < plan->n_steps; i++) {
		const struct mount_step *s = &plan->steps[i];

		failure->step = (int)i;
		r = execute_step(&m, s, &failure->object);
		if ((s->flags & MOUNT_OPTIONAL) && failure->object != MOUNTS_ATTACH && (r == -ENOENT || r == -ENOTDIR || r == -ELOOP))
			r = 0;
	}
	if (r == 0) {
		*failure = (struct mounts_failure){.step = -1, .object = MOUNTS_ROOT};
		r = finish_root(&m);
	}
	forget_parent(&m);
	cleanup_fd_p(&m.root);
	cleanup_fd_p(&m.tmp);
	cleanup_fd_p(&m.mask_file);
	cleanup_fd_p(&m.mask_dir);
	return r;
}

int mounts_enter_root(void)
{
	/* pivot_root(2), "pivot_root(".", ".")": the old root is then stacked on the new one, and goes first. */
	if (sys_pivot_root(".", ".") < 0)
		return -errno;
	if (umount2(".", MNT_DETACH) < 0)
		return -errno;
	return chdir("/") < 0 ? -errno : 0;
}
