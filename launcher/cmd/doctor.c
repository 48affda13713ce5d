/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* `agentbox doctor`: what this host can enforce for this user, what is missing, and how to mend it. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <linux/seccomp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/str.h"
#include "box/cgroup.h"
#include "box/landlock.h"
#include "box/probe.h"
#include "box/rlimits.h"
#include "cmd/commands.h"
#include "config.h"
#include "egress/bpf.h"
#include "run/state.h"
#include "sys/fd.h"
#include "sys/syscalls.h"

#include "base/banned.h"

enum doctor_state { DOCTOR_PRESENT, DOCTOR_PARTIAL, DOCTOR_MISSING };

struct doctor {
	json_t *rows;
	bool needed_missing;
};

static const char *const state_names[] = {"present", "partial", "missing"};

/* detail: what is there, or why it is not. mend: what to do; NULL where there is nothing to do. */
static void doctor_row(struct doctor *d, const char *name, bool needed, enum doctor_state state, const char *mend,
		       const char *fmt, ...) __attribute__((format(printf, 6, 7)));

static void doctor_row(struct doctor *d, const char *name, bool needed, enum doctor_state state, const char *mend,
		       const char *fmt, ...)
{
	cleanup_free char *detail = NULL;
	json_t *row = json_object();
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&detail, fmt, ap);
	va_end(ap);
	if (n < 0)
		abort();
	json_object_set_new(row, "name", json_string(name));
	json_object_set_new(row, "state", json_string(state_names[state]));
	json_object_set_new(row, "needed", json_boolean(needed));
	/* A path may hold anything; json_string refuses what is not UTF-8. */
	json_object_set_new(row, "detail", json_string(detail) ?: json_string("(not UTF-8)"));
	json_object_set_new(row, "mend", mend && state != DOCTOR_PRESENT ? json_string(mend) : json_null());
	json_array_append_new(d->rows, row);
	if (needed && state == DOCTOR_MISSING)
		d->needed_missing = true;
}

/* A sysctl's number; -1 where this kernel has none of that name. */
static long long sysctl_number(const char *path)
{
	cleanup_free char *text = NULL;
	uint64_t n;

	if (fd_read_file(AT_FDCWD, path, 4096, &text, NULL) < 0)
		return -1;
	text[strcspn(text, "\n")] = '\0';
	return num_u64(text, 0, INT64_MAX, &n) == 0 ? (long long)n : -1;
}

static bool in_container(void)
{
	return access("/.dockerenv", F_OK) == 0 || access("/run/.containerenv", F_OK) == 0;
}

static bool in_box(void)
{
	const char *value = getenv("AGENTBOX");

	return value && str_eq(value, "1");
}

#define MEND_IN_BOX "this is a box already: a box within it needs nested-namespaces = yes in its [syscalls]"

/* For a call that answers ENOSYS. */
static const char *outer_mend(void)
{
	return in_box() ? MEND_IN_BOX : "a kernel of 5.12 or later, or an outer seccomp filter that lets it pass";
}

#define MEND_APPARMOR                                                                                                       \
	"install the AppArmor profile that comes with agentbox: cp scripts/agentbox.apparmor /etc/apparmor.d/agentbox && "     \
	"apparmor_parser -r /etc/apparmor.d/agentbox (or sysctl kernel.apparmor_restrict_unprivileged_userns=0)"

/* Why a user namespace, or what it gives, cannot be had: the most likely reason first. */
static const char *userns_mend(int errnum)
{
	if (in_box())
		return MEND_IN_BOX;
	if (sysctl_number("/proc/sys/user/max_user_namespaces") == 0)
		return "sysctl user.max_user_namespaces=10000";
	if (geteuid() != 0 && sysctl_number("/proc/sys/kernel/unprivileged_userns_clone") == 0)
		return "sysctl kernel.unprivileged_userns_clone=1";
	if (geteuid() != 0 && sysctl_number("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") > 0)
		return MEND_APPARMOR;
	if (in_container())
		return "the container's seccomp filter or capabilities refuse it: docker run --security-opt seccomp=unconfined "
		       "(or a filter that allows unshare, clone and mount)";
	if (errnum == ENOSPC || errnum == EUSERS)
		return "the limit of nested or of all namespaces is reached: sysctl user.max_user_namespaces and its like";
	if (errnum == EINVAL)
		return "the kernel was built without user namespaces (CONFIG_USER_NS)";
	return "something that confines this process (seccomp, AppArmor, SELinux, an outer sandbox) refuses it";
}

