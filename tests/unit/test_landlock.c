/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "base/mem.h"
#include "box/landlock.h"

#include "base/banned.h"

/* dir/{open,shut}/{a,b}/: the first is granted for writing. */
static char dir[] = "/tmp/test_landlock.XXXXXX";

static const char *in_dir(const char *name)
{
	static char buf[4][128];
	static unsigned i;

	i = (i + 1) % 4;
	snprintf(buf[i], sizeof(buf[i]), "%s/%s", dir, name);
	return buf[i];
}

static void touch(const char *path)
{
	int fd = open(path, O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
	close(fd);
}

static int setup(void **state)
{
	(void)state;
	if (!mkdtemp(dir))
		return -1;
	mkdir(in_dir("open"), 0755);
	mkdir(in_dir("open/a"), 0755);
	mkdir(in_dir("open/b"), 0755);
	mkdir(in_dir("shut"), 0755);
	return chmod(dir, 0755);
}

static int teardown(void **state)
{
	static const char *const names[] = {"open/a/f", "open/b/f", "open/b/g", "open/b/d", "open/n", "shut/f", "shut/log",
					    "open/fake", "shut/true", "open/a", "open/b", "open", "shut"};

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (unlink(in_dir(names[i])) < 0 && errno == EISDIR)
			rmdir(in_dir(names[i]));
	return rmdir(dir);
}

static void exec_list(struct profile *p, const char *text)
{
	struct val_list *l = &p->commands.exec;

	vec_reserve(&l->items, &l->cap, l->n, sizeof(*l->items));
	l->items[l->n++] = (struct val_item){.text = mem_strdup(text), .from = {.file = "p.ini", .line = 3}};
}

static void exec_free(struct profile *p)
{
	for (size_t i = 0; i < p->commands.exec.n; i++)
		free(p->commands.exec.items[i].text);
	free(p->commands.exec.items);
}

/* Runs fn restricted in a child. Return: what it returned. */
static int under(const struct landlock_plan *plan, int (*fn)(void))
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0) {
		if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || landlock_apply(plan) < 0)
			_exit(254);
		_exit(fn());
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static struct landlock_plan usual(const struct profile *p)
{
	struct landlock_plan plan;
	struct err e = {0};

	if (landlock_plan_init(p, &plan, &e) < 0)
		fail_msg("%s", e.msg);
	assert_true(plan.wanted);
	assert_null(plan.why_not);
	assert_true(plan.abi >= 2);
	landlock_plan_add(&plan, "/", LANDLOCK_READ_EXEC);
	landlock_plan_add(&plan, "/dev", LANDLOCK_DEV);
	landlock_plan_add(&plan, "/proc", LANDLOCK_PROC);
	landlock_plan_add(&plan, in_dir("open"), LANDLOCK_WRITE);
	landlock_plan_add(&plan, "/not/there/at/all", LANDLOCK_WRITE);
	landlock_plan_add(&plan, "/etc/passwd/beneath-a-file", LANDLOCK_WRITE);
	return plan;
}

#define TRY(expr) ((expr) < 0 ? errno : 0)

