/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Where systemd --user is looked for, and what becomes of one that is not as it should be. The real one is in tests/vm/systemd.sh. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "box/cgroup_systemd.h"
#include "config.h"

#include "base/banned.h"

#define UNIT "agentbox-unit-test.scope"

static char dir[64];

/* --- addresses --- */

static void address_is(const struct cgroup_systemd_place *place, int n, int want, const char *text, bool want_bus)
{
	cleanup_str struct str out = {0};
	bool bus;

	assert_int_equal(cgroup_systemd_address(place, n, &out, &bus), want);
	if (want == 1) {
		assert_string_equal(out.text, text);
		assert_int_equal(bus, want_bus);
	}
}

static void touch(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	close(fd);
}

static void test_address(void **state)
{
	struct cgroup_systemd_place place = {.session_bus = "unix:path=/a,guid=b", .runtime_dir = dir, .uid = 4294967294};
	char *odd = mem_printf("%s/a b,\xc3\xa9", dir), *odd_bus = mem_printf("%s/bus", odd);
	char *manager = mem_printf("%s/systemd", dir), *private = mem_printf("%s/private", manager), *want;

	(void)state;
	address_is(&place, 0, 1, "unix:path=/a,guid=b", true);
	/* nothing there yet */
	address_is(&place, 1, 0, NULL, false);
	address_is(&place, 2, 0, NULL, false);
	address_is(&place, 3, -ENOENT, NULL, false);
	assert_int_equal(mkdir(manager, 0700), 0);
	touch(private);
	want = mem_printf("unix:path=%s", private);
	address_is(&place, 2, 1, want, false);
	free(want);
	/* What is no path in the characters of an address */
	assert_int_equal(mkdir(odd, 0700), 0);
	touch(odd_bus);
	place.runtime_dir = odd;
	want = mem_printf("unix:path=%s/a%%20b%%2c%%c3%%a9/bus", dir);
	address_is(&place, 1, 1, want, true);
	free(want);
	/* Unset, empty or relative: the place that pam_systemd gives, and this uid has none. */
	place.runtime_dir = NULL;
	address_is(&place, 1, 0, NULL, false);
	place.runtime_dir = "";
	address_is(&place, 2, 0, NULL, false);
	place.runtime_dir = "tmp";
	address_is(&place, 2, 0, NULL, false);
	/* Buses that a program would be started for, or that are elsewhere, or several */
	place.session_bus = "unixexec:path=/bin/false";
	address_is(&place, 0, 0, NULL, false);
	place.session_bus = "tcp:host=192.0.2.1,port=1";
	address_is(&place, 0, 0, NULL, false);
	place.session_bus = "unix:path=/a;unixexec:path=/bin/false";
	address_is(&place, 0, 0, NULL, false);
	place.session_bus = "";
	address_is(&place, 0, 0, NULL, false);
	place.session_bus = NULL;
	address_is(&place, 0, 0, NULL, false);
	assert_int_equal(unlink(odd_bus), 0);
	assert_int_equal(rmdir(odd), 0);
	assert_int_equal(unlink(private), 0);
	assert_int_equal(rmdir(manager), 0);
	free(odd);
	free(odd_bus);
	free(manager);
	free(private);
}

static void test_nothing(void **state)
{
	const struct cgroup_systemd_place place = {.session_bus = "autolaunch:", .runtime_dir = dir, .uid = getuid()};
	struct err e = {0};

	(void)state;
#ifdef HAVE_SYSTEMD
	assert_int_equal(cgroup_systemd_ask(&place, UNIT, 1000, &e), -ENOENT);
	assert_non_null(strstr(e.msg, "no socket of systemd --user"));
#else
	assert_int_equal(cgroup_systemd_ask(&place, UNIT, 1000, &e), -ENOTSUP);
	assert_non_null(strstr(e.msg, "built without systemd"));
#endif
}

#ifdef HAVE_SYSTEMD

/* --- sockets of this test's own --- */

