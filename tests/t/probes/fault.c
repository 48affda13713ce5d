/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * One system call of one process of a run fails. strace --inject counts each process's calls by itself and cannot be told
 * which process is meant, so that a fault in the supervisor hides the one in pid 1 behind it; this names the process.
 *
 *	fault REPORT count -- PROGRAM...           what each process called: "ROLE CALL HOW COUNT" a line
 *	fault REPORT ROLE CALL NTH HOW -- PROGRAM  the NTH CALL of that process fails with the errno HOW
 *
 * Roles: supervisor; init, what it made with clone3; gateway, resolver, child3: what it forked, in that order; their children
 * command, gateway-child, ... A process is let go of where it executes another program. Exit status: PROGRAM's.
 * REPORT gets "injected", "died ROLE SIGNAL" (of those that only an error sends), "left ROLE PID", "unlisted ROLE NUMBER".
 */
#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <linux/ptrace.h>

#define C(name, errnos) {#name, SYS_##name, errnos}
#define NEVER(name) {#name, SYS_##name, NULL}

/* Every call that a run makes, with what it can fail with. NULL: does not fail, or not to be told from a crash. */
static const struct call {
	const char *name;
	long nr;
	const char *errnos;
} calls[] = {
	C(clone3, "EAGAIN"), C(clone, "EAGAIN"), C(execve, "EACCES ENOMEM"), C(openat, "EMFILE"),
	C(openat2, "EMFILE"), C(open_tree, "EPERM"), C(mount_setattr, "EPERM"), C(move_mount, "EPERM"),
	C(fsopen, "EPERM"), C(fsconfig, "EINVAL"), C(fsmount, "EPERM"), C(pivot_root, "EINVAL"), C(umount2, "EPERM"),
	C(mount, "EPERM"), C(sethostname, "EPERM"), C(prctl, "EPERM"), C(capset, "EPERM"), C(capget, "EPERM"),
	C(seccomp, "EINVAL ENOMEM"), C(landlock_create_ruleset, "EOPNOTSUPP"), C(landlock_add_rule, "ENOMEM"),
	C(landlock_restrict_self, "EPERM"), C(socketpair, "EMFILE"), C(socket, "EMFILE"), C(bind, "EACCES"),
	C(listen, "EADDRINUSE"), C(connect, "ECONNREFUSED"), C(accept4, "EMFILE"), C(setsockopt, "EPERM"),
	C(getsockopt, "ENOBUFS"), C(getsockname, "ENOBUFS"), C(getpeername, "ENOTCONN"), C(sendto, "ENOBUFS"),
	C(sendmsg, "ENOBUFS"), C(recvfrom, "ENOMEM"), C(recvmsg, "ENOMEM EINTR"), C(shutdown, "ENOTCONN"),
	C(sendmmsg, "ENOBUFS"), C(recvmmsg, "ENOMEM"), C(mkdirat, "ENOSPC"), C(mknodat, "ENOSPC"), C(symlinkat, "ENOSPC"),
	C(linkat, "ENOSPC"), C(unlinkat, "EACCES"), C(renameat2, "ENOSPC"), C(renameat, "ENOSPC"),
	C(flock, "ENOLCK"), C(prlimit64, "EPERM"), C(pidfd_open, "EMFILE"), C(pidfd_send_signal, "EPERM"),
	C(kill, "EPERM"), C(tgkill, "EPERM"), C(signalfd4, "EMFILE"), C(timerfd_create, "EMFILE"),
	C(timerfd_settime, "EINVAL"), C(eventfd2, "EMFILE"), C(pipe2, "EMFILE"), C(epoll_create1, "EMFILE"),
	C(epoll_ctl, "ENOSPC"), C(epoll_pwait, "ENOMEM EINTR"), C(setsid, "EPERM"), C(fchdir, "EACCES"),
	C(chdir, "EACCES"), C(getcwd, "ENOENT"), C(close_range, "EMFILE"), C(memfd_create, "EMFILE"),
	C(fallocate, "ENOSPC"), C(ftruncate, "EIO"), C(rt_sigaction, "EINVAL"), C(rt_sigprocmask, "EINVAL"),
	C(dup3, "EMFILE"), C(dup, "EMFILE"), C(fcntl, "EINVAL"), C(ioctl, "EINVAL"), C(read, "EIO"),
	C(pread64, "EIO"), C(readv, "EIO"), C(write, "ENOSPC"), C(writev, "EIO"), C(pwrite64, "ENOSPC"),
	C(splice, "ENOMEM"), C(copy_file_range, "EIO"), C(sendfile, "EIO"), C(fsync, "EIO"), C(fdatasync, "EIO"),
	C(newfstatat, "EIO"), C(fstat, "EIO"), C(statx, "EIO"), C(fstatfs, "EIO"), C(statfs, "EIO"),
	C(getdents64, "EIO"), C(readlinkat, "EIO"), C(faccessat, "EACCES"), C(faccessat2, "EACCES"),
	C(fchmod, "EPERM"), C(fchmodat, "EPERM"), C(fchown, "EPERM"), C(fchownat, "EPERM"), C(utimensat, "EPERM"),
	C(lseek, "EINVAL"), C(fsetxattr, "ENOTSUP"), C(fgetxattr, "ENOTSUP"), C(flistxattr, "ENOTSUP"),
	C(llistxattr, "EIO"), C(getxattr, "EIO"), C(lgetxattr, "EIO"), C(setxattr, "EIO"), C(wait4, "EINTR"),
	C(waitid, "EINTR ECHILD"), C(setgroups, "EPERM"), C(getgroups, "EINVAL"), C(bpf, "EPERM"),
	C(uname, "EFAULT"), C(getrandom, "EAGAIN"), C(setns, "EPERM"), C(unshare, "EPERM"), C(setresuid, "EAGAIN"),
	C(setresgid, "EAGAIN"), C(mmap, "ENOMEM"), C(getrusage, "EFAULT"), C(ppoll, "ENOMEM EINTR"),
	C(sched_getaffinity, "EPERM"),
#ifdef SYS_vfork
	C(vfork, "EAGAIN"), C(poll, "ENOMEM EINTR"), C(epoll_wait, "ENOMEM EINTR"), C(dup2, "EMFILE"),
	C(mkdir, "ENOSPC"), C(rename, "ENOSPC"), C(symlink, "ENOSPC"), C(link, "ENOSPC"), C(unlink, "EACCES"),
	C(rmdir, "EACCES"), C(access, "EACCES"), C(readlink, "EIO"), C(open, "EMFILE"), C(stat, "EIO"),
	C(lstat, "EIO"), C(fork, "EAGAIN"), C(pipe, "EMFILE"), C(chmod, "EPERM"), C(getdents, "EIO"), NEVER(time),
	NEVER(arch_prctl),
#endif
	/* Cannot fail with good arguments, or are glibc's and the heap's own. */
	NEVER(brk), NEVER(munmap), NEVER(mprotect), NEVER(mremap), NEVER(madvise), NEVER(exit), NEVER(exit_group),
	NEVER(getpid), NEVER(getppid), NEVER(gettid), NEVER(getuid), NEVER(geteuid), NEVER(getgid), NEVER(getegid),
	NEVER(umask), NEVER(getpgid), NEVER(getsid), NEVER(getresuid), NEVER(getresgid), NEVER(clock_gettime),
	NEVER(gettimeofday), NEVER(set_tid_address), NEVER(set_robust_list), NEVER(rseq), NEVER(rt_sigreturn),
	NEVER(restart_syscall), NEVER(futex), NEVER(clock_nanosleep), NEVER(rt_sigtimedwait), NEVER(close),
};
#define N_CALLS (sizeof(calls) / sizeof(*calls))

