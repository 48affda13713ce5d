/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "egress/confine.h"

#include <cap-ng.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/capability.h>
#include <linux/landlock.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sys/fd.h"

#include "base/banned.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1 /* the sanitizer's runtime makes calls of its own */
#else
#define SANITIZED 0
#endif

int leave_supervisor(pid_t parent, const char *name, bool outlives, const int *keep, size_t n_keep)
{
	sigset_t all;
	int null;

	/* Whoever ends it uses SIGKILL or closes the socket; a terminal's signals are not for it. */
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	setsid();
	prctl(PR_SET_NAME, name);
	if (!outlives && prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
		return -errno;
	if (!outlives && getppid() != parent)
		return -ESRCH;
	if (fd_close_from_3(keep, n_keep) < 0)
		return -errno;
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null < 0)
		return -errno;
	for (int fd = 0; fd < 3; fd++)
		if (dup2(null, fd) < 0)
			return -errno;
	close(null);
	return 0;
}

#define NO_CAPABILITY (-1)

/* Asked of the kernel, not of the library that was to drop them. */
static bool have_capabilities(int but)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];

	if (syscall(SYS_capget, &header, data) < 0)
		return true;
	if (but != NO_CAPABILITY) {
		data[CAP_TO_INDEX(but)].effective &= ~CAP_TO_MASK(but);
		data[CAP_TO_INDEX(but)].permitted &= ~CAP_TO_MASK(but);
	}
	for (int i = 0; i < _LINUX_CAPABILITY_U32S_3; i++)
		if (data[i].effective | data[i].permitted | data[i].inheritable)
			return true;
	return false;
}

/* but: one that is kept where it is there, or NO_CAPABILITY. */
static int drop_capabilities(int but)
{
	bool keep;

	/* libcap-ng remembers the pid of the process that used it first, which may be the one that this was forked from. */
	capng_setpid((int)syscall(SYS_gettid));
	keep = but != NO_CAPABILITY && capng_have_capability(CAPNG_PERMITTED, (unsigned)but);
	/*
	 * The bounding set can only be emptied with CAP_SETPCAP; without it there is nothing to regain, as no_new_privs
	 * holds. By ourselves: the library reads /proc/self/status for it.
	 */
	for (int cap = 0; prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) == 0; cap++)
		;
	prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	capng_clear(CAPNG_SELECT_ALL);
	if (keep && capng_update(CAPNG_ADD, (capng_type_t)(CAPNG_EFFECTIVE | CAPNG_PERMITTED), (unsigned)but) != 0)
		return -EPERM;
	if (capng_apply(CAPNG_SELECT_CAPS) != 0)
		return -EPERM;
	return have_capabilities(but) ? -EPERM : 0;
}

static int limit(int resource, rlim_t value)
{
	struct rlimit r = {value, value};

	return setrlimit((__rlimit_resource_t)resource, &r) < 0 ? -errno : 0;
}

static int common(int but)
{
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0) < 0)
		return -errno;
	if (limit(RLIMIT_CORE, 0) < 0 || limit(RLIMIT_FSIZE, 0) < 0)
		return -EPERM;
	return drop_capabilities(but);
}

/* --- Landlock --- */

/* All rights on files up to an ABI, as they are numbered in linux/landlock.h. */
static uint64_t file_rights(int abi)
{
	if (abi >= 5)
		return (1ULL << 16) - 1; /* IOCTL_DEV */
	if (abi >= 3)
		return (1ULL << 15) - 1; /* TRUNCATE */
	return abi == 2 ? (1ULL << 14) - 1 : (1ULL << 13) - 1; /* REFER */
}

/* struct landlock_ruleset_attr as of ABI 6, which older headers do not have. */
struct ruleset {
	uint64_t fs, net, scoped;
};
#define SCOPE_ABSTRACT_SOCKETS (1ULL << 0)
#define SCOPE_SIGNALS (1ULL << 1)

/*
 * Nothing is granted: what is handled is closed. scopes: what else of other processes is. keep: rights that stay
 * open. A kernel without Landlock: the other walls stand.
 */
