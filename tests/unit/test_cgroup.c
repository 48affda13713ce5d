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
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "box/cgroup.h"
#include "box/cgroup_find.h"
#include "sys/fd.h"
#include "sys/syscalls.h"

#include "base/banned.h"

/* A group of its own for each test, so that one that fails does not fail the next. */
static char run_id[48];
static struct cgroup_host host;

/* --- where the groups are: texts of real hosts --- */

static void find(const char *mountinfo, const char *groups, struct cgroup_trees *out)
{
	char *m = mem_strdup(mountinfo), *g = mem_strdup(groups);

	cgroup_find_in(m, g, out);
	free(m);
	free(g);
}

static void test_find(void **state)
{
	struct cgroup_trees t;

	(void)state;
	/* systemd with v2 */
	find("31 23 0:28 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot\n",
	     "0::/user.slice/user-1000.slice/user@1000.service/app.slice/a.scope\n", &t);
	assert_string_equal(t.own[TREE_V2], "/sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service/app.slice/a.scope");
	assert_null(t.own[TREE_MEMORY]);
	cgroup_trees_free(&t);
	/* v1 with shared controllers, and a v2 tree beside them */
	find("32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
	     "35 31 0:32 / /sys/fs/cgroup/mem\\040ory rw - cgroup cgroup rw,memory\n"
	     "39 31 0:36 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n"
	     "40 31 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd\n"
	     "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
	     "9:name=systemd:/x\n8:pids:/p\n4:memory:/m/n\n2:cpuacct,cpu:/c\n0::/\n", &t);
	assert_string_equal(t.own[TREE_V2], "/sys/fs/cgroup/unified");
	assert_string_equal(t.own[TREE_MEMORY], "/sys/fs/cgroup/mem ory/m/n");
	assert_string_equal(t.own[TREE_PIDS], "/sys/fs/cgroup/pids/p");
	assert_string_equal(t.own[TREE_CPU], "/sys/fs/cgroup/cpu,cpuacct/c");
	assert_null(t.own[TREE_FREEZER]);
	cgroup_trees_free(&t);
	/* Docker: a part of the tree is mounted, and it holds the caller; another does not */
	find("50 49 0:29 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n"
	     "51 49 0:36 /docker/other /sys/fs/cgroup/pids ro - cgroup cgroup rw,pids\n",
	     "4:memory:/docker/abc/sub\n8:pids:/docker/abc\n", &t);
	assert_string_equal(t.own[TREE_MEMORY], "/sys/fs/cgroup/memory/sub");
	assert_null(t.own[TREE_PIDS]);
	cgroup_trees_free(&t);
	/* outside of the caller's cgroup namespace; cut and odd lines */
	find("31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n31 23 0:28 /\nx - y\n - \n\n31", "0::/../../other\n", &t);
	assert_null(t.own[TREE_V2]);
	cgroup_trees_free(&t);
	find("31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw", "0:\n0\n\n::\n1:memory\n0::relative\n", &t);
	assert_null(t.own[TREE_V2]);
	cgroup_trees_free(&t);
	find("", "", &t);
	assert_null(t.own[TREE_V2]);
	cgroup_trees_free(&t);
}

/* --- with the groups of this host --- */

static bool can(enum cgroup_limit limit)
{
	return host.can[limit];
}

/* A child in the groups, in a memory of its own. Return: its pid; it waits for a byte on *go. */
static pid_t child_in(const struct cgroup *cg, int *go, int (*fn)(void))
{
	int pipes[2];
	char byte, text[32];
	pid_t pid;

	assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		if (read(pipes[0], &byte, 1) != 1)
			_exit(254);
		_exit(fn());
	}
	snprintf(text, sizeof(text), "%d", (int)pid);
	for (size_t i = 0; i < cg->n; i++)
		assert_int_equal(fd_write_file(cg->v[i].leaf_fd, "cgroup.procs", text), 0);
	close(pipes[0]);
	*go = pipes[1];
	return pid;
}