static const struct {
	const char *name;
	int value;
} errnos[] = {{"EPERM", EPERM}, {"EINTR", EINTR}, {"EIO", EIO}, {"EAGAIN", EAGAIN}, {"ENOMEM", ENOMEM}, {"EACCES", EACCES},
	      {"EINVAL", EINVAL}, {"EMFILE", EMFILE}, {"ENOSPC", ENOSPC}, {"EOPNOTSUPP", EOPNOTSUPP}, {"ENOTSUP", ENOTSUP},
	      {"EADDRINUSE", EADDRINUSE}, {"ECONNREFUSED", ECONNREFUSED}, {"ENOBUFS", ENOBUFS}, {"ENOTCONN", ENOTCONN},
	      {"ENOLCK", ENOLCK}, {"ENOENT", ENOENT}, {"ECHILD", ECHILD}, {"EFAULT", EFAULT}};

struct role {
	char name[40];
	int children; /* by fork or clone, so far */
	unsigned counts[N_CALLS];
};

static struct role roles[16];
static int n_roles;

static struct tracee {
	pid_t pid;
	struct role *role; /* NULL: its parent's event is not there yet */
	bool stopped_early;
	bool inject;
	long number;
	uint64_t argument;
} tracees[64];
static int n_tracees;

static FILE *report;
static bool counting;
static bool loaded; /* the supervisor's loader has ended: it unmaps ld.so.cache last */
static bool written; /* a coverage build has come to writing its counts, which are not to be harmed */
static const char *want_role, *want_call;
static unsigned want_nth;
static int want_errno;

