/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/sched.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "box/seccomp.h"
#include "box/seccomp_body.h"
#include "box/syscalls.h"

#include "base/banned.h"

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#define OTHER_ARCH AUDIT_ARCH_I386
#else
#define ARCH AUDIT_ARCH_AARCH64
#define OTHER_ARCH AUDIT_ARCH_ARM
#endif

#define HIGH 0x100000000ULL

static void list_add(struct val_list *l, const char *text)
{
	vec_reserve(&l->items, &l->cap, l->n, sizeof(*l->items));
	l->items[l->n++] = (struct val_item){.text = mem_strdup(text), .from = {.file = "p.ini", .line = (unsigned)l->n}};
}

static void list_free(struct val_list *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->items[i].text);
	free(l->items);
	*l = (struct val_list){0};
}

/* A filter of a policy with at most one word allowed and one denied. */
static struct seccomp_program build(enum syscall_policy policy, const char *allow, const char *deny, bool nested, bool root,
				    bool log)
{
	struct profile p = {0};
	struct seccomp_program prog;
	struct err e = {0};
	int r;

	p.syscalls.policy.v = policy;
	p.syscalls.nested_namespaces.v = nested;
	p.syscalls.log.v = log;
	if (allow)
		list_add(&p.syscalls.allow, allow);
	if (deny)
		list_add(&p.syscalls.deny, deny);
	r = seccomp_build(&p, root, &prog, &e);
	list_free(&p.syscalls.allow);
	list_free(&p.syscalls.deny);
	if (r < 0)
		fail_msg("%s", e.msg);
	return prog;
}

static uint32_t eval(const struct seccomp_program *prog, long nr, uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3)
{
	struct seccomp_data d = {.nr = (int)nr, .arch = ARCH, .args = {a0, a1, a2, a3}};

	return seccomp_eval(prog->insns, prog->n, &d);
}

static int answer(const struct seccomp_program *prog, const char *name, uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3)
{
	uint32_t r = eval(prog, syscall_number(name), a0, a1, a2, a3);

	if (r == SECCOMP_RET_ALLOW)
		return 0;
	assert_int_equal(r & SECCOMP_RET_ACTION_FULL, SECCOMP_RET_ERRNO);
	return (int)(r & SECCOMP_RET_DATA);
}

/* Runs fn under the filter in a child of its own. Return: what it returned, or 1000 + signal. */
static int under(const struct seccomp_program *prog, int (*fn)(void))
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0) {
		int listener;

		if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || seccomp_install(prog, &listener) < 0)
			_exit(254);
		_exit(fn());
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

#define CALL(name, ...)                                                                                                     \
	static int name(void)                                                                                               \
	{                                                                                                                   \
		errno = 0;                                                                                                  \
		return syscall(__VA_ARGS__) >= 0 ? 0 : errno;                                                               \
	}