static int finish(pid_t pid, int go)
{
	int status;

	assert_int_equal(write(go, "x", 1), 1);
	close(go);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static void create(const struct profile *p, bool for_ebpf, struct cgroup *cg)
{
	static int n;
	struct err e = {0};

	snprintf(run_id, sizeof(run_id), "unit-%d-%d", (int)getpid(), n++);
	if (cgroup_create(p, run_id, for_ebpf, cg, &e) < 0)
		fail_msg("%s", e.msg);
}

static void gone(struct cgroup *cg)
{
	struct strv paths = {0};
	struct stat st;
	struct err e;

	cgroup_paths(cg, &paths);
	if (cgroup_remove(cg, 3000, &e) < 0)
		fail_msg("%s", e.msg);
	for (size_t i = 0; i < paths.n; i++)
		assert_true(stat(paths.v[i], &st) < 0);
	strv_free(&paths);
	cgroup_close(cg);
}

static int do_nothing(void)
{
	return 0;
}

static int do_eat(void)
{
	size_t size = 256 << 20;
	char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return 1;
	for (size_t i = 0; i < size; i += 4096)
		p[i] = 1;
	return 0;
}

static int do_eat_some(void)
{
	size_t size = 8 << 20;
	char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return 1;
	for (size_t i = 0; i < size; i += 4096)
		p[i] = 1;
	return 0;
}

static void test_memory(void **state)
{
	struct profile p = {0};
	struct cgroup_stats stats = {0};
	struct cgroup cg;
	uint32_t events = 0;
	int go, oom;
	pid_t pid;

	(void)state;
	p.limits.memory.bytes = 32 << 20;
	create(&p, false, &cg);
	if (!can(CGROUP_MEMORY)) {
		assert_true(cg.why_not[CGROUP_MEMORY][0]);
		assert_int_equal(cg.bounded, 0);
		assert_int_equal(cg.n, 0);
		gone(&cg);
		return;
	}
	assert_int_equal(cg.bounded, 1 << CGROUP_MEMORY);
	assert_string_equal(cg.why_not[CGROUP_MEMORY], "");
	oom = cgroup_watch_oom(&cg, &events);
	assert_true(oom >= 0);
	pid = child_in(&cg, &go, do_eat_some);
	assert_int_equal(finish(pid, go), 0);
	cgroup_stats(&cg, &stats);
	assert_int_equal(stats.oom_kills, 0);
	assert_int_equal(poll(&(struct pollfd){.fd = oom, .events = (short)events}, 1, 0), 0);
	pid = child_in(&cg, &go, do_eat);
	assert_int_equal(finish(pid, go), 1000 + SIGKILL);
	assert_int_equal(poll(&(struct pollfd){.fd = oom, .events = (short)events}, 1, 2000), 1);
	cgroup_oom_seen(&cg);
	assert_int_equal(poll(&(struct pollfd){.fd = oom, .events = (short)events}, 1, 0), 0);
	cgroup_stats(&cg, &stats);
	assert_true(stats.oom_kills >= 1);
	if (stats.has_memory)
		assert_true(stats.peak_memory_bytes > 16 << 20 && stats.peak_memory_bytes <= 32 << 20);
	gone(&cg);
}

static int do_bomb(void)
{
	int n = 0;

	for (; n < 100; n++) {
		pid_t pid = fork();

		if (pid == 0) {
			pause();
			_exit(0);
		}
		if (pid < 0)
			break;
	}
	signal(SIGTERM, SIG_IGN);
	kill(0, SIGTERM);
	return n;
}

static int do_bomb_session(void)
{
	setsid();
	return do_bomb();
}

static void test_processes(void **state)
{
	struct profile p = {0};
	struct cgroup_stats stats = {0};
	struct cgroup cg;
	int go;
	pid_t pid;

	(void)state;
	p.limits.processes.n = 7;
	create(&p, false, &cg);
	if (!can(CGROUP_PROCESSES)) {
		assert_true(cg.why_not[CGROUP_PROCESSES][0]);
		gone(&cg);
		return;
	}
	pid = child_in(&cg, &go, do_bomb_session);
	assert_int_equal(finish(pid, go), 7); /* it stands for pid 1 */
	cgroup_stats(&cg, &stats);
	if (stats.has_processes)
		assert_int_equal(stats.peak_processes, 8);
	/* What has ended is given back (case 13). */
	for (int i = 0; i < 20; i++) {
		pid = child_in(&cg, &go, do_nothing);
		assert_int_equal(finish(pid, go), 0);
	}
	gone(&cg);
}

static double cpu_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Spins for a second of wall time. Return: hundredths of a second that it got. */
static int do_spin(void)
{
	struct timespec start, now;

	clock_gettime(CLOCK_MONOTONIC, &start);
	do
		clock_gettime(CLOCK_MONOTONIC, &now);
	while ((now.tv_sec - start.tv_sec) * 1000 + (now.tv_nsec - start.tv_nsec) / 1000000 < 1000);
	return (int)(cpu_seconds() * 100);
}

static void test_cpus(void **state)
{
	struct profile p = {0};
	struct cgroup cg;
	int go, got;
	pid_t pid;

	(void)state;
	p.limits.cpus.milli = 200;
	create(&p, false, &cg);
	if (!can(CGROUP_CPUS)) {
		assert_true(cg.why_not[CGROUP_CPUS][0]);
		gone(&cg);
		return;
	}
	pid = child_in(&cg, &go, do_spin);
	got = finish(pid, go);
	if (got < 5 || got > 40)
		fail_msg("%d hundredths of a second, not some 20", got);
	gone(&cg);
}

static int do_many_sleepers(void)
{
	signal(SIGTERM, SIG_IGN);
	for (int i = 0; i < 20; i++) {
		if (fork() == 0) {
			setsid();
			while (pause() < 0)
				;
		}
	}
	while (pause() < 0)
		;
	return 0;
}

static void test_kill(void **state)
{
	struct profile p = {0};
	struct cgroup cg;
	int go, status;
	pid_t pid;

	(void)state;
	p.limits.processes.n = 50;
	p.limits.memory.bytes = 64 << 20;
	create(&p, false, &cg);
	if (!cg.n) {
		assert_false(can(CGROUP_PROCESSES) || can(CGROUP_MEMORY));
		gone(&cg);
		return;
	}
	pid = child_in(&cg, &go, do_many_sleepers);
	assert_int_equal(write(go, "x", 1), 1);
	nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
	/* Busy: it stays, and says so. */
	assert_int_equal(cgroup_remove(&cg, 0, NULL), -EBUSY);
	assert_int_equal(cgroup_kill(&cg), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	close(go);
	gone(&cg);
}

/* The same where there is no v2 group: by the list of processes. */
static void test_kill_v1(void **state)
{
	struct profile p = {0};
	struct cgroup cg;
	int go, status;
	pid_t pid;

	(void)state;
	p.limits.processes.n = 50;
	create(&p, false, &cg);
	for (size_t i = 0; i < cg.n; i++)
		cg.v[i].v2 = false;
	if (cg.n) {
		pid = child_in(&cg, &go, do_many_sleepers);
		assert_int_equal(write(go, "x", 1), 1);
		nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
		assert_int_equal(cgroup_kill(&cg), 0);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, SIGKILL);
		close(go);
	}
	gone(&cg);
}

/* After a crash: only the paths are known. */
static void test_remove_path(void **state)
{
	struct profile p = {0};
	struct strv paths = {0};
	struct cgroup cg;
	struct err e;
	struct stat st;
	int go, status;
	pid_t pid;

	(void)state;
	p.limits.processes.n = 50;
	p.limits.memory.bytes = 64 << 20;
	p.syscalls.nested_namespaces.v = true;
	create(&p, false, &cg);
	cgroup_paths(&cg, &paths);
	if (cg.n) {
		pid = child_in(&cg, &go, do_many_sleepers);
		assert_int_equal(write(go, "x", 1), 1);
		close(go);
		/* and the box made groups of its own */
		for (size_t i = 0; i < paths.n; i++) {
			char *inner = mem_printf("%s/box/a", paths.v[i]), *inner2 = mem_printf("%s/b", inner);

			assert_int_equal(mkdir(inner, 0755), 0);
			assert_int_equal(mkdir(inner2, 0755), 0);
			free(inner);
			free(inner2);
		}
		nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
		cgroup_close(&cg);
		/* The dead have to be reaped for the group to be empty; in a crash init does that. */
		signal(SIGCHLD, SIG_IGN);
		for (size_t i = 0; i < paths.n; i++)
			if (cgroup_remove_path(paths.v[i], 3000, &e) < 0)
				fail_msg("%s", e.msg);
		signal(SIGCHLD, SIG_DFL);
		waitpid(pid, &status, WNOHANG);
		for (size_t i = 0; i < paths.n; i++) {
			assert_true(stat(paths.v[i], &st) < 0);
			assert_int_equal(cgroup_remove_path(paths.v[i], 0, &e), 0); /* gone is done */
		}
	} else {
		gone(&cg);
	}
	strv_free(&paths);
	/* What is no group of ours is left alone. */
	assert_int_equal(cgroup_remove_path("/tmp", 0, &e), -EINVAL);
	assert_int_equal(cgroup_remove_path("/sys/fs/cgroup", 0, &e), -EINVAL);
	assert_int_equal(cgroup_remove_path("agentbox-x", 0, &e), -EINVAL);
	assert_int_equal(cgroup_remove_path("/sys/fs/cgroup/agentbox-x/../agentbox-y", 0, &e), -EINVAL);
	assert_int_equal(mkdir("/tmp/agentbox-test-nogroup", 0755), 0);
	assert_int_equal(cgroup_remove_path("/tmp/agentbox-test-nogroup", 0, &e), -EINVAL);
	assert_int_equal(rmdir("/tmp/agentbox-test-nogroup"), 0);
}

/* clone3 straight into the group; a second level where the box could make groups of its own. */
static void into(bool nested)
{
	struct profile p = {.syscalls.nested_namespaces.v = nested};
	struct cgroup cg;
	struct clone_args args = {.flags = CLONE_INTO_CGROUP, .exit_signal = SIGCHLD};
	char text[8192] = "", *want;
	int fd, status, pipes[2];
	pid_t pid;
	ssize_t n;

	create(&p, true, &cg);
	if (cgroup_into_fd(&cg) < 0) {
		assert_false(host.v2_group);
		assert_true(cg.why_no_v2[0]);
		gone(&cg);
		return;
	}
	assert_int_equal(cg.n, 1);
	assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
	args.cgroup = (uint64_t)cgroup_into_fd(&cg);
	pid = sys_clone3(&args);
	assert_true(pid >= 0);
	if (pid == 0) {
		fd = open("/proc/self/cgroup", O_RDONLY);
		n = read(fd, text, sizeof(text) - 1);
		_exit(n > 0 && write(pipes[1], text, (size_t)n) == n ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_true(read(pipes[0], text, sizeof(text) - 1) > 0);
	want = mem_printf("agentbox-%s%s\n", run_id, nested ? "/box" : "");
	assert_non_null(strstr(text, want));
	free(want);
	close(pipes[0]);
	close(pipes[1]);
	gone(&cg);
}

static void test_into(void **state)
{
	(void)state;
	into(false);
	into(true);
}

static void test_modes(void **state)
{
	struct profile p = {0};
	struct cgroup cg;
	struct err e = {0};
	int r;

	(void)state;
	p.limits.cpus.milli = 500;
	p.limits.cgroup.v = MECHANISM_OFF;
	create(&p, true, &cg);
	assert_int_equal(cg.n, 0);
	assert_non_null(strstr(cg.why_not[CGROUP_CPUS], "off"));
	gone(&cg);
	/* A quota that the kernel refuses stands for whatever cannot be bounded. */
	p.limits.cgroup.v = MECHANISM_REQUIRE;
	p.limits.cpus.milli = 900000000000;
	r = cgroup_create(&p, run_id, false, &cg, &e);
	assert_int_equal(r, -ENOTSUP);
	assert_non_null(strstr(e.msg, "[limits] cpus cannot be bounded, and cgroup = require: "));
	assert_int_equal(cg.n, 0);
	cgroup_close(&cg);
	p.limits.cgroup.v = MECHANISM_AUTO;
	create(&p, false, &cg);
	assert_int_equal(cg.bounded, 0);
	assert_true(cg.why_not[CGROUP_CPUS][0]);
	assert_int_equal(cg.n, 0);
	gone(&cg);
}

/* An unprivileged user is told why, and nothing is made. */
static int do_unprivileged(void)
{
	struct profile p = {0};
	struct cgroup cg;
	struct err e;

	if (getuid() == 0 && (setresgid(65534, 65534, 65534) < 0 || setresuid(65534, 65534, 65534) < 0))
		return 1;
	p.limits.memory.bytes = 64 << 20;
	p.limits.cgroup.v = MECHANISM_REQUIRE;
	if (cgroup_create(&p, run_id, false, &cg, &e) == 0) {
		cgroup_remove(&cg, 1000, NULL);
		return 2;
	}
	return cg.n || !strstr(e.msg, "[limits] memory cannot be bounded, and cgroup = require: ") ? 3 : 0;
}

static void test_unprivileged(void **state)
{
	pid_t pid = fork();
	int status;

	(void)state;
	assert_true(pid >= 0);
	if (pid == 0)
		_exit(do_unprivileged());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (getuid() == 0) /* else the caller may well have a group that was delegated to it */
		assert_int_equal(WEXITSTATUS(status), 0);
}

static int setup(void **state)
{
	(void)state;
	snprintf(run_id, sizeof(run_id), "unit-%d", (int)getpid());
	cgroup_probe(&host);
	for (int i = 0; i < CGROUP_LIMITS; i++)
		print_message("# limit %d: %s\n", i, host.can[i] ? "bounded here" : host.why_not[i]);
	return 0;
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_find),	    cmocka_unit_test(test_memory),  cmocka_unit_test(test_processes),
		cmocka_unit_test(test_cpus),	    cmocka_unit_test(test_kill),    cmocka_unit_test(test_kill_v1),
		cmocka_unit_test(test_remove_path), cmocka_unit_test(test_into),    cmocka_unit_test(test_modes),
		cmocka_unit_test(test_unprivileged),
	};

	return cmocka_run_group_tests_name("cgroup", tests, setup, NULL);
}
