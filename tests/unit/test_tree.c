/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/str.h"
#include "sys/tree.h"

#include "base/banned.h"

static char top_path[64];
static int top = -1;

static int top_make(void **state)
{
	/* In memory where that is: ext4 takes 20 s to make and remove 100,000 levels (recently_deleted()), tmpfs 2. */
	const char *base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";

	(void)state;
	snprintf(top_path, sizeof(top_path), "%s/agentbox-test-XXXXXX", base);
	if (!mkdtemp(top_path))
		return -1;
	top = open(top_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return top < 0 ? -1 : 0;
}

static int top_remove(void **state)
{
	(void)state;
	close(top);
	return rmdir(top_path); /* fails the test where something was left */
}

static void file_make(int dir, const char *name)
{
	int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	close(fd);
}

static bool is_there(const char *name)
{
	struct stat st;

	return fstatat(top, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static void test_remove_simple(void **state)
{
	struct err e = {0};

	(void)state;
	assert_int_equal(tree_remove(top, "missing", &e), 0);
	file_make(top, "file");
	assert_int_equal(tree_remove(top, "file", &e), 0);
	mkdirat(top, "d", 0700);
	file_make(top, "d/a");
	mkdirat(top, "d/sub", 0700);
	file_make(top, "d/sub/b");
	mkfifoat(top, "d/sub/fifo", 0600);
	assert_int_equal(tree_remove(top, "d", &e), 0);
	assert_false(is_there("d"));
	assert_int_equal(tree_remove(top, "..", &e), -EINVAL);
	assert_int_equal(tree_remove(top, "a/b", &e), -EINVAL);
	assert_int_equal(tree_remove(top, "", &e), -EINVAL);
}

static void test_remove_does_not_follow(void **state)
{
	struct err e = {0};

	(void)state;
	mkdirat(top, "kept", 0700);
	file_make(top, "kept/file");
	mkdirat(top, "d", 0700);
	assert_int_equal(symlinkat("../kept", top, "d/link"), 0);
	assert_int_equal(symlinkat("/", top, "d/root"), 0);
	assert_int_equal(symlinkat("kept", top, "link"), 0);
	assert_int_equal(tree_remove(top, "d", &e), 0);
	assert_int_equal(tree_remove(top, "link", &e), 0);
	assert_true(is_there("kept/file"));
	assert_int_equal(tree_remove(top, "kept", &e), 0);
}

/* In a child without privileges, as root opens and removes what it likes. Return: 0 where all went well. */
static int without_rights(void)
{
	struct err e = {0};

	if (mkdirat(top, "u", 0700) || mkdirat(top, "u/work", 0700) || mkdirat(top, "u/work/work", 0700) ||
	    mkdirat(top, "u/work/work/x", 0700) || mkdirat(top, "u/ro", 0700) || mkdirat(top, "u/ro/y", 0700))
		return 1;
	file_make(top, "u/ro/y/file");
	if (fchmodat(top, "u/work/work/x", 0, 0) || fchmodat(top, "u/work/work", 0, 0) || fchmodat(top, "u/ro/y", 0444, 0) ||
	    fchmodat(top, "u/ro", 0500, 0) || fchmodat(top, "u", 0, 0))
		return 2;
	if (tree_remove(top, "u", &e) < 0) {
		fprintf(stderr, "%s\n", e.msg);
		return 3;
	}
	return is_there("u") ? 4 : 0;
}

static int as_nobody(int (*f)(void))
{
	pid_t pid;
	int status;

	assert_int_equal(fchmod(top, 0777), 0);
	pid = fork();
	if (pid == 0) {
		if (geteuid() == 0 && (setgid(65534) || setuid(65534)))
			_exit(99);
		_exit(f());
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(fchmod(top, 0700), 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 98;
}

static void test_remove_without_rights(void **state)
{
	(void)state;
	assert_int_equal(as_nobody(without_rights), 0);
}

/* One thing that cannot be removed is told, and all the rest goes. */
static int partly(void)
{
	struct err e = {0};
	int r;

	if (mkdirat(top, "p", 0700) || mkdirat(top, "p/mine", 0700))
		return 1;
	file_make(top, "p/mine/a");
	if (renameat(top, "alien", top, "p/alien"))
		return 2;
	r = tree_remove(top, "p", &e);
	if (r != -EACCES && r != -EPERM)
		return 3;
	if (!strstr(e.msg, "cannot remove p/alien/foreign/file: "))
		return 4;
	if (is_there("p/mine"))
		return 5;
	return is_there("p/alien") ? 0 : 6;
}

static void test_remove_partly(void **state)
{
	struct err e;

	(void)state;
	if (geteuid() != 0) /* needs two users; the run as root makes them */
		return;
	/* Others may write to it and so move it, but what is in it is root's, in a directory of root's. */
	mkdirat(top, "alien", 0777);
	mkdirat(top, "alien/foreign", 0755);
	file_make(top, "alien/foreign/file");
	assert_int_equal(fchmodat(top, "alien", 0777, 0), 0);
	assert_int_equal(as_nobody(partly), 0);
	assert_int_equal(tree_remove(top, "p", &e), 0);
}

/* DEEP levels, made by descriptor as a path would be too long. */
#define DEEP 4000 /* far over TREE_OPEN_MAX; within a box Landlock walks up all parents at each step */

static void test_remove_deep(void **state)
{
	struct err e = {0};
	int at;

	(void)state;
	mkdirat(top, "deep", 0700);
	at = openat(top, "deep", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (int i = 0; i < DEEP; i++) {
		int next;

		if (i % 1000 == 0)
			file_make(at, "file");
		assert_int_equal(mkdirat(at, "d", i % 7 ? 0700 : 0500), 0);
		if (i % 7 == 0) /* so that the next can be made */
			fchmodat(at, "d", 0700, 0);
		next = openat(at, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		assert_true(next >= 0);
		if (i % 11 == 0)
			fchmod(at, 0500);
		close(at);
		at = next;
	}
	close(at);
	assert_int_equal(tree_remove(top, "deep", &e), 0);
	assert_false(is_there("deep"));
}

static void test_remove_wide(void **state)
{
	struct err e = {0};
	char name[32];
	int dir;

	(void)state;
	mkdirat(top, "wide", 0700);
	dir = openat(top, "wide", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (int i = 0; i < 20000; i++) {
		snprintf(name, sizeof(name), "n%d", i);
		assert_int_equal(i % 3 ? mknodat(dir, name, S_IFREG | 0600, 0) : mkdirat(dir, name, 0700), 0);
	}
	close(dir);
	assert_int_equal(tree_remove(top, "wide", &e), 0);
	assert_false(is_there("wide"));
}

/* In a mount namespace of its own: what is mounted within the tree is not touched. */
static int mounted(void)
{
	struct err e = {0};

	if (unshare(geteuid() == 0 ? CLONE_NEWNS : CLONE_NEWNS | CLONE_NEWUSER) < 0)
		return 97;
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 || chdir(top_path) < 0)
		return 1;
	top = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC); /* the old one is of the other namespace's mount */
	mkdir("m", 0700);
	mkdir("m/on", 0700);
	mkdir("valued", 0700);
	file_make(top, "valued/file");
	file_make(top, "m/other");
	if (mount("valued", "m/on", NULL, MS_BIND, NULL) < 0)
		return 2;
	if (tree_remove(top, "m", &e) != -EXDEV && e.code != EBUSY)
		return 3;
	if (!is_there("valued/file") || is_there("m/other"))
		return 4;
	umount("m/on");
	return tree_remove(top, "m", &e) < 0 || tree_remove(top, "valued", &e) < 0 ? 5 : 0;
}

static void test_remove_keeps_to_its_mount(void **state)
{
	pid_t pid = fork();
	int status;

	(void)state;
	if (pid == 0)
		_exit(mounted());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 97) {
		print_message("# no mount namespace here: the half of this test that needs one was left out\n");
		return;
	}
	assert_int_equal(WEXITSTATUS(status), 0);
}

struct seen {
	struct strv paths;
	unsigned unreadable;
	int stop_after;
};

static int see(void *arg, const struct tree_entry *entry, struct err *e)
{
	struct seen *s = arg;

	(void)e;
	if (entry->unreadable) {
		s->unreadable++;
		return 0;
	}
	strv_add(&s->paths, entry->path);
	if (str_has_suffix(entry->path, "skip"))
		return TREE_SKIP;
	return s->stop_after && (int)s->paths.n >= s->stop_after ? TREE_STOP : 0;
}

static void walk_tree_make(void)
{
	mkdirat(top, "w", 0700);
	mkdirat(top, "w/a", 0700);
	mkdirat(top, "w/a/b", 0700);
	file_make(top, "w/a/b/c");
	file_make(top, "w/x");
	mkdirat(top, "w/skip", 0700);
	file_make(top, "w/skip/hidden");
	symlinkat("/etc", top, "w/link");
}

static void test_walk(void **state)
{
	static const char *const want[] = {"a", "a/b", "a/b/c", "x", "skip", "link"};
	const struct tree_limits limits = {100, 10, 10000};
	struct seen s = {0};
	struct tree_walked out;
	struct err e;
	int dir;

	(void)state;
	walk_tree_make();
	dir = openat(top, "w", O_PATH | O_CLOEXEC);
	assert_int_equal(tree_walk(dir, &limits, see, &s, &out, &e), 0);
	assert_false(out.cut);
	assert_int_equal(out.entries, 6);
	assert_int_equal(s.paths.n, 6);
	for (size_t i = 0; i < 6; i++)
		assert_true(strv_has(&s.paths, want[i]));
	strv_free(&s.paths);
	close(dir);
	assert_int_equal(tree_remove(top, "w", &e), 0);
}

static void test_walk_limits(void **state)
{
	static const struct {
		struct tree_limits limits;
		int stop_after;
		const char *why;
	} cases[] = {
		{{3, 10, 10000}, 0, "entries"},
		{{100, 2, 10000}, 0, "depth"},
		{{100, 10, 0}, 0, "time"},
		{{100, 10, 10000}, 2, "stop"},
	};
	struct err e;
	int dir;

	(void)state;
	walk_tree_make();
	dir = openat(top, "w", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (size_t i = 0; i < 4; i++) {
		struct seen s = {.stop_after = cases[i].stop_after};
		struct tree_walked out;

		assert_int_equal(tree_walk(dir, &cases[i].limits, see, &s, &out, &e), 0);
		assert_true(out.cut);
		assert_string_equal(out.why, cases[i].why);
		if (i == 1) {
			assert_true(strv_has(&s.paths, "a/b"));
			assert_false(strv_has(&s.paths, "a/b/c"));
		}
		strv_free(&s.paths);
	}
	close(dir);
	assert_int_equal(tree_remove(top, "w", &e), 0);
}

/* Directories that cannot be opened, or whose entries cannot be looked at, do not end the walk. */
static int walk_unreadable(void)
{
	const struct tree_limits limits = {100, 10, 10000};
	struct seen s = {0};
	struct tree_walked out;
	struct err e;
	int dir;

	mkdirat(top, "w", 0700);
	mkdirat(top, "w/none", 0700);
	mkdirat(top, "w/names", 0700);
	file_make(top, "w/names/f");
	file_make(top, "w/z");
	fchmodat(top, "w/none", 0, 0);
	fchmodat(top, "w/names", 0444, 0);
	dir = openat(top, "w", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (tree_walk(dir, &limits, see, &s, &out, &e) != 0)
		return 1;
	if (out.unreadable != 2 || s.unreadable != 2 || !strv_has(&s.paths, "z") || !strv_has(&s.paths, "none"))
		return 2;
	strv_free(&s.paths);
	return tree_remove(top, "w", &e) < 0 ? 3 : 0;
}

static void test_walk_unreadable(void **state)
{
	(void)state;
	assert_int_equal(as_nobody(walk_unreadable), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_remove_simple, top_make, top_remove),
		cmocka_unit_test_setup_teardown(test_remove_does_not_follow, top_make, top_remove),
		cmocka_unit_test_setup_teardown(test_remove_without_rights, top_make, top_remove),
		cmocka_unit_test_setup_teardown(test_remove_partly, top_make, top_remove),
		cmocka_unit_test_setup_teardown(test_remove_deep, top_make, top_remove),
		cmocka_unit_test_setup_teardown(test_remove_wide, top_make, top_remove),
		cmocka_unit_test_setup_teardown(test_remove_keeps_to_its_mount, top_make, top_remove),
		cmocka_unit_test_setup_teardown(test_walk, top_make, top_remove),
		cmocka_unit_test_setup_teardown(test_walk_limits, top_make, top_remove),
		cmocka_unit_test_setup_teardown(test_walk_unreadable, top_make, top_remove),
	};

	return cmocka_run_group_tests_name("tree", tests, NULL, NULL);
}
