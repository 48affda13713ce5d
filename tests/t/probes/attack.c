/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Tries what the box must refuse, one thing a name, and prints `NAME: ok` or `NAME: ERRNO-NAME` (or `NAME: SIGNAL` where the
 * attempt was killed). Each attempt runs in a child of its own, so that one cannot spoil the next. Static, so that it runs in
 * any root; the tests run it outside of the box too, where `ok` shows that the attempt is one.
 *
 *   attack list | attack NAME... | attack all
 *
 * The exit status says nothing about the attempts: 0, or 2 for usage.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <netinet/in.h>
#include <unistd.h>

#define HIGH 0x100000000UL
#define FDS 900 /* descriptors looked at; the probe's own lie above, and beneath the usual limit of 1024 */
#define TRY(expr) ((expr) < 0 ? errno : 0)

/* --- A1: text into the terminal --- */

/* The terminal if there is one, else standard input: the filter is asked before the descriptor is looked at. */
static int terminal(void)
{
	int fd = open("/dev/tty", O_RDWR | O_NOCTTY);

	return fd < 0 ? 0 : fd;
}
static int a_tiocsti(void)
{
	return TRY(syscall(SYS_ioctl, terminal(), 0x5412UL, "\n"));
}
static int a_tiocsti_high(void)
{
	return TRY(syscall(SYS_ioctl, terminal(), 0x5412UL | HIGH, "\n"));
}
static int a_tioclinux(void)
{
	char code = 6; /* get shift state: harmless where it is let through */

	return TRY(syscall(SYS_ioctl, terminal(), 0x541cUL, &code));
}
static int a_tioclinux_high(void)
{
	char code = 6;

	return TRY(syscall(SYS_ioctl, terminal(), 0x541cUL | HIGH, &code));
}
static int a_tiocsetd(void)
{
	int n_tty = 0;

	return TRY(ioctl(terminal(), 0x5423, &n_tty));
}

/* --- A4: directories that were left open --- */

/* Any descriptor above 2 that leads to a directory. EBADF: there is none. */
static int a_leaked_dir(void)
{
	for (int fd = 3; fd < FDS; fd++) {
		struct stat st;

		if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode))
			return 0;
	}
	return EBADF;
}
static int a_leaked_fd(void)
{
	for (int fd = 3; fd < FDS; fd++)
		if (fcntl(fd, F_GETFD) >= 0)
			return 0;
	return EBADF;
}
/* The working directory of pid 1, followed. */
static int a_cwd_of_init(void)
{
	return TRY(chdir("/proc/1/cwd"));
}

/* --- A5: the launcher's own program --- */

static int a_proc1_exe_write(void)
{
	return TRY(open("/proc/1/exe", O_WRONLY));
}
static int a_proc1_exe_read(void)
{
	return TRY(open("/proc/1/exe", O_RDONLY));
}
/* One's own, through a fresh read-only descriptor, as CVE-2019-5736 did. ETXTBSY is the kernel's own answer. */
static int a_self_exe_write(void)
{
	char path[64];
	int fd = open("/proc/self/exe", O_RDONLY);

	if (fd < 0)
		return errno;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return TRY(open(path, O_WRONLY));
}

/* --- A6: pid 1 --- */

static int a_ptrace_init(void)
{
	return TRY(ptrace(PTRACE_SEIZE, 1, NULL, NULL));
}
static int a_vm_readv_init(void)
{
	char buf[16];
	struct iovec local = {buf, sizeof(buf)}, remote = {(void *)0x400000, sizeof(buf)};

	if (process_vm_readv(1, &local, 1, &remote, 1, 0) >= 0 || errno == EFAULT)
		return 0; /* EFAULT: it was permitted, nothing is mapped there */
	return errno;
}
static int a_proc1_mem(void)
{
	return TRY(open("/proc/1/mem", O_RDONLY));
}
static int a_proc1_root(void)
{
	char buf[256];

	return TRY(readlink("/proc/1/root", buf, sizeof(buf)));
}
/* The numbers may be listed, what they lead to may not. A number that is not open is ENOENT before anything is checked. */
static int a_proc1_fd(void)
{
	int result = ENOENT;

	for (int fd = 0; fd < 64; fd++) {
		char path[64], buf[256];

		snprintf(path, sizeof(path), "/proc/1/fd/%d", fd);
		if (readlink(path, buf, sizeof(buf)) >= 0)
			return 0;
		if (errno != ENOENT)
			result = errno;
	}
	return result;
}
static int a_proc1_environ(void)
{
	return TRY(open("/proc/1/environ", O_RDONLY));
}
static int a_pidfd_getfd_init(void)
{
	int pidfd = (int)syscall(SYS_pidfd_open, 1, 0);

	return pidfd < 0 ? errno : TRY(syscall(SYS_pidfd_getfd, pidfd, 0, 0));
}
static int a_kill_init(void)
{
	return TRY(kill(1, 0));
}