static void die(const char *what)
{
	perror(what);
	exit(99);
}

static struct role *role_named(const char *name)
{
	for (int i = 0; i < n_roles; i++)
		if (strcmp(roles[i].name, name) == 0)
			return &roles[i];
	if (n_roles == sizeof(roles) / sizeof(*roles))
		return &roles[n_roles - 1];
	snprintf(roles[n_roles].name, sizeof(roles[n_roles].name), "%s", name);
	return &roles[n_roles++];
}

static struct tracee *tracee_of(pid_t pid, bool make)
{
	for (int i = 0; i < n_tracees; i++)
		if (tracees[i].pid == pid)
			return &tracees[i];
	if (!make || n_tracees == sizeof(tracees) / sizeof(*tracees))
		return NULL;
	tracees[n_tracees] = (struct tracee){.pid = pid, .number = -1};
	return &tracees[n_tracees++];
}

static void forget(struct tracee *t)
{
	*t = tracees[--n_tracees];
}

static struct role *role_of_child(struct tracee *parent)
{
	static const char *const forked[] = {"gateway", "resolver"};
	struct role *role = parent->role;
	char name[80];

	if (strcmp(role->name, "supervisor") == 0) {
		if (parent->number == SYS_clone3)
			return role_named("init");
		if (role->children < 2)
			return role_named(forked[role->children++]);
		snprintf(name, sizeof(name), "child%d", ++role->children);
		return role_named(name);
	}
	if (strcmp(role->name, "init") == 0)
		return role_named("command");
	snprintf(name, sizeof(name), "%s%s", role->name, strstr(role->name, "-child") ? "" : "-child");
	return role_named(name);
}

/* --- registers --- */

#ifdef __x86_64__
#define REG_NUMBER(r) ((r)->orig_rax)
#define REG_ARGUMENT(r) ((r)->rdi)
#define REG_RESULT(r) ((r)->rax)
#else
#define REG_ARGUMENT(r) ((r)->regs[0])
#define REG_RESULT(r) ((r)->regs[0])
#endif

static void regs_get(pid_t pid, struct user_regs_struct *regs)
{
	struct iovec v = {regs, sizeof(*regs)};

	if (ptrace(PTRACE_GETREGSET, pid, NT_PRSTATUS, &v) < 0)
		die("PTRACE_GETREGSET");
}

static void regs_set(pid_t pid, struct user_regs_struct *regs)
{
	struct iovec v = {regs, sizeof(*regs)};

	if (ptrace(PTRACE_SETREGSET, pid, NT_PRSTATUS, &v) < 0)
		die("PTRACE_SETREGSET");
}