static const struct {
	enum probe_step step;
	const char *name, *present;
	bool needed;
} box_rows[] = {
	{PROBE_USER_NAMESPACE, "user namespaces", "a namespace of its own, without privilege on the host", true},
	{PROBE_ID_MAP, "id maps", "one uid and gid, no groups", true},
	{PROBE_NAMESPACES, "namespaces", "mount, pid, net, ipc, uts, cgroup", true},
	{PROBE_MOUNT, "mounts", "new mount API in a user namespace", true},
	{PROBE_MOUNT_SETATTR, "read-only trees", "mount_setattr over the whole tree at once", true},
	{PROBE_PROC, "/proc", "of the box's own PID namespace", true},
	{PROBE_OVERLAY, "overlay", "copy-on-write repo, layers in the state directory", false},
	{PROBE_GATEWAY, "gateway plumbing", NULL, false}, /* see doctor_gateway */
};

static const char *box_mend(enum probe_step step, int errnum)
{
	switch (step) {
	case PROBE_PROC:
		if (errnum == EPERM)
			return "this process sees a /proc with masked parts, and the kernel gives no fuller one (\"mount too revealing\"); in "
			       "Docker: --security-opt systempaths=unconfined, in Kubernetes: procMount: Unmasked";
		return userns_mend(errnum);
	case PROBE_OVERLAY:
		if (errnum == ENODEV)
			return "modprobe overlay as root; or use repo-mode = write or read";
		return "put the state directory on a filesystem that can hold overlay layers (ext4, xfs, btrfs, tmpfs; not another overlay "
		       "and not NFS): AGENTBOX_STATE=DIR; or use repo-mode = write or read";
	case PROBE_MOUNT:
	case PROBE_MOUNT_SETATTR:
		if (errnum == ENOSYS)
			return outer_mend();
		return userns_mend(errnum);
	default:
		return userns_mend(errnum);
	}
}

static void doctor_gateway(struct doctor *d, const struct box_probe *p)
{
	static const char *const captures[NETNS_CAPTURES] = {
		[NETNS_TPROXY] = "listeners and nf_tables in a network namespace",
		[NETNS_REDIRECT] = "listeners and nf_tables in a network namespace, by redirection, as nft_tproxy is missing",
		[NETNS_LISTEN] = "a listener a port in a network namespace, 64 at most, as nf_tables is missing; more need modprobe nf_tables "
				 "nft_tproxy nft_reject as root",
	};
	struct err e = {0};

	_Static_assert(NETNS_LISTEN_PORTS == 64, "it is said above");
	if (p->result[PROBE_GATEWAY] == 0) {
		doctor_row(d, "gateway plumbing", false, DOCTOR_PRESENT, NULL, "%s", captures[p->capture]);
		return;
	}
	netns_failure_text(&p->gateway, p->result[PROBE_GATEWAY], &e);
	doctor_row(d, "gateway plumbing", false, DOCTOR_MISSING, "modprobe nf_tables nft_tproxy nft_reject (or nft_redir) as root",
		   "%s; egress.mode = gateway cannot start", e.msg);
}

static void doctor_box(struct doctor *d, int state)
{
	struct box_probe p;
	struct err e = {0};
	bool failed = state < 0;

	if (box_probe(state, &p, &e) < 0) {
		doctor_row(d, "user namespaces", true, DOCTOR_MISSING, NULL, "%s", e.msg);
		return;
	}
	for (size_t i = 0; i < sizeof(box_rows) / sizeof(box_rows[0]); i++) {
		int r = p.result[box_rows[i].step];

		if (r != PROBE_NOT_TRIED && box_rows[i].step == PROBE_GATEWAY)
			doctor_gateway(d, &p);
		else if (r == 0)
			doctor_row(d, box_rows[i].name, box_rows[i].needed, DOCTOR_PRESENT, NULL, "%s", box_rows[i].present);
		else if (r == PROBE_NOT_TRIED)
			doctor_row(d, box_rows[i].name, box_rows[i].needed, DOCTOR_MISSING, NULL, "%s",
				   failed ? "not tried, as what stands above is missing" : "the attempt did not end");
		else
			doctor_row(d, box_rows[i].name, box_rows[i].needed, DOCTOR_MISSING, box_mend(box_rows[i].step, r), "%s",
				   strerrordesc_np(r) ?: "?");
		failed = failed || r != 0;
	}
}

