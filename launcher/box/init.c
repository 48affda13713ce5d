/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "box/init.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "box/messages.h"
#include "box/seccomp.h"
#include "sys/fd.h"

#include "base/banned.h"

/* An own session, the terminal where there is one, and the caller's streams. Runs in the vforked child. */
static int command_session(int tty)
{
	if (setsid() < 0)
		return errno;
	if (tty < 0)
		return 0;
	if (ioctl(tty, TIOCSCTTY, 0) < 0)
		return errno;
	for (int fd = 0; fd <= 2; fd++) {
		/* stderr that goes elsewhere stays there: `agentbox run ... 2>log` on a terminal. */
		if (fd == 2 && !isatty(2))
			continue;
		if (dup2(tty, fd) < 0)
			return errno;
	}
	return 0;
}

/* What failed in the command's process before it was the command. */
struct start_failure {
	int errnum; /* 0: nothing */
	enum box_phase phase;
};

static struct start_failure command_prepare(const struct child_config *config, int tty)
{
	const struct plan *plan = config->plan;
	struct start_failure f = {.errnum = command_session(tty), .phase = PHASE_SESSION};
	sigset_t none;
	int listener;

	if (!f.errnum)
		f.errnum = -fd_close_from_3(plan->keep_fds, plan->n_keep_fds);
	if (f.errnum)
		return f;
	umask(config->umask);
	sigemptyset(&none);
	if (sigprocmask(SIG_SETMASK, &none, NULL) < 0) {
		f.errnum = errno;
		return f;
	}
	/* Last: from here on every call is the command's. */
	f.phase = PHASE_SECCOMP;
	if (!plan->seccomp.notify)
		f.errnum = -seccomp_install(&plan->seccomp, &listener);
	return f;
}

/*
 * The command, by vfork: it shares our memory until execve, so it touches nothing but *failure.
 * Return: pid; or -errno. *failure: what failed in the child.
 */
static pid_t command_start(const struct child_config *config, int tty, volatile struct start_failure *failure)
{
	const struct plan *plan = config->plan;
	pid_t pid;

	failure->errnum = 0;
	pid = vfork();
	if (pid < 0)
		return -errno;
	if (pid > 0)
		return pid;

	*failure = command_prepare(config, tty);
	if (!failure->errnum) {
		failure->phase = PHASE_EXEC;
		execvp(plan->argv.v[0], plan->argv.v);
		failure->errnum = errno;
	}
	child_exit(127);
}

/*
 * Every disposition as a fresh process has it: the caller may have ignored SIGPIPE. By the kernel's own call, as glibc's
 * refuses the two signals that it keeps for itself (32, 33), which are inherited all the same. SIGKILL and SIGSTOP have no
 * other. Return: 0 or -errno.
 */
static int reset_signals(void)
{
	/* The kernel's struct sigaction: handler, flags, restorer, mask; all zero is SIG_DFL. */
	static const uint64_t standard[4];

	for (int sig = 1; sig < _NSIG; sig++)
		if (syscall(SYS_rt_sigaction, sig, standard, NULL, sizeof(uint64_t)) < 0 && sig != SIGKILL && sig != SIGSTOP)
			return -errno;
	return 0;
}

/*
 * Is no other process left? Whatever lost its parent is ours (or a subreaper's, which is a descendant of ours), so
 * without children there is nobody. The others die with us, in the kernel.
 */
static bool is_alone(void)
{
	/* Not more of the dead than so many: processes that go on dying must not keep us here. */
	for (int i = 0; i < 64; i++) {
		pid_t pid = waitpid(-1, NULL, WNOHANG | __WALL);

		if (pid <= 0)
			return pid < 0 && errno == ECHILD;
	}
	return false;
}

static void report_exit(const struct child_config *config, int status, const struct rusage *ru) __attribute__((noreturn));

static void report_exit(const struct child_config *config, int status, const struct rusage *ru)
{
	struct box_msg msg = {
		.type = BOX_EXITED,
		.wait_status = status,
		.alone = is_alone(),
		.user_us = (uint64_t)ru->ru_utime.tv_sec * 1000000 + (uint64_t)ru->ru_utime.tv_usec,
		.system_us = (uint64_t)ru->ru_stime.tv_sec * 1000000 + (uint64_t)ru->ru_stime.tv_usec,
		.max_rss_kb = (uint64_t)ru->ru_maxrss,
	};

	fd_send(config->control, &msg, sizeof(msg), NULL, 0);
	child_exit(0);
}

