/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "box/seccomp_args.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/netlink.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sys/personality.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/banned.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U /* linux/memfd.h, since 6.3 */
#endif
#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x00000080
#endif

#define IOCTL_TIOCSTI 0x5412U
#define IOCTL_TIOCLINUX 0x541cU
#define IOCTL_TIOCSETD 0x5423U

#define FLAG_O_TMPFILE 020000000U /* __O_TMPFILE of asm-generic/fcntl.h: without O_DIRECTORY, which the two share */
#define X32_BIT 0x40000000U

/* --- the smallest assembler that does --- */

static void code(struct seccomp_head *h, uint16_t op, uint32_t k, uint8_t jt, uint8_t jf)
{
	if (h->n < SECCOMP_HEAD_MAX)
		h->code[h->n] = (struct sock_filter){.code = op, .k = k, .jt = jt, .jf = jf};
	h->n++; /* counted past the end, so that seccomp_head_build can tell */
}

static void load(struct seccomp_head *h, uint32_t offset)
{
	code(h, BPF_LD | BPF_W | BPF_ABS, offset, 0, 0);
}

/*
 * The low half of an argument. The kernel's `int` and `unsigned int` parameters ignore the high half, so a check that
 * looks at it can be passed by setting it (CVE-2019-10063). Both architectures are little-endian.
 */
static void load_arg(struct seccomp_head *h, unsigned i)
{
	load(h, (uint32_t)(offsetof(struct seccomp_data, args) + i * sizeof(uint64_t)));
}

static void load_arg_high(struct seccomp_head *h, unsigned i)
{
	load(h, (uint32_t)(offsetof(struct seccomp_data, args) + i * sizeof(uint64_t) + sizeof(uint32_t)));
}

static void mask(struct seccomp_head *h, uint32_t bits)
{
	code(h, BPF_ALU | BPF_AND | BPF_K, bits, 0, 0);
}

static void allow(struct seccomp_head *h)
{
	code(h, BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0, 0);
}

static void refuse(struct seccomp_head *h, int errnum)
{
	code(h, BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)errnum, 0, 0);
}

static void refuse_quietly(struct seccomp_head *h, int errnum)
{
	if (h->n_quiet < SECCOMP_QUIET_MAX)
		h->quiet[h->n_quiet] = h->n;
	h->n_quiet++;
	refuse(h, errnum);
}

static void allow_if(struct seccomp_head *h, uint32_t value)
{
	code(h, BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1);
	allow(h);
}

static void refuse_if(struct seccomp_head *h, uint32_t value, int errnum)
{
	code(h, BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1);
	refuse(h, errnum);
}

static void refuse_if_any(struct seccomp_head *h, uint32_t bits, int errnum)
{
	code(h, BPF_JMP | BPF_JSET | BPF_K, bits, 0, 1);
	refuse(h, errnum);
}

/* What is emitted until block_end runs only where the value is `value`. Return: the place for block_end. */
static size_t block_if(struct seccomp_head *h, uint32_t value)
{
	code(h, BPF_JMP | BPF_JEQ | BPF_K, value, 0, 0);
	return h->n - 1;
}

static size_t block_if_any(struct seccomp_head *h, uint32_t bits)
{
	code(h, BPF_JMP | BPF_JSET | BPF_K, bits, 0, 0);
	return h->n - 1;
}

static void block_end(struct seccomp_head *h, size_t at)
{
	size_t over = h->n - at - 1;

	if (over > UINT8_MAX)
		h->n = SECCOMP_HEAD_MAX + 1;
	else if (at < SECCOMP_HEAD_MAX)
		h->code[at].jf = (uint8_t)over;
}

/* --- the checks; each ends by allowing or refusing --- */

/*
 * A user namespace gives a process every capability within it, and with them most of the kernel's attack surface
 * (CVE-2022-0185, CVE-2023-32233, CVE-2024-1086 all began there).
 */
#define NEW_NAMESPACES                                                                                                       \
	(CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET)

static void check_clone(struct seccomp_head *h)
{
	load_arg(h, 0);
	refuse_if_any(h, NEW_NAMESPACES, EPERM);
	allow(h);
}