/* --- A7: mounts and namespaces --- */

static int a_mount_tmpfs(void)
{
	return TRY(mount("none", "/tmp", "tmpfs", 0, NULL));
}
static int a_remount_rw(void)
{
	return TRY(mount(NULL, "/usr", NULL, MS_REMOUNT | MS_BIND, NULL));
}
static int a_mount_bind(void)
{
	return TRY(mount("/", "/tmp", NULL, MS_BIND, NULL));
}
static int a_mount_proc(void)
{
	return TRY(mount("proc", "/tmp", "proc", 0, NULL));
}
static int a_umount(void)
{
	return TRY(umount2("/proc", MNT_DETACH));
}
static int a_pivot_root(void)
{
	return TRY(syscall(SYS_pivot_root, ".", "."));
}
static int a_chroot(void)
{
	return TRY(chroot("/tmp"));
}
static int a_open_tree(void)
{
	return TRY(syscall(SYS_open_tree, AT_FDCWD, "/", 1 /* OPEN_TREE_CLONE */));
}
static int a_move_mount(void)
{
	return TRY(syscall(SYS_move_mount, AT_FDCWD, "/proc", AT_FDCWD, "/tmp", 0));
}
static int a_fsopen(void)
{
	return TRY(syscall(SYS_fsopen, "tmpfs", 0));
}
static int a_mount_setattr(void)
{
	uint64_t attr[4] = {0, 1 /* MOUNT_ATTR_RDONLY cleared */, 0, 0};

	return TRY(syscall(SYS_mount_setattr, AT_FDCWD, "/usr", 0, attr, sizeof(attr)));
}
static int a_unshare_user(void)
{
	return TRY(unshare(CLONE_NEWUSER));
}
static int a_unshare_mount(void)
{
	return TRY(unshare(CLONE_NEWNS));
}
static int a_unshare_net(void)
{
	return TRY(unshare(CLONE_NEWNET));
}
static int a_clone_user(void)
{
	long pid = syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, NULL, NULL, NULL, NULL);

	if (pid == 0)
		_exit(0);
	return TRY(pid);
}
static int a_clone_user_high(void)
{
	long pid = syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD | HIGH, NULL, NULL, NULL, NULL);

	if (pid == 0)
		_exit(0);
	return TRY(pid);
}
static int a_clone3_user(void)
{
	struct clone_args args = {.flags = CLONE_NEWUSER, .exit_signal = SIGCHLD};
	long pid = syscall(SYS_clone3, &args, sizeof(args));

	if (pid == 0)
		_exit(0);
	return TRY(pid);
}
static int a_setns_init(void)
{
	int fd = open("/proc/1/ns/mnt", O_RDONLY);

	return fd < 0 ? errno : TRY(setns(fd, 0));
}
/* With capabilities in a nested namespace, which nothing must give back. */
static int a_nested_mount(void)
{
	if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
		return errno;
	return TRY(mount("none", "/tmp", "tmpfs", 0, NULL));
}
static int a_nested_umount_proc(void)
{
	if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
		return errno;
	return TRY(umount2("/proc", MNT_DETACH));
}
static int a_nested_remount_rw(void)
{
	if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
		return errno;
	return TRY(mount(NULL, "/usr", NULL, MS_REMOUNT | MS_BIND, NULL));
}

/* --- A8: other ways into the kernel --- */

