/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "box/build.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "box/covers.h"
#include "box/deny.h"
#include "box/env.h"
#include "box/hostnet.h"
#include "box/protect.h"
#include "box/root.h"
#include "box/seccomp_args.h"
#include "box/syscalls.h"
#include "box/workspace.h"
#include "sys/path.h"

#include "base/banned.h"

static int compare_fds(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

/* A directory among the command's descriptors is a way into the host's tree, whatever is mounted (CVE-2024-21626). */
static int check_fd(int fd, const char *what, struct err *e)
{
	struct stat st;
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0 || fstat(fd, &st) < 0)
		return err_errno(e, errno, "%s", what);
	if (S_ISDIR(st.st_mode) || (flags & O_PATH))
		return err_set(e, EISDIR,
			       "%s is a directory: it would lead out of the box into the host's tree; use --bind or --ro-bind", what);
	return 0;
}

/*
 * A network socket is one of the network that it was opened in: connect(2) with AF_UNSPEC and once more leads anywhere from
 * there, whatever the box's own network is. One that is kept by --keep-fd was asked for.
 */
static int check_stream(int fd, const char *what, struct err *e)
{
	int domain = AF_UNIX;
	socklen_t len = sizeof(domain);

	if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) < 0 || domain == AF_UNIX)
		return 0;
	return err_set(e, EPERM, "%s is a network socket: the box could connect it to somewhere else, past the rules; put a pipe between "
		       "(cat | agentbox run ... | cat)", what);
}

/* With capture: what can be written to at standard input would be a way past it. */
static int check_input(struct plan *plan, struct err *e)
{
	int flags = fcntl(STDIN_FILENO, F_GETFL);
	struct stat in, st;

	if (!plan->capture || plan->tty || flags < 0 || (flags & O_ACCMODE) == O_RDONLY)
		return 0;
	plan->read_stdin = isatty(STDIN_FILENO);
	if (plan->read_stdin)
		return 0;
	if (fstat(STDIN_FILENO, &in) < 0)
		return err_errno(e, errno, "standard input");
	for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++)
		if (fstat(fd, &st) == 0 && st.st_dev == in.st_dev && st.st_ino == in.st_ino && !S_ISCHR(in.st_mode))
			return err_set(e, EPERM, "output.capture: standard input can be written to, and is the same file as standard %s: the "
				       "command could write there past the capture; give it another input, as in cat | agentbox run ...",
				       fd == STDOUT_FILENO ? "output" : "error");
	return 0;
}

/* `2>&1`: one pipe for both keeps the order in which the command writes. A terminal is one stream anyway. */
static bool are_one_stream(const struct run_request *req)
{
	struct stat out, err;

	return req->tty || (fstat(STDOUT_FILENO, &out) == 0 && fstat(STDERR_FILENO, &err) == 0 && out.st_dev == err.st_dev &&
			    out.st_ino == err.st_ino);
}

static int add_descriptors(struct plan *plan, const struct run_request *req, struct err *e)
{
	static const char *const standard[] = {"standard input", "standard output", "standard error"};

	for (int fd = 0; fd <= 2; fd++) {
		int r = check_fd(fd, standard[fd], e);

		if (r == 0 && (fd == STDIN_FILENO || !plan->capture))
			r = check_stream(fd, standard[fd], e);
		if (r < 0)
			return r;
	}
	if (check_input(plan, e) < 0)
		return -e->code;
	plan->keep_fds = mem_array(NULL, req->n_keep_fds + 1, sizeof(int));
	memcpy(plan->keep_fds, req->keep_fds, req->n_keep_fds * sizeof(int));
	qsort(plan->keep_fds, req->n_keep_fds, sizeof(int), compare_fds);
	for (size_t i = 0; i < req->n_keep_fds; i++) {
		cleanup_free char *what = mem_printf("--keep-fd %d", plan->keep_fds[i]);
		int r = check_fd(plan->keep_fds[i], what, e);

		if (r < 0)
			return r;
		if (!plan->n_keep_fds || plan->keep_fds[plan->n_keep_fds - 1] != plan->keep_fds[i])
			plan->keep_fds[plan->n_keep_fds++] = plan->keep_fds[i];
	}
	return 0;
}

static void add_identity(struct plan *plan, const struct profile *profile, const struct run_request *req,
			 const struct run_host *host)
{
	plan->run_id = mem_strdup(host->run_id);
	plan->task_id = host->task_id ? mem_strdup(host->task_id) : NULL;
	plan->host_uid = host->uid;
	plan->host_gid = host->gid;
	plan->box_uid = profile->identity.uid.set ? (uid_t)profile->identity.uid.n : host->uid;
	plan->box_gid = profile->identity.gid.set ? (gid_t)profile->identity.gid.n : host->gid;
	plan->hostname = mem_strdup(profile->identity.hostname.v);
	plan->nested_namespaces = profile->syscalls.nested_namespaces.v;
	plan->egress = (enum egress_mode)profile->egress.mode.v;
	plan->private_network = profile->egress.mode.v != EGRESS_HOST;
	plan->name_server = host->name_server ? mem_strdup(host->name_server) : NULL;
	plan->tty = req->tty;
	plan->capture = profile->output.capture.v;
	plan->one_stream = plan->capture && are_one_stream(req);
	for (char *const *a = req->argv; a && *a; a++)
		strv_add(&plan->argv, *a);
}