static int close_files(uint64_t keep, uint64_t scopes)
{
	int abi = (int)syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
	struct ruleset attr = {.fs = 0};
	int fd, rc;

	if (abi <= 0)
		return 0;
	attr.fs = file_rights(abi) & ~keep;
	attr.scoped = abi >= 6 ? scopes : 0;
	fd = (int)syscall(SYS_landlock_create_ruleset, &attr, abi >= 6 ? sizeof(attr) : sizeof(attr.fs), 0);
	if (fd < 0)
		return -errno;
	rc = syscall(SYS_landlock_restrict_self, fd, 0) < 0 ? -errno : 0;
	close(fd);
	return rc;
}

/* --- system calls --- */

static const int gateway_calls[] = {
	SCMP_SYS(accept4), SCMP_SYS(brk), SCMP_SYS(clock_gettime), SCMP_SYS(close), SCMP_SYS(epoll_ctl),
	SCMP_SYS(epoll_wait), SCMP_SYS(epoll_pwait), SCMP_SYS(exit), SCMP_SYS(exit_group), SCMP_SYS(futex),
	SCMP_SYS(getpid), SCMP_SYS(getrandom), SCMP_SYS(getsockname), SCMP_SYS(getsockopt), SCMP_SYS(madvise),
	SCMP_SYS(mremap), SCMP_SYS(munmap), SCMP_SYS(pipe2), SCMP_SYS(read), SCMP_SYS(recvfrom), SCMP_SYS(recvmsg),
	SCMP_SYS(restart_syscall), SCMP_SYS(rt_sigreturn), SCMP_SYS(sendmsg), SCMP_SYS(sendto), SCMP_SYS(setsockopt),
	SCMP_SYS(shutdown), SCMP_SYS(splice), SCMP_SYS(write),
};

static int load(scmp_filter_ctx ctx, int rc)
{
	if (rc == 0 && !SANITIZED)
		rc = seccomp_load(ctx);
	seccomp_release(ctx);
	return rc;
}

/* TCP only. */
static int allow_connecting(scmp_filter_ctx ctx)
{
	int rc = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(connect), 0);

	for (int family = 0; family < 2 && rc == 0; family++)
		rc = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(socket), 2,
				      SCMP_A0_32(SCMP_CMP_EQ, family ? AF_INET6 : AF_INET),
				      SCMP_A1_32(SCMP_CMP_EQ, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC));
	return rc;
}

/* mode = host: a name server, which enters addresses in the maps that it was given. */
static int allow_maps(scmp_filter_ctx ctx)
{
	static const unsigned commands[] = {BPF_MAP_LOOKUP_ELEM, BPF_MAP_UPDATE_ELEM, BPF_MAP_DELETE_ELEM};
	int rc = 0;

	for (size_t i = 0; i < COUNT(commands) && rc == 0; i++)
		rc = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(bpf), 1, SCMP_A0_32(SCMP_CMP_EQ, commands[i]));
	return rc;
}

/*
 * Anything else ends the process, and with it the box's network. Memory: never executable. fcntl(2)
 * only for the size of pipes: by F_SETOWN, F_SETSIG and O_ASYNC it sends any signal to any process of the user.
 */
static int filter_gateway(bool host)
{
	scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_KILL_PROCESS);
	int rc = ctx ? 0 : -ENOMEM;

	for (size_t i = 0; i < COUNT(gateway_calls) && rc == 0; i++)
		rc = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, gateway_calls[i], 0);
	if (rc == 0)
		rc = host ? allow_maps(ctx) : allow_connecting(ctx);
	if (rc == 0)
		rc = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(fcntl), 1, SCMP_A1_32(SCMP_CMP_EQ, F_SETPIPE_SZ));
	if (rc == 0) /* PROT_EXEC is 4 */
		rc = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(mmap), 1, SCMP_A2_32(SCMP_CMP_MASKED_EQ, 4, 0));
	if (rc == 0)
		rc = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(mprotect), 1, SCMP_A2_32(SCMP_CMP_MASKED_EQ, 4, 0));
	return load(ctx, rc);
}

