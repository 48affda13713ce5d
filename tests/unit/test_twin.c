/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sys/syscalls.h"
#include "sys/twin.h"

#include "base/banned.h"

struct answer {
	pid_t self, parent, cloned;
	int fd, calls;
	char *text;
};

static void do_answer(void *arg)
{
	struct answer *a = arg;
	struct clone_args args = {.flags = CLONE_PARENT};

	a->calls++;
	a->self = getpid();
	a->parent = getppid();
	a->fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	free(a->text);
	a->text = strdup("by the twin");
	a->cloned = sys_clone3(&args);
	if (a->cloned == 0)
		syscall(SYS_exit_group, getppid() == a->parent ? 7 : 8); /* not by _exit: ASan takes the stack for a wrong one */
}

static void test_call(void **state)
{
	struct answer a = {.text = strdup("by this process")};
	struct twin *t = NULL;
	struct err e = {0};
	int status;

	(void)state;
	assert_int_equal(twin_start(&t, &e), 0);
	for (int i = 1; i <= 3; i++) {
		assert_int_equal(twin_call(t, do_answer, &a, &e), 0);
		assert_int_equal(a.calls, i);
		assert_true(a.self > 0 && a.self != getpid());
		assert_int_equal(a.parent, getpid());
		assert_string_equal(a.text, "by the twin");
		/* its descriptor is ours, and so is its child */
		assert_int_equal(close(a.fd), 0);
		assert_int_equal(waitpid(a.cloned, &status, 0), a.cloned);
		assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
	}
	twin_end(t);
	assert_int_equal(kill(a.self, 0), -1);
	assert_int_equal(errno, ESRCH);
	free(a.text);
	twin_end(NULL);
}

static void do_pid(void *arg)
{
	*(pid_t *)arg = getpid();
}

static void do_die(void *arg)
{
	(void)arg;
	raise(SIGKILL);
}

static void test_killed(void **state)
{
	struct twin *t = NULL;
	struct err e = {0};
	pid_t pid = 0;

	(void)state;
	assert_int_equal(twin_start(&t, &e), 0);
	assert_int_equal(twin_call(t, do_die, NULL, &e), -ECHILD);
	assert_int_equal(twin_call(t, do_pid, &pid, &e), -ECHILD);
	assert_int_equal(pid, 0);
	twin_end(t);
}

/* Whoever is killed takes it with him. */
static void test_parent_killed(void **state)
{
	int told[2], pidfd, status;
	pid_t parent, twin = 0;

	(void)state;
	assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
	assert_int_equal(pipe2(told, O_CLOEXEC), 0);
	parent = fork();
	assert_true(parent >= 0);
	if (parent == 0) {
		struct twin *t = NULL;

		if (twin_start(&t, NULL) < 0 || twin_call(t, do_pid, &twin, NULL) < 0 || write(told[1], &twin, sizeof(twin)) < 0)
			_exit(1);
		pause();
	}
	assert_int_equal(read(told[0], &twin, sizeof(twin)), sizeof(twin));
	pidfd = pidfd_open(twin, 0);
	assert_true(pidfd >= 0);
	assert_int_equal(poll(&(struct pollfd){.fd = pidfd, .events = POLLIN}, 1, 50), 0);
	kill(parent, SIGKILL);
	assert_int_equal(waitpid(parent, NULL, 0), parent);
	assert_int_equal(poll(&(struct pollfd){.fd = pidfd, .events = POLLIN}, 1, 10000), 1);
	assert_int_equal(waitpid(twin, &status, 0), twin);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	close(pidfd);
	close(told[0]);
	close(told[1]);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_call),
		cmocka_unit_test(test_killed),
		cmocka_unit_test(test_parent_killed),
	};

	return cmocka_run_group_tests_name("twin", tests, NULL, NULL);
}
