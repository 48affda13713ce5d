/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What confines this process, as text that is the same in every box of one profile: identity, capabilities, filter, Landlock,
 * mounts, namespaces, network, limits, descriptors, environment, and the answers to what a box must refuse.
 *
 *	confined [NAME=INODE...] [--connect HOST PORT]
 *
 * NAME=INODE: the caller's namespaces; it says which are others. --connect: what connect(2) to it answers.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#define LANDLOCK_ABI_FLAG 1 /* LANDLOCK_CREATE_RULESET_VERSION */

static void say(const char *what, long result)
{
	printf("%s: %s\n", what, result < 0 ? strerrorname_np(errno) : "yes");
}

static void file_lines(const char *path, const char *const *starts)
{
	char line[4096];
	FILE *f = fopen(path, "re");

	if (!f) {
		say(path, -1);
		return;
	}
	while (fgets(line, sizeof(line), f)) {
		for (const char *const *p = starts; *p; p++)
			if (strncmp(line, *p, strlen(*p)) == 0)
				printf("%s %s", path, line);
	}
	fclose(f);
}

/* Mount point, its flags, file system. */
static void mounts(void)
{
	char line[8192], point[4096], flags[256];
	FILE *f = fopen("/proc/self/mountinfo", "re");

	while (f && fgets(line, sizeof(line), f)) {
		const char *dash = strstr(line, " - ");

		if (dash && sscanf(line, "%*s %*s %*s %*s %4095s %255s", point, flags) == 2)
			printf("mount %s %s %.*s\n", point, flags, (int)strcspn(dash + 3, " "), dash + 3);
	}
	if (f)
		fclose(f);
}

static void interfaces(void)
{
	struct if_nameindex *all = if_nameindex();

	printf("interfaces:");
	for (struct if_nameindex *i = all; i && i->if_index; i++)
		printf(" %s", i->if_name);
	printf("\n");
	if (all)
		if_freenameindex(all);
}

/* Port 9 of the loopback: nobody listens there, and no rule allows it. */
static void loopback(int family, const struct sockaddr *address, socklen_t len)
{
	int tcp = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0), udp = socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	printf("loopback, family %d, ", family);
	say("tcp", connect(tcp, address, len));
	printf("loopback, family %d, ", family);
	say("udp", sendto(udp, "x", 1, 0, address, len));
	close(tcp);
	close(udp);
}

static void names(const char *path)
{
	struct dirent **list;
	int n = scandir(path, &list, NULL, alphasort);

	printf("%s:", path);
	for (int i = 0; i < n; i++)
		printf(" %s", list[i]->d_name);
	printf(n < 0 ? " %s\n" : "\n", strerrorname_np(errno));
}

static void namespace(const char *given)
{
	char path[64], link[64];
	const char *is = strchr(given, '=');
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/self/ns/%.*s", (int)(is - given), given);
	n = readlink(path, link, sizeof(link) - 1);
	if (n < 0) {
		say(path, -1);
		return;
	}
	link[n] = '\0';
	printf("namespace %.*s: %s\n", (int)(is - given), given, strstr(link, is + 1) ? "the caller's" : "another");
}

/* At most 16 domains can be stacked (landlock(7)): so many more fit. In a child, as they stay. */
static void landlock_layers(void)
{
	struct { unsigned long long fs, net, scoped; } attr = {.fs = 1}; /* LANDLOCK_ACCESS_FS_EXECUTE */
	int status = 0;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		int n = 0, fd = (int)syscall(SYS_landlock_create_ruleset, &attr, 8, 0);

		while (n < 20 && syscall(SYS_landlock_restrict_self, fd, 0) == 0)
			n++;
		_exit(fd < 0 ? 100 : n);
	}
	waitpid(pid, &status, 0);
	printf("landlock: %d more layers\n", WEXITSTATUS(status));
}

static void try_write(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);

	printf("create ");
	say(path, fd);
	if (fd >= 0)
		unlink(path);
}