/* The flags are in memory, where a filter cannot look. glibc, Go and Rust fall back to clone. */
static void check_clone3(struct seccomp_head *h)
{
	refuse_quietly(h, ENOSYS);
}

/* By what it may ask, so that a flag yet to come is closed too. */
static void check_unshare(struct seccomp_head *h)
{
	load_arg_high(h, 0);
	code(h, BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0);
	refuse(h, EPERM);
	load_arg(h, 0);
	refuse_if_any(h, ~(uint32_t)(CLONE_FS | CLONE_FILES | CLONE_SYSVSEM), EPERM);
	allow(h);
}

/*
 * VSOCK leaves a virtual machine from any network namespace; ALG, PACKET and the rest are code that nobody here needs
 * (CVE-2017-7308, CVE-2019-8956, CVE-2021-26708). MPTCP, UDP-Lite, SCTP, DCCP and SMC would pass the egress rules, which know
 * TCP and UDP (Go asks for MPTCP first and takes EPROTONOSUPPORT as "use TCP"). Ping sockets carry data in what no rule
 * looks at.
 * Of netlink only the route family (interfaces and addresses, for getaddrinfo and its like) and the list of the namespace's
 * sockets (ss). EPROTONOSUPPORT for the others is what libaudit (in su, sshd, useradd) takes as "no audit here". A box
 * within the box sets up nf_tables.
 */
static void check_socket(struct seccomp_head *h, bool nested)
{
	size_t at;

	load_arg(h, 0);
	allow_if(h, AF_UNIX);
	at = block_if(h, AF_NETLINK);
	load_arg(h, 2);
	allow_if(h, NETLINK_ROUTE);
	allow_if(h, NETLINK_SOCK_DIAG);
	if (nested)
		allow_if(h, NETLINK_NETFILTER);
	refuse(h, EPROTONOSUPPORT);
	block_end(h, at);
	code(h, BPF_JMP | BPF_JEQ | BPF_K, AF_INET, 2, 0);
	code(h, BPF_JMP | BPF_JEQ | BPF_K, AF_INET6, 1, 0);
	refuse(h, EAFNOSUPPORT);
	load_arg(h, 1);
	mask(h, 0xf); /* SOCK_TYPE_MASK, include/linux/net.h */
	at = block_if(h, SOCK_STREAM);
	load_arg(h, 2);
	allow_if(h, 0);
	allow_if(h, IPPROTO_TCP);
	refuse(h, EPROTONOSUPPORT);
	block_end(h, at);
	at = block_if(h, SOCK_DGRAM);
	load_arg(h, 2);
	allow_if(h, 0);
	allow_if(h, IPPROTO_UDP);
	refuse(h, EPROTONOSUPPORT);
	block_end(h, at);
	/* SOCK_RAW; SOCK_PACKET, which on AF_INET means AF_PACKET (net/socket.c); SOCK_SEQPACKET, which is SCTP. */
	refuse(h, EPERM);
}

static void check_socketpair(struct seccomp_head *h)
{
	load_arg(h, 0);
	allow_if(h, AF_UNIX);
	refuse(h, EAFNOSUPPORT);
}

/*
 * TIOCSTI and TIOCLINUX put text into the terminal that the caller's shell then reads (CVE-2017-5226, CVE-2023-28100).
 * The box has a terminal of its own; this is for a descriptor that was left open on purpose. TIOCSETD loads line
 * disciplines (CVE-2017-2636, CVE-2023-6546).
 */
static void check_ioctl(struct seccomp_head *h)
{
	load_arg(h, 1);
	refuse_if(h, IOCTL_TIOCSTI, EPERM);
	refuse_if(h, IOCTL_TIOCLINUX, EPERM);
	refuse_if(h, IOCTL_TIOCSETD, EPERM);
	allow(h);
}

