/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "run/changes.h"
#include "sys/fd.h"
#include "sys/tree.h"

#include "base/banned.h"

static char top_path[64];
static int top = -1, upper = -1, lower = -1;

static int top_make(void **state)
{
	(void)state;
	snprintf(top_path, sizeof(top_path), "/tmp/agentbox-test-XXXXXX");
	if (!mkdtemp(top_path))
		return -1;
	top = open(top_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	mkdirat(top, "t", 0700);
	mkdirat(top, "t/upper", 0755);
	mkdirat(top, "t/lower", 0755);
	mkdirat(top, "t/work", 0755);
	mkdirat(top, "t/merged", 0755);
	upper = openat(top, "t/upper", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	lower = openat(top, "t/lower", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return upper < 0 || lower < 0 ? -1 : 0;
}

static int top_remove(void **state)
{
	struct err e;

	(void)state;
	close(upper);
	close(lower);
	if (tree_remove(top, "t", &e) < 0 || (unlinkat(top, "log", 0) < 0 && errno != ENOENT))
		return -1;
	close(top);
	return rmdir(top_path);
}

static int file_put(int dir, const char *name, const char *text)
{
	int fd = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	int r = fd < 0 ? -1 : fd_write_all(fd, text, strlen(text));

	if (fd >= 0)
		close(fd);
	return r;
}

/* "created 2: a b/; modified ...; deleted ..." of the event, for one comparison. */
static char *record(bool *cut)
{
	static const char *const names[3][2] = {{"created", "created_paths"}, {"modified", "modified_paths"}, {"deleted", "deleted_paths"}};
	struct event_log log;
	struct event_reader r;
	struct str out = {0};
	struct err e = {0};
	json_t *event = NULL, *path;
	FILE *in;
	size_t j;

	event_log_init(&log, openat(top, "log", O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600), "run", NULL);
	assert_int_equal(changes_record(upper, lower, &log, &e), 0);
	event_log_close(&log, &e);
	in = fdopen(openat(top, "log", O_RDONLY | O_CLOEXEC), "r");
	event_reader_init(&r, in, true);
	assert_int_equal(event_read(&r, &event, &e), 1);
	assert_int_equal(event_check(event, &e), 0);
	for (int i = 0; i < 3; i++) {
		str_addf(&out, "%s%s %d:", i ? "; " : "", names[i][0],
			 (int)json_integer_value(json_object_get(event, names[i][0])));
		json_array_foreach(json_object_get(event, names[i][1]), j, path)
			str_addf(&out, " %s", json_string_value(path));
	}
	if (cut)
		*cut = json_is_true(json_object_get(event, "cut"));
	json_decref(event);
	event_reader_free(&r);
	fclose(in);
	return str_steal(&out);
}

static void expect(const char *want)
{
	bool cut;
	char *got = record(&cut);

	assert_string_equal(got, want);
	assert_false(cut);
	free(got);
}

static void test_none(void **state)
{
	(void)state;
	file_put(lower, "a", "x");
	mkdirat(lower, "d", 0755);
	mkdirat(upper, "d", 0755);
	expect("created 0:; modified 0:; deleted 0:");
}

static void test_plain(void **state)
{
	(void)state;
	file_put(lower, "a", "x");
	file_put(upper, "a", "y");
	mkdirat(lower, "d", 0755);
	mkdirat(upper, "d", 0755);
	file_put(upper, "d/new", "y");
	mkdirat(upper, "fresh", 0755);
	file_put(upper, "fresh/f", "");
	symlinkat("/etc", upper, "link");
	mkdirat(lower, "chmod", 0755);
	mkdirat(upper, "chmod", 0777);
	fchmodat(upper, "chmod", 0777, 0);
	expect("created 4: d/new fresh/ fresh/f link; modified 2: a chmod/; deleted 0:");
}

/* A link in the lower directory is not followed: what looks like "there" through it was not there in the overlay. */
static void test_lower_links(void **state)
{
	(void)state;
	symlinkat("/etc", lower, "etc");
	symlinkat("../..", lower, "up");
	mkdirat(upper, "etc", 0755);
	file_put(upper, "etc/passwd", "x");
	mkdirat(upper, "up", 0755);
	mkdirat(upper, "up/t", 0755);
	expect("created 2: etc/passwd up/t/; modified 2: etc/ up/; deleted 0:");
}

static void test_whiteout_attribute(void **state)
{
	int fd;

	(void)state;
	mkdirat(lower, "d", 0755);
	file_put(lower, "d/gone", "x");
	file_put(lower, "d/emptied", "x");
	mkdirat(upper, "d", 0755);
	file_put(upper, "d/gone", "");
	file_put(upper, "d/emptied", "");
	fd = openat(upper, "d/gone", O_RDONLY | O_CLOEXEC);
	assert_int_equal(fsetxattr(fd, "user.overlay.whiteout", "", 0, 0), 0);
	close(fd);
	fd = openat(upper, "d", O_RDONLY | O_CLOEXEC);
	assert_int_equal(fsetxattr(fd, "user.overlay.opaque", "x", 1, 0), 0);
	close(fd);
	expect("created 0:; modified 1: d/emptied; deleted 1: d/gone");
}

static void test_opaque(void **state)
{
	int fd;

	(void)state;
	mkdirat(lower, "d", 0755);
	mkdirat(lower, "d/sub", 0755);
	file_put(lower, "d/a", "x");
	file_put(lower, "d/b", "x");
	file_put(lower, "d/sub/c", "x");
	file_put(lower, "d/sub/e", "x");
	mkdirat(upper, "d", 0755);
	mkdirat(upper, "d/sub", 0755);
	file_put(upper, "d/a", "y");
	file_put(upper, "d/sub/e", "y");
	file_put(upper, "d/new", "y");
	fd = openat(upper, "d", O_RDONLY | O_CLOEXEC);
	assert_int_equal(fsetxattr(fd, "user.overlay.opaque", "y", 1, 0), 0);
	close(fd);
	expect("created 1: d/new; modified 2: d/a d/sub/e; deleted 2: d/b d/sub/c");
}

static void test_lists_are_bounded(void **state)
{
	char name[300], *got;
	bool cut;

	(void)state;
	for (int i = 0; i < CHANGES_MAX_PATHS + 50; i++) {
		snprintf(name, sizeof(name), "n%03d", i);
		file_put(upper, name, "");
	}
	got = record(&cut);
	assert_true(cut);
	assert_true(str_has_prefix(got, "created 150: "));
	free(got);
}

static int file_append(const char *path)
{
	int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
	int r = fd < 0 ? -1 : (int)write(fd, "more", 4);

	if (fd >= 0)
		close(fd);
	return r == 4 ? 0 : -1;
}

/* What the kernel itself writes, as agentbox mounts it: in a user namespace, with userxattr. */
static int overlay_work(void)
{
	char options[512];
	uid_t uid = geteuid();
	gid_t gid = getegid();
	char map[64];

	if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
		return 97;
	snprintf(map, sizeof(map), "0 %u 1", uid);
	if (fd_write_file(AT_FDCWD, "/proc/self/setgroups", "deny") < 0 || fd_write_file(AT_FDCWD, "/proc/self/uid_map", map) < 0)
		return 97;
	snprintf(map, sizeof(map), "0 %u 1", gid);
	if (fd_write_file(AT_FDCWD, "/proc/self/gid_map", map) < 0)
		return 97;
	snprintf(options, sizeof(options), "lowerdir=%s/t/lower,upperdir=%s/t/upper,workdir=%s/t/work,userxattr", top_path, top_path,
		 top_path);
	if (chdir(top_path) < 0 || mount("overlay", "t/merged", "overlay", 0, options) < 0)
		return 97; /* on a filesystem that cannot be an upper layer */
	if (chdir("t/merged") < 0)
		return 1;
	if (unlink("gone") || unlink("dir/a") || unlink("dir/b") || rmdir("dir") || mkdir("dir", 0755) || file_put(AT_FDCWD, "dir/b", "new"))
		return 2;
	if (file_append("kept") || rename("old", "renamed") || mkdir("fresh", 0755) || file_put(AT_FDCWD, "fresh/f", ""))
		return 3;
	if (unlink("whole/x") || rmdir("whole") || file_append("deep/er/file") || unlink("link") || symlink("b", "link"))
		return 4;
	if (file_put(AT_FDCWD, "passing", "") || unlink("passing") || chmod("mode", 0700))
		return 5;
	return 0;
}

static void test_real_overlay(void **state)
{
	static const char *const files[] = {"gone", "dir/a", "dir/b", "kept", "old", "whole/x", "deep/er/file", "deep/other", "mode"};
	static const char *const dirs[] = {"dir", "whole", "deep", "deep/er"};
	int status;
	pid_t pid;

	(void)state;
	for (size_t i = 0; i < 4; i++)
		mkdirat(lower, dirs[i], 0755);
	for (size_t i = 0; i < 9; i++)
		assert_int_equal(file_put(lower, files[i], "x"), 0);
	symlinkat("a", lower, "link");
	pid = fork();
	if (pid == 0)
		_exit(overlay_work());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 97) {
		print_message("# no overlay in a user namespace here: this test did nothing\n");
		return;
	}
	assert_int_equal(WEXITSTATUS(status), 0);
	expect("created 3: fresh/ fresh/f renamed; modified 5: deep/er/file dir/b kept link mode; deleted 4: dir/a gone old whole");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_none, top_make, top_remove),
		cmocka_unit_test_setup_teardown(test_plain, top_make, top_remove),
		cmocka_unit_test_setup_teardown(test_lower_links, top_make, top_remove),
		cmocka_unit_test_setup_teardown(test_whiteout_attribute, top_make, top_remove),
		cmocka_unit_test_setup_teardown(test_opaque, top_make, top_remove),
		cmocka_unit_test_setup_teardown(test_lists_are_bounded, top_make, top_remove),
		cmocka_unit_test_setup_teardown(test_real_overlay, top_make, top_remove),
	};

	return cmocka_run_group_tests_name("changes", tests, NULL, NULL);
}