static int do_write_open(void)
{
	int fd = open(in_dir("open/a/f"), O_CREAT | O_WRONLY | O_TRUNC, 0644);

	return fd < 0 ? errno : TRY(ftruncate(fd, 10));
}
static int do_rename_across(void)
{
	if (rename(in_dir("open/a/f"), in_dir("open/b/f")) < 0)
		return errno;
	if (link(in_dir("open/b/f"), in_dir("open/a/f")) < 0)
		return errno;
	return TRY(symlink("f", in_dir("open/b/g"))) ?: TRY(mkdir(in_dir("open/b/d"), 0755)) ?:
	       TRY(rmdir(in_dir("open/b/d"))) ?: TRY(unlink(in_dir("open/b/g")));
}
static int do_write_shut(void)
{
	return TRY(open(in_dir("shut/f"), O_WRONLY));
}
static int do_create_shut(void)
{
	return TRY(open(in_dir("shut/new"), O_CREAT | O_WRONLY, 0644));
}
static int do_mkdir_shut(void)
{
	return TRY(mkdir(in_dir("shut/new"), 0755));
}
static int do_rename_shut(void)
{
	return TRY(rename(in_dir("shut/f"), in_dir("open/n")));
}
static int do_unlink_shut(void)
{
	return TRY(unlink(in_dir("shut/f")));
}
static int do_read_shut(void)
{
	return TRY(open(in_dir("shut/f"), O_RDONLY));
}
static int do_mknod_open(void)
{
	int r = TRY(mknod(in_dir("open/n"), S_IFCHR | 0666, 0x103)); /* Landlock is asked before the capability is */

	unlink(in_dir("open/n"));
	return r;
}
static int do_dev_null(void)
{
	return TRY(open("/dev/null", O_RDWR | O_TRUNC));
}
static int do_pty(void)
{
	struct winsize size = {.ws_row = 5};
	struct termios t;
	int master = posix_openpt(O_RDWR | O_NOCTTY), slave;

	if (master < 0 || grantpt(master) < 0 || unlockpt(master) < 0)
		return errno;
	slave = open(ptsname(master), O_RDWR | O_NOCTTY);
	return slave < 0 ? errno : TRY(tcgetattr(slave, &t)) ?: TRY(ioctl(slave, TIOCSWINSZ, &size));
}
static int do_thread_name(void)
{
	int fd = open("/proc/self/comm", O_WRONLY);

	return fd < 0 ? errno : write(fd, "x", 1) == 1 ? 0 : errno;
}
static int do_mount_ns(void)
{
	char buf[64] = "";
	int fd = open("/proc/self/attr/current", O_RDONLY); /* reading /proc works too */

	return fd < 0 ? TRY(open("/proc/self/status", O_RDONLY)) : (read(fd, buf, sizeof(buf)), 0);
}

static void test_files(void **state)
{
	struct profile p = {0};
	struct landlock_plan plan = usual(&p);

	(void)state;
	touch(in_dir("shut/f"));
	assert_int_equal(under(&plan, do_write_open), 0);
	assert_int_equal(under(&plan, do_rename_across), 0);
	assert_int_equal(under(&plan, do_read_shut), 0);
	assert_int_equal(under(&plan, do_write_shut), EACCES);
	assert_int_equal(under(&plan, do_create_shut), EACCES);
	assert_int_equal(under(&plan, do_mkdir_shut), EACCES);
	assert_int_equal(under(&plan, do_unlink_shut), EACCES);
	assert_true(under(&plan, do_rename_shut) == EACCES || under(&plan, do_rename_shut) == EXDEV);
	assert_int_equal(under(&plan, do_mknod_open), EACCES);
	assert_int_equal(under(&plan, do_dev_null), 0);
	assert_int_equal(under(&plan, do_pty), 0);
	assert_int_equal(under(&plan, do_thread_name), 0);
	assert_int_equal(under(&plan, do_mount_ns), 0);
	landlock_free(&plan);
	/* Without it all of that is possible: the refusals above are Landlock's. */
	memset(&plan, 0, sizeof(plan));
	assert_int_equal(under(&plan, do_write_shut), 0);
	assert_int_equal(under(&plan, do_mknod_open), getuid() == 0 ? 0 : EPERM);
}

/* Standard error is a file outside of every grant: it stays usable by its name in /proc. */
static int do_reopen_stderr(void)
{
	int fd = open("/proc/self/fd/2", O_WRONLY | O_APPEND);

	return fd < 0 ? errno : write(fd, "y", 1) == 1 ? TRY(open("/proc/self/fd/2", O_RDONLY)) : 77;
}
static int do_reopen_stderr_redirected(void)
{
	int fd = open("/proc/self/fd/2", O_WRONLY | O_APPEND);

	return fd < 0 ? errno : 0;
}

