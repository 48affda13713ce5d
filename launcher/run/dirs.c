/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "run/dirs.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "sys/path.h"
#include "sys/tree.h"

#include "base/banned.h"

/* An overlay's root looks like its upper's: give that the mode of what lies under it. */
static int copy_upper_modes(const struct plan *plan, struct err *e)
{
	for (size_t i = 0; i < plan->n_steps; i++) {
		const struct mount_step *s = &plan->steps[i];
		struct stat st;

		/* With an inode: the lower is the host's, and the upper is a fresh layer. */
		if (s->op != MOUNT_OVERLAY || !s->upper || !s->ino)
			continue;
		if (stat(s->source, &st) < 0 || chmod(s->upper, st.st_mode & 0777) < 0)
			return err_errno(e, errno, "%s", s->upper);
	}
	return 0;
}

int dirs_make(struct supervisor *s, struct err *e)
{
	int fd;

	for (size_t i = 0; i < s->plan.make_dirs.n; i++)
		if (mkdir(s->plan.make_dirs.v[i], 0700) < 0)
			return err_errno(e, errno, "cannot create the directory %s", s->plan.make_dirs.v[i]);
	for (size_t i = 0; i < s->plan.make_commondirs.n; i++) {
		const char *path = s->plan.make_commondirs.v[i];
		cleanup_fd int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0400);

		if (file < 0 || write(file, ".\n", 2) != 2)
			return err_errno(e, errno, "cannot create the file %s", path);
	}
	if (copy_upper_modes(&s->plan, e) < 0)
		return -e->code;
	fd = openat(s->run_dir, "events.jsonl", O_WRONLY | O_APPEND | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	return fd < 0 ? err_errno(e, errno, "%s/events.jsonl", s->run_path) : fd;
}

#define RESERVE_BYTES (1 << 20)
#define RESERVE_PART (256 << 10) /* for one run; FULL_BYTES: what is as good as nothing */
#define FULL_BYTES (1 << 20)

int dirs_reserve(int state)
{
	cleanup_fd int fd = openat(state, "reserve", O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return -1;
	if ((st.st_size < RESERVE_BYTES || st.st_blocks < RESERVE_BYTES / 512) && fallocate(fd, 0, 0, RESERVE_BYTES) < 0)
		return -1;
	return steal_fd(&fd);
}

void dirs_use_reserve(int reserve, bool failed)
{
	struct statvfs fs;
	struct stat st;

	if (reserve < 0 || fstatvfs(reserve, &fs) < 0 || (!failed && fs.f_bavail * fs.f_frsize >= FULL_BYTES))
		return;
	/* What cannot be freed is missed where the record is written, and said there. */
	if (fstat(reserve, &st) == 0 && st.st_size && ftruncate(reserve, st.st_size > RESERVE_PART ? st.st_size - RESERVE_PART : 0) < 0)
		return;
}

static int remove_path(const char *path, struct err *e)
{
	const char *slash = strrchr(path, '/');
	cleanup_free char *parent = mem_strndup(path, (size_t)(slash - path));
	cleanup_fd int fd = open(*parent ? parent : "/", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

	if (fd < 0)
		return errno == ENOENT ? 0 : err_errno(e, errno, "%s", parent);
	return tree_remove(fd, slash + 1, e);
}

int dirs_remove(struct supervisor *s, struct err *e)
{
	const char *last = NULL;
	struct err err;
	int first = 0;

	for (size_t i = 0; i < s->plan.make_dirs.n; i++) {
		const char *dir = s->plan.make_dirs.v[i];
		int r;

		/* What lies in one that was removed is gone with it; artifacts are the run's result. */
		if ((last && path_is_beneath(dir, last)) || str_has_suffix(dir, "/artifacts"))
			continue;
		last = dir;
		r = remove_path(dir, &err);
		if (r < 0 && first == 0) {
			first = r;
			*e = err;
		}
	}
	return first;
}
