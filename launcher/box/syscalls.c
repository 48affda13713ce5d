/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "box/syscalls.h"

#include <errno.h>
#include <seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/banned.h"

/*
 * What `policy = default` refuses. The measure is what Docker, systemd and Flatpak refuse, less what builds and debuggers
 * need in a PID namespace of their own. The kernel checks a capability for many of them: the filter is there for the day on
 * which that check, or the code behind it, is wrong.
 */

/* Each mount call can undo a read-only bind or a mask, and the path walk behind them has had CVE-2022-0185 (fsconfig). */
static const char *const calls_mount[] = {"mount",	"umount2",  "pivot_root", "chroot",	   "open_tree",	     "move_mount",
					  "fsopen",	"fsconfig", "fsmount",	  "fspick",	   "mount_setattr", "open_tree_attr",
					  NULL};

/* Entering a namespace; new ones are a matter of flags, see @new-namespaces. */
static const char *const calls_namespaces[] = {"setns", NULL};

/* Names belong to the UTS namespace; a box inside the box sets its own. */
static const char *const calls_hostname[] = {"sethostname", "setdomainname", NULL};

static const char *const calls_module[] = {"init_module", "finit_module", "delete_module", NULL};
static const char *const calls_boot[] = {"kexec_load", "kexec_file_load", "reboot", NULL};
static const char *const calls_swap[] = {"swapon", "swapoff", NULL};
static const char *const calls_raw_io[] = {"iopl", "ioperm", NULL};
static const char *const calls_clock[] = {"settimeofday", "clock_settime", "adjtimex", "clock_adjtime", NULL};

/* dmesg tells kernel addresses; quotas, accounting and vhangup act on the host. */
static const char *const calls_admin[] = {"syslog", "acct", "quotactl", "quotactl_fd", "vhangup", NULL};

/* Keyrings are not namespaced: CVE-2014-9529, CVE-2016-0728, CVE-2017-7472; a key of the caller's session would be readable. */
static const char *const calls_keyring[] = {"add_key", "keyctl", "request_key", NULL};

/* The verifier: CVE-2020-8835, CVE-2021-3490, CVE-2021-31440, CVE-2022-23222. */
static const char *const calls_bpf[] = {"bpf", NULL};

/* CVE-2013-2094, CVE-2016-6786, CVE-2023-2235, and counters that see other processes' timing. */
static const char *const calls_perf[] = {"perf_event_open", NULL};

/* Stops the kernel in the middle of a copy from user space: what turns a race into an exploit (CVE-2016-6187). */
static const char *const calls_userfault[] = {"userfaultfd", NULL};

/*
 * The ring makes sockets and opens files without a system call that a filter could see (measured: a socket of a refused
 * family). Also CVE-2021-41073, CVE-2022-29582, CVE-2023-2598. ENOSYS, since libuv and others probe it.
 */
static const char *const calls_io_uring[] = {"io_uring_setup", "io_uring_enter", "io_uring_register", NULL};

/* Opens any inode of a mounted filesystem by number, past every bind and mask (CVE-2014-3519, "shocker"). */
static const char *const calls_handle[] = {"open_by_handle_at", NULL};

/* Placement acts on the host's scheduling; CVE-2017-14140 (move_pages told addresses of others). Programs take a refusal. */
static const char *const calls_numa[] = {"mbind",	   "set_mempolicy", "get_mempolicy", "set_mempolicy_home_node",
					 "migrate_pages", "move_pages",	   NULL};

/* Watches whole filesystems; inotify does what builds need. */
static const char *const calls_fanotify[] = {"fanotify_init", "fanotify_mark", NULL};

/* Old, unused, and still implemented: CVE-2017-17053 (modify_ldt), CVE-2014-9322 (its segments), uselib CVE-2004-1235. */
static const char *const calls_obsolete[] = {"modify_ldt", "uselib", "sysfs", "ustat", NULL};

/*
 * What `policy = strict` opens: a toolchain, an interpreter and git. Not in it, and to be named where needed: @debug,
 * @ipc, @sandbox, @aio.
 */