static void test_kept(void **state)
{
	struct profile p = {0};
	struct landlock_plan plan = usual(&p);
	int saved = fcntl(2, F_DUPFD_CLOEXEC, 3), fd, pipes[2];

	(void)state;
	landlock_free(&plan);
	if (landlock_plan_init(&p, &plan, NULL) < 0)
		fail();
	landlock_plan_add(&plan, "/proc", LANDLOCK_PROC); /* no rule for /tmp at all */
	touch(in_dir("shut/log"));
	fd = open(in_dir("shut/log"), O_WRONLY | O_CLOEXEC);
	dup2(fd, 2);
	/* opened for writing only, so reading stays closed */
	assert_int_equal(under(&plan, do_reopen_stderr), EACCES);
	close(fd);
	fd = open(in_dir("shut/log"), O_RDWR | O_CLOEXEC);
	dup2(fd, 2);
	assert_int_equal(under(&plan, do_reopen_stderr), 0);
	close(fd);
	assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
	dup2(pipes[1], 2);
	assert_int_equal(under(&plan, do_reopen_stderr_redirected), 0);
	dup2(saved, 2);
	close(saved);
	close(pipes[0]);
	close(pipes[1]);
	landlock_free(&plan);
}

static int run_program(const char *path)
{
	char *const argv[] = {(char *)path, NULL};

	execv(path, argv);
	return errno;
}
static int do_true(void)
{
	return run_program("/bin/true");
}
static int do_other(void)
{
	return run_program(in_dir("shut/true"));
}

/* Another program; a copy, as on a small system all programs may be one file. */
static void make_other(void)
{
	int in = open("/bin/true", O_RDONLY | O_CLOEXEC), out = open(in_dir("shut/true"), O_CREAT | O_WRONLY | O_CLOEXEC, 0755);
	char buf[65536];
	ssize_t n;

	assert_true(in >= 0 && out >= 0);
	while ((n = read(in, buf, sizeof(buf))) > 0)
		assert_int_equal(write(out, buf, (size_t)n), n);
	close(in);
	close(out);
}

/* An ELF program whose interpreter is another program, where the box could write. */
static void make_fake(const char *path, const char *interpreter)
{
	struct {
		Elf64_Ehdr head;
		Elf64_Phdr part;
		char interpreter[64];
	} file = {
		.head = {.e_type = ET_DYN, .e_machine = EM_X86_64, .e_version = 1, .e_phoff = sizeof(Elf64_Ehdr), .e_phnum = 1,
			 .e_ehsize = sizeof(Elf64_Ehdr), .e_phentsize = sizeof(Elf64_Phdr)},
		.part = {.p_type = PT_INTERP, .p_offset = sizeof(Elf64_Ehdr) + sizeof(Elf64_Phdr), .p_filesz = strlen(interpreter) + 1},
	};
	int fd = open(path, O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0755);

	memcpy(file.head.e_ident, ELFMAG, SELFMAG);
	file.head.e_ident[EI_CLASS] = ELFCLASS64;
	file.head.e_ident[EI_DATA] = ELFDATA2LSB;
	snprintf(file.interpreter, sizeof(file.interpreter), "%s", interpreter);
	assert_int_equal(write(fd, &file, sizeof(file)), sizeof(file));
	close(fd);
}

