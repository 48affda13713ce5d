/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "box/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "box/caps.h"
#include "box/init.h"
#include "box/landlock.h"
#include "box/messages.h"
#include "box/mounts.h"
#include "box/netns.h"
#include "box/netns_maker.h"
#include "box/rlimits.h"
#include "box/seccomp.h"
#include "sys/fd.h"
#include "sys/syscalls.h"

#include "base/banned.h"

struct child {
	const struct child_config *config;
	const struct plan *plan;
	int tty_master, tty_slave;
	int seccomp_listener;
	struct netns_maker netns;
};

void child_exit(int status)
{
	_exit(status);
}

static void child_fail(const struct child *c, enum box_phase phase, int r, int step, int object)
	__attribute__((noreturn));

static void child_fail(const struct child *c, enum box_phase phase, int r, int step, int object)
{
	struct box_msg msg = {.type = BOX_FAILED, .phase = phase, .errnum = -r, .step = step, .object = object};

	/* If even that fails the supervisor sees the socket close, and says that. */
	fd_send(c->config->control, &msg, sizeof(msg), NULL, 0);
	child_exit(125);
}

static size_t insert_sorted(int *list, size_t n, int fd)
{
	size_t i = n;

	for (; i && list[i - 1] > fd; i--)
		list[i] = list[i - 1];
	list[i] = fd;
	return n + 1;
}

/* None of the supervisor's descriptors: neither its log nor its lock. Leaves: the kept ones and our own sockets. */
static int close_foreign(const struct child *c)
{
	int keep[KEEP_FDS_MAX + 2];
	size_t n = c->plan->n_keep_fds;

	if (n > KEEP_FDS_MAX)
		return -E2BIG;
	memcpy(keep, c->plan->keep_fds, n * sizeof(*keep));
	n = insert_sorted(keep, n, c->config->control);
	if (c->config->network >= 0)
		n = insert_sorted(keep, n, c->config->network);
	return fd_close_from_3(keep, n);
}

/*
 * Phase 1: this process ends when the supervisor does, and has of its descriptors those that are the box's. Leaves behind: the
 * parent-death signal, the standard streams.
 */
static int phase_parent(struct child *c)
{
	struct pollfd pfd = {.fd = c->config->control};
	int r = 0;

	/* Before anything else, so that all that follows is counted. */
	for (size_t i = 0; r == 0 && i < c->config->n_cgroups; i++)
		r = fd_write_all(c->config->cgroups[i], "0", 1);
	for (int fd = 0; r == 0 && fd < 3; fd++)
		if (c->config->streams[fd] >= 0 && dup2(c->config->streams[fd], fd) < 0)
			r = -errno;
	if (r == 0)
		r = close_foreign(c);
	if (r < 0)
		return r;
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
		return -errno;
	/* The supervisor may have gone before that: its end of the pair is closed then. */
	if (poll(&pfd, 1, 0) < 0)
		return -errno;
	return pfd.revents & POLLHUP ? -EPIPE : 0;
}

static char *add_number(char *out, uint64_t v)
{
	char digits[24];
	size_t n = 0;

	do
		digits[n++] = (char)('0' + v % 10);
	while ((v /= 10));
	while (n)
		*out++ = digits[--n];
	return out;
}

/* "INSIDE OUTSIDE 1\n" */
static int write_map(const char *path, uint64_t inside, uint64_t outside)
{
	char line[64], *p = add_number(line, inside);

	*p++ = ' ';
	p = add_number(p, outside);
	memcpy(p, " 1\n", 4);
	return fd_write_file(AT_FDCWD, path, line);
}

/* Phase 2: one uid and one gid, no way to other groups. Without a map nothing can be created or owned here. */
static int phase_ids(struct child *c)
{
	const struct plan *p = c->plan;
	int r = fd_write_file(AT_FDCWD, "/proc/self/setgroups", "deny");

	if (r == 0)
		r = write_map("/proc/self/uid_map", p->box_uid, p->host_uid);
	if (r == 0)
		r = write_map("/proc/self/gid_map", p->box_gid, p->host_gid);
	return r;
}

static bool made_beside(const struct child *c)
{
	return c->plan->private_network && c->plan->egress != EGRESS_GATEWAY;
}

/*
 * Phase 4: a network namespace, its loopback up, and with a gateway all that leads to it. Nothing else is in this network.
 * Without a gateway it is being made when this returns: join_network().
 */
static int phase_network(struct child *c, struct netns_failure *failure)
{
	int r;

	*failure = (struct netns_failure){.step = NETNS_STEP_NAMESPACE};
	if (!c->plan->private_network)
		return 0;
	if (made_beside(c))
		return netns_maker_start(&c->netns);
	if (unshare(CLONE_NEWNET) < 0)
		return -errno;
	r = netns_setup(&c->plan->net, c->config->network, failure);
	close(c->config->network);
	return r;
}

static int join_network(struct child *c, struct netns_failure *failure)
{
	return made_beside(c) ? netns_maker_join(&c->netns, failure) : 0;
}