/* ADDR_NO_RANDOMIZE stays: gdb asks it for what it debugs, and it ends with the process. */
static void check_personality(struct seccomp_head *h)
{
	load_arg(h, 0);
	allow_if(h, 0xffffffffU); /* asks only */
	refuse_if_any(h, ~(uint32_t)(PER_LINUX32 | UNAME26 | ADDR_NO_RANDOMIZE), EPERM);
	allow(h);
}

/*
 * In a directory that the host shares a file that the command makes belongs to the caller. Made setuid it would hand the
 * caller's identity (root's, where root runs agentbox) to every user of the host who runs it. The box's own mounts are
 * nosuid, but that does not reach the host. systemd's RestrictSUIDSGID= is the same check. Setgid stays open: on a
 * directory it is how a shared repository keeps its group, and a filter cannot see which of the two it is.
 * What breaks is unpacking an archive of a system with its setuid programs: `allow = @setuid-bits` opens it.
 */
static void check_mode(struct seccomp_head *h, unsigned arg)
{
	load_arg(h, arg);
	refuse_if_any(h, S_ISUID, EPERM);
	allow(h);
}

/* Without O_CREAT or O_TMPFILE the register of the mode holds what was there before. */
static void check_open(struct seccomp_head *h, unsigned arg_flags)
{
	size_t at;

	load_arg(h, arg_flags);
	at = block_if_any(h, O_CREAT | FLAG_O_TMPFILE);
	load_arg(h, arg_flags + 1);
	refuse_if_any(h, S_ISUID, EPERM);
	block_end(h, at);
	allow(h);
}

/* Its mode is in memory. Those who know openat2 fall back to openat, as on a kernel before 5.6. */
static void check_openat2(struct seccomp_head *h)
{
	refuse_quietly(h, ENOSYS);
}

/* An anonymous file could be executed past commands.exec: Landlock lets pass what lies on no mount. */
static void check_memfd(struct seccomp_head *h)
{
	load_arg(h, 1);
	code(h, BPF_JMP | BPF_JSET | BPF_K, MFD_NOEXEC_SEAL, 1, 0);
	refuse(h, ENOSYS);
	allow(h);
}

/* Success without effect: errno 0. */
static void check_chown(struct seccomp_head *h)
{
	refuse(h, 0);
}

enum arg_shape {
	SHAPE_CLONE,
	SHAPE_CLONE3,
	SHAPE_UNSHARE,
	SHAPE_SOCKET,
	SHAPE_SOCKETPAIR,
	SHAPE_IOCTL,
	SHAPE_PERSONALITY,
	SHAPE_MODE,
	SHAPE_OPEN,
	SHAPE_OPENAT2,
	SHAPE_MEMFD,
	SHAPE_CHOWN,
};

/* The hot ones first: these calls pass through here each time, while others are decided by number once, when the filter is
 * loaded (the kernel's seccomp_cache_prepare, since 5.11). */
static const struct {
	const char *name;
	enum syscall_check check;
	enum arg_shape shape;
	unsigned arg;
} arg_checks[] = {
	{"openat", CHECK_SETUID_BITS, SHAPE_OPEN, 2},
	{"ioctl", CHECK_TERMINAL_INPUT, SHAPE_IOCTL, 0},
	{"open", CHECK_SETUID_BITS, SHAPE_OPEN, 1},
	{"socket", CHECK_SOCKET_FAMILIES, SHAPE_SOCKET, 0},
	{"socketpair", CHECK_SOCKET_FAMILIES, SHAPE_SOCKETPAIR, 0},
	{"clone", CHECK_NEW_NAMESPACES, SHAPE_CLONE, 0},
	{"clone3", CHECK_NEW_NAMESPACES, SHAPE_CLONE3, 0},
	{"unshare", CHECK_NEW_NAMESPACES, SHAPE_UNSHARE, 0},
	{"chmod", CHECK_SETUID_BITS, SHAPE_MODE, 1},
	{"fchmod", CHECK_SETUID_BITS, SHAPE_MODE, 1},
	{"fchmodat", CHECK_SETUID_BITS, SHAPE_MODE, 2},
	{"fchmodat2", CHECK_SETUID_BITS, SHAPE_MODE, 2},
	{"creat", CHECK_SETUID_BITS, SHAPE_MODE, 1},
	{"mknod", CHECK_SETUID_BITS, SHAPE_MODE, 1},
	{"mknodat", CHECK_SETUID_BITS, SHAPE_MODE, 2},
	{"openat2", CHECK_SETUID_BITS, SHAPE_OPENAT2, 0},
	{"chown", CHECK_CHOWN, SHAPE_CHOWN, 0},
	{"lchown", CHECK_CHOWN, SHAPE_CHOWN, 0},
	{"fchown", CHECK_CHOWN, SHAPE_CHOWN, 0},
	{"fchownat", CHECK_CHOWN, SHAPE_CHOWN, 0},
	{"personality", CHECK_PERSONALITY, SHAPE_PERSONALITY, 0},
	{"memfd_create", CHECK_MEMFD_EXEC, SHAPE_MEMFD, 0},
};