static int a_int80(void)
{
#if defined(__x86_64__)
	long r = 20; /* getpid of i386 */

	__asm__ volatile("int $0x80" : "+a"(r) : : "memory", "r8", "r9", "r10", "r11");
	return r < 0 ? (int)-r : 0;
#else
	return ENOSYS;
#endif
}
static int a_x32(void)
{
#if defined(__x86_64__)
	return TRY(syscall(0x40000000 + SYS_getpid));
#else
	return ENOSYS;
#endif
}
static int a_handle(void)
{
	struct {
		unsigned bytes;
		int type;
		unsigned char handle[128];
	} h = {.bytes = 128};
	int mount_id;

	if (syscall(SYS_name_to_handle_at, AT_FDCWD, "/", &h, &mount_id, 0) < 0)
		h.bytes = 8;
	return TRY(syscall(SYS_open_by_handle_at, AT_FDCWD, &h, O_RDONLY));
}
static int a_keyctl(void)
{
	return TRY(syscall(SYS_keyctl, 0 /* GET_KEYRING_ID */, -3 /* session */, 0, 0, 0));
}
static int a_add_key(void)
{
	return TRY(syscall(SYS_add_key, "user", "attack", "x", 1, -2 /* process */));
}
static int a_bpf(void)
{
	union {
		uint32_t word[4];
		char room[128];
	} attr = {.word = {2 /* ARRAY */, 4, 4, 1}};

	return TRY(syscall(SYS_bpf, 0 /* MAP_CREATE */, &attr, sizeof(attr)));
}
static int a_perf(void)
{
	union {
		uint32_t word[4];
		char room[112];
	} attr = {.word = {1 /* SOFTWARE */, 112, 0, 0}};

	return TRY(syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0));
}
static int a_userfault(void)
{
	return TRY(syscall(SYS_userfaultfd, 1 /* USER_MODE_ONLY */));
}
static int a_io_uring(void)
{
	char params[120] = {0};

	return TRY(syscall(SYS_io_uring_setup, 4, params));
}
static int a_personality(void)
{
	return TRY(personality(READ_IMPLIES_EXEC));
}
static int a_modify_ldt(void)
{
#if defined(__x86_64__)
	char buf[64];

	return TRY(syscall(SYS_modify_ldt, 0, buf, sizeof(buf)));
#else
	return ENOSYS;
#endif
}
static int a_syslog(void)
{
	return TRY(syscall(SYS_syslog, 10 /* SIZE_BUFFER */, NULL, 0));
}
static int a_kexec(void)
{
	return TRY(syscall(SYS_kexec_load, 0, 0, NULL, 0));
}
static int a_setuid_file(void)
{
	int fd = open("attack.setuid", O_CREAT | O_WRONLY, 0700), r;

	if (fd < 0)
		return errno;
	r = TRY(fchmod(fd, 04755));
	unlink("attack.setuid");
	return r;
}
static int a_setuid_create(void)
{
	int fd = open("attack.setuid", O_CREAT | O_EXCL | O_WRONLY, 04755), r = fd < 0 ? errno : 0;

	if (fd >= 0)
		unlink("attack.setuid");
	return r;
}
static int a_settime(void)
{
	struct timespec now;

	syscall(SYS_clock_gettime, 0, &now);
	return TRY(syscall(SYS_clock_settime, 0, &now));
}

/* --- A9: sockets --- */

#define SOCKET(name, ...)                                                                                                  \
	static int name(void)                                                                                              \
	{                                                                                                                  \
		return TRY(syscall(SYS_socket, __VA_ARGS__));                                                              \
	}

SOCKET(a_vsock, AF_VSOCK, SOCK_STREAM, 0)
SOCKET(a_vsock_high, AF_VSOCK | HIGH, SOCK_STREAM, 0)
SOCKET(a_packet, AF_PACKET, SOCK_RAW, 0x300)
SOCKET(a_packet_old, AF_INET, SOCK_PACKET, 0x300)
SOCKET(a_alg, AF_ALG, SOCK_SEQPACKET, 0)
SOCKET(a_raw, AF_INET, SOCK_RAW, IPPROTO_RAW)
SOCKET(a_raw_icmp, AF_INET, SOCK_RAW, IPPROTO_ICMP)
SOCKET(a_raw6_icmp, AF_INET6, SOCK_RAW, IPPROTO_ICMPV6)
SOCKET(a_ping, AF_INET, SOCK_DGRAM, IPPROTO_ICMP)
SOCKET(a_sctp, AF_INET, SOCK_STREAM, 132)
SOCKET(a_sctp_seqpacket, AF_INET, SOCK_SEQPACKET, 132)
SOCKET(a_dccp, AF_INET, 6, 33)
SOCKET(a_smc, 43, SOCK_STREAM, 0)
SOCKET(a_smc_inet, AF_INET, SOCK_STREAM, 256)
SOCKET(a_mptcp, AF_INET, SOCK_STREAM, 262)
SOCKET(a_udplite, AF_INET, SOCK_DGRAM, 136)
SOCKET(a_bluetooth, 31, SOCK_RAW, 1)
SOCKET(a_can, 29, SOCK_RAW, 1)
SOCKET(a_tipc, 30, SOCK_SEQPACKET, 0)
SOCKET(a_xdp, 44, SOCK_RAW, 0)
SOCKET(a_netlink_audit, AF_NETLINK, SOCK_RAW, 9)
SOCKET(a_netlink_netfilter, AF_NETLINK, SOCK_RAW, 12)
SOCKET(a_netlink_uevent, AF_NETLINK, SOCK_RAW, 15)
/* and what has to work */
SOCKET(a_tcp, AF_INET, SOCK_STREAM, 0)
SOCKET(a_udp6, AF_INET6, SOCK_DGRAM, 0)
SOCKET(a_netlink_route, AF_NETLINK, SOCK_RAW, 0)