/* NSS modules are the host's own, and what they call is not known. These they do not. */
static const int resolver_denied[] = {
	SCMP_SYS(execve), SCMP_SYS(execveat), SCMP_SYS(ptrace), SCMP_SYS(process_vm_readv), SCMP_SYS(process_vm_writev),
	SCMP_SYS(kill), SCMP_SYS(mount), SCMP_SYS(umount2), SCMP_SYS(move_mount), SCMP_SYS(open_tree), SCMP_SYS(fsopen),
	SCMP_SYS(fsconfig), SCMP_SYS(fsmount), SCMP_SYS(pivot_root), SCMP_SYS(chroot), SCMP_SYS(setns), SCMP_SYS(unshare),
	SCMP_SYS(bpf), SCMP_SYS(perf_event_open), SCMP_SYS(userfaultfd), SCMP_SYS(keyctl), SCMP_SYS(add_key),
	SCMP_SYS(request_key), SCMP_SYS(io_uring_setup), SCMP_SYS(init_module), SCMP_SYS(finit_module),
	SCMP_SYS(kexec_load), SCMP_SYS(open_by_handle_at), SCMP_SYS(pidfd_getfd), SCMP_SYS(fork), SCMP_SYS(vfork),
	SCMP_SYS(chmod), SCMP_SYS(fchmod), SCMP_SYS(fchmodat), SCMP_SYS(chown), SCMP_SYS(fchown), SCMP_SYS(fchownat),
	SCMP_SYS(setxattr), SCMP_SYS(utimensat), SCMP_SYS(tkill), SCMP_SYS(rt_sigqueueinfo), SCMP_SYS(rt_tgsigqueueinfo),
	SCMP_SYS(pidfd_send_signal), SCMP_SYS(pidfd_open), SCMP_SYS(process_madvise), SCMP_SYS(process_mrelease),
	SCMP_SYS(kcmp), SCMP_SYS(migrate_pages), SCMP_SYS(move_pages), SCMP_SYS(sched_setattr), SCMP_SYS(sched_setscheduler),
	SCMP_SYS(sched_setparam), SCMP_SYS(sched_setaffinity), SCMP_SYS(setpriority), SCMP_SYS(ioprio_set),
	SCMP_SYS(memfd_create), SCMP_SYS(memfd_secret), SCMP_SYS(fanotify_init), SCMP_SYS(quotactl), SCMP_SYS(syslog),
	SCMP_SYS(shmat), SCMP_SYS(shmget), SCMP_SYS(msgget), SCMP_SYS(semget), SCMP_SYS(mq_open),
};

/* All ways of fcntl(2) and ioctl(2) to have the kernel send one, and tgkill(2) to others: abort(3) uses it. */
static int refuse_signals(scmp_filter_ctx ctx)
{
	static const unsigned controls[] = {F_SETOWN, F_SETOWN_EX, F_SETSIG};
	static const unsigned requests[] = {0x8901 /* FIOSETOWN */, 0x8902 /* SIOCSPGRP */};
	int rc = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(tgkill), 1, SCMP_A0_32(SCMP_CMP_NE, (uint32_t)getpid()));

	for (size_t i = 0; i < COUNT(controls) && rc == 0; i++)
		rc = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(fcntl), 1, SCMP_A1_32(SCMP_CMP_EQ, controls[i]));
	for (size_t i = 0; i < COUNT(requests) && rc == 0; i++)
		rc = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(ioctl), 1, SCMP_A1_32(SCMP_CMP_EQ, requests[i]));
	return rc;
}

static int filter_resolver(void)
{
	scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ALLOW);
	int rc = ctx ? 0 : -ENOMEM;

	for (size_t i = 0; i < COUNT(resolver_denied) && rc == 0; i++)
		rc = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), resolver_denied[i], 0);
	rc = rc ?: refuse_signals(ctx);
	/* Threads, and no processes. What clone3 is asked for cannot be seen; libc takes clone where there is no clone3. */
	rc = rc ?: seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(clone), 1,
				    SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, 0));
	rc = rc ?: seccomp_rule_add(ctx, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
	rc = rc ?: seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(prlimit64), 1, SCMP_A0_32(SCMP_CMP_NE, 0));
	return load(ctx, rc);
}

int confine_gateway(bool host, const char **what)
{
	int rc = common(NO_CAPABILITY);

	*what = "capabilities and limits";
	if (rc < 0)
		return rc;
	*what = "Landlock";
	rc = close_files(0, SCOPE_ABSTRACT_SOCKETS | SCOPE_SIGNALS);
	if (rc < 0)
		return rc;
	*what = "seccomp";
	return filter_gateway(host);
}

int confine_resolver(void)
{
	int rc = common(NO_CAPABILITY);

	if (rc == 0)
		rc = close_files(LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR,
				 SCOPE_ABSTRACT_SOCKETS | SCOPE_SIGNALS);
	return rc < 0 ? rc : filter_resolver();
}

int confine_sweeper(void)
{
	return common(CAP_DAC_OVERRIDE);
}