static void test_exec(void **state)
{
	struct profile p = {0};
	struct landlock_plan plan;
	struct err e;

	(void)state;
	exec_list(&p, "true");
	exec_list(&p, in_dir("open/fake"));
	exec_list(&p, "/dev"); /* a directory, for which no interpreter is looked up */
	make_other();
	make_fake(in_dir("open/fake"), in_dir("shut/true"));
	plan = usual(&p);
	assert_int_equal(under(&plan, do_true), 0);
	assert_int_equal(under(&plan, do_other), EACCES);
	landlock_free(&plan);
	exec_list(&p, in_dir("shut"));
	plan = usual(&p);
	assert_int_equal(under(&plan, do_other), 0);
	landlock_free(&plan);
	exec_free(&p);
	/* Without a list everything can be executed. */
	memset(&p, 0, sizeof(p));
	plan = usual(&p);
	assert_int_equal(under(&plan, do_other), 0);
	landlock_free(&plan);
	exec_list(&p, "bin/true");
	assert_int_equal(landlock_plan_init(&p, &plan, &e), -EINVAL);
	assert_non_null(strstr(e.msg, "p.ini:3: [commands] exec: bin/true"));
	landlock_free(&plan);
	exec_free(&p);
}

static int abstract_socket(bool listening)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int len = snprintf(a.sun_path + 1, sizeof(a.sun_path) - 1, "test_landlock-%d", (int)(listening ? getpid() : getppid()));
	int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len);

	if (listening ? bind(s, (struct sockaddr *)&a, size) < 0 || listen(s, 5) < 0 : connect(s, (struct sockaddr *)&a, size) < 0)
		return -errno;
	return s;
}
static int do_connect_abstract(void)
{
	int s = abstract_socket(false);

	return s < 0 ? -s : 0;
}
static int do_signal_parent(void)
{
	return TRY(kill(getppid(), 0));
}
static int do_signal_self(void)
{
	return TRY(kill(getpid(), 0));
}

static void test_scopes(void **state)
{
	struct profile p = {0};
	struct landlock_plan plan = usual(&p);
	int s = abstract_socket(true), want = plan.abi >= 6 ? EPERM : 0;

	(void)state;
	assert_true(s >= 0);
	assert_int_equal(under(&plan, do_connect_abstract), want);
	assert_int_equal(under(&plan, do_signal_parent), want);
	assert_int_equal(under(&plan, do_signal_self), 0);
	landlock_free(&plan);
	memset(&plan, 0, sizeof(plan));
	assert_int_equal(under(&plan, do_connect_abstract), 0);
	assert_int_equal(under(&plan, do_signal_parent), 0);
	close(s);
}

static void test_nested(void **state)
{
	struct profile p = {0};
	struct landlock_plan plan;
	struct err e;

	(void)state;
	p.syscalls.nested_namespaces.v = true;
	assert_int_equal(landlock_plan_init(&p, &plan, &e), 0);
	assert_false(plan.wanted);
	assert_non_null(strstr(plan.why_not, "mount"));
	landlock_plan_add(&plan, "/", LANDLOCK_READ);
	assert_int_equal(plan.n, 0);
	assert_int_equal(landlock_apply(&plan), 0);
	exec_list(&p, "true");
	assert_int_equal(landlock_plan_init(&p, &plan, &e), -ENOTSUP);
	assert_non_null(strstr(e.msg, "[commands] exec cannot be kept"));
	exec_free(&p);
}

/* Every ABI of the table is one that this kernel takes, up to its own. */
static int do_nothing(void)
{
	return 0;
}

static void test_abis(void **state)
{
	struct profile p = {0};
	struct landlock_plan plan = usual(&p);

	(void)state;
	for (int abi = plan.abi; abi >= 1; abi--) {
		plan.abi = abi;
		assert_int_equal(under(&plan, do_nothing), 0);
		assert_int_equal(under(&plan, do_write_shut), EACCES);
	}
	plan.abi = 1000; /* newer than the table */
	if (landlock_probe() >= 6)
		assert_int_equal(under(&plan, do_write_shut), EACCES);
	plan.abi = 0; /* fails closed */
	assert_int_equal(under(&plan, do_nothing), 254);
	landlock_free(&plan);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_files),  cmocka_unit_test(test_kept),   cmocka_unit_test(test_exec),
		cmocka_unit_test(test_scopes), cmocka_unit_test(test_nested), cmocka_unit_test(test_abis),
	};

	return cmocka_run_group_tests_name("landlock", tests, setup, teardown);
}