CALL(do_mount, SYS_mount, "none", "/", NULL, 0x20 | 0x1000, NULL)
CALL(do_unshare_user, SYS_unshare, CLONE_NEWUSER)
CALL(do_unshare_files, SYS_unshare, CLONE_FILES)
CALL(do_unshare_high, SYS_unshare, CLONE_FILES | HIGH)
CALL(do_clone_user, SYS_clone, CLONE_NEWUSER | SIGCHLD, NULL, NULL, NULL, NULL)
CALL(do_clone_user_high, SYS_clone, CLONE_NEWUSER | SIGCHLD | HIGH, NULL, NULL, NULL, NULL)
CALL(do_clone3, SYS_clone3, NULL, 0)
CALL(do_setns, SYS_setns, -1, 0)
CALL(do_keyctl, SYS_keyctl, 0, 0, 0, 0, 0)
CALL(do_bpf, SYS_bpf, 0, NULL, 0)
CALL(do_perf, SYS_perf_event_open, NULL, 0, 0, 0, 0)
CALL(do_userfault, SYS_userfaultfd, 0)
CALL(do_handle, SYS_open_by_handle_at, -1, NULL, 0)
CALL(do_io_uring, SYS_io_uring_setup, 1, NULL)
CALL(do_openat2, SYS_openat2, AT_FDCWD, "/", NULL, 0)
CALL(do_newer, SYSCALL_NEWEST + 1)
CALL(do_vsock, SYS_socket, AF_VSOCK, SOCK_STREAM, 0)
CALL(do_vsock_high, SYS_socket, AF_VSOCK | HIGH, SOCK_STREAM, 0)
CALL(do_alg, SYS_socket, AF_ALG, SOCK_SEQPACKET, 0)
CALL(do_raw, SYS_socket, AF_INET, SOCK_RAW | SOCK_CLOEXEC, 1)
CALL(do_packet_old, SYS_socket, AF_INET, SOCK_PACKET, 0)
CALL(do_mptcp, SYS_socket, AF_INET6, SOCK_STREAM, 262)
CALL(do_udplite, SYS_socket, AF_INET, SOCK_DGRAM, 136)
CALL(do_ping, SYS_socket, AF_INET, SOCK_DGRAM, 1)
CALL(do_tcp, SYS_socket, AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 6)
CALL(do_udp6, SYS_socket, AF_INET6, SOCK_DGRAM, 0)
CALL(do_unix, SYS_socket, AF_UNIX, SOCK_SEQPACKET, 0)
CALL(do_route, SYS_socket, AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, 0)
CALL(do_diag, SYS_socket, AF_NETLINK, SOCK_DGRAM, 4)
CALL(do_netfilter, SYS_socket, AF_NETLINK, SOCK_RAW, 12)
CALL(do_audit, SYS_socket, AF_NETLINK, SOCK_RAW, 9)
CALL(do_tiocsti, SYS_ioctl, 0, 0x5412, "x")
CALL(do_tiocsti_high, SYS_ioctl, 0, 0x5412 | HIGH, "x")
CALL(do_tioclinux, SYS_ioctl, 0, 0x541c, "x")
CALL(do_tiocgwinsz, SYS_ioctl, -1, 0x5413, NULL)
CALL(do_personality_ask, SYS_personality, 0xffffffffUL)
CALL(do_personality_exec, SYS_personality, READ_IMPLIES_EXEC)
CALL(do_personality_exec_high, SYS_personality, READ_IMPLIES_EXEC | HIGH)
CALL(do_personality_gdb, SYS_personality, ADDR_NO_RANDOMIZE)
CALL(do_ptrace, SYS_ptrace, PTRACE_TRACEME, 0, 0, 0)
CALL(do_chown_nowhere, SYS_fchownat, AT_FDCWD, "/nowhere/at/all", 4242, 4242, 0)
CALL(do_memfd, SYS_memfd_create, "x", MFD_CLOEXEC)

static int do_thread_like(void)
{
	pid_t pid = fork();
	int status;

	if (pid < 0)
		return errno;
	if (pid == 0)
		_exit(0);
	return waitpid(pid, &status, 0) == pid ? status : errno;
}

static char setuid_path[64];

static int do_chmod_setuid(void)
{
	return chmod(setuid_path, 04755) == 0 ? 0 : errno;
}
static int do_chmod_setgid(void)
{
	return chmod(setuid_path, 02755) == 0 ? 0 : errno;
}
static int do_creat_setuid(void)
{
	char path[80];
	int fd;

	snprintf(path, sizeof(path), "%s.new", setuid_path);
	fd = open(path, O_CREAT | O_EXCL | O_WRONLY, 04755);
	if (fd < 0)
		return errno;
	unlink(path);
	return 0;
}
static int do_tmpfile_setuid(void)
{
	return open("/tmp", O_TMPFILE | O_WRONLY, 04755) >= 0 ? 0 : errno;
}
/* The register of the mode holds anything where no file is made. */
static int do_open_stale_mode(void)
{
	return syscall(SYS_openat, AT_FDCWD, setuid_path, O_RDONLY, 04755) >= 0 ? 0 : errno;
}

struct expect {
	const char *name;
	int (*fn)(void);
	int want;
};

static void expect_all(const struct seccomp_program *prog, const struct expect *e)
{
	for (; e->name; e++) {
		int got = under(prog, e->fn);

		if (got != e->want)
			fail_msg("%s: %d, not %d", e->name, got, e->want);
	}
}

