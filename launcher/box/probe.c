/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "box/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "sys/fd.h"
#include "sys/syscalls.h"

#include "base/banned.h"

#define DIR_NAME ".doctor-%d"
#define PROBE_SECONDS 20

static int probe_maps(uid_t uid, gid_t gid)
{
	char text[64];
	int r;

	/* In this order: without "deny" an unprivileged gid map is refused (user_namespaces(7)). */
	r = fd_write_file(AT_FDCWD, "/proc/self/setgroups", "deny");
	if (r < 0)
		return -r;
	snprintf(text, sizeof(text), "%u %u 1", (unsigned)uid, (unsigned)uid);
	r = fd_write_file(AT_FDCWD, "/proc/self/uid_map", text);
	if (r < 0)
		return -r;
	snprintf(text, sizeof(text), "%u %u 1", (unsigned)gid, (unsigned)gid);
	return -fd_write_file(AT_FDCWD, "/proc/self/gid_map", text);
}

/* A detached mount of a filesystem. options: pairs, ending with NULL. Return: 0 or errno. */
static int probe_filesystem(const char *type, const char *const *options)
{
	cleanup_fd int fs = fsopen(type, FSOPEN_CLOEXEC);
	cleanup_fd int mnt = -1;

	if (fs < 0)
		return errno;
	for (; *options; options += 2) {
		int r = options[1] ? fsconfig(fs, FSCONFIG_SET_STRING, options[0], options[1], 0)
				   : fsconfig(fs, FSCONFIG_SET_FLAG, options[0], NULL, 0);

		if (r < 0)
			return errno;
	}
	if (fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return errno;
	mnt = fsmount(fs, FSMOUNT_CLOEXEC, 0);
	return mnt < 0 ? errno : 0;
}

static int probe_setattr(void)
{
	struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY};
	cleanup_fd int tree = open_tree(AT_FDCWD, "/", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);

	if (tree < 0)
		return errno;
	return mount_setattr(tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr, sizeof(attr)) < 0 ? errno : 0;
}

static int probe_proc(void)
{
	static const char *const none[] = {NULL};
	pid_t pid = fork(); /* the first process of the new PID namespace */
	int status;

	if (pid < 0)
		return errno;
	if (pid == 0)
		_exit(probe_filesystem("proc", none));
	if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		return ECHILD;
	return WEXITSTATUS(status);
}

/* Relative to the working directory, since the state directory's name may hold what separates options. */
static int probe_overlay(void)
{
	static const char *const options[] = {"lowerdir", "lower", "upperdir", "upper", "workdir", "work", "userxattr", NULL, NULL};

	return probe_filesystem("overlay", options);
}

static int probe_gateway(struct box_probe *out)
{
	static const struct rule_ports https = {443, 443};
	struct netns_plan plan = {.ports = &https, .n_ports = 1};
	struct netns_sockets s;
	int pair[2], r;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return errno;
	r = netns_setup(&plan, pair[0], &out->gateway);
	close(pair[0]);
	if (r == 0)
		r = netns_receive(pair[1], &s);
	if (r == 0) {
		out->capture = s.capture;
		netns_close(&s);
	}
	close(pair[1]);
	return -r;
}

/* In the child. `out` is shared with the parent; a step that is not reached stays PROBE_NOT_TRIED. */
static void probe_steps(int dir, struct box_probe *out)
{
	static const char *const none[] = {NULL};
	uid_t uid = geteuid();
	gid_t gid = getegid();
	int *r = out->result;

	/* Before the mount namespace, which takes the working directory along; a descriptor would stay in the old one. */
	if (dir >= 0 && fchdir(dir) < 0)
		dir = -1;
	r[PROBE_USER_NAMESPACE] = unshare(CLONE_NEWUSER) < 0 ? errno : 0;
	if (r[PROBE_USER_NAMESPACE])
		return;
	r[PROBE_ID_MAP] = probe_maps(uid, gid);
	if (r[PROBE_ID_MAP])
		return;
	r[PROBE_NAMESPACES] =
		unshare(CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP) < 0 ? errno : 0;
	if (r[PROBE_NAMESPACES])
		return;
	r[PROBE_MOUNT] = probe_filesystem("tmpfs", none);
	if (r[PROBE_MOUNT])
		return;
	r[PROBE_MOUNT_SETATTR] = probe_setattr();
	r[PROBE_PROC] = probe_proc();
	r[PROBE_GATEWAY] = probe_gateway(out);
	if (dir >= 0)
		r[PROBE_OVERLAY] = probe_overlay();
}

static int probe_dir_make(int state, char *name, size_t len)
{
	static const char *const names[] = {"lower", "upper", "work"};
	int dir;

	snprintf(name, len, DIR_NAME, (int)getpid());
	if (mkdirat(state, name, 0700) < 0)
		return -errno;
	dir = openat(state, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && dir >= 0; i++)
		if (mkdirat(dir, names[i], 0700) < 0)
			break; /* the overlay will say so */
	return dir < 0 ? -errno : dir;
}

static void probe_dir_remove(int state, const char *name, int dir)
{
	/* What overlayfs makes in its work directory (fs/overlayfs/super.c). */
	static const char *const names[] = {"work/work", "work/index", "work", "upper", "lower"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && dir >= 0; i++)
		unlinkat(dir, names[i], AT_REMOVEDIR);
	unlinkat(state, name, AT_REMOVEDIR);
}

int box_probe(int state, struct box_probe *out, struct err *e)
{
	struct box_probe *shared =
		mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	char name[32] = "";
	int dir = -1, status, r = 0;
	pid_t pid;

	if (shared == MAP_FAILED)
		return err_errno(e, errno, "cannot map memory");
	for (int i = 0; i < PROBE_STEPS; i++)
		shared->result[i] = PROBE_NOT_TRIED;
	if (state >= 0)
		dir = probe_dir_make(state, name, sizeof(name));
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		alarm(PROBE_SECONDS);
		probe_steps(dir, shared);
		_exit(0);
	}
	if (pid < 0)
		r = err_errno(e, errno, "cannot fork");
	else
		while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
			;
	if (name[0])
		probe_dir_remove(state, name, dir);
	if (dir >= 0)
		close(dir);
	*out = *shared;
	munmap(shared, sizeof(*shared));
	return r;
}