static void head_check(struct seccomp_head *h, enum arg_shape shape, unsigned arg, bool nested)
{
	switch (shape) {
	case SHAPE_CLONE:
		return check_clone(h);
	case SHAPE_CLONE3:
		return check_clone3(h);
	case SHAPE_UNSHARE:
		return check_unshare(h);
	case SHAPE_SOCKET:
		return check_socket(h, nested);
	case SHAPE_SOCKETPAIR:
		return check_socketpair(h);
	case SHAPE_IOCTL:
		return check_ioctl(h);
	case SHAPE_PERSONALITY:
		return check_personality(h);
	case SHAPE_MODE:
		return check_mode(h, arg);
	case SHAPE_OPEN:
		return check_open(h, arg);
	case SHAPE_OPENAT2:
		return check_openat2(h);
	case SHAPE_MEMFD:
		return check_memfd(h);
	case SHAPE_CHOWN:
		return check_chown(h);
	}
}

/* Foreign architectures and x32 numbers go past the whole head: the body kills them. */
static size_t head_start(struct seccomp_head *h, size_t *x32)
{
	size_t arch;

	load(h, offsetof(struct seccomp_data, arch));
	arch = block_if(h, SECCOMP_ARCH_NATIVE);
	load(h, offsetof(struct seccomp_data, nr));
	/* nr > NEWEST: ENOSYS, unless it is an x32 number. */
	code(h, BPF_JMP | BPF_JGT | BPF_K, SYSCALL_NEWEST, 0, 3);
	code(h, BPF_JMP | BPF_JGE | BPF_K, X32_BIT, 0, 1);
	code(h, BPF_JMP | BPF_JA, 0, 0, 0);
	*x32 = h->n - 1;
	refuse_quietly(h, ENOSYS);
	return arch;
}

int seccomp_head_build(const bool open[SYSCALL_MAX], const bool in_force[CHECKS], bool nested, struct seccomp_head *h)
{
	size_t arch, x32 = 0, over;

	*h = (struct seccomp_head){0};
	arch = head_start(h, &x32);
	for (size_t i = 0; i < sizeof(arg_checks) / sizeof(arg_checks[0]); i++) {
		int nr = syscall_number(arg_checks[i].name);
		size_t at;

		if (nr < 0 || nr >= SYSCALL_MAX || !open[nr] || !in_force[arg_checks[i].check])
			continue;
		/* A box within the box resolves its paths with openat2; there the kernel's own check has to do. */
		if (arg_checks[i].shape == SHAPE_OPENAT2 && nested)
			continue;
		at = block_if(h, (uint32_t)nr);
		head_check(h, arg_checks[i].shape, arg_checks[i].arg, nested);
		block_end(h, at);
		h->handled[nr] = true;
	}
	if (h->n > SECCOMP_HEAD_MAX || h->n_quiet > SECCOMP_QUIET_MAX)
		return -E2BIG;
	/* The two long jumps go to the body; a conditional one reaches 255 instructions, JA any. */
	over = h->n - arch - 1;
	if (over > UINT8_MAX)
		return -E2BIG;
	h->code[arch].jf = (uint8_t)over;
	h->code[x32].k = (uint32_t)(h->n - x32 - 1);
	return 0;
}