#define E(fn, want) {#fn, fn, want}

static void test_default(void **state)
{
	static const struct expect all[] = {
		E(do_mount, EPERM), E(do_unshare_user, EPERM), E(do_unshare_files, 0), E(do_unshare_high, EPERM),
		E(do_clone_user, EPERM), E(do_clone_user_high, EPERM), E(do_clone3, ENOSYS), E(do_setns, EPERM), E(do_keyctl, EPERM),
		E(do_bpf, EPERM), E(do_perf, EPERM), E(do_userfault, EPERM), E(do_handle, EPERM), E(do_io_uring, ENOSYS),
		E(do_openat2, ENOSYS), E(do_newer, ENOSYS), E(do_vsock, EAFNOSUPPORT), E(do_vsock_high, EAFNOSUPPORT),
		E(do_alg, EAFNOSUPPORT), E(do_raw, EPERM), E(do_packet_old, EPERM), E(do_mptcp, EPROTONOSUPPORT),
		E(do_udplite, EPROTONOSUPPORT), E(do_ping, EPROTONOSUPPORT), E(do_tcp, 0), E(do_udp6, 0), E(do_unix, 0),
		E(do_route, 0), E(do_diag, 0), E(do_netfilter, EPROTONOSUPPORT), E(do_audit, EPROTONOSUPPORT), E(do_tiocsti, EPERM),
		E(do_tiocsti_high, EPERM), E(do_tioclinux, EPERM), E(do_tiocgwinsz, EBADF), E(do_personality_ask, 0),
		E(do_personality_exec, EPERM), E(do_personality_exec_high, EPERM), E(do_personality_gdb, 0), E(do_ptrace, 0),
		E(do_chown_nowhere, ENOENT), E(do_memfd, 0), E(do_thread_like, 0), E(do_chmod_setuid, EPERM),
		E(do_chmod_setgid, 0), E(do_creat_setuid, EPERM), E(do_tmpfile_setuid, EPERM), E(do_open_stale_mode, 0), {0}};
	struct seccomp_program prog = build(SYSCALLS_DEFAULT, NULL, NULL, false, false, false);

	(void)state;
	expect_all(&prog, all);
	seccomp_free(&prog);
}

/* The same calls without a filter: what is refused above is refused by the filter and not by something else. */
static void test_off(void **state)
{
	static const struct expect all[] = {E(do_unshare_files, 0), E(do_chmod_setuid, 0), E(do_creat_setuid, 0),
					    E(do_clone3, EINVAL), E(do_personality_exec, 0), E(do_openat2, EINVAL), {0}};
	struct seccomp_program prog = build(SYSCALLS_OFF, NULL, NULL, false, false, true);

	(void)state;
	assert_null(prog.insns);
	expect_all(&prog, all);
	seccomp_free(&prog);
}

static void test_strict(void **state)
{
	static const struct expect all[] = {
		E(do_mount, EPERM), E(do_unshare_user, EPERM), E(do_clone3, ENOSYS), E(do_keyctl, EPERM), E(do_io_uring, ENOSYS),
		E(do_newer, ENOSYS), E(do_vsock, EAFNOSUPPORT), E(do_tcp, 0), E(do_unix, 0), E(do_route, 0), E(do_tiocsti_high, EPERM),
		E(do_ptrace, EPERM), E(do_thread_like, 0), E(do_chmod_setuid, EPERM), E(do_open_stale_mode, 0), {0}};
	struct seccomp_program prog = build(SYSCALLS_STRICT, NULL, NULL, false, false, false), more;

	(void)state;
	expect_all(&prog, all);
	/* Every call that is closed under default is closed under strict. */
	more = build(SYSCALLS_DEFAULT, NULL, NULL, false, false, false);
	for (int nr = 0; nr < SYSCALL_MAX; nr++) {
		char name[SYSCALL_NAME_MAX];
		uint32_t loose = eval(&more, nr, 0, 0, 0, 0), tight = eval(&prog, nr, 0, 0, 0, 0);

		if (loose != SECCOMP_RET_ALLOW && tight == SECCOMP_RET_ALLOW)
			fail_msg("strict opens %s", syscall_name(nr, name));
	}
	seccomp_free(&more);
	seccomp_free(&prog);
	prog = build(SYSCALLS_STRICT, "@debug", NULL, false, false, false);
	assert_int_equal(under(&prog, do_ptrace), 0);
	seccomp_free(&prog);
}

