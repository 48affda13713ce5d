/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "sys/twin.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/mem.h"

#include "base/banned.h"

/* As a main thread's: what is cloned runs on, and executes from, a copy of it. Taken page by page as it is used. */
#define STACK_BYTES (8UL << 20)
#define GUARD_BYTES (64UL << 10)

struct twin {
	pid_t parent;
	int pidfd, go, done; /* two eventfds: one lets it run, the other us */
	char *stack;
	void (*fn)(void *arg);
	void *arg;
};

static int twin_main(void *arg)
{
	struct twin *t = arg;
	uint64_t one = 1;

	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != t->parent)
		_exit(1);
	for (;;) {
		if (write(t->done, &one, sizeof(one)) != sizeof(one))
			_exit(1);
		/* The other runs now, and errno is its own: this does not fail, as no signal has a handler. */
		if (read(t->go, &one, sizeof(one)) != sizeof(one))
			_exit(1);
		t->fn(t->arg);
	}
}

/* Until it has written to `done`, or is gone. */
static int twin_wait(struct twin *t, struct err *e)
{
	struct pollfd fds[] = {{.fd = t->done, .events = POLLIN}, {.fd = t->pidfd, .events = POLLIN}};
	uint64_t n;

	while (poll(fds, 2, -1) < 0)
		if (errno != EINTR)
			return err_errno(e, errno, "poll");
	if (!(fds[0].revents & POLLIN) || read(t->done, &n, sizeof(n)) != sizeof(n))
		return err_set(e, ECHILD, "agentbox's process in the control group was killed");
	return 0;
}

int twin_start(struct twin **out, struct err *e)
{
	struct twin *t = mem_zalloc(sizeof(*t));
	void *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
	int r = 0;

	*t = (struct twin){.parent = getpid(), .pidfd = -1, .go = -1, .done = -1};
	t->stack = stack == MAP_FAILED ? NULL : stack;
	t->go = eventfd(0, EFD_CLOEXEC);
	t->done = eventfd(0, EFD_CLOEXEC);
	if (!t->stack || t->go < 0 || t->done < 0 || mprotect(t->stack, GUARD_BYTES, PROT_NONE) < 0)
		r = err_errno(e, errno, "a process for the control group");
	else if (clone(twin_main, t->stack + STACK_BYTES, CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_PIDFD | SIGCHLD, t, &t->pidfd) < 0)
		r = err_errno(e, errno, "clone");
	if (r == 0)
		r = twin_wait(t, e);
	if (r < 0)
		twin_end(t);
	else
		*out = t;
	return r;
}

int twin_call(struct twin *t, void (*fn)(void *arg), void *arg, struct err *e)
{
	uint64_t one = 1;

	t->fn = fn;
	t->arg = arg;
	if (write(t->go, &one, sizeof(one)) != sizeof(one))
		return err_errno(e, errno, "eventfd");
	return twin_wait(t, e);
}

void twin_end(struct twin *t)
{
	siginfo_t info;

	if (!t)
		return;
	if (t->pidfd >= 0) {
		pidfd_send_signal(t->pidfd, SIGKILL, NULL, 0);
		while (waitid(P_PIDFD, (id_t)t->pidfd, &info, WEXITED) < 0 && errno == EINTR)
			;
	}
	cleanup_fd_p(&t->pidfd);
	cleanup_fd_p(&t->go);
	cleanup_fd_p(&t->done);
	if (t->stack)
		munmap(t->stack, STACK_BYTES);
	free(t);
}