/* TEST-NET-1: nobody is there. ETIMEDOUT and EINPROGRESS count as sent. */
static struct sockaddr_in nowhere(int port)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};

	a.sin_addr.s_addr = htonl(0xc0000201); /* 192.0.2.1 */
	return a;
}
static int a_fastopen(void)
{
	struct sockaddr_in a = nowhere(443);
	struct timeval wait = {.tv_usec = 500000}; /* a refusal is there by then, an answer never: EINPROGRESS */
	int s = socket(AF_INET, SOCK_STREAM, 0);

	if (s < 0 || setsockopt(s, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait)) < 0)
		return errno;
	if (sendto(s, "x", 1, MSG_FASTOPEN | MSG_NOSIGNAL, (struct sockaddr *)&a, sizeof(a)) < 0 && errno != EINPROGRESS)
		return errno;
	return 0;
}
static int a_udp_send(void)
{
	struct sockaddr_in a = nowhere(9);
	int s = socket(AF_INET, SOCK_DGRAM, 0);

	return s < 0 ? errno : TRY(sendto(s, "x", 1, MSG_NOSIGNAL, (struct sockaddr *)&a, sizeof(a)));
}
static int a_sendmmsg(void)
{
	struct sockaddr_in a = nowhere(9);
	struct iovec iov = {"x", 1};
	struct mmsghdr m = {.msg_hdr = {.msg_name = &a, .msg_namelen = sizeof(a), .msg_iov = &iov, .msg_iovlen = 1}};
	int s = socket(AF_INET, SOCK_DGRAM, 0);

	return s < 0 ? errno : TRY(sendmmsg(s, &m, 1, MSG_NOSIGNAL));
}
/* An abstract socket of the host: the test listens on "agentbox-attack". */
static int a_abstract(void)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int s = socket(AF_UNIX, SOCK_STREAM, 0);

	memcpy(a.sun_path + 1, "agentbox-attack", 15);
	return s < 0 ? errno : TRY(connect(s, (struct sockaddr *)&a, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 16)));
}

/* --- A11: the kernel's own files --- */

static int a_core_pattern(void)
{
	return TRY(open("/proc/sys/kernel/core_pattern", O_WRONLY));
}
static int a_sysrq(void)
{
	return TRY(open("/proc/sysrq-trigger", O_WRONLY));
}
static int a_kcore(void)
{
	int fd = open("/proc/kcore", O_RDONLY);
	char c;

	if (fd < 0)
		return errno;
	return read(fd, &c, 1) == 1 ? 0 : ENODATA; /* a mask: it opens and is empty */
}
static int a_kmsg(void)
{
	return TRY(open("/dev/kmsg", O_RDONLY | O_NONBLOCK));
}
static int a_mem(void)
{
	return TRY(open("/dev/mem", O_RDONLY));
}
static int a_sys_write(void)
{
	return TRY(open("/sys/kernel/mm/transparent_hugepage/enabled", O_WRONLY));
}
static int a_sysctl_hostname(void)
{
	return TRY(open("/proc/sys/kernel/hostname", O_WRONLY));
}
static int a_sysctl_modprobe(void)
{
	return TRY(open("/proc/sys/kernel/modprobe", O_WRONLY));
}
static int a_mknod_disk(void)
{
	int r = TRY(mknod("attack.node", S_IFBLK | 0600, 0x800));

	unlink("attack.node");
	return r;
}
static int a_mknod_null(void)
{
	int r = TRY(mknod("attack.node", S_IFCHR | 0600, 0x103));

	unlink("attack.node");
	return r;
}

/* --- the command itself --- */