static void doctor_syscalls(struct doctor *d)
{
	static const uint32_t actions[] = {SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_ERRNO};
	uint32_t notify = SECCOMP_RET_USER_NOTIF;
	bool all = true;

	/* EFAULT and EINVAL say that the call is there. */
	if (syscall(SYS_clone3, NULL, 0) < 0 && errno == ENOSYS)
		doctor_row(d, "clone3", true, DOCTOR_MISSING, outer_mend(), "this process gets ENOSYS");
	else
		doctor_row(d, "clone3", true, DOCTOR_PRESENT, NULL, "all namespaces at once");
	if (sys_openat2(-1, "", 0, 0, 0) < 0 && errno == ENOSYS)
		doctor_row(d, "openat2", true, DOCTOR_MISSING, outer_mend(), "this process gets ENOSYS");
	else
		doctor_row(d, "openat2", true, DOCTOR_PRESENT, NULL, "paths beneath a root");
	for (size_t i = 0; i < sizeof(actions) / sizeof(actions[0]); i++)
		if (syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &actions[i]) < 0)
			all = false;
	if (!all)
		doctor_row(d, "seccomp", true, DOCTOR_MISSING, "a kernel with CONFIG_SECCOMP_FILTER", "%s", strerrordesc_np(errno));
	else if (syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &notify) < 0)
		doctor_row(d, "seccomp", true, DOCTOR_PARTIAL, "a kernel of 5.9 or later",
			   "filters, but no notification: syscalls.log cannot be");
	else
		doctor_row(d, "seccomp", true, DOCTOR_PRESENT, NULL, "filters and notification");
}

static void doctor_landlock(struct doctor *d)
{
	int abi = landlock_probe();

	if (abi == -EOPNOTSUPP)
		doctor_row(d, "landlock", false, DOCTOR_MISSING, "add landlock to the lsm= list on the kernel's command line", "off at boot");
	else if (abi < 0)
		doctor_row(d, "landlock", false, DOCTOR_MISSING, "a kernel of 5.19 or later with CONFIG_SECURITY_LANDLOCK",
			   "not in this kernel: no second wall for files, and commands.exec cannot be kept");
	else if (abi < 2)
		doctor_row(d, "landlock", false, DOCTOR_MISSING, "a kernel of 5.19 or later",
			   "ABI %d denies rename and link between directories, so it is not used", abi);
	else if (abi < 6)
		doctor_row(d, "landlock", false, DOCTOR_PARTIAL, "a kernel of 6.12 or later",
			   "ABI %d: files, but no scopes (abstract sockets)", abi);
	else
		doctor_row(d, "landlock", false, DOCTOR_PRESENT, NULL, "ABI %d", abi);
}

static const char *const limit_names[CGROUP_LIMITS] = {
	[CGROUP_MEMORY] = "limits.memory", [CGROUP_PROCESSES] = "limits.processes", [CGROUP_CPUS] = "limits.cpus"};

static const char *cgroup_mend(const struct cgroup_host *h)
{
	if (!h->v1 && !h->v2)
		return "mount cgroup v2 at /sys/fs/cgroup";
	if (h->v1 && geteuid() != 0)
		return "boot with cgroup v2 (systemd.unified_cgroup_hierarchy=1); v1 cannot be used without root";
	if (in_container())
		return "give the container its own writable cgroup tree (docker run --cgroupns=private, or privileged)";
	return "have systemd --user running, which gives groups: log in by libpam-systemd, with dbus installed, or loginctl enable-linger "
	       "USER; and XDG_RUNTIME_DIR=/run/user/UID, where su or sudo dropped it";
}

static void doctor_delegation(struct doctor *d, const struct cgroup_host *h)
{
	bool all = true;

	for (int i = 0; i < CGROUP_LIMITS; i++)
		all = all && h->can[i];
	if (h->by_systemd)
		doctor_row(d, "delegation", false, DOCTOR_PRESENT, NULL, "systemd --user gives a run a scope of its own");
	else if (all)
		doctor_row(d, "delegation", false, DOCTOR_PRESENT, NULL, "not needed: this user may make control groups here");
	else if (*h->why_no_systemd)
		doctor_row(d, "delegation", false, DOCTOR_MISSING, cgroup_mend(h), "systemd --user gives no control group: %s",
			   h->why_no_systemd);
	else
		doctor_row(d, "delegation", false, DOCTOR_MISSING, cgroup_mend(h), "no cgroup v2 tree with controllers");
}