/* Phase 7: a pseudo-terminal of the box's own instance, so that it has a name inside and is nobody's outside. */
static int phase_terminal(struct child *c)
{
	int unlock = 0;

	if (!c->plan->tty)
		return 0;
	c->tty_master = open("/dev/pts/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (c->tty_master < 0)
		return -errno;
	if (ioctl(c->tty_master, TIOCSPTLCK, &unlock) < 0)
		return -errno;
	c->tty_slave = ioctl(c->tty_master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	return c->tty_slave < 0 ? -errno : 0;
}

/* Phase 8: the command's directory. Resolved in the new root; no magic link leads out of it (CVE-2024-21626). */
static int phase_directory(struct child *c)
{
	int fd = sys_openat2(AT_FDCWD, c->plan->cwd, O_PATH | O_DIRECTORY | O_CLOEXEC, 0, RESOLVE_NO_MAGICLINKS);
	int r = 0;

	if (fd < 0)
		return -errno;
	if (fchdir(fd) < 0)
		r = -errno;
	close(fd);
	return r;
}

/*
 * Phase 10: no capability, no new privilege. Leaves behind: a process that the command, of the same uid, can neither
 * trace nor look into (/proc/1/{environ,mem,exe,root,fd} need dumpable), and whose arguments say nothing of the host.
 */
static int phase_caps(void)
{
	int r = caps_drop();

	if (r < 0)
		return r;
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return -errno;
	return prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 0 ? 0 : -EPERM;
}

void child_set_title(const char *name, char *title, size_t title_len)
{
	size_t n = strlen(name) + 1;

	memset(title, 0, title_len);
	if (title_len >= n)
		memcpy(title, name, n);
	prctl(PR_SET_NAME, name, 0, 0, 0);
}

static int phase_report(struct child *c)
{
	struct box_msg msg = {.type = BOX_READY};
	int fds[FD_SEND_MAX];
	size_t n = 0;

	if (c->tty_master >= 0) {
		msg.fds |= BOX_FD_TTY;
		fds[n++] = c->tty_master;
	}
	if (c->seccomp_listener >= 0) {
		msg.fds |= BOX_FD_SECCOMP;
		fds[n++] = c->seccomp_listener;
	}
	int r = fd_send(c->config->control, &msg, sizeof(msg), fds, n);

	for (size_t i = 0; i < n; i++)
		close(fds[i]);
	return r;
}

void child_main(const struct child_config *config)
{
	struct child c = {.config = config, .plan = config->plan, .tty_master = -1, .tty_slave = -1, .seccomp_listener = -1};
	struct mounts_failure where;
	struct netns_failure network;
	int r;

	umask(0);
	r = phase_parent(&c);
	if (r < 0)
		child_fail(&c, PHASE_PARENT, r, -1, 0);
	r = phase_ids(&c);
	if (r < 0)
		child_fail(&c, PHASE_IDS, r, -1, 0);
	if (sethostname(c.plan->hostname, strlen(c.plan->hostname)) < 0)
		child_fail(&c, PHASE_HOSTNAME, -errno, -1, 0);
	r = phase_network(&c, &network);
	if (r < 0)
		child_fail(&c, PHASE_NETWORK, r, network.step, network.object);
	r = mounts_execute(c.plan, &where);
	if (r < 0)
		child_fail(&c, PHASE_MOUNTS, r, where.step, (int)where.object);
	r = join_network(&c, &network);
	if (r < 0)
		child_fail(&c, PHASE_NETWORK, r, network.step, network.object);
	r = mounts_enter_root();
	if (r < 0)
		child_fail(&c, PHASE_ENTER, r, -1, 0);
	r = phase_terminal(&c);
	if (r < 0)
		child_fail(&c, PHASE_TERMINAL, r, -1, 0);
	r = phase_directory(&c);
	if (r < 0)
		child_fail(&c, PHASE_DIRECTORY, r, -1, 0);
	r = rlimits_apply(&c.plan->rlimits);
	if (r < 0)
		child_fail(&c, PHASE_RLIMITS, r, -1, 0);
	r = phase_caps();
	if (r < 0)
		child_fail(&c, PHASE_CAPS, r, -1, 0);
	r = landlock_apply(&c.plan->landlock);
	if (r < 0)
		child_fail(&c, PHASE_LANDLOCK, r, -1, 0);
	child_set_title("agentbox-init", config->title, config->title_len);
	/* With a listener here, as it has to be sent out; otherwise by the command's own process (init.c), so that what a profile
	 * denies is denied to the command and not to this one. */
	r = c.plan->seccomp.notify ? seccomp_install(&c.plan->seccomp, &c.seccomp_listener) : 0;
	if (r < 0)
		child_fail(&c, PHASE_SECCOMP, r, -1, 0);
	r = phase_report(&c);
	if (r < 0)
		child_fail(&c, PHASE_REPORT, r, -1, 0);
	init_main(config, c.tty_slave);
}
