/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "run/prune.h"
#include "run/state.h"
#include "sys/fd.h"
#include "sys/procstat.h"
#include "sys/tree.h"

#include "base/banned.h"

static char top_path[64];
static int top = -1, st_fd = -1;

static int top_make(void **state)
{
	char path[128];
	struct err e;

	(void)state;
	snprintf(top_path, sizeof(top_path), "/tmp/agentbox-test-XXXXXX");
	if (!mkdtemp(top_path))
		return -1;
	top = open(top_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	snprintf(path, sizeof(path), "%s/a/b/state", top_path);
	setenv("AGENTBOX_STATE", path, 1);
	st_fd = state_open(&e);
	return st_fd < 0 ? -1 : 0;
}

static int top_remove(void **state)
{
	struct err e;

	(void)state;
	close(st_fd);
	if (tree_remove(top, "a", &e) < 0)
		return -1;
	close(top);
	return rmdir(top_path);
}

static void test_path(void **state)
{
	struct err e = {0};
	char *path;

	(void)state;
	setenv("XDG_STATE_HOME", "/x//y/", 1);
	setenv("HOME", "/home/me", 1);
	setenv("AGENTBOX_STATE", "/s/../t", 1);
	assert_int_equal(state_path(&path, &e), 0);
	assert_string_equal(path, "/t");
	free(path);
	setenv("AGENTBOX_STATE", "", 1);
	assert_int_equal(state_path(&path, &e), 0);
	assert_string_equal(path, "/x/y/agentbox");
	free(path);
	setenv("XDG_STATE_HOME", "relative", 1);
	assert_int_equal(state_path(&path, &e), 0);
	assert_string_equal(path, "/home/me/.local/state/agentbox");
	free(path);
	unsetenv("XDG_STATE_HOME");
}

static void test_open(void **state)
{
	struct stat st;
	struct err e = {0};

	(void)state;
	assert_int_equal(fstat(st_fd, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	assert_int_equal(fcntl(st_fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
	fchmod(st_fd, 0750);
	assert_int_equal(state_open(&e), -EPERM);
	assert_non_null(strstr(e.msg, "run: chmod 700 "));
	fchmod(st_fd, 0700);
	setenv("AGENTBOX_STATE", "/proc/self/status/x", 1);
	assert_true(state_open(&e) < 0);
	assert_non_null(strstr(e.msg, "AGENTBOX_STATE"));
	if (geteuid() == 0) { /* the run as root has another user at hand */
		assert_int_equal(fchown(st_fd, 65534, 65534), 0);
		setenv("AGENTBOX_STATE", top_path, 1);
		assert_int_equal(fchown(top, 65534, 65534), 0);
		assert_int_equal(state_open(&e), -EPERM);
		assert_non_null(strstr(e.msg, "belongs to uid 65534"));
		assert_int_equal(fchown(st_fd, 0, 0), 0);
		assert_int_equal(fchown(top, 0, 0), 0);
	}
}

static void test_create(void **state)
{
	char id[STATE_ID_MAX], other[STATE_ID_MAX];
	struct err e = {0};
	struct stat st;
	cleanup_fd int a = state_run_create(st_fd, id, &e), b = state_run_create(st_fd, other, &e);
	cleanup_strv struct strv ids = {0};

	(void)state;
	assert_true(a >= 0 && b >= 0);
	assert_int_equal(strlen(id), 27);
	assert_int_equal(strspn(id, "0123456789abcdef-"), 27);
	assert_true(strcmp(id, other) < 0); /* later ones sort behind */
	assert_int_equal(fstat(a, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	assert_int_equal(fcntl(a, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
	assert_int_equal(mkdirat(st_fd, "runs/.hidden", 0700), 0);
	assert_int_equal(mkdirat(st_fd, "runs/UPPER", 0700), 0);
	assert_int_equal(state_run_list(st_fd, &ids, &e), 0);
	assert_int_equal(ids.n, 2);
	assert_string_equal(ids.v[0], id);
	assert_string_equal(ids.v[1], other);
}

static void run_dir(const char *id)
{
	char path[128];

	mkdirat(st_fd, "runs", 0700);
	snprintf(path, sizeof(path), "runs/%s", id);
	assert_int_equal(mkdirat(st_fd, path, 0700), 0);
}

static void test_find(void **state)
{
	char id[STATE_ID_MAX];
	struct err e = {0};

	(void)state;
	assert_int_equal(state_run_find(st_fd, "last", id, &e), -ENOENT);
	assert_non_null(strstr(e.msg, "no runs yet"));
	run_dir("20260101-000000-000001-aaaa");
	run_dir("20260101-000000-000002-bbbb");
	run_dir("20260102-000000-000001-cccc");
	run_dir("2026010");
	assert_int_equal(state_run_find(st_fd, "last", id, &e), 0);
	assert_string_equal(id, "20260102-000000-000001-cccc");
	assert_int_equal(state_run_find(st_fd, "20260102", id, &e), 0);
	assert_string_equal(id, "20260102-000000-000001-cccc");
	/* an id in full is that run, also where it begins others */
	assert_int_equal(state_run_find(st_fd, "2026010", id, &e), 0);
	assert_string_equal(id, "2026010");
	assert_int_equal(state_run_find(st_fd, "20260101", id, &e), -ENOTUNIQ);
	assert_non_null(strstr(e.msg, "2 runs: 20260101-000000-000001-aaaa, 20260101-000000-000002-bbbb;"));
	assert_int_equal(state_run_find(st_fd, "2027", id, &e), -ENOENT);
	assert_non_null(strstr(e.msg, "no such run: 2027"));
	assert_int_equal(state_run_find(st_fd, "", id, &e), -EINVAL);
	assert_int_equal(state_run_find(st_fd, "../runs", id, &e), -ENOENT);
	assert_int_equal(state_run_open(st_fd, "../runs", &e), -EINVAL);
	for (int i = 3; i < 9; i++) {
		char name[48];

		snprintf(name, sizeof(name), "20260101-000000-00000%d-dddd", i);
		run_dir(name);
	}
	assert_int_equal(state_run_find(st_fd, "20260101", id, &e), -ENOTUNIQ);
	assert_non_null(strstr(e.msg, "8 runs: "));
	assert_non_null(strstr(e.msg, "000005-dddd, ...;"));
	assert_null(strstr(e.msg, "000006-dddd"));
}

/* The lock is the supervisor's life: it goes with kill -9. */
static void test_live(void **state)
{
	char id[STATE_ID_MAX];
	struct err e = {0};
	cleanup_fd int dir = -1;
	int pipe_fd[2], lock, status;
	pid_t pid;

	(void)state;
	assert_int_equal(pipe2(pipe_fd, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0) {
		int mine = state_run_create(st_fd, id, &e);

		if (mine < 0 || write(pipe_fd[1], id, sizeof(id)) != sizeof(id))
			_exit(1);
		pause();
		_exit(0);
	}
	assert_int_equal(read(pipe_fd[0], id, sizeof(id)), sizeof(id));
	dir = state_run_open(st_fd, id, &e);
	assert_true(dir >= 0);
	assert_true(state_run_is_live(dir));
	assert_int_equal(state_run_lock(dir), -EWOULDBLOCK);
	assert_string_equal(state_run_status(NULL, true), "running");
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_false(state_run_is_live(dir));
	assert_string_equal(state_run_status(NULL, false), "lost");
	lock = state_run_lock(dir);
	assert_true(lock >= 0);
	assert_int_equal(state_run_lock(dir), -EWOULDBLOCK);
	close(lock);
	assert_int_equal(state_run_remove(st_fd, id, &e), 0);
	close(pipe_fd[0]);
	close(pipe_fd[1]);
}

static void test_run_json(void **state)
{
	char id[STATE_ID_MAX];
	struct err e = {0};
	cleanup_fd int dir = state_run_create(st_fd, id, &e);
	json_t *run = json_pack("{s:s,s:s}", "id", id, "state", "ended"), *back = NULL;
	struct stat st;

	(void)state;
	assert_int_equal(state_run_read(dir, &back, &e), -ENOENT);
	assert_int_equal(state_run_write(dir, run, &e), 0);
	assert_int_equal(state_run_read(dir, &back, &e), 0);
	assert_true(json_equal(run, back));
	assert_string_equal(state_run_status(back, false), "ended");
	assert_int_equal(fstatat(dir, "run.json", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	json_decref(run);
	json_decref(back);
	assert_int_equal(unlinkat(dir, "run.json", 0), 0);
	assert_int_equal(mkfifoat(dir, "run.json", 0600), 0);
	assert_true(state_run_read(dir, &back, &e) < 0); /* and does not wait for a writer */
	assert_int_equal(unlinkat(dir, "run.json", 0), 0);
	assert_int_equal(symlinkat("/etc/passwd", dir, "run.json"), 0);
	assert_int_equal(state_run_read(dir, &back, &e), -ELOOP);
}

/* Between its creation and its lock a run is nobody's to list, nor is it lost. */
static void test_unborn(void **state)
{
	char id[STATE_ID_MAX], path[STATE_ID_MAX + 32];
	cleanup_strv struct strv ids = {0};
	struct err e = {0};
	int lock;

	(void)state;
	run_dir("20200101-000000-000001-aaaa");
	lock = state_run_create(st_fd, id, &e);
	assert_true(lock >= 0);
	assert_int_equal(state_run_list(st_fd, &ids, &e), 0);
	assert_int_equal(ids.n, 2);
	close(lock);
	strv_free(&ids);
	assert_int_equal(state_run_list(st_fd, &ids, &e), 0);
	assert_int_equal(ids.n, 1);
	assert_string_equal(ids.v[0], "20200101-000000-000001-aaaa");
	strv_free(&ids);
	snprintf(path, sizeof(path), "runs/%s/events.jsonl", id);
	close(openat(st_fd, path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	assert_int_equal(state_run_list(st_fd, &ids, &e), 0);
	assert_int_equal(ids.n, 2);
}

static void test_times(void **state)
{
	int64_t ms;

	(void)state;
	assert_int_equal(state_time_ms("2026-11-29T12:13:14.123456789Z", &ms), 0);
	assert_int_equal(ms, 1795954394123);
	assert_int_equal(state_time_ms("1970-01-01T00:00:00Z", &ms), 0);
	assert_int_equal(ms, 0);
	assert_int_equal(state_id_time_ms("20261129-121314-123456-abcd", &ms), 0);
	assert_int_equal(ms, 1795954394000);
	assert_int_equal(state_time_ms("2026-11-29T12:13:14+01:00", &ms), -EINVAL);
	assert_int_equal(state_time_ms("yesterday", &ms), -EINVAL);
	assert_int_equal(state_id_time_ms("abc", &ms), -EINVAL);
}

static void test_procstat(void **state)
{
	uint64_t mine, again, child;
	int status;
	pid_t pid;

	(void)state;
	assert_int_equal(procstat_start(getpid(), &mine), 0);
	assert_int_equal(procstat_start(getpid(), &again), 0);
	assert_int_equal(mine, again);
	usleep(30000); /* a clock tick is 10 ms */
	pid = fork();
	if (pid == 0) {
		pause();
		_exit(0);
	}
	assert_int_equal(procstat_start(pid, &child), 0);
	assert_true(child > mine && child < mine + 100000);
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	assert_int_equal(procstat_start(pid, &child), -ESRCH);
}

/* --- prune_leftovers --- */

static int leftovers(const char *path, struct err *e)
{
	json_t *run = json_pack("{s:[s]}", "leftovers", path);
	int r = prune_leftovers(run, e);

	json_decref(run);
	return r;
}

static bool there(const char *name)
{
	struct stat st;

	return fstatat(top, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static void test_leftovers(void **state)
{
	struct err e = {0};
	char path[256];

	(void)state;
	mkdirat(top, "a/repo", 0700);
	mkdirat(top, "a/repo/.agentbox-x", 0700);
	mkdirat(top, "a/repo/.agentbox-x/sub", 0700);
	mkdirat(top, "a/repo/src", 0700);
	snprintf(path, sizeof(path), "%s/a/repo/.agentbox-x", top_path);
	assert_int_equal(leftovers(path, &e), 0);
	assert_false(there("a/repo/.agentbox-x"));
	assert_int_equal(leftovers(path, &e), 0); /* gone already */
	snprintf(path, sizeof(path), "%s/a/none/.agentbox-x", top_path);
	assert_int_equal(leftovers(path, &e), 0);
	snprintf(path, sizeof(path), "%s/a/repo/src", top_path);
	assert_int_equal(leftovers(path, &e), -EPERM);
	assert_true(there("a/repo/src"));
	assert_int_equal(leftovers("a/.agentbox-x", &e), -EINVAL);
	/* the box put a link where a directory was */
	mkdirat(top, "a/else", 0700);
	mkdirat(top, "a/else/.agentbox-y", 0700);
	assert_int_equal(symlinkat("../else", top, "a/repo/link"), 0);
	snprintf(path, sizeof(path), "%s/a/repo/link/.agentbox-y", top_path);
	assert_int_equal(leftovers(path, &e), -ELOOP);
	assert_true(there("a/else/.agentbox-y"));
	/* and a link under the name itself: that goes, and not what it points to */
	assert_int_equal(symlinkat("../else", top, "a/repo/.agentbox-z"), 0);
	snprintf(path, sizeof(path), "%s/a/repo/.agentbox-z", top_path);
	assert_int_equal(leftovers(path, &e), 0);
	assert_false(there("a/repo/.agentbox-z"));
	assert_true(there("a/else/.agentbox-y"));
}

static void test_cgroups(void **state)
{
	struct err e = {0};
	char path[256];
	json_t *run;

	(void)state;
	mkdirat(top, "a/empty", 0700);
	snprintf(path, sizeof(path), "%s/a/empty", top_path);
	run = json_pack("{s:[s,s]}", "cgroups", "/sys/fs/cgroup/no-such/agentbox-x", path);
	assert_true(prune_leftovers(run, &e) < 0);
	assert_non_null(strstr(e.msg, "group"));
	assert_true(there("a/empty"));
	json_decref(run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_path, top_make, top_remove),
		cmocka_unit_test_setup_teardown(test_open, top_make, top_remove),
		cmocka_unit_test_setup_teardown(test_create, top_make, top_remove),
		cmocka_unit_test_setup_teardown(test_find, top_make, top_remove),
		cmocka_unit_test_setup_teardown(test_live, top_make, top_remove),
		cmocka_unit_test_setup_teardown(test_run_json, top_make, top_remove),
		cmocka_unit_test_setup_teardown(test_unborn, top_make, top_remove),
		cmocka_unit_test(test_times),
		cmocka_unit_test(test_procstat),
		cmocka_unit_test_setup_teardown(test_leftovers, top_make, top_remove),
		cmocka_unit_test_setup_teardown(test_cgroups, top_make, top_remove),
	};

	return cmocka_run_group_tests_name("state", tests, NULL, NULL);
}