static const char *const calls_io[] = {
	"read", "write", "readv", "writev", "pread64", "pwrite64", "preadv", "pwritev", "preadv2", "pwritev2", "lseek", "_llseek",
	"dup", "dup2", "dup3", "pipe", "pipe2", "fcntl", "fcntl64", "close", "close_range", "poll", "ppoll", "select", "pselect6",
	"epoll_create", "epoll_create1", "epoll_ctl", "epoll_wait", "epoll_pwait", "epoll_pwait2", "eventfd", "eventfd2",
	"sendfile", "splice", "tee", "copy_file_range", "fsync", "fdatasync", "sync_file_range", "fadvise64", "readahead", "flock",
	"ioctl", NULL};

static const char *const calls_file[] = {
	"open", "openat", "openat2", "creat", "access", "faccessat", "faccessat2", "stat", "lstat", "fstat", "newfstatat", "statx",
	"statfs", "fstatfs", "getdents", "getdents64", "getcwd", "chdir", "fchdir", "mkdir", "mkdirat", "rmdir", "rename",
	"renameat", "renameat2", "link", "linkat", "symlink", "symlinkat", "unlink", "unlinkat", "readlink", "readlinkat", "chmod",
	"fchmod", "fchmodat", "fchmodat2", "chown", "lchown", "fchown", "fchownat", "umask", "truncate", "ftruncate", "fallocate",
	"utime", "utimes", "futimesat", "utimensat", "mknod", "mknodat", "sync", "syncfs", "cachestat", "getxattr", "lgetxattr",
	"fgetxattr", "listxattr", "llistxattr", "flistxattr", "setxattr", "lsetxattr", "fsetxattr", "removexattr", "lremovexattr",
	"fremovexattr", "getxattrat", "setxattrat", "listxattrat", "removexattrat", "file_getattr", "inotify_init", "inotify_init1",
	"inotify_add_watch", "inotify_rm_watch", NULL};

static const char *const calls_memory[] = {"brk", "mmap", "munmap", "mremap", "mprotect", "msync", "madvise", "mincore", "mlock",
					   "mlock2", "munlock", "mlockall", "munlockall", "membarrier", "memfd_create",
					   "pkey_alloc", "pkey_free", "pkey_mprotect", "mseal", "map_shadow_stack", NULL};

static const char *const calls_process[] = {
	"clone", "clone3", "fork", "vfork", "execve", "execveat", "exit", "exit_group", "wait4", "waitid", "getpid", "getppid",
	"gettid", "getpgid", "setpgid", "getpgrp", "getsid", "setsid", "getuid", "geteuid", "getgid", "getegid", "getresuid",
	"getresgid", "getgroups", "setgroups", "setuid", "setgid", "setreuid", "setregid", "setresuid", "setresgid", "setfsuid",
	"setfsgid", "capget", "capset", "prctl", "arch_prctl", "set_tid_address", "set_robust_list", "get_robust_list", "rseq",
	"futex", "futex_waitv", "futex_wait", "futex_wake", "futex_requeue", "getrlimit", "setrlimit", "prlimit64", "getrusage",
	"times", "sched_yield", "sched_getaffinity", "sched_setaffinity", "sched_getparam", "sched_setparam", "sched_getscheduler",
	"sched_setscheduler", "sched_getattr", "sched_setattr", "sched_get_priority_max", "sched_get_priority_min",
	"sched_rr_get_interval", "getpriority", "setpriority", "ioprio_get", "ioprio_set", "uname", "sysinfo", "getcpu",
	"getrandom", "personality", "pidfd_open", "pidfd_send_signal", "set_thread_area", "get_thread_area", "unshare", NULL};

static const char *const calls_signal[] = {
	"rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "rt_sigpending", "rt_sigsuspend", "rt_sigtimedwait", "rt_sigqueueinfo",
	"rt_tgsigqueueinfo", "sigaltstack", "kill", "tkill", "tgkill", "pause", "alarm", "signalfd", "signalfd4", "restart_syscall",
	NULL};

static const char *const calls_time[] = {
	"clock_gettime", "clock_getres", "clock_nanosleep", "nanosleep", "gettimeofday", "time", "timer_create", "timer_delete",
	"timer_getoverrun", "timer_gettime", "timer_settime", "timerfd_create", "timerfd_gettime", "timerfd_settime", "getitimer",
	"setitimer", NULL};

