/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * For tests/t/60-leaks.t: linked in, a whole run can be followed by valgrind 3.19 on x86-64, which answers ENOSYS to the system
 * calls that it does not know. They are made here by the processor itself. clone3 becomes clone, which valgrind takes for a
 * fork. Without valgrind it is as if this were not there.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/mount.h>
#include <sys/pidfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#if __has_include(<valgrind/valgrind.h>)
#include <valgrind/valgrind.h>
#else
#define VALGRIND_NON_SIMD_CALL1(fn, arg) fn(0, arg)
#endif

long __real_syscall(long n, ...);
long __wrap_syscall(long n, ...);

struct call {
	long n, a[5];
};

/* On valgrind's own stack, behind its back. */
static long make(unsigned long thread, struct call *c)
{
#ifdef __x86_64__
	register long r10 __asm__("r10") = c->a[3];
	register long r8 __asm__("r8") = c->a[4];
	long result;

	(void)thread;
	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(c->n), "D"(c->a[0]), "S"(c->a[1]), "d"(c->a[2]), "r"(r10), "r"(r8)
			 : "rcx", "r11", "memory");
	return result;
#else
	(void)thread;
	return __real_syscall(c->n, c->a[0], c->a[1], c->a[2], c->a[3], c->a[4]) < 0 ? -errno : 0; /* valgrind's answer */
#endif
}

static long natively(long n, long a, long b, long c, long d, long e)
{
	struct call call = {n, {a, b, c, d, e}};
	long r = (long)VALGRIND_NON_SIMD_CALL1(make, &call);

	if (r >= 0)
		return r;
	errno = (int)-r;
	return -1;
}

/* clone does not know CLONE_INTO_CGROUP: the child goes there itself. */
static void enter_group(const struct clone_args *args)
{
	int fd = openat((int)args->cgroup, "cgroup.procs", O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, "0", 1) != 1)
		_exit(1);
	close(fd);
}

static long clone_as_fork(const struct clone_args *args)
{
	uint64_t flags = args->flags & ~CLONE_INTO_CGROUP;
	long pid = __real_syscall(SYS_clone, flags | args->exit_signal, 0L, args->pidfd, 0L, 0L);

	if (pid == 0 && args->flags & CLONE_INTO_CGROUP)
		enter_group(args);
	return pid;
}

long __wrap_syscall(long n, ...)
{
	long a[5];
	va_list list;

	va_start(list, n);
	for (int i = 0; i < 5; i++)
		a[i] = va_arg(list, long);
	va_end(list);
	switch (n) {
	case SYS_clone3:
		return a[0] ? clone_as_fork((const struct clone_args *)a[0]) : __real_syscall(n, a[0], a[1]);
	case SYS_openat2:
	case SYS_seccomp:
	case SYS_pivot_root:
	case SYS_landlock_create_ruleset:
	case SYS_landlock_add_rule:
	case SYS_landlock_restrict_self:
		return natively(n, a[0], a[1], a[2], a[3], a[4]);
	default:
		return __real_syscall(n, a[0], a[1], a[2], a[3], a[4]);
	}
}

/* A process in our memory, which valgrind does not follow: what it is to do is done here, and it is one that has ended. */
int __wrap_clone(int (*fn)(void *), void *stack, int flags, void *arg, ...);

static long ended(unsigned long thread, long *status)
{
	struct call fork_call = {SYS_clone, {SIGCHLD}}, exit_call = {SYS_exit_group, {*status}};
	long pid = make(thread, &fork_call);

	return pid ? pid : make(thread, &exit_call);
}

int __wrap_clone(int (*fn)(void *), void *stack, int flags, void *arg, ...)
{
	long status = fn(arg);

	(void)stack;
	(void)flags;
	return (int)VALGRIND_NON_SIMD_CALL1(ended, &status);
}

#define P(pointer) (long)(intptr_t)(pointer)
#define NATIVE(name, params, ...)                                       \
	int __wrap_##name params;                                       \
	int __wrap_##name params                                        \
	{                                                               \
		return (int)natively(SYS_##name, __VA_ARGS__);          \
	}

/* mount without a type, for what needs none, valgrind takes for an error. */
NATIVE(mount, (const char *source, const char *target, const char *type, unsigned long flags, const void *data),
       P(source), P(target), P(type), (long)flags, P(data))
NATIVE(fsopen, (const char *type, unsigned flags), P(type), (long)flags, 0, 0, 0)
NATIVE(fsconfig, (int fd, unsigned command, const char *key, const void *value, int aux),
       fd, (long)command, P(key), P(value), aux)
NATIVE(fsmount, (int fd, unsigned flags, unsigned attr), fd, (long)flags, (long)attr, 0, 0)
NATIVE(move_mount, (int from_fd, const char *from, int to_fd, const char *to, unsigned flags),
       from_fd, P(from), to_fd, P(to), (long)flags)
NATIVE(open_tree, (int fd, const char *path, unsigned flags), fd, P(path), (long)flags, 0, 0)
NATIVE(mount_setattr, (int fd, const char *path, unsigned flags, struct mount_attr *attr, size_t size),
       fd, P(path), (long)flags, P(attr), (long)size)
NATIVE(pidfd_open, (pid_t pid, unsigned flags), pid, (long)flags, 0, 0, 0)
NATIVE(pidfd_send_signal, (int fd, int sig, siginfo_t *info, unsigned flags), fd, sig, P(info), (long)flags, 0)

/* The gateway's and the resolver's filters would kill valgrind for its own calls. The box's are made by seccomp(2), and stand. */
int __wrap_seccomp_load(const void *ctx);

int __wrap_seccomp_load(const void *ctx)
{
	(void)ctx;
	return 0;
}
