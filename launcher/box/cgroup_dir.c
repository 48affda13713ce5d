/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "box/cgroup_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/str.h"
#include "sys/fd.h"

#include "base/banned.h"

#define PROCS_MAX (1 << 20) /* bytes of cgroup.procs: some 130,000 processes */
#define DEPTH_MAX 16

bool cgroup_is_cgroupfs(int fd, bool *v2)
{
	struct statfs fs;

	if (fstatfs(fd, &fs) < 0)
		return false;
	*v2 = fs.f_type == CGROUP2_SUPER_MAGIC;
	return *v2 || fs.f_type == CGROUP_SUPER_MAGIC;
}

int cgroup_dir_make(const char *parent, const char *name, bool leaf, struct cgroup_dir *out)
{
	cleanup_free char *path = mem_printf("%s/%s", str_eq(parent, "/") ? "" : parent, name);
	cleanup_fd int fd = -1, leaf_fd = -1;
	bool v2 = false;
	int r = 0;

	if (mkdir(path, 0755) < 0)
		return -errno;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 || !cgroup_is_cgroupfs(fd, &v2))
		r = fd < 0 ? -errno : -ENODEV;
	else if (leaf && mkdirat(fd, CGROUP_LEAF, 0755) < 0)
		r = -errno;
	if (r == 0) {
		leaf_fd = leaf ? openat(fd, CGROUP_LEAF, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW)
			       : fcntl(fd, F_DUPFD_CLOEXEC, 3);
		if (leaf_fd < 0)
			r = -errno;
	}
	if (r < 0) {
		if (fd >= 0)
			unlinkat(fd, CGROUP_LEAF, AT_REMOVEDIR);
		rmdir(path);
		return r;
	}
	*out = (struct cgroup_dir){
		.path = steal_ptr(&path), .fd = steal_fd(&fd), .leaf_fd = steal_fd(&leaf_fd), .v2 = v2};
	return 0;
}

/* Only directories are gone into: everything else in a cgroup tree is the kernel's. */
static int tree_remove(int parent, const char *name, int depth)
{
	cleanup_dir DIR *dir = NULL;
	int fd, busy;

	if (unlinkat(parent, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
		return 0;
	busy = -errno;
	if (busy != -EBUSY || depth >= DEPTH_MAX)
		return busy;
	fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return -errno;
	dir = fdopendir(fd);
	if (!dir) {
		close(fd);
		return -ENOMEM;
	}
	for (struct dirent *entry; (entry = readdir(dir));)
		if (entry->d_type == DT_DIR && !str_eq(entry->d_name, ".") && !str_eq(entry->d_name, ".."))
			tree_remove(fd, entry->d_name, depth + 1);
	return unlinkat(parent, name, AT_REMOVEDIR) == 0 || errno == ENOENT ? 0 : -errno;
}

int cgroup_dir_remove(const char *path)
{
	return tree_remove(AT_FDCWD, path, 0);
}

void cgroup_dir_close(struct cgroup_dir *d)
{
	free(d->path);
	if (d->fd >= 0)
		close(d->fd);
	if (d->leaf_fd >= 0)
		close(d->leaf_fd);
	*d = (struct cgroup_dir){.fd = -1, .leaf_fd = -1};
}

/* The next number of a list, one a line; 0 at its end. */
static pid_t next_pid(char **rest)
{
	uint64_t pid;
	char *line = *rest, *end;

	if (!*line)
		return 0;
	end = strchr(line, '\n');
	if (end) {
		*end = '\0';
		*rest = end + 1;
	} else {
		*rest = line + strlen(line);
	}
	return num_u64(line, 1, INT32_MAX, &pid) == 0 ? (pid_t)pid : 0;
}

static bool procs_has(int fd, pid_t pid)
{
	cleanup_free char *text = NULL;
	char *rest;

	if (fd_read_file(fd, "cgroup.procs", PROCS_MAX, &text, NULL) < 0)
		return false;
	rest = text;
	for (pid_t p; (p = next_pid(&rest));)
		if (p == pid)
			return true;
	return false;
}

/* By pidfd, and looked up again once that is held: a number may have passed to another process in between. */
static int procs_kill_one(int fd, pid_t pid)
{
	cleanup_fd int pidfd = pidfd_open(pid, 0);

	if (pidfd < 0)
		return errno == ESRCH ? 0 : -errno;
	if (pid == getpid() || !procs_has(fd, pid))
		return 0;
	if (pidfd_send_signal(pidfd, SIGKILL, NULL, 0) < 0 && errno != ESRCH)
		return -errno;
	return 0;
}

/* Return: 0 where none was there; -EAGAIN where some were, and were killed; -errno. */
static int procs_kill(int fd)
{
	cleanup_free char *text = NULL;
	char *rest;
	int r = fd_read_file(fd, "cgroup.procs", PROCS_MAX, &text, NULL);

	if (r < 0)
		return r == -ENOENT || r == -ENODEV ? 0 : r;
	rest = text;
	for (pid_t pid; r == 0 && (pid = next_pid(&rest));)
		r = procs_kill_one(fd, pid);
	if (r < 0)
		return r;
	return *text ? -EAGAIN : 0;
}

int cgroup_dir_kill(int fd, int leaf_fd, bool v2, bool freezer)
{
	int r;

	if (v2) {
		r = fd_write_file(fd, "cgroup.kill", "1"); /* since 5.14; all beneath it too, and no fork gets away */
		if (r != -ENOENT)
			return r;
	}
	/* Nothing forks any more, where that can be had. */
	fd_write_file(fd, "pids.max", "0");
	if (freezer)
		fd_write_file(fd, "freezer.state", "FROZEN");
	r = procs_kill(leaf_fd);
	if (r == 0)
		r = procs_kill(fd);
	if (freezer)
		fd_write_file(fd, "freezer.state", "THAWED");
	return r;
}

bool cgroup_number(int fd, const char *file, const char *key, uint64_t *out)
{
	cleanup_free char *text = NULL;
	char *line;

	if (fd < 0 || fd_read_file(fd, file, 64 << 10, &text, NULL) < 0)
		return false;
	line = text;
	while (key && line) {
		size_t len = strlen(key);

		if (strncmp(line, key, len) == 0 && line[len] == ' ') {
			line += len + 1;
			break;
		}
		line = strchr(line, '\n');
		line = line ? line + 1 : NULL;
	}
	if (!line)
		return false;
	line[strcspn(line, "\n")] = '\0';
	return num_u64(line, 0, UINT64_MAX, out) == 0;
}