static void doctor_cgroups(struct doctor *d)
{
	struct cgroup_host h;

	cgroup_probe(&h);
	for (int i = 0; i < CGROUP_LIMITS; i++) {
		if (h.can[i])
			doctor_row(d, limit_names[i], false, DOCTOR_PRESENT, NULL, "control group (%s)",
				   !h.v1 ? "v2" : h.v2 ? "v1, beside a v2 tree" : "v1");
		else if (i == CGROUP_PROCESSES && rlimits_bind_processes())
			doctor_row(d, limit_names[i], false, DOCTOR_PARTIAL, cgroup_mend(&h), "by RLIMIT_NPROC alone; no control group: %s",
				   h.why_not[i][0] ? h.why_not[i] : "none is mounted");
		else
			doctor_row(d, limit_names[i], false, DOCTOR_MISSING, cgroup_mend(&h), "%s",
				   h.why_not[i][0] ? h.why_not[i] : "no control groups are mounted");
	}
	doctor_delegation(d, &h);
}

static void doctor_bpf(struct doctor *d)
{
	struct cgroup_host h;
	struct err e = {0};
	int r = bpf_filter_possible(&e);

	if (r == -ENOTSUP) {
		doctor_row(d, "ebpf", false, DOCTOR_MISSING, "install libbpf-dev, clang and bpftool, and configure again", "%s", e.msg);
		return;
	}
	if (r < 0) {
		doctor_row(d, "ebpf", false, DOCTOR_MISSING, "run as root, or do without: the gateway is the boundary in any case", "%s",
			   e.msg);
		return;
	}
	cgroup_probe(&h);
	if (!h.v2_group)
		doctor_row(d, "ebpf", false, DOCTOR_MISSING, "mount a cgroup v2 tree (/sys/fs/cgroup/unified will do)",
			   "no cgroup v2 group to attach to");
	else if (bpf_filter_try(&e) < 0)
		doctor_row(d, "ebpf", false, DOCTOR_MISSING, "do without: the gateway is the boundary in any case", "%s", e.msg);
	else
		doctor_row(d, "ebpf", false, DOCTOR_PRESENT, NULL, "egress filters on the run's control group");
}

/* What egress.mode = host needs, beside a place for its name server, which is only tried by a run. */
static void doctor_host_network(struct doctor *d)
{
	struct cgroup_host h;
	struct err e = {0};
	int abi = landlock_probe();

	cgroup_probe(&h);
	if (abi < 6)
		doctor_row(d, "host network", false, DOCTOR_MISSING, "a kernel of 6.12 or later with Landlock, or mode = gateway",
			   "Landlock's scopes are missing: egress.mode = host is refused");
	else if (bpf_filter_possible(&e) < 0)
		doctor_row(d, "host network", false, DOCTOR_MISSING, "run as root, or use mode = gateway", "egress.mode = host is refused: %s",
			   e.msg);
	else if (!h.v2_group)
		doctor_row(d, "host network", false, DOCTOR_MISSING, "mount a cgroup v2 tree (/sys/fs/cgroup/unified will do)",
			   "egress.mode = host is refused: no cgroup v2 group to attach to");
	else if (bpf_host_try(&e) < 0)
		doctor_row(d, "host network", false, DOCTOR_MISSING, "use mode = gateway", "egress.mode = host is refused: %s", e.msg);
	else
		doctor_row(d, "host network", false, DOCTOR_PRESENT, NULL, "egress.mode = host, under eBPF filters");
}

static int doctor_state_dir(struct doctor *d)
{
	struct err e = {0};
	cleanup_free char *path = NULL;
	int state;

	if (state_path(&path, &e) < 0) {
		doctor_row(d, "state directory", true, DOCTOR_MISSING, "set HOME or AGENTBOX_STATE", "%s", e.msg);
		return -1;
	}
	state = state_open(&e);
	if (state < 0)
		doctor_row(d, "state directory", true, DOCTOR_MISSING, "set AGENTBOX_STATE to a directory of your own, mode 0700", "%s", e.msg);
	else
		doctor_row(d, "state directory", true, DOCTOR_PRESENT, NULL, "%s", path);
	return state;
}