/* close(-1) in its place: a number of -1 would be a filter's own affair, and close is allowed by each. */
static void replace_call(struct tracee *t)
{
	struct user_regs_struct regs;

	regs_get(t->pid, &regs);
	t->argument = REG_ARGUMENT(&regs);
	REG_ARGUMENT(&regs) = (uint32_t)-1;
#ifdef __x86_64__
	REG_NUMBER(&regs) = SYS_close;
	regs_set(t->pid, &regs);
#else
	int nr = SYS_close;
	struct iovec v = {&nr, sizeof(nr)};

	regs_set(t->pid, &regs);
	ptrace(PTRACE_SETREGSET, t->pid, NT_ARM_SYSTEM_CALL, &v);
#endif
	t->inject = true;
	fprintf(report, "injected\n");
	fflush(report);
}

static void fail_call(struct tracee *t)
{
	struct user_regs_struct regs;

	regs_get(t->pid, &regs);
	REG_ARGUMENT(&regs) = t->argument;
	REG_RESULT(&regs) = (unsigned long)-want_errno;
	regs_set(t->pid, &regs);
	t->inject = false;
}

static bool opens_counts(pid_t pid, long number, uint64_t path)
{
	char text[4096];
	struct iovec here = {text, sizeof(text) - 1}, there = {(void *)(uintptr_t)path, sizeof(text) - 1};
	ssize_t n;

	if (number != SYS_openat)
		return false;
	there.iov_len -= path % sizeof(text); /* to the end of the page, and no further */
	n = process_vm_readv(pid, &here, 1, &there, 1, 0);
	if (n <= 0)
		return false;
	text[n] = '\0';
	return strstr(text, ".gcda") == text + strlen(text) - 5 && strlen(text) > 5;
}

static void on_syscall(struct tracee *t)
{
	struct ptrace_syscall_info info;
	size_t i;

	if (ptrace(PTRACE_GET_SYSCALL_INFO, t->pid, sizeof(info), &info) < 0)
		return;
	if (info.op == PTRACE_SYSCALL_INFO_EXIT && t->inject)
		fail_call(t);
	if (info.op != PTRACE_SYSCALL_INFO_ENTRY)
		return;
	t->number = (long)info.entry.nr;
	for (i = 0; i < N_CALLS && calls[i].nr != t->number; i++)
		;
	if (i == N_CALLS) {
		fprintf(report, "unlisted %s %ld\n", t->role->name, t->number);
		return;
	}
	loaded |= t->number == SYS_munmap;
	written |= opens_counts(t->pid, t->number, info.entry.args[1]);
	if (!loaded || written)
		return;
	t->role->counts[i]++;
	if (!counting && t->role->counts[i] == want_nth && strcmp(calls[i].name, want_call) == 0 &&
	    strcmp(t->role->name, want_role) == 0)
		replace_call(t);
}

static void on_child(struct tracee *t)
{
	unsigned long pid = 0;
	struct tracee *child;
	struct role *role = role_of_child(t);

	if (ptrace(PTRACE_GETEVENTMSG, t->pid, NULL, &pid) < 0)
		return;
	child = tracee_of((pid_t)pid, true);
	if (!child)
		die("too many processes");
	child->role = role;
	if (child->stopped_early)
		ptrace(PTRACE_SYSCALL, child->pid, NULL, 0);
}

/* Return: false: let go of. */
static bool on_stop(struct tracee *t, int status, pid_t first)
{
	int event = status >> 16, sig = WSTOPSIG(status), deliver = 0;

	switch (event) {
	case PTRACE_EVENT_FORK:
	case PTRACE_EVENT_VFORK:
	case PTRACE_EVENT_CLONE:
		on_child(t);
		break;
	case PTRACE_EVENT_EXEC:
		if (t->pid == first)
			break;
		ptrace(PTRACE_DETACH, t->pid, NULL, 0);
		return false;
	case PTRACE_EVENT_STOP:
		if (sig != SIGTRAP) {
			ptrace(PTRACE_LISTEN, t->pid, NULL, 0);
			return true;
		}
		if (!t->role) {
			t->stopped_early = true;
			return true;
		}
		break;
	default:
		if (sig == (SIGTRAP | 0x80))
			on_syscall(t);
		else
			deliver = sig;
	}
	ptrace(PTRACE_SYSCALL, t->pid, NULL, deliver);
	return true;
}