static void test_nested(void **state)
{
	struct seccomp_program prog = build(SYSCALLS_DEFAULT, NULL, NULL, true, false, false);

	(void)state;
	assert_int_equal(under(&prog, do_unshare_user), 0);
	assert_int_equal(answer(&prog, "mount", 0, 0, 0, 0), 0);
	assert_int_equal(answer(&prog, "pivot_root", 0, 0, 0, 0), 0);
	assert_int_equal(answer(&prog, "setns", 0, 0, 0, 0), 0);
	assert_int_equal(answer(&prog, "clone3", 0, 0, 0, 0), 0);
	assert_int_equal(answer(&prog, "openat2", 0, 0, 0, 0), 0);
	assert_int_equal(answer(&prog, "sethostname", 0, 0, 0, 0), 0);
	assert_int_equal(answer(&prog, "socket", AF_NETLINK, SOCK_RAW, 12, 0), 0);
	/* and never the rest */
	assert_int_equal(under(&prog, do_keyctl), EPERM);
	assert_int_equal(under(&prog, do_bpf), EPERM);
	assert_int_equal(under(&prog, do_io_uring), ENOSYS);
	assert_int_equal(under(&prog, do_vsock), EAFNOSUPPORT);
	assert_int_equal(under(&prog, do_raw), EPERM);
	assert_int_equal(under(&prog, do_tiocsti_high), EPERM);
	assert_int_equal(under(&prog, do_chmod_setuid), EPERM);
	assert_int_equal(answer(&prog, "open_by_handle_at", 0, 0, 0, 0), EPERM);
	seccomp_free(&prog);
	prog = build(SYSCALLS_STRICT, NULL, NULL, true, false, false);
	assert_int_equal(answer(&prog, "mount", 0, 0, 0, 0), 0);
	assert_int_equal(answer(&prog, "clone3", 0, 0, 0, 0), 0);
	assert_int_equal(answer(&prog, "ptrace", 0, 0, 0, 0), EPERM);
	seccomp_free(&prog);
}

static void test_words(void **state)
{
	struct seccomp_program prog = build(SYSCALLS_DEFAULT, "userfaultfd", "ptrace", false, false, false);

	(void)state;
	assert_int_equal(answer(&prog, "userfaultfd", 0, 0, 0, 0), 0);
	assert_int_equal(under(&prog, do_ptrace), EPERM);
	seccomp_free(&prog);
	/* Naming a call lifts no check of its arguments; naming the check does. */
	prog = build(SYSCALLS_DEFAULT, "socket", NULL, false, false, false);
	assert_int_equal(under(&prog, do_vsock), EAFNOSUPPORT);
	seccomp_free(&prog);
	prog = build(SYSCALLS_DEFAULT, "@socket-families", NULL, false, false, false);
	assert_int_equal(answer(&prog, "socket", AF_VSOCK, SOCK_STREAM, 0, 0), 0);
	seccomp_free(&prog);
	prog = build(SYSCALLS_DEFAULT, "@setuid-bits", NULL, false, false, false);
	assert_int_equal(under(&prog, do_chmod_setuid), 0);
	seccomp_free(&prog);
	/* Deny wins, over allow and over a check that would let it pass. */
	prog = build(SYSCALLS_DEFAULT, "keyctl", "@keyring", false, false, false);
	assert_int_equal(under(&prog, do_keyctl), EPERM);
	seccomp_free(&prog);
	prog = build(SYSCALLS_DEFAULT, NULL, "socket", false, false, false);
	assert_int_equal(under(&prog, do_unix), EPERM);
	seccomp_free(&prog);
	prog = build(SYSCALLS_DEFAULT, NULL, "@network", true, false, false);
	assert_int_equal(under(&prog, do_tcp), EPERM);
	assert_int_equal(answer(&prog, "connect", 0, 0, 0, 0), EPERM);
	seccomp_free(&prog);
}