/* A pipe in core_pattern hands the memory of what crashes to a program of the host. */
static void doctor_core(struct doctor *d)
{
	cleanup_free char *text = NULL;

	if (fd_read_file(AT_FDCWD, "/proc/sys/kernel/core_pattern", 4096, &text, NULL) < 0 || text[0] != '|')
		return;
	text[strcspn(text, " \n")] = '\0';
	doctor_row(d, "crash handler", false, DOCTOR_PARTIAL, "sysctl kernel.core_pattern=core, where no handler is wanted",
		   "%s is started by the kernel on the host when a program crashes; agentbox keeps it out (RLIMIT_CORE 1), a program that "
		   "lowers its limit to 0 lets it in",
		   text);
}

/* Are the libraries in the program? Loading seven shared objects costs 0.7 ms of a start that takes 3. */
static void doctor_linking(struct doctor *d)
{
	cleanup_free char *maps = NULL;
	bool dynamic;

	if (fd_read_file(AT_FDCWD, "/proc/self/maps", 1 << 20, &maps, NULL) < 0)
		return;
	dynamic = strstr(maps, "libseccomp.so") != NULL;
	doctor_row(d, "libraries", false, dynamic ? DOCTOR_PARTIAL : DOCTOR_PRESENT,
		   dynamic ? "build with the libraries' static archives, for a start that is 0.7 ms faster" : NULL, "linked %s",
		   dynamic ? "dynamically" : "statically");
}

static void doctor_print(const struct doctor *d)
{
	const json_t *row;
	size_t i;

	json_array_foreach(d->rows, i, row) {
		const char *state = json_string_value(json_object_get(row, "state"));
		const char *detail = json_string_value(json_object_get(row, "detail"));
		const char *mend = json_string_value(json_object_get(row, "mend"));
		cleanup_str struct str text = {0};

		str_add_printable(&text, detail, strlen(detail));
		printf("%-8s %-18s %s\n", state, json_string_value(json_object_get(row, "name")), text.text ? text.text : "");
		if (mend)
			printf("%-8s %-18s -> %s\n", "", "", mend);
	}
	printf("\n%s\n", d->needed_missing ? "Something that every box needs is missing: boxes cannot be made here."
					   : "All that every box needs is there.");
}

static int doctor_finish(struct doctor *d, bool as_json)
{
	int status = d->needed_missing ? STATUS_FAULT : STATUS_OK;
	struct utsname host;

	if (as_json) {
		json_t *all = json_object();
		char *text;

		json_object_set_new(all, "agentbox", json_string(PACKAGE_VERSION));
		if (uname(&host) == 0)
			json_object_set_new(all, "kernel", json_string(host.release));
		json_object_set_new(all, "uid", json_integer((json_int_t)geteuid()));
		json_object_set_new(all, "ok", json_boolean(!d->needed_missing));
		json_object_set(all, "mechanisms", d->rows);
		text = json_dumps(all, JSON_COMPACT);
		printf("%s\n", text ? text : "{}");
		free(text);
		json_decref(all);
	} else {
		if (uname(&host) == 0)
			printf("agentbox %s on %s %s, uid %u\n\n", PACKAGE_VERSION, host.sysname, host.release, (unsigned)geteuid());
		doctor_print(d);
	}
	json_decref(d->rows);
	return cmd_finish(status);
}

static const struct cmd_option doctor_options[] = {{0, "json", NULL, "as one JSON object"}, {0}};

static int doctor_run(int argc, char **argv)
{
	struct doctor d = {0};
	struct cmd_parsed parsed;
	struct err e = {0};
	int index = 1, state;
	bool as_json = false;

	while (cmd_next_option(&cmd_doctor, argc, argv, &index, &parsed, &e))
		as_json = true;
	if (e.code)
		return cmd_fail(STATUS_REFUSED, &e);
	if (index < argc)
		return cmd_fail_text(STATUS_REFUSED, "doctor: it takes no operand: %s", argv[index]);
	d.rows = json_array();
	state = doctor_state_dir(&d);
	doctor_syscalls(&d);
	doctor_box(&d, state);
	doctor_landlock(&d);
	doctor_cgroups(&d);
	doctor_bpf(&d);
	doctor_host_network(&d);
	doctor_core(&d);
	doctor_linking(&d);
	if (state >= 0)
		close(state);
	return doctor_finish(&d, as_json);
}

const struct cmd cmd_doctor = {
	.name = "doctor",
	.synopsis = "[--json]",
	.text = "what this host can enforce, what is missing, and how to mend it",
	.options = doctor_options,
	.run = doctor_run,
};