/* Only an error of the program sends these. */
static bool is_crash(int sig)
{
	return sig == SIGSEGV || sig == SIGABRT || sig == SIGBUS || sig == SIGILL || sig == SIGFPE || sig == SIGSYS;
}

static void on_tick(int sig)
{
	(void)sig;
}

static int trace(pid_t first)
{
	int result = -1, ticks = 0;

	while (n_tracees) {
		int status;
		pid_t pid = waitpid(-1, &status, __WALL);
		struct tracee *t;

		if (pid < 0 && errno == EINTR && ++ticks < 30)
			continue;
		if (pid < 0)
			break;
		t = tracee_of(pid, true);
		if (!t)
			die("too many processes");
		if (WIFSTOPPED(status)) {
			if (!on_stop(t, status, first))
				forget(t);
			continue;
		}
		if (WIFSIGNALED(status) && t->role && is_crash(WTERMSIG(status)))
			fprintf(report, "died %s %d\n", t->role->name, WTERMSIG(status));
		if (pid == first) {
			struct itimerspec every = {{0, 100000000}, {0, 100000000}};
			struct sigevent ev = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM};
			timer_t timer;

			result = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
			/* Who is there after its end has three seconds. */
			timer_create(CLOCK_MONOTONIC, &ev, &timer);
			timer_settime(timer, 0, &every, NULL);
		}
		forget(t);
	}
	for (int i = 0; i < n_tracees; i++)
		fprintf(report, "left %s %d\n", tracees[i].role ? tracees[i].role->name : "?", tracees[i].pid);
	return result;
}

static void print_counts(void)
{
	for (int r = 0; r < n_roles; r++) {
		for (size_t i = 0; i < N_CALLS; i++) {
			if (calls[i].errnos && roles[r].counts[i])
				fprintf(report, "%s %s %u %s\n", roles[r].name, calls[i].name, roles[r].counts[i], calls[i].errnos);
		}
	}
}

int main(int argc, char **argv)
{
	static const long options = PTRACE_O_EXITKILL | PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEEXEC | PTRACE_O_TRACEFORK |
				    PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE;
	struct sigaction tick = {.sa_handler = on_tick};
	int word = 3, go[2], result;
	pid_t first;
	char c = 0;

	if (argc > 2 && strcmp(argv[2], "count") == 0) {
		counting = true;
	} else if (argc > 6) {
		want_role = argv[2];
		want_call = argv[3];
		want_nth = (unsigned)strtoul(argv[4], NULL, 10);
		for (size_t i = 0; i < sizeof(errnos) / sizeof(*errnos); i++)
			if (strcmp(errnos[i].name, argv[5]) == 0)
				want_errno = errnos[i].value;
		word = 6;
	}
	if (argc < word + 2 || strcmp(argv[word], "--") != 0 || (!counting && (!want_errno || !want_nth))) {
		fprintf(stderr, "usage: fault REPORT count -- PROGRAM...\n       fault REPORT ROLE CALL NTH ERRNO -- PROGRAM...\n");
		return 99;
	}
	report = fopen(argv[1], "we");
	if (!report)
		die(argv[1]);
	if (pipe(go) < 0 || sigaction(SIGALRM, &tick, NULL) < 0)
		die("pipe");
	first = fork();
	if (first < 0)
		die("fork");
	if (first == 0) {
		close(go[1]);
		if (read(go[0], &c, 1) != 1)
			_exit(99);
		close(go[0]);
		execv(argv[word + 1], argv + word + 1);
		_exit(98);
	}
	close(go[0]);
	tracee_of(first, true)->role = role_named("supervisor");
	if (ptrace(PTRACE_SEIZE, first, NULL, options) < 0)
		die("PTRACE_SEIZE");
	if (write(go[1], &c, 1) != 1)
		die("write");
	close(go[1]);
	result = trace(first);
	if (counting)
		print_counts();
	if (fclose(report) != 0)
		die(argv[1]);
	return result;
}