static void refused_word(const char *allow, const char *deny, const char *want)
{
	struct profile p = {0};
	struct seccomp_program prog;
	struct faults faults = {0};
	struct err e = {0};

	if (allow)
		list_add(&p.syscalls.allow, allow);
	if (deny)
		list_add(&p.syscalls.deny, deny);
	assert_int_equal(seccomp_build(&p, false, &prog, &e), -EINVAL);
	assert_null(prog.insns);
	if (!strstr(e.msg, want) || strncmp(e.msg, "p.ini:1: [syscalls] ", 20) != 0)
		fail_msg("%s", e.msg);
	assert_int_equal(seccomp_check(&p, &faults), -EINVAL);
	assert_int_equal(faults.n, 1);
	assert_non_null(strstr(faults.v[0].text, want));
	assert_int_equal(faults.v[0].from.line, 1);
	faults_free(&faults);
	list_free(&p.syscalls.allow);
	list_free(&p.syscalls.deny);
}

static void test_faults(void **state)
{
	struct profile p = {0};
	struct faults faults = {0};

	(void)state;
	refused_word("userfaultdf", NULL, "did you mean userfaultfd?");
	refused_word("@keyrings", NULL, "did you mean @keyring?");
	refused_word(NULL, "open_tre", "did you mean open_tree?");
	refused_word(NULL, "qqqqqqqqqqqqqqqqqqqqq", "agentbox.ini(5)");
	refused_word(NULL, "@setuid-bits", "only allow can name it");
	refused_word("", NULL, "no such system call");
	refused_word("@", NULL, "no such system call");
	refused_word("-1", NULL, "no such system call");
	refused_word("101", NULL, "no such system call");
	/* All of them in one go; a fault with the policy off is one all the same. */
	p.syscalls.policy.v = SYSCALLS_OFF;
	list_add(&p.syscalls.allow, "nosuch1");
	list_add(&p.syscalls.allow, "keyctl");
	list_add(&p.syscalls.deny, "nosuch2");
	assert_int_equal(seccomp_check(&p, &faults), -EINVAL);
	assert_int_equal(faults.n, 2);
	faults_free(&faults);
	list_free(&p.syscalls.allow);
	list_free(&p.syscalls.deny);
	/* Another architecture's is none. */
	list_add(&p.syscalls.deny, "socketcall");
	assert_int_equal(seccomp_check(&p, &faults), 0);
	list_free(&p.syscalls.deny);
}

static void test_root(void **state)
{
	struct seccomp_program prog = build(SYSCALLS_DEFAULT, NULL, NULL, false, true, false);

	(void)state;
	assert_int_equal(under(&prog, do_chown_nowhere), 0);
	seccomp_free(&prog);
	prog = build(SYSCALLS_STRICT, NULL, NULL, false, true, true);
	assert_int_equal(eval(&prog, syscall_number("fchownat"), 0, 0, 0, 0), SECCOMP_RET_ERRNO);
	seccomp_free(&prog);
	prog = build(SYSCALLS_DEFAULT, "@chown", NULL, false, true, false);
	assert_int_equal(under(&prog, do_chown_nowhere), ENOENT);
	seccomp_free(&prog);
}

static void test_memfd(void **state)
{
	struct profile p = {0};
	struct seccomp_program prog;
	struct err e;

	(void)state;
	list_add(&p.commands.exec, "/bin/sh");
	assert_int_equal(seccomp_build(&p, false, &prog, &e), 0);
	assert_int_equal(under(&prog, do_memfd), ENOSYS);
	assert_int_equal(answer(&prog, "memfd_create", 0, MFD_CLOEXEC | 8, 0, 0), 0);
	seccomp_free(&prog);
	list_free(&p.commands.exec);
}

#if defined(__x86_64__)
static int do_x32(void)
{
	return (int)syscall(0x40000000 + SYS_getpid) < 0 ? errno : 0;
}
static int do_int80(void)
{
	long r = 20; /* getpid of i386 */

	__asm__ volatile("int $0x80" : "+a"(r) : : "memory", "r8", "r9", "r10", "r11");
	return r < 0 ? (int)-r : 0;
}
#endif