static const char *const calls_network[] = {
	"socket", "socketpair", "bind", "listen", "accept", "accept4", "connect", "getsockname", "getpeername", "setsockopt",
	"getsockopt", "sendto", "recvfrom", "sendmsg", "recvmsg", "sendmmsg", "recvmmsg", "shutdown", NULL};

/* Open under default, for strict to be named. */
static const char *const calls_debug[] = {"ptrace", "process_vm_readv", "process_vm_writev", "kcmp", "pidfd_getfd",
					  "process_madvise", "process_mrelease", NULL};
static const char *const calls_ipc[] = {"shmget", "shmat", "shmdt", "shmctl", "semget", "semop", "semtimedop", "semctl", "msgget",
					"msgsnd", "msgrcv", "msgctl", "mq_open", "mq_unlink", "mq_timedsend", "mq_timedreceive",
					"mq_notify", "mq_getsetattr", NULL};
static const char *const calls_sandbox[] = {"seccomp", "landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self",
					    NULL};
static const char *const calls_aio[] = {"io_setup", "io_destroy", "io_submit", "io_cancel", "io_getevents", "io_pgetevents", NULL};

const struct syscall_group syscall_groups[] = {
	{"mount", "mounting could undo what is read-only or hidden", GROUP_REFUSED | GROUP_NESTED, 0, EPERM, calls_mount},
	{"namespaces", "entering other namespaces", GROUP_REFUSED | GROUP_NESTED, 0, EPERM, calls_namespaces},
	{"hostname", "the box's names are the profile's", GROUP_REFUSED | GROUP_NESTED, 0, EPERM, calls_hostname},
	{"module", "kernel modules", GROUP_REFUSED, 0, EPERM, calls_module},
	{"boot", "restarting the machine, or another kernel", GROUP_REFUSED, 0, EPERM, calls_boot},
	{"swap", "swap space", GROUP_REFUSED, 0, EPERM, calls_swap},
	{"raw-io", "ports and buses", GROUP_REFUSED, 0, EPERM, calls_raw_io},
	{"clock", "setting the host's clock", GROUP_REFUSED, 0, EPERM, calls_clock},
	{"admin", "the kernel's log, quotas, accounting", GROUP_REFUSED, 0, EPERM, calls_admin},
	{"keyring", "kernel keys are not namespaced", GROUP_REFUSED, 0, EPERM, calls_keyring},
	{"bpf", "programs in the kernel", GROUP_REFUSED, 0, EPERM, calls_bpf},
	{"perf", "performance counters", GROUP_REFUSED, 0, EPERM, calls_perf},
	{"userfault", "page faults answered in user space", GROUP_REFUSED, 0, EPERM, calls_userfault},
	{"io-uring", "it does what a filter cannot see", GROUP_REFUSED, 0, ENOSYS, calls_io_uring},
	{"handle", "opening files by inode, past every mount", GROUP_REFUSED, 0, EPERM, calls_handle},
	{"numa", "placement of memory", GROUP_REFUSED, 0, EPERM, calls_numa},
	{"fanotify", "watching whole filesystems", GROUP_REFUSED, 0, EPERM, calls_fanotify},
	{"obsolete", "old and unused, still implemented", GROUP_REFUSED, 0, EPERM, calls_obsolete},
	{"io", "descriptors", GROUP_STRICT, 0, EPERM, calls_io},
	{"file", "files and directories", GROUP_STRICT, 0, EPERM, calls_file},
	{"memory", "the process's own memory", GROUP_STRICT, 0, EPERM, calls_memory},
	{"process", "processes, threads, ids", GROUP_STRICT, 0, EPERM, calls_process},
	{"signal", "signals", GROUP_STRICT, 0, EPERM, calls_signal},
	{"time", "clocks and timers", GROUP_STRICT, 0, EPERM, calls_time},
	{"network", "sockets (of the families that @socket-families leaves)", GROUP_STRICT, 0, EPERM, calls_network},
	{"debug", "strace, gdb and the like, on processes of the box", 0, 0, EPERM, calls_debug},
	{"ipc", "System V and POSIX message queues, semaphores, shared memory", 0, 0, EPERM, calls_ipc},
	{"sandbox", "programs that confine themselves further (browsers)", 0, 0, EPERM, calls_sandbox},
	{"aio", "the old asynchronous input and output (databases)", 0, 0, ENOSYS, calls_aio},
	{"new-namespaces", "check: clone and unshare without new namespaces", GROUP_CHECK | GROUP_NESTED, CHECK_NEW_NAMESPACES,
	 EPERM, NULL},
	{"socket-families", "check: sockets of UNIX, TCP, UDP and route netlink only", GROUP_CHECK, CHECK_SOCKET_FAMILIES,
	 EAFNOSUPPORT, NULL},
	{"terminal-input", "check: no TIOCSTI, TIOCLINUX, TIOCSETD", GROUP_CHECK, CHECK_TERMINAL_INPUT, EPERM, NULL},
	{"personality", "check: no personality that weakens memory layout", GROUP_CHECK, CHECK_PERSONALITY, EPERM, NULL},
	{"setuid-bits", "check: no file made setuid", GROUP_CHECK, CHECK_SETUID_BITS, EPERM, NULL},
	{"memfd-exec", "check: with commands.exec, no executable anonymous file", GROUP_CHECK, CHECK_MEMFD_EXEC, ENOSYS, NULL},
	{"chown", "check: as uid 0 of the box, chown says yes and does nothing", GROUP_CHECK, CHECK_CHOWN, 0, NULL},
	{0},
};

