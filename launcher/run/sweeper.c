/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "run/sweeper.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "box/child.h"
#include "egress/confine.h"

#include "base/banned.h"

#define SWEEP_MS 60000 /* a process that waits for a disk or a server dies only then */

static void sweep(const struct supervisor *s, pid_t parent, int supervisor) __attribute__((noreturn));

static void sweep(const struct supervisor *s, pid_t parent, int supervisor)
{
	struct pollfd ended = {.fd = supervisor, .events = POLLIN};
	struct err e;

	child_set_title("agentbox-sweeper", s->options->title, s->options->title_len);
	if (leave_supervisor(parent, "agentbox-sweep", true, &supervisor, 1) < 0 || confine_sweeper() < 0)
		_exit(1);
	while (poll(&ended, 1, -1) < 1)
		if (errno != EINTR)
			_exit(1);
	for (size_t i = 0; i < s->cgroup.n; i++)
		cgroup_remove_path(s->cgroup.v[i].path, SWEEP_MS, &e);
	_exit(0);
}

int sweeper_start(struct supervisor *s, struct err *e)
{
	pid_t parent = getpid();
	cleanup_fd int self = pidfd_open(parent, 0);
	pid_t pid;

	if (self < 0)
		return err_errno(e, errno, "pidfd_open");
	pid = fork();
	if (pid < 0)
		return err_errno(e, errno, "fork");
	if (pid == 0)
		sweep(s, parent, self);
	s->sweeper = pid;
	return 0;
}

void sweeper_end(struct supervisor *s)
{
	if (!s->sweeper || s->cgroup.n)
		return;
	if (kill(s->sweeper, SIGKILL) == 0) /* else it ends by itself, when we have */
		while (waitpid(s->sweeper, NULL, 0) < 0 && errno == EINTR)
			;
	s->sweeper = 0;
}