static char *listen_at(const char *name, int *fd)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	char *path = mem_printf("%s/%s", dir, name);

	snprintf(to.sun_path, sizeof(to.sun_path), "%s", path);
	*fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(*fd >= 0);
	assert_int_equal(bind(*fd, (struct sockaddr *)&to, sizeof(to)), 0);
	assert_int_equal(listen(*fd, 5), 0);
	return path;
}

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* It takes the connection, and never says a word. */
static void test_silent(void **state)
{
	const struct cgroup_systemd_place place = {.runtime_dir = dir, .uid = getuid()};
	struct err e = {0};
	int64_t start = now_ms(), took;
	int fd;
	char *path = listen_at("bus", &fd);

	(void)state;
	assert_int_equal(cgroup_systemd_ask(&place, UNIT, 300, &e), -ETIMEDOUT);
	took = now_ms() - start;
	if (took < 300 || took > 5000)
		fail_msg("it took %lld ms", (long long)took);
	assert_non_null(strstr(e.msg, path));
	close(fd);
	unlink(path);
	free(path);
}

/* Children that take one connection each and answer with `text`: no D-Bus. The last one's error is told. */
static pid_t answer(int fd, const char *text)
{
	pid_t pid = fork();
	int taken;

	assert_true(pid >= 0);
	if (pid)
		return pid;
	taken = accept(fd, NULL, NULL);
	if (taken < 0 || write(taken, text, strlen(text)) < 0)
		_exit(1);
	_exit(0); /* closes it */
}

static void test_no_dbus(void **state)
{
	struct cgroup_systemd_place place = {.runtime_dir = dir, .uid = getuid()};
	struct err e = {0};
	int first, second, status, r;
	char *bus = listen_at("bus", &first), *session = listen_at("session", &second), *address = mem_printf("unix:path=%s", session);
	pid_t pids[] = {answer(first, "HTTP/1.0 400 Bad Request\r\n\r\n"), answer(second, "REJECTED\r\n")};

	(void)state;
	place.session_bus = address;
	r = cgroup_systemd_ask(&place, UNIT, 5000, &e);
	if (r >= 0 || r == -ETIMEDOUT)
		fail_msg("%d: %s", r, e.msg);
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
		assert_int_equal(status, 0); /* both were asked */
	}
	close(first);
	close(second);
	unlink(bus);
	unlink(session);
	free(bus);
	free(session);
	free(address);
}

/* Another user's socket is not spoken to. */
static void test_other_user(void **state)
{
	const struct cgroup_systemd_place place = {.runtime_dir = dir, .uid = getuid()};
	struct err e = {0};
	int ready[2], fd;
	char *path = NULL, byte;
	pid_t pid;

	(void)state;
	if (getuid() != 0)
		return;
	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		if (chown(dir, 65534, 65534) < 0 || setresuid(65534, 65534, 65534) < 0)
			_exit(1);
		listen_at("bus", &fd);
		if (write(ready[1], "x", 1) == 1)
			pause();
		_exit(0);
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	assert_int_equal(cgroup_systemd_ask(&place, UNIT, 5000, &e), -EPERM);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close(ready[0]);
	close(ready[1]);
	path = mem_printf("%s/bus", dir);
	unlink(path);
	free(path);
	assert_int_equal(chown(dir, 0, 0), 0);
}

#endif

static int setup(void **state)
{
	(void)state;
	signal(SIGPIPE, SIG_IGN);
	snprintf(dir, sizeof(dir), "/tmp/agentbox-systemd-XXXXXX");
	return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	return rmdir(dir);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_address),
		cmocka_unit_test(test_nothing),
#ifdef HAVE_SYSTEMD
		cmocka_unit_test(test_silent),
		cmocka_unit_test(test_no_dbus),
		cmocka_unit_test(test_other_user),
#endif
	};

	return cmocka_run_group_tests_name("cgroup_systemd", tests, setup, teardown);
}