static int add_covers(struct plan *plan, const struct profile *profile, const struct run_host *host, struct err *e)
{
	struct covers c;
	int r;

	covers_begin(&c, plan, host);
	r = deny_add(&c, profile, e);
	if (r == 0)
		r = protect_add(&c, profile, e);
	if (r == 0)
		r = covers_finish(&c, e);
	covers_free(&c);
	return r;
}

static int add_mounts(struct plan *plan, const struct profile *profile, const struct run_request *req,
		      const struct run_host *host, struct err *e)
{
	int r = root_add(plan, profile, e);

	if (r == 0)
		r = workspace_add(plan, profile, req, host, e);
	if (r == 0)
		r = workspace_add_grants(plan, profile, host, e);
	if (r == 0)
		r = workspace_add_requests(plan, req, host, e);
	if (r == 0)
		r = add_covers(plan, profile, host, e);
	if (r == 0)
		r = workspace_add_mirror(plan, profile, e);
	return r;
}

static int add_directory(struct plan *plan, const struct profile *profile, const struct run_request *req,
			 const struct run_host *host, struct err *e)
{
	cleanup_free char *start = workspace_start_dir(plan, profile, host);

	plan->cwd = req->chdir ? path_normal(req->chdir, start) : mem_strdup(start);
	if (!plan->cwd)
		return err_set(e, EINVAL, "--chdir: the directory's name is empty");
	return 0;
}

/* Everything may be read and executed; written only where the plan has something writable. */
static int add_landlock(struct plan *plan, const struct profile *profile, struct err *e)
{
	struct landlock_plan *l = &plan->landlock;
	int r = landlock_plan_init(profile, l, e);

	if (r < 0)
		return r;
	l->keep_fds = plan->keep_fds;
	l->n_keep_fds = plan->n_keep_fds;
	landlock_plan_add(l, "/", LANDLOCK_READ_EXEC);
	landlock_plan_add(l, "/dev", LANDLOCK_DEV);
	landlock_plan_add(l, "/proc", LANDLOCK_PROC);
	for (size_t i = 0; i < plan->n_steps; i++) {
		const struct mount_step *s = &plan->steps[i];
		bool tree = s->op == MOUNT_BIND || s->op == MOUNT_OVERLAY || s->op == MOUNT_TMPFS || s->op == MOUNT_TMP_DIR ||
			    s->op == MOUNT_ALIAS;

		if (tree && !(s->flags & MOUNT_RO))
			landlock_plan_add(l, s->dest, LANDLOCK_WRITE);
	}
	return 0;
}

/*
 * Uid 0 of the host owns cgroups, devices' files and what every user may execute. Without capabilities here, a namespace made
 * inside gives them back over new mounts: it wrote file capabilities and setuid copies that the host honours, and
 * froze its own processes in the host's cgroups.
 */
static int check_nested(const struct plan *plan, struct err *e)
{
	if (!plan->nested_namespaces || plan->host_uid != 0)
		return 0;
	return err_set(e, EPERM, "syscalls.nested-namespaces = yes is not for root: what root owns on the host would be open to the "
		       "command's own namespaces; run agentbox as another user");
}

/*
 * With syscalls.log the filter is pid 1's too (its listener has to leave the box before the command starts), and what that
 * needs cannot be denied.
 */
static int check_log(const struct seccomp_program *program, struct err *e)
{
	static const char *const needed[] = {"sendmsg", "recvmsg", "wait4", "poll", "read", "close", "close_range", "rt_sigprocmask",
					     "rt_sigaction", "setsid", "ioctl", "dup2", "vfork", "execve", "exit_group", "kill",
					     "signalfd4", "umask", NULL};

	for (const char *const *n = needed; program->notify && *n; n++) {
		struct seccomp_data data = {.nr = syscall_number(*n), .arch = SECCOMP_ARCH_NATIVE};

		if (data.nr >= 0 && seccomp_eval(program->insns, program->n, &data) != SECCOMP_RET_ALLOW)
			return err_set(e, EINVAL, "syscalls.log = yes: %s is denied, which the box's first process needs then; "
				       "allow it, or set syscalls.log to no",
				       *n);
	}
	return 0;
}

int plan_build(struct plan *plan, const struct profile *profile, const struct run_request *req, const struct run_host *host,
	       struct err *e)
{
	int r;

	add_identity(plan, profile, req, host);
	r = check_nested(plan, e);
	if (r == 0)
		r = add_descriptors(plan, req, e);
	if (r == 0)
		r = add_mounts(plan, profile, req, host, e);
	if (r == 0)
		r = add_directory(plan, profile, req, host, e);
	if (r == 0)
		r = env_add(plan, profile, req, host, e);
	if (r == 0)
		r = seccomp_build(profile, plan->box_uid == 0, &plan->seccomp, e);
	if (r == 0)
		r = check_log(&plan->seccomp, e);
	if (r == 0)
		r = add_landlock(plan, profile, e);
	if (r == 0 && !plan->private_network)
		r = hostnet_check(plan, e);
	if (r == 0)
		rlimits_build(profile, &plan->rlimits);
	plan->limits = (struct plan_limits){
		.wall_ms = profile->limits.wall_time.ms,
		.memory_bytes = profile->limits.memory.bytes,
		.processes = profile->limits.processes.n,
		.cpus_milli = profile->limits.cpus.milli,
	};
	return r;
}
