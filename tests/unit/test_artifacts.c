/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "run/artifacts.h"
#include "sys/tree.h"

#include "base/banned.h"

static char top_path[64];
static int top = -1, dir = -1;

static int top_make(void **state)
{
	(void)state;
	snprintf(top_path, sizeof(top_path), "/tmp/agentbox-test-XXXXXX");
	if (!mkdtemp(top_path))
		return -1;
	top = open(top_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	mkdirat(top, "a", 0700);
	dir = openat(top, "a", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return dir < 0 ? -1 : 0;
}

static int top_remove(void **state)
{
	struct err e;

	(void)state;
	close(dir);
	if (tree_remove(top, "a", &e) < 0 || unlinkat(top, "log", 0) < 0)
		return -1;
	close(top);
	return rmdir(top_path);
}

static void file_make(const char *name, const char *text, off_t size)
{
	int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	if (size)
		assert_int_equal(ftruncate(fd, size), 0);
	close(fd);
}

/* Records, and reads the log back: an object from path to event. */
static json_t *record(struct artifacts_summary *sum)
{
	struct event_log log;
	struct event_reader r;
	struct err e = {0};
	json_t *all = json_object(), *event;
	int fd = openat(top, "log", O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600), got;
	FILE *in;

	event_log_init(&log, fd, "run", NULL);
	assert_int_equal(artifacts_record(dir, &log, sum, &e), 0);
	event_log_close(&log, &e);
	fd = openat(top, "log", O_RDONLY | O_CLOEXEC);
	in = fdopen(fd, "r");
	event_reader_init(&r, in, true);
	while ((got = event_read(&r, &event, &e)) == 1) {
		assert_int_equal(event_check(event, &e), 0);
		json_object_set_new(all, json_string_value(json_object_get(event, "path")), event);
	}
	assert_int_equal(got, 0);
	event_reader_free(&r);
	fclose(in);
	return all;
}

static const char *of(const json_t *all, const char *path, const char *field)
{
	return json_string_value(json_object_get(json_object_get(all, path), field));
}

static void test_digests(void **state)
{
	struct artifacts_summary sum;
	json_t *all;

	(void)state;
	file_make("empty", "", 0);
	file_make("abc", "abc", 0);
	mkdirat(dir, "sub", 0700);
	file_make("sub/\xff name", "abc", 0);
	all = record(&sum);
	assert_int_equal(json_object_size(all), 3);
	assert_string_equal(of(all, "empty", "sha256"), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
	/* FIPS 180-2, B.1 */
	assert_string_equal(of(all, "abc", "sha256"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
	assert_string_equal(of(all, "sub/\xf4\x8f\xa3\xbf name", "kind"), "file");
	assert_int_equal(json_integer_value(json_object_get(json_object_get(all, "abc"), "size")), 3);
	assert_int_equal(sum.listed, 3);
	assert_int_equal(sum.skipped, 0);
	assert_int_equal(sum.bytes, 6);
	assert_false(sum.cut);
	json_decref(all);
}

/* Nothing but regular files is opened: a FIFO would block, a link would lead out, a socket cannot be read. */
static void test_planted(void **state)
{
	struct artifacts_summary sum;
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	json_t *all;

	(void)state;
	assert_int_equal(mkfifoat(dir, "fifo", 0600), 0);
	assert_int_equal(symlinkat("/etc/passwd", dir, "link"), 0);
	assert_int_equal(symlinkat("/", dir, "root"), 0);
	assert_int_equal(symlinkat("loop", dir, "loop"), 0);
	snprintf(un.sun_path, sizeof(un.sun_path), "%s/a/sock", top_path);
	assert_int_equal(bind(sock, (struct sockaddr *)&un, sizeof(un)), 0);
	close(sock);
	all = record(&sum);
	assert_int_equal(json_object_size(all), 5);
	assert_string_equal(of(all, "fifo", "kind"), "fifo");
	assert_string_equal(of(all, "link", "kind"), "symlink");
	assert_string_equal(of(all, "root", "kind"), "symlink");
	assert_string_equal(of(all, "loop", "kind"), "symlink");
	assert_string_equal(of(all, "sock", "kind"), "socket");
	assert_null(of(all, "link", "sha256"));
	assert_string_equal(of(all, "link", "reason"), "not a regular file");
	assert_int_equal(sum.skipped, 5);
	assert_int_equal(sum.bytes, 0);
	json_decref(all);
}

static void test_sparse(void **state)
{
	struct artifacts_summary sum;
	struct timespec a, b;
	json_t *all;

	(void)state;
	file_make("huge", "", (off_t)1 << 40);
	file_make("abc", "abc", 0);
	clock_gettime(CLOCK_MONOTONIC, &a);
	all = record(&sum);
	clock_gettime(CLOCK_MONOTONIC, &b);
	assert_true(b.tv_sec - a.tv_sec <= 2);
	assert_null(of(all, "huge", "sha256"));
	assert_non_null(strstr(of(all, "huge", "reason"), "1 GiB"));
	assert_int_equal(json_integer_value(json_object_get(json_object_get(all, "huge"), "size")), (json_int_t)1 << 40);
	assert_non_null(of(all, "abc", "sha256"));
	assert_int_equal(sum.listed, 2);
	assert_int_equal(sum.skipped, 1);
	json_decref(all);
}

/* The bound is of all files together, not of each. */
static void test_budget_is_shared(void **state)
{
	struct artifacts_summary sum;
	json_t *all;

	(void)state;
	file_make("a", "x", 600 << 20);
	file_make("b", "x", 600 << 20);
	all = record(&sum);
	assert_int_equal(sum.listed, 2);
	assert_true(sum.skipped >= 1); /* both where the machine is so slow that the time ends first */
	assert_true(sum.bytes <= ARTIFACTS_MAX_HASHED);
	json_decref(all);
}

static void test_many(void **state)
{
	struct artifacts_summary sum;
	char name[16];
	json_t *all;

	(void)state;
	for (int i = 0; i < ARTIFACTS_MAX_ENTRIES + 500; i++) {
		snprintf(name, sizeof(name), "n%d", i);
		assert_int_equal(mknodat(dir, name, S_IFREG | 0600, 0), 0);
	}
	all = record(&sum);
	assert_true(sum.cut);
	assert_string_equal(sum.why, "entries");
	assert_int_equal(sum.listed, ARTIFACTS_MAX_ENTRIES);
	assert_int_equal(json_object_size(all), ARTIFACTS_MAX_ENTRIES);
	json_decref(all);
}

static void test_deep(void **state)
{
	struct artifacts_summary sum;
	json_t *all, *o;
	int at = dup(dir);

	(void)state;
	for (int i = 0; i < 200; i++) {
		int next;

		assert_int_equal(mkdirat(at, "d", 0700), 0);
		next = openat(at, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		close(at);
		at = next;
	}
	close(at);
	file_make("near", "x", 0);
	all = record(&sum);
	assert_true(sum.cut);
	assert_string_equal(sum.why, "depth");
	assert_non_null(of(all, "near", "sha256"));
	o = artifacts_summary_json(&sum);
	assert_true(json_is_true(json_object_get(o, "cut")));
	assert_int_equal(json_integer_value(json_object_get(o, "listed")), 1);
	json_decref(o);
	json_decref(all);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_digests, top_make, top_remove),
		cmocka_unit_test_setup_teardown(test_planted, top_make, top_remove),
		cmocka_unit_test_setup_teardown(test_sparse, top_make, top_remove),
		cmocka_unit_test_setup_teardown(test_budget_is_shared, top_make, top_remove),
		cmocka_unit_test_setup_teardown(test_many, top_make, top_remove),
		cmocka_unit_test_setup_teardown(test_deep, top_make, top_remove),
	};

	return cmocka_run_group_tests_name("artifacts", tests, NULL, NULL);
}