static void forward_signal(pid_t command, const struct box_msg *msg)
{
	if (msg->signum < 1 || msg->signum > (uint32_t)SIGRTMAX)
		return;
	/* The command leads its session and so its process group: -pid is what a terminal would signal. */
	kill(msg->group ? -command : command, (int)msg->signum);
}

/* The supervisor's word to start; it may hold it back until the cgroup and the filters are attached. */
static int wait_for_go(const struct child_config *config)
{
	struct box_msg msg;
	size_t n_fds;
	ssize_t n = fd_recv(config->control, &msg, sizeof(msg), NULL, 0, &n_fds);

	if (n < 0)
		return (int)n;
	return n == sizeof(msg) && msg.type == BOX_GO ? 0 : -EPIPE;
}

static void reap(const struct child_config *config, pid_t command)
{
	for (;;) {
		struct rusage ru;
		int status;
		pid_t pid = wait4(-1, &status, WNOHANG | __WALL, &ru);

		if (pid == command)
			report_exit(config, status, &ru);
		if (pid == 0)
			return;
		/* The command is there until it is reaped here: whatever the error, we would wait for it without end. */
		if (pid < 0 && errno != EINTR)
			child_exit(125);
	}
}

/*
 * Only the command holds the caller's streams and the kept descriptors now: whoever waits for their end is not kept waiting by us.
 * The box's terminal stays open here: it must not hang up when the command has closed it and is about to open it again.
 */
static void release_descriptors(const struct child_config *config, int signals, int tty)
{
	int keep[3] = {config->control, signals, tty};
	size_t n = tty < 0 ? 2 : 3;

	for (size_t i = 1; i < n; i++)
		for (size_t k = i; k && keep[k] < keep[k - 1]; k--) {
			int fd = keep[k];

			keep[k] = keep[k - 1];
			keep[k - 1] = fd;
		}
	for (int fd = 0; fd <= 2; fd++)
		close(fd);
	fd_close_from_3(keep, n);
}

void init_main(const struct child_config *config, int tty)
{
	struct box_msg msg = {0};
	struct pollfd pfds[2] = {{.fd = config->control, .events = POLLIN}, {.events = POLLIN}};
	volatile struct start_failure failure = {0};
	sigset_t all;
	pid_t command;
	int r;

	r = reset_signals();
	sigfillset(&all);
	if (r == 0 && sigprocmask(SIG_SETMASK, &all, NULL) < 0)
		r = -errno;
	pfds[1].fd = r < 0 ? -1 : signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK);
	if (r == 0)
		r = pfds[1].fd < 0 ? -errno : wait_for_go(config);
	environ = config->plan->env.v;
	command = r < 0 ? r : command_start(config, tty, &failure);
	if (command < 0) {
		msg.type = BOX_FAILED;
		msg.phase = PHASE_START;
		msg.errnum = -command;
		fd_send(config->control, &msg, sizeof(msg), NULL, 0);
		child_exit(125);
	}
	release_descriptors(config, pfds[1].fd, tty);
	msg.type = !failure.errnum ? BOX_STARTED : failure.phase == PHASE_EXEC ? BOX_NOT_EXEC : BOX_FAILED;
	msg.phase = failure.phase;
	msg.errnum = failure.errnum;
	msg.step = -1;
	fd_send(config->control, &msg, sizeof(msg), NULL, 0);
	if (failure.errnum)
		child_exit(127);
	for (;;) {
		reap(config, command);
		if (poll(pfds, 2, -1) < 0 && errno != EINTR)
			child_exit(125);
		if (pfds[1].revents & POLLIN) {
			struct signalfd_siginfo info;

			/* Only SIGCHLD matters, and reap looks for itself. */
			while (read(pfds[1].fd, &info, sizeof(info)) > 0)
				;
		}
		if (pfds[0].revents & POLLIN) {
			size_t n_fds;

			if (fd_recv(config->control, &msg, sizeof(msg), NULL, 0, &n_fds) == sizeof(msg) &&
			    msg.type == BOX_SIGNAL)
				forward_signal(command, &msg);
		}
		/* The supervisor is gone; the parent-death signal is on its way too. */
		if (pfds[0].revents & (POLLHUP | POLLERR))
			child_exit(125);
	}
}
