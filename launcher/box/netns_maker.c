/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "box/netns_maker.h"

#include <errno.h>
#include <linux/sockios.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"

#include "base/banned.h"

static int fail(struct netns_maker *m, enum netns_step step, int rc)
{
	m->step = step;
	m->socket = rc;
	return 1;
}

static int make(void *arg)
{
	struct netns_maker *m = arg;
	int r;

	if (unshare(CLONE_NEWNET) < 0)
		return fail(m, NETNS_STEP_NAMESPACE, -errno);
	r = netns_loopback_up();
	if (r < 0)
		return fail(m, NETNS_STEP_LOOPBACK, r);
	m->socket = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	return m->socket < 0 ? fail(m, NETNS_STEP_NAMESPACE, -errno) : 0;
}

int netns_maker_start(struct netns_maker *m)
{
	m->pid = clone(make, m->stack + sizeof(m->stack), CLONE_VM | CLONE_FILES | SIGCHLD, m);
	return m->pid < 0 ? -errno : 0;
}

int netns_maker_join(struct netns_maker *m, struct netns_failure *failure)
{
	cleanup_fd int socket = -1, space = -1;
	int status;

	*failure = (struct netns_failure){.step = NETNS_STEP_NAMESPACE};
	while (waitpid(m->pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	m->pid = 0;
	if (!WIFEXITED(status))
		return -ECHILD;
	if (WEXITSTATUS(status)) {
		failure->step = m->step;
		return m->socket < 0 ? m->socket : -ECHILD;
	}
	socket = m->socket;
	space = ioctl(socket, SIOCGSKNS);
	if (space >= 0 && setns(space, CLONE_NEWNET) == 0)
		return 0;
	/* In a box whose filter refuses setns: one that is made here. */
	if (unshare(CLONE_NEWNET) < 0)
		return -errno;
	failure->step = NETNS_STEP_LOOPBACK;
	return netns_loopback_up();
}
