/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A command on a kernel that lacks something:
 *
 *	without nftables COMMAND...   there is no NETLINK_NETFILTER, as without nf_tables and nfnetlink
 *	without tproxy COMMAND...     nf_tables knows no "tproxy": what a batch with it is answered, from here
 *
 * By a seccomp filter on the command and all that it starts. The status is the command's. What is answered from here is told in
 * the file that WITHOUT_LOG names, a line each.
 */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offsetof(struct seccomp_data, field))
#define UNLESS(value, skip) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(value), 0, skip)
#define BATCH_MAX (1 << 20)

/* Return: the filter's listener, -1 where it has none. */
static int filter(struct sock_filter *f, size_t n, unsigned flags)
{
	struct sock_fprog program = {.len = (unsigned short)n, .filter = f};
	long fd;

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		err(125, "no_new_privs");
	fd = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
	if (fd < 0)
		err(125, "seccomp");
	return flags ? (int)fd : -1;
}

static void without_nftables(void)
{
	struct sock_filter f[] = {
		LOAD(nr), UNLESS(SYS_socket, 5), LOAD(args[0]), UNLESS(AF_NETLINK, 3), LOAD(args[2]), UNLESS(NETLINK_NETFILTER, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPROTONOSUPPORT), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};

	filter(f, sizeof(f) / sizeof(f[0]), 0);
}

/* What goes to a netlink address comes here. */
static int without_tproxy(void)
{
	struct sock_filter f[] = {
		LOAD(nr), UNLESS(SYS_sendto, 3), LOAD(args[5]), UNLESS(sizeof(struct sockaddr_nl), 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};

	return filter(f, sizeof(f) / sizeof(f[0]), SECCOMP_FILTER_FLAG_NEW_LISTENER);
}

static int has_tproxy(pid_t pid, uint64_t address, uint64_t len)
{
	static char bytes[BATCH_MAX];
	char path[64];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/mem", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) /* the resolver, which may not be looked into, and asks for addresses only */
		return 0;
	n = pread(fd, bytes, len < sizeof(bytes) ? len : sizeof(bytes), (off_t)address);
	close(fd);
	return n > 0 && memmem(bytes, (size_t)n, "tproxy", 6) != NULL;
}

static void note(const char *text)
{
	const char *path = getenv("WITHOUT_LOG");
	int fd = path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;

	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		warn("WITHOUT_LOG");
	close(fd);
}

/* Until nobody is under the filter any more. */
static void answer(int listener)
{
	struct pollfd p = {.fd = listener, .events = POLLIN};

	while (poll(&p, 1, -1) > 0 && p.revents & POLLIN) {
		struct seccomp_notif ask;
		struct seccomp_notif_resp say = {.id = 0};

		memset(&ask, 0, sizeof(ask));
		if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &ask) < 0)
			continue; /* it was killed meanwhile */
		say.id = ask.id;
		if (has_tproxy((pid_t)ask.pid, ask.data.args[1], ask.data.args[2])) {
			say.error = -ENOENT;
			note("tproxy\n");
		} else {
			say.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
		}
		ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &say);
	}
}

static void send_fd(int sock, int fd)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = {{0}};
	struct iovec io = {.iov_base = "", .iov_len = 1};
	struct msghdr m = {.msg_iov = &io, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof(control)};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	if (sendmsg(sock, &m, 0) < 0)
		err(125, "sendmsg");
}

static int receive_fd(int sock)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control;
	char byte;
	struct iovec io = {.iov_base = &byte, .iov_len = 1};
	struct msghdr m = {.msg_iov = &io, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof(control)};
	int fd;

	if (recvmsg(sock, &m, MSG_CMSG_CLOEXEC) <= 0 || !CMSG_FIRSTHDR(&m))
		errx(125, "no listener came");
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(fd));
	return fd;
}

int main(int argc, char **argv)
{
	int pair[2], status;
	pid_t pid;

	if (argc < 3) {
		fprintf(stderr, "usage: without nftables|tproxy COMMAND...\n");
		return 2;
	}
	if (strcmp(argv[1], "nftables") == 0) {
		without_nftables();
		execvp(argv[2], argv + 2);
		err(127, "%s", argv[2]);
	}
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		err(125, "socketpair");
	/* The one that answers is the parent, as only what is below it may be looked into where Yama says so. */
	pid = fork();
	if (pid == 0) {
		int listener;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		listener = without_tproxy();
		send_fd(pair[1], listener);
		close(listener);
		execvp(argv[2], argv + 2);
		err(127, "%s", argv[2]);
	}
	close(pair[1]);
	answer(receive_fd(pair[0]));
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		err(125, "wait");
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