static void refused(void)
{
	union bpf_attr attr = {.map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 4, .max_entries = 1};
	static const char *const places[] = {"/x", "/etc/x", "/usr/x", "/usr/bin/x", "/dev/x", "/proc/sys/x", "/tmp/x", "/run/x",
					     "/home/x", "/workspace/x", "/workspace/repo/x", "/workspace/repo/.git/x",
					     "/workspace/repo/.git/hooks/x", "/workspace/scratch/x", "/workspace/output/x"};

	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++)
		try_write(places[i]);
	say("open README", open("/workspace/repo/README", O_RDONLY));
	say("write README", open("/workspace/repo/README", O_WRONLY));
	say("open /dev/kmsg", open("/dev/kmsg", O_RDONLY));
	say("open /proc/1/environ", open("/proc/1/environ", O_RDONLY));
	say("open /proc/1/root", open("/proc/1/root", O_RDONLY));
	say("open /proc/kcore", open("/proc/kcore", O_RDONLY));
	say("write core_pattern", open("/proc/sys/kernel/core_pattern", O_WRONLY));
	say("AF_ALG", socket(38, SOCK_SEQPACKET, 0));
	say("AF_PACKET", socket(17, SOCK_RAW, 0));
	say("AF_VSOCK", socket(40, SOCK_STREAM, 0));
	say("SOCK_RAW", socket(AF_INET, SOCK_RAW, 1));
	say("bpf", syscall(SYS_bpf, BPF_MAP_CREATE, &attr, sizeof(attr)));
	say("keyctl", syscall(SYS_keyctl, 0, -3, 0));
	say("userfaultfd", syscall(SYS_userfaultfd, 0));
	say("perf_event_open", syscall(SYS_perf_event_open, NULL, 0, -1, -1, 0));
	say("io_uring_setup", syscall(SYS_io_uring_setup, 0, NULL));
	say("mount", mount("none", "/tmp", "tmpfs", 0, NULL));
	say("umount", umount2("/proc", MNT_DETACH));
	say("unshare user", unshare(CLONE_NEWUSER));
	say("sethostname", sethostname("x", 1));
	say("setuid 0", syscall(SYS_setresuid, 0, 0, 0));
	say("ptrace 1", ptrace(PTRACE_ATTACH, 1, NULL, NULL));
	say("chroot", chroot("/tmp"));
	say("signal the caller", kill(getppid() == 1 ? -1 : getppid(), 0));
}

static void limits(void)
{
	for (int i = 0; i < RLIM_NLIMITS; i++) {
		struct rlimit l = {0};

		getrlimit((__rlimit_resource_t)i, &l);
		printf("limit %d: %llu %llu\n", i, (unsigned long long)l.rlim_cur, (unsigned long long)l.rlim_max);
	}
}

static void descriptors(void)
{
	printf("descriptors:");
	for (int fd = 0; fd < 1024; fd++)
		if (fcntl(fd, F_GETFD) >= 0)
			printf(" %d", fd);
	printf("\n");
}

static void environment(void)
{
	extern char **environ;

	printf("environment:");
	for (char **p = environ; *p; p++)
		printf(" %.*s", (int)strcspn(*p, "="), *p);
	printf("\n");
}

/* By the box's name server, so by the gateway. */
static void try_connect(const char *host, const char *port)
{
	struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *found;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), r = getaddrinfo(host, port, &hints, &found);
	struct timeval wait = {5, 0};
	char c;

	if (r != 0) {
		printf("name %s: %s\n", host, gai_strerror(r));
		return;
	}
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
	r = connect(fd, found->ai_addr, found->ai_addrlen);
	printf("connect %s %s: %s\n", host, port, r < 0 ? strerrorname_np(errno) : "yes");
	if (r == 0)
		say("read from there", read(fd, &c, 1));
	freeaddrinfo(found);
	close(fd);
}

int main(int argc, char **argv)
{
	static const char *const status[] = {"NoNewPrivs", "Seccomp", "Cap", "Uid", "Gid", "Groups", "SigBlk",
					     "SigIgn", "SigCgt", "Umask", "NSpid", NULL};
	static const char *const shown[] = {"/", "/dev", "/etc", "/workspace", "/workspace/repo", "/home", "/tmp", "/run", NULL};
	static const char *const any[] = {"", NULL};
	struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons(9), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons(9), .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	struct utsname u;
	char cwd[4096];

	printf("RAN\n");
	descriptors();
	file_lines("/proc/self/status", status);
	file_lines("/proc/1/status", status);
	file_lines("/proc/1/cmdline", any);
	file_lines("/proc/self/uid_map", any);
	file_lines("/proc/self/setgroups", any);
	file_lines("/proc/self/cgroup", any);
	interfaces();
	mounts();
	printf("session: %s\n", getsid(0) == getpid() ? "own" : "another's");
	uname(&u);
	printf("host name: %s\ndirectory: %s\n", u.nodename, getcwd(cwd, sizeof(cwd)) ? cwd : "?");
	limits();
	environment();
	for (const char *const *p = shown; *p; p++)
		names(*p);
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--connect") == 0 && i + 2 < argc)
			try_connect(argv[i + 1], argv[i + 2]), i += 2;
		else if (strchr(argv[i], '='))
			namespace(argv[i]);
	}
	loopback(AF_INET, (struct sockaddr *)&four, sizeof(four));
	loopback(AF_INET6, (struct sockaddr *)&six, sizeof(six));
	landlock_layers();
	refused();
	printf("END\n");
	return 0;
}