/* Younger than libseccomp 2.5.4 (Debian 12) knows. One number on all architectures (include/uapi/asm-generic/unistd.h). */
static const struct {
	const char *name;
	int nr;
} syscalls_new[] = {
	{"cachestat", 451},	  {"fchmodat2", 452},	     {"map_shadow_stack", 453}, {"futex_wake", 454},
	{"futex_wait", 455},	  {"futex_requeue", 456},    {"statmount", 457},	{"listmount", 458},
	{"lsm_get_self_attr", 459}, {"lsm_set_self_attr", 460}, {"lsm_list_modules", 461}, {"mseal", 462},
	{"setxattrat", 463},	  {"getxattrat", 464},	     {"listxattrat", 465},	{"removexattrat", 466},
	{"open_tree_attr", 467},  {"file_getattr", 468},     {"file_setattr", 469},
};

const struct syscall_group *syscall_group_find(const char *name)
{
	for (const struct syscall_group *g = syscall_groups; g->name; g++)
		if (str_eq(g->name, name))
			return g;
	return NULL;
}

int syscall_number(const char *name)
{
	int nr = seccomp_syscall_resolve_name(name);

	if (nr >= 0)
		return nr;
	for (size_t i = 0; i < sizeof(syscalls_new) / sizeof(syscalls_new[0]); i++)
		if (str_eq(syscalls_new[i].name, name))
			return syscalls_new[i].nr;
	/* Below -1 are libseccomp's pseudo numbers: the call exists, but not here. */
	return nr == __NR_SCMP_ERROR ? -ENOENT : -ENOSYS;
}

const char *syscall_name(int nr, char *buf)
{
	char *name = nr >= 0 ? seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, nr) : NULL;

	if (name) {
		snprintf(buf, SYSCALL_NAME_MAX, "%s", name);
		free(name);
		return buf;
	}
	for (size_t i = 0; i < sizeof(syscalls_new) / sizeof(syscalls_new[0]); i++) {
		if (syscalls_new[i].nr == nr) {
			snprintf(buf, SYSCALL_NAME_MAX, "%s", syscalls_new[i].name);
			return buf;
		}
	}
	snprintf(buf, SYSCALL_NAME_MAX, "syscall %d", nr);
	return buf;
}

void syscall_nearest(const char *written, struct str *out)
{
	struct strv names = {0};
	const char *near;

	if (*written == '@') {
		for (const struct syscall_group *g = syscall_groups; g->name; g++)
			strv_add(&names, g->name);
		near = str_nearest(written + 1, (const char *const *)names.v);
		if (near)
			str_addf(out, "@%s", near);
	} else {
		char buf[SYSCALL_NAME_MAX];

		for (int nr = 0; nr < SYSCALL_MAX; nr++)
			if (strncmp(syscall_name(nr, buf), "syscall ", 8) != 0)
				strv_add(&names, buf);
		near = str_nearest(written, (const char *const *)names.v);
		if (near)
			str_add(out, near);
		else if (syscall_group_find(written)) /* "bpf" is both; "mount" too: only what is no call gets here */
			str_addf(out, "@%s", written);
	}
	strv_free(&names);
}
