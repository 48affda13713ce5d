/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "box/rlimits.h"

#include "base/banned.h"

static const struct rlimit_item *item(const struct rlimit_plan *plan, int resource)
{
	for (size_t i = 0; i < plan->n; i++)
		if (plan->v[i].resource == resource)
			return &plan->v[i];
	return NULL;
}

/* Runs fn in a child under the limits. Return: its exit status, or 1000 + signal. */
static int under(const struct rlimit_plan *plan, int (*fn)(void))
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0) {
		if (rlimits_apply(plan) < 0)
			_exit(254);
		_exit(fn());
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static int do_spin(void)
{
	volatile unsigned long i = 1;

	while (i)
		i = i + 2; /* odd for ever */
	return 0;
}

static int do_spin_ignoring(void)
{
	signal(SIGXCPU, SIG_IGN);
	return do_spin();
}

static int do_open_many(void)
{
	for (int i = 0; i < 64; i++)
		if (open("/dev/null", O_RDONLY) < 0)
			return errno;
	return 0;
}

static int do_big_file(void)
{
	char name[] = "/tmp/test_rlimits.XXXXXX";
	int fd = mkstemp(name);

	unlink(name);
	signal(SIGXFSZ, SIG_IGN);
	if (pwrite(fd, "x", 1, 4096) == 1)
		return 1;
	if (errno != EFBIG)
		return 2;
	return pwrite(fd, "x", 1, 4095) == 1 ? 0 : 3;
}

static int do_raise(void)
{
	struct rlimit limit;

	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = limit.rlim_max = limit.rlim_max + 1;
	return setrlimit(RLIMIT_NOFILE, &limit) < 0 ? errno : 0;
}

static void test_defaults(void **state)
{
	struct profile p = {0};
	struct rlimit_plan plan;

	(void)state;
	rlimits_build(&p, &plan);
	assert_int_equal(plan.n, 1);
	assert_non_null(item(&plan, RLIMIT_CORE));
	assert_true(item(&plan, RLIMIT_CORE)->hard <= 1); /* 1: the value that keeps the host's crash handler out */
	assert_false(item(&plan, RLIMIT_CORE)->clamped);
}

static void test_each(void **state)
{
	struct profile p = {0};
	struct rlimit_plan plan;
	cleanup_str struct str text = {0};

	(void)state;
	p.limits.cpu_time.ms = 1;
	p.limits.open_files.n = 16;
	p.limits.file_size.bytes = 4096;
	rlimits_build(&p, &plan);
	assert_int_equal(plan.n, 4);
	assert_int_equal(item(&plan, RLIMIT_CPU)->soft, 1); /* rounded up */
	assert_int_equal(item(&plan, RLIMIT_CPU)->hard, 2);
	assert_int_equal(under(&plan, do_spin), 1000 + SIGXCPU);
	assert_int_equal(under(&plan, do_spin_ignoring), 1000 + SIGKILL);
	assert_int_equal(under(&plan, do_open_many), EMFILE);
	assert_int_equal(under(&plan, do_big_file), 0);
	rlimits_text(&plan, &text);
	assert_non_null(strstr(text.text, "open-files 16\n"));
	assert_null(strstr(text.text, "asked"));
}

/* A caller with a lower hard limit gets that one, and is told. In a child, as a hard limit cannot be raised again. */
static int do_clamped(void)
{
	struct rlimit low = {.rlim_cur = 20, .rlim_max = 30};
	struct profile p = {0};
	struct rlimit_plan plan;
	struct str text = {0};

	if (setrlimit(RLIMIT_NOFILE, &low) < 0)
		return 1;
	p.limits.open_files.n = 4096;
	rlimits_build(&p, &plan);
	if (item(&plan, RLIMIT_NOFILE)->soft != 30 || item(&plan, RLIMIT_NOFILE)->hard != 30 || !item(&plan, RLIMIT_NOFILE)->clamped)
		return 2;
	if (rlimits_apply(&plan) < 0)
		return 3;
	rlimits_text(&plan, &text);
	if (!strstr(text.text, "open-files 30 (asked 4096; the caller's own limit is lower)"))
		return 4;
	str_free(&text);
	p.limits.open_files.n = 25; /* between the two: what was asked, and no more than that */
	rlimits_build(&p, &plan);
	if (item(&plan, RLIMIT_NOFILE)->soft != 25 || item(&plan, RLIMIT_NOFILE)->hard != 25 || item(&plan, RLIMIT_NOFILE)->clamped)
		return 5;
	return rlimits_apply(&plan) < 0 ? 6 : 0;
}

static void test_clamped(void **state)
{
	struct rlimit_plan none = {0};

	(void)state;
	assert_int_equal(under(&none, do_clamped), 0);
}

#define OTHERS 12
#define LIMIT 5

/*
 * An unprivileged user who has 12 processes already, in a user namespace of its own with a limit of 5: what was there does
 * not count, the limit binds, and what has ended is given back (case 13).
 */
static int do_processes(void)
{
	struct profile p = {0};
	struct rlimit_plan plan;
	pid_t others[OTHERS], own[LIMIT + 1];
	int n = 0, r = 0;

	if (getuid() == 0 && (setgroups(0, NULL) < 0 || setresgid(65534, 65534, 65534) < 0 || setresuid(65534, 65534, 65534) < 0))
		return 100;
	for (int i = 0; i < OTHERS; i++) {
		others[i] = fork();
		if (others[i] == 0) {
			pause();
			_exit(0);
		}
		if (others[i] < 0)
			return 101;
	}
	p.limits.processes.n = LIMIT;
	rlimits_build(&p, &plan);
	if (unshare(CLONE_NEWUSER) < 0 || rlimits_apply(&plan) < 0)
		r = 102;
	while (r == 0 && n <= LIMIT) {
		pid_t pid = fork();

		if (pid == 0) {
			pause();
			_exit(0);
		}
		if (pid < 0)
			break;
		own[n++] = pid;
	}
	/* This process stands for pid 1 of the box, which the limit has room for. */
	if (r == 0 && n != LIMIT)
		r = 110 + n;
	for (int i = 0; i < n; i++) {
		kill(own[i], SIGKILL);
		waitpid(own[i], NULL, 0);
	}
	for (int i = 0; i < 80 && r == 0; i++) {
		pid_t pid = fork();

		if (pid == 0)
			_exit(0);
		if (pid < 0 || waitpid(pid, NULL, 0) != pid)
			r = 103;
	}
	for (int i = 0; i < OTHERS; i++) {
		kill(others[i], SIGKILL);
		waitpid(others[i], NULL, 0);
	}
	return r;
}

static void test_processes(void **state)
{
	struct rlimit_plan none = {0};

	(void)state;
	assert_int_equal(under(&none, do_processes), 0);
	assert_int_equal(rlimits_bind_processes(), getuid() != 0);
}

/* The hard limit is what makes it a limit. */
static int do_raise_unprivileged(void)
{
	if (getuid() == 0 && setresuid(65534, 65534, 65534) < 0)
		return 200;
	return do_raise();
}

static void test_hard(void **state)
{
	struct profile p = {0};
	struct rlimit_plan plan;

	(void)state;
	p.limits.open_files.n = 16;
	rlimits_build(&p, &plan);
	assert_int_equal(under(&plan, do_raise_unprivileged), EPERM);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_defaults), cmocka_unit_test(test_each), cmocka_unit_test(test_clamped),
		cmocka_unit_test(test_processes), cmocka_unit_test(test_hard),
	};

	return cmocka_run_group_tests_name("rlimits", tests, NULL, NULL);
}