static const struct attack {
	const char *name;
	int (*fn)(void);
} attacks[] = {
#define A(name) {#name, a_##name}
	A(tiocsti), A(tiocsti_high), A(tioclinux), A(tioclinux_high), A(tiocsetd), A(leaked_dir), A(leaked_fd), A(cwd_of_init),
	A(proc1_exe_write), A(proc1_exe_read), A(self_exe_write), A(ptrace_init), A(vm_readv_init), A(proc1_mem), A(proc1_root),
	A(proc1_fd), A(proc1_environ), A(pidfd_getfd_init), A(kill_init), A(mount_tmpfs), A(remount_rw), A(mount_bind),
	A(mount_proc), A(umount), A(pivot_root), A(chroot), A(open_tree), A(move_mount), A(fsopen), A(mount_setattr),
	A(unshare_user), A(unshare_mount), A(unshare_net), A(clone_user), A(clone_user_high), A(clone3_user), A(setns_init),
	A(nested_mount), A(nested_umount_proc), A(nested_remount_rw), A(int80), A(x32), A(handle), A(keyctl), A(add_key), A(bpf),
	A(perf), A(userfault), A(io_uring), A(personality), A(modify_ldt), A(syslog), A(kexec), A(setuid_file), A(setuid_create),
	A(settime), A(vsock), A(vsock_high), A(packet), A(packet_old), A(alg), A(raw), A(raw_icmp), A(raw6_icmp), A(ping), A(sctp),
	A(sctp_seqpacket), A(dccp), A(smc), A(smc_inet), A(mptcp), A(udplite), A(bluetooth), A(can), A(tipc), A(xdp),
	A(netlink_audit), A(netlink_netfilter), A(netlink_uevent), A(tcp), A(udp6), A(netlink_route), A(fastopen), A(udp_send),
	A(sendmmsg), A(abstract), A(core_pattern), A(sysrq), A(kcore), A(kmsg), A(mem), A(sys_write), A(sysctl_hostname),
	A(sysctl_modprobe), A(mknod_disk), A(mknod_null),
	/* `mount` and `vsock` are what one types first. */
	{"mount", a_mount_tmpfs}, {NULL, NULL}};

/* What would harm the host where nothing refuses it, and so is only tried by its name. */
static int is_by_name_only(const struct attack *a)
{
	static const char *const names[] = {"mount", "mount_tmpfs", "mount_bind", "mount_proc", "umount", "remount_rw", "move_mount",
					    "mount_setattr", "pivot_root", "tiocsti", "tiocsti_high", "tiocsetd", "kexec",
					    "settime", "ptrace_init"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(names[i], a->name) == 0)
			return 1;
	return 0;
}

static void attempt(const struct attack *a)
{
	int report[2], got = -1, status;
	pid_t pid;

	fflush(stdout);
	if (pipe2(report, O_CLOEXEC) < 0 || (pid = fork()) < 0) {
		printf("%s: cannot try: %s\n", a->name, strerrorname_np(errno));
		return;
	}
	if (pid == 0) {
		int r;

		/* The probe's own pipe is no leak: it is moved away from what leaked_fd looks at. */
		report[1] = fcntl(report[1], F_DUPFD_CLOEXEC, FDS);
		for (int fd = 3; fd < FDS; fd++)
			if (fd == report[0] || fcntl(fd, F_GETFD) == FD_CLOEXEC)
				close(fd);
		alarm(10);
		r = a->fn();
		if (write(report[1], &r, sizeof(r)) != sizeof(r))
			_exit(1);
		_exit(0);
	}
	close(report[1]);
	if (read(report[0], &got, sizeof(got)) != sizeof(got))
		got = -1;
	close(report[0]);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (got < 0)
		printf("%s: SIG%s\n", a->name, WIFSIGNALED(status) ? sigabbrev_np(WTERMSIG(status)) : "?");
	else
		printf("%s: %s\n", a->name, got ? strerrorname_np(got) : "ok");
}

int main(int argc, char **argv)
{
	if (argc < 2) {
		fprintf(stderr, "usage: attack list | all | NAME...\n");
		return 2;
	}
	if (strcmp(argv[1], "list") == 0 || strcmp(argv[1], "all") == 0) {
		for (const struct attack *a = attacks; a->name; a++) {
			if (argv[1][0] == 'l')
				printf("%s\n", a->name);
			else if (!is_by_name_only(a))
				attempt(a);
		}
		return 0;
	}
	for (int i = 1; i < argc; i++) {
		const struct attack *a = attacks;

		while (a->name && strcmp(a->name, argv[i]) != 0)
			a++;
		if (!a->name) {
			fprintf(stderr, "attack: no such attempt: %s; `attack list` lists them\n", argv[i]);
			return 2;
		}
		attempt(a);
	}
	return 0;
}
