/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "box/hostnet.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/magic.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "base/str.h"
#include "box/seccomp_args.h"
#include "box/syscalls.h"
#include "sys/path.h"

#include "base/banned.h"

#define FAMILIES 64 /* more than there are (AF_MAX) */
#define SCOPES_ABI 6
#define CGROUP_ROOT "/sys/fs/cgroup"

static int check_landlock(const struct plan *plan, struct err *e)
{
	const struct landlock_plan *l = &plan->landlock;

	if (l->wanted && l->abi >= SCOPES_ABI)
		return 0;
	if (!l->wanted)
		return err_set(e, ENOTSUP, "egress.mode = host: abstract UNIX sockets of this host would be open to the box: %s", l->why_not);
	return err_set(e, ENOTSUP,
		       "egress.mode = host: abstract UNIX sockets of this host would be open to the box: this kernel's Landlock (ABI %d) "
		       "has no scopes (it needs 6.12); use mode = gateway",
		       l->abi);
}

static bool is_allowed(const struct seccomp_program *program, const char *call, uint64_t a0, uint64_t a1, uint64_t a2)
{
	struct seccomp_data data = {.nr = syscall_number(call), .arch = SECCOMP_ARCH_NATIVE, .args = {a0, a1, a2}};

	return data.nr >= 0 &&
	       (!program->insns ||
		(seccomp_eval(program->insns, program->n, &data) & SECCOMP_RET_ACTION_FULL) == SECCOMP_RET_ALLOW);
}

/* Of the families but those that the filters or Landlock see. */
static bool is_any_family_open(const struct seccomp_program *program)
{
	static const unsigned types[] = {SOCK_STREAM, SOCK_DGRAM, SOCK_RAW, SOCK_SEQPACKET, SOCK_RDM};

	for (unsigned family = 0; family < FAMILIES; family++) {
		if (family == AF_UNIX || family == AF_INET || family == AF_INET6 || family == AF_NETLINK)
			continue;
		for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
			if (is_allowed(program, "socket", family, types[i], 0))
				return true;
	}
	return false;
}

/* Other families, and the two ways to have sockets that no filter of calls sees. */
static int check_calls(const struct plan *plan, struct err *e)
{
	const char *what = NULL;

	if (is_any_family_open(&plan->seccomp))
		what = "other families of sockets";
	if (!what && is_allowed(&plan->seccomp, "socket", AF_NETLINK, SOCK_RAW, NETLINK_NETFILTER))
		what = "netlink of other kinds";
	if (!what && is_allowed(&plan->seccomp, "io_uring_setup", 0, 0, 0))
		what = "io_uring";
	if (!what)
		return 0;
	return err_set(e, EPERM,
		       "egress.mode = host: the [syscalls] of the profile leave %s open, which lead to this host's network past the eBPF "
		       "filters; take policy = off and such words of allow out, or use mode = gateway",
		       what);
}

/* A socket's filters are those of the group that it was opened in. */
static int check_descriptor(int fd, struct err *e)
{
	int domain = AF_UNIX;
	socklen_t len = sizeof(domain);

	if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) < 0 || domain == AF_UNIX)
		return 0;
	return err_set(e, EPERM, "egress.mode = host: descriptor %d is a network socket, which the eBPF filters do not see; give the box "
		       "another one, as a pipe, or use mode = gateway", fd);
}

static int check_descriptors(const struct plan *plan, struct err *e)
{
	int r = 0;

	for (size_t i = 0; i < plan->n_keep_fds && r == 0; i++)
		r = check_descriptor(plan->keep_fds[i], e);
	return r;
}

/* Whoever can write to them may move himself to a group without the filters (cgroups(7), cgroup.procs). */
static int check_mounts(const struct plan *plan, struct err *e)
{
	for (size_t i = 0; i < plan->n_steps; i++) {
		const struct mount_step *s = &plan->steps[i];
		struct statfs fs;

		if (s->op != MOUNT_BIND || s->flags & MOUNT_RO || !s->source)
			continue;
		if (path_is_beneath(CGROUP_ROOT, s->source) ||
		    (statfs(s->source, &fs) == 0 && (fs.f_type == CGROUP2_SUPER_MAGIC || fs.f_type == CGROUP_SUPER_MAGIC)))
			return err_set(e, EPERM, "egress.mode = host: %s is writable in the box: control groups are there, and the box could "
				       "leave its own, which the eBPF filters are on", s->dest);
	}
	return 0;
}

int hostnet_check(const struct plan *plan, struct err *e)
{
	int r = check_landlock(plan, e);

	if (r == 0)
		r = check_calls(plan, e);
	if (r == 0)
		r = check_descriptors(plan, e);
	return r == 0 ? check_mounts(plan, e) : r;
}