static void test_foreign(void **state)
{
	static const enum syscall_policy policies[] = {SYSCALLS_DEFAULT, SYSCALLS_STRICT};

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		for (int bits = 0; bits < 8; bits++) {
			struct seccomp_program prog = build(policies[i], NULL, NULL, bits & 1, bits & 2, bits & 4);

			for (int nr = 0; nr < 600; nr++) {
				struct seccomp_data d = {.nr = nr, .arch = OTHER_ARCH};

				assert_int_equal(seccomp_eval(prog.insns, prog.n, &d), SECCOMP_RET_KILL_PROCESS);
			}
#if defined(__x86_64__)
			for (int nr = 0; nr < 600; nr++)
				assert_int_equal(eval(&prog, 0x40000000 + nr, 0, 0, 0, 0), SECCOMP_RET_KILL_PROCESS);
			assert_int_equal(under(&prog, do_x32), 1000 + SIGSYS);
			assert_int_equal(under(&prog, do_int80), 1000 + SIGSYS);
#endif
			seccomp_free(&prog);
		}
	}
}

static int next_denied(int listener, const struct seccomp_program *prog, struct seccomp_denied *out)
{
	assert_int_equal(poll(&(struct pollfd){.fd = listener, .events = POLLIN}, 1, 5000), 1);
	return seccomp_notify_read(listener, prog, out);
}

/* The child asks twice what is refused and once what is only redirected; the supervisor hears of the two. */
static void test_log(void **state)
{
	struct seccomp_program prog = build(SYSCALLS_DEFAULT, NULL, NULL, false, false, true);
	struct seccomp_denied denied;
	char name[SYSCALL_NAME_MAX];
	int pair[2], listener, status, flag;
	pid_t pid;

	(void)state;
	assert_true(prog.notify);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || seccomp_install(&prog, &listener) < 0 || listener < 0)
			_exit(99);
		if (fcntl(listener, F_GETFD) != FD_CLOEXEC || write(pair[1], &listener, sizeof(listener)) != sizeof(listener))
			_exit(98);
		if (do_vsock() != EAFNOSUPPORT)
			_exit(1);
		if (do_clone3() != ENOSYS || do_newer() != ENOSYS)
			_exit(2);
		if (do_keyctl() != EPERM)
			_exit(3);
		_exit(0);
	}
	assert_int_equal(read(pair[0], &flag, sizeof(flag)), sizeof(flag));
	listener = (int)syscall(SYS_pidfd_getfd, (int)syscall(SYS_pidfd_open, pid, 0), flag, 0);
	assert_true(listener >= 0);
	assert_int_equal(next_denied(listener, &prog, &denied), 1);
	assert_string_equal(syscall_name(denied.nr, name), "socket");
	assert_int_equal(denied.errnum, EAFNOSUPPORT);
	assert_int_equal(denied.pid, pid);
	assert_int_equal(denied.arch, ARCH);
	assert_int_equal(next_denied(listener, &prog, &denied), 1);
	assert_string_equal(syscall_name(denied.nr, name), "keyctl");
	assert_int_equal(denied.errnum, EPERM);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	/* Nobody is left: it must not be waited for. */
	assert_int_equal(next_denied(listener, &prog, &denied), -ENOTCONN);
	close(listener);
	close(pair[0]);
	close(pair[1]);
	seccomp_free(&prog);
}

/* Every name in the tables is a call somewhere, and no call is in two groups of refusal. */
static void test_tables(void **state)
{
	(void)state;
	for (const struct syscall_group *g = syscall_groups; g->name; g++) {
		assert_ptr_equal(syscall_group_find(g->name), g);
		assert_true(!g->calls == !!(g->flags & GROUP_CHECK));
		for (const char *const *c = g->calls; c && *c; c++)
			if (syscall_number(*c) == -ENOENT)
				fail_msg("@%s: %s is no system call", g->name, *c);
		for (const struct syscall_group *h = syscall_groups; h->name; h++)
			for (const char *const *c = g->calls; c && *c; c++)
				for (const char *const *d = h->calls; d && *d; d++)
					if ((g != h || c != d) && strcmp(*c, *d) == 0)
						fail_msg("%s is in @%s and @%s", *c, g->name, h->name);
	}
}

/*
 * agentbox.ini(5) lists the groups as they stand in the table, ".It Li @NAME" and then what it is for. Run from the source
 * tree.
 */
static void test_man_page(void **state)
{
	FILE *in = fopen("man/agentbox.ini.5", "re");
	cleanup_str struct str man = {0}, table = {0};
	bool inside = false, item = false;
	char line[1024];

	(void)state;
	assert_non_null(in);
	while (fgets(line, sizeof(line), in)) {
		if (str_has_prefix(line, ".Sh "))
			inside = str_eq(line, ".Sh SYSTEM CALLS\n");
		if (inside && (item || str_has_prefix(line, ".It ")))
			str_add(&man, line);
		item = str_has_prefix(line, ".It ");
	}
	fclose(in);
	for (const struct syscall_group *g = syscall_groups; g->name; g++) {
		const char *why = str_has_prefix(g->why, "check: ") ? g->why + strlen("check: ") : g->why;

		str_addf(&table, ".It Li @%s\n%c%s.\n", g->name, *why >= 'a' && *why <= 'z' ? *why - 'a' + 'A' : *why, why + 1);
	}
	assert_string_equal(man.text, table.text);
}

static bool is_made(const struct seccomp_body *wanted)
{
	for (const struct seccomp_body *b = seccomp_bodies; b->n; b++)
		if (b->strict == wanted->strict && b->n_rules == wanted->n_rules &&
		    memcmp(b->rules, wanted->rules, b->n_rules * sizeof(*b->rules)) == 0)
			return true;
	return false;
}

/* What was made at the build is what libseccomp makes now, and is there for profiles that change nothing. */
static void test_bodies(void **state)
{
	struct profile p = {0};
	struct err e;

	(void)state;
	if (!seccomp_bodies[0].n)
		skip(); /* a cross build */
	for (const struct seccomp_body *b = seccomp_bodies; b->n; b++) {
		struct seccomp_body again = {.strict = b->strict, .rules = b->rules, .n_rules = b->n_rules};

		assert_int_equal(seccomp_body_make(&again), 0);
		assert_int_equal(again.n, b->n);
		assert_memory_equal(again.insns, b->insns, b->n * sizeof(*b->insns));
		free((void *)again.insns);
	}
	for (int variant = 0; variant < 8; variant++) {
		struct seccomp_body body;

		p.syscalls.policy.v = variant & 1 ? SYSCALLS_STRICT : SYSCALLS_DEFAULT;
		p.syscalls.nested_namespaces.v = variant & 2;
		assert_int_equal(seccomp_rules(&p, variant & 4, &body, &e), 0);
		assert_true(is_made(&body));
		free((void *)body.rules);
	}
	list_add(&p.syscalls.deny, "sched_yield");
	for (int found = 0; found < 2; found++) {
		struct seccomp_body body;

		assert_int_equal(seccomp_rules(&p, false, &body, &e), 0);
		assert_int_equal(is_made(&body), found);
		free((void *)body.rules);
		list_free(&p.syscalls.deny);
	}
}

static int setup(void **state)
{
	int fd, null = open("/dev/null", O_RDWR);

	(void)state;
	if (null < 0 || dup2(null, 0) < 0)
		return -1;
	snprintf(setuid_path, sizeof(setuid_path), "/tmp/test_seccomp.XXXXXX");
	fd = mkstemp(setuid_path);
	return fd < 0 ? -1 : 0;
}

static int teardown(void **state)
{
	(void)state;
	return unlink(setuid_path);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tables), cmocka_unit_test(test_man_page),
		cmocka_unit_test(test_default), cmocka_unit_test(test_off),
		cmocka_unit_test(test_strict), cmocka_unit_test(test_nested),  cmocka_unit_test(test_words),
		cmocka_unit_test(test_faults), cmocka_unit_test(test_root),    cmocka_unit_test(test_memfd),
		cmocka_unit_test(test_foreign), cmocka_unit_test(test_log),
		cmocka_unit_test(test_bodies),
	};

	return cmocka_run_group_tests_name("seccomp", tests, setup, teardown);
}
