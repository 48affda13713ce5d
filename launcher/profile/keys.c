/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "profile/keys.h"

#include <string.h>

#include "base/str.h"

#include "base/banned.h"

/* To flip what is built, change the last word of the key's row. */
#define BUILT .built = true, .built_choices = ~0U
#define NOT_BUILT .built = false, .built_choices = 0
#define BUILT_CHOICES(mask) .built = true, .built_choices = (mask)

#define C_TEXT struct val_text
#define C_SIZE struct val_size
#define C_DURATION struct val_duration
#define C_COUNT struct val_count
#define C_MILLI struct val_milli
#define C_CHOICE struct val_choice
#define C_BOOL struct val_bool
#define C_LIST struct val_list

/* The member's offset. A member whose C type is not the one that the key's type says does not compile. */
#define OFFSET_OF(ctype, path) \
	(offsetof(struct profile, path) + 0 * sizeof(char[_Generic(((struct profile *)NULL)->path, ctype: 1)]))

#define KEY(section_, member_, name_, kind_) \
	.section = #section_, .name = name_, .type = KEY_##kind_, .offset = OFFSET_OF(C_##kind_, section_.member_)
#define LIST(section_, member_, name_) KEY(section_, member_, name_, LIST), .merge = MERGE_APPEND

#define K (1ULL << 10)
#define M (1ULL << 20)
#define ANY_SIZE .min = 0, .max = INT64_MAX
#define SECOND 1000ULL
#define DAY (86400 * SECOND)
/* 4294967295 is "no id" to the kernel (user_namespaces(7), chown(2)). */
#define ANY_ID .min = 0, .max = 4294967294ULL

static const char *const repo_modes[] = {
	[REPO_OVERLAY] = "overlay", [REPO_WRITE] = "write", [REPO_READ] = "read", [REPO_NONE] = "none", NULL,
};
static const char *const egress_modes[] = {
	[EGRESS_NONE] = "none", [EGRESS_GATEWAY] = "gateway", [EGRESS_HOST] = "host", NULL,
};
static const char *const address_kinds[] = {
	[ADDRESSES_SYNTHETIC] = "synthetic", [ADDRESSES_REAL] = "real", NULL,
};
static const char *const mechanisms[] = {
	[MECHANISM_AUTO] = "auto", [MECHANISM_REQUIRE] = "require", [MECHANISM_OFF] = "off", NULL,
};
static const char *const syscall_policies[] = {
	[SYSCALLS_DEFAULT] = "default", [SYSCALLS_STRICT] = "strict", [SYSCALLS_OFF] = "off", NULL,
};

/* Paths by which a change in the box becomes code that the host runs later, without anybody having started it. */
static const struct key_item protect_items[] = {
	{".git/hooks", "git runs them"},
	{".git/config", "names programs that git runs: fsmonitor, filters, pagers, hooksPath"},
	{".git/config.worktree", "the same, where extensions.worktreeConfig is on"},
	{"HEAD", "would make the tree itself a git directory, with `config` and hooks in it"},
	{".gitmodules", "URLs and update commands of submodules"},
	{".githooks", "the usual core.hooksPath"},
	{".husky", "hooks that npm installs"},
	{".envrc", "direnv runs it in the caller's shell"},
	{".vscode", "tasks that start when the folder is opened"},
	{".idea", "run configurations and startup tasks"},
	{".devcontainer", "initializeCommand runs on the host"},
	{".claude", "settings with hooks, and commands"},
	{".mcp.json", "servers that an agent starts"},
	{".cursor", "servers, rules and hooks"},
	{".codex", "servers and settings of an agent"},
	{".gemini", "servers and settings of an agent"},
	{NULL, NULL},
};

const struct key key_table[] = {
	{KEY(profile, name, "name", TEXT), .merge = MERGE_OWN, BUILT,
	 .text = "what the profile is called in the record"},
	{KEY(profile, description, "description", TEXT), .merge = MERGE_OWN, BUILT,
	 .text = "one line for people"},
	{.section = "profile", .name = "extends", .type = KEY_TEXT, .merge = MERGE_OWN, .offset = KEY_NO_MEMBER,
	 .shape = &shape_extends, BUILT,
	 .text = "the profile that this one starts from: a name, looked up beside this file first, or a path"},

	{KEY(workspace, repo_mode, "repo-mode", CHOICE), .choices = repo_modes, .initial = "overlay", BUILT,
	 .text = "the project in the box: changes made in a layer that is gone at the end of the run, written to it, refused; or no project"},
	{KEY(workspace, mirror, "mirror", BOOL), .initial = "no", BUILT,
	 .text = "the project also at its path on the host, and the command starts there"},
	{KEY(workspace, scratch_size, "scratch-size", SIZE), .initial = "1G", .min = 4 * K, .max = INT64_MAX, BUILT,
	 .text = "size of /workspace/scratch"},
	{LIST(workspace, protect, "protect"), .items = protect_items, .shape = &shape_protect, BUILT,
	 .text = "paths in the project that stay unwritable, with what links in them lead to, and in nested repositories too"},

	{KEY(filesystem, root, "root", TEXT), .initial = "host", .shape = &shape_root, BUILT,
	 .text = "the root of the box: host (read-only), empty, or a directory that holds a root"},
	{LIST(filesystem, read, "read"), .shape = &shape_grant, BUILT,
	 .text = "PATH[:DEST], readable in the box (at DEST); with ? before it, skipped where it is absent"},
	{LIST(filesystem, write, "write"), .shape = &shape_grant, BUILT,
	 .text = "the same, writable"},
	{LIST(filesystem, deny, "deny"), .shape = &shape_deny, BUILT,
	 .text = "path or glob (see Globs), absolute or relative to the project, closed whatever else grants it"},
	{KEY(filesystem, tmp_size, "tmp-size", SIZE), .initial = "256M", .min = 4 * K, .max = INT64_MAX, BUILT,
	 .text = "size of /tmp, /run and /dev/shm together"},

	{LIST(environment, pass, "pass"), .shape = &shape_pass, BUILT,
	 .text = "variables of the caller that the box sees; a * at the end stands for the rest of the name"},
	{LIST(environment, set, "set"), .shape = &shape_assignment, BUILT,
	 .text = "NAME=VALUE, taken as it stands"},

	{KEY(identity, uid, "uid", COUNT), ANY_ID, BUILT, .text = "user id in the box; without it, the caller's"},
	{KEY(identity, gid, "gid", COUNT), ANY_ID, BUILT, .text = "group id in the box; without it, the caller's"},
	{KEY(identity, user, "user", TEXT), .initial = "agent", .shape = &shape_user, BUILT,
	 .text = "name of that user in the box"},
	{KEY(identity, hostname, "hostname", TEXT), .initial = "agentbox", .shape = &shape_hostname, BUILT,
	 .text = "host name in the box"},

	{KEY(egress, mode, "mode", CHOICE), .choices = egress_modes, .initial = "none", BUILT,
	 .text = "no network; a gateway that lets through what is allowed; or the host's network under eBPF filters"},
	{LIST(egress, allow, "allow"), .shape = &shape_egress, BUILT,
	 .text = "HOST[:PORTS] that may be reached; an empty list allows nothing"},
	{LIST(egress, deny, "deny"), .shape = &shape_egress, BUILT,
	 .text = "HOST[:PORTS] that may not, whatever allow says"},
	{KEY(egress, addresses, "addresses", CHOICE), .choices = address_kinds, .initial = "synthetic", BUILT,
	 .text = "what names resolve to in the box: an address of the box's own for each name, or the real ones"},
	{KEY(egress, inspect, "inspect", BOOL), .initial = "yes", BUILT,
	 .text = "the name in the TLS hello and in each HTTP request must be the one that was allowed"},
	{KEY(egress, ebpf, "ebpf", CHOICE), .choices = mechanisms, .initial = "auto", BUILT,
	 .text = "eBPF filters on the cgroup: where the host can, no start without, or never"},
	{KEY(egress, max_bytes, "max-bytes", SIZE), ANY_SIZE, .zero = "no limit", BUILT,
	 .text = "bytes to and from the network in one run"},
	{KEY(egress, max_connections, "max-connections", COUNT), .min = 1, .max = 1000000, .zero = "no limit",
	 BUILT, .text = "connections at a time"},
	{KEY(egress, connect_timeout, "connect-timeout", DURATION), .min = 1, .max = DAY, BUILT,
	 .text = "how long a connection may take to come about"},

	{KEY(limits, wall_time, "wall-time", DURATION), .min = 1, .max = 3650 * DAY, .zero = "no limit", BUILT,
	 .text = "time on the clock until the run is ended (status 124)"},
	{KEY(limits, grace, "grace", DURATION), .initial = "5s", .min = 1, .max = DAY, .zero = "KILL at once", BUILT,
	 .text = "time between TERM and KILL where wall-time is used up (`agentbox stop` has its own)"},
	{KEY(limits, cpu_time, "cpu-time", DURATION), .min = SECOND, .max = 3650 * DAY, .zero = "no limit", BUILT,
	 .text = "CPU time of each process"},
	{KEY(limits, memory, "memory", SIZE), .min = M, .max = INT64_MAX, .zero = "no limit", BUILT,
	 .text = "memory of the whole box, by cgroup; without one it is not bounded"},
	{KEY(limits, processes, "processes", COUNT), .min = 1, .max = 4194304, .zero = "no limit", BUILT,
	 .text = "processes and threads in the box"},
	{KEY(limits, cpus, "cpus", MILLI), .min = 10, .max = 8192000, .zero = "no limit", BUILT,
	 .text = "share of the CPUs, as 1.5, by cgroup; without one it is not bounded"},
	{KEY(limits, open_files, "open-files", COUNT), .min = 16, .max = 1073741816, .zero = "no limit", BUILT,
	 .text = "open files of each process"},
	{KEY(limits, file_size, "file-size", SIZE), .min = 1, .max = INT64_MAX, .zero = "no limit", BUILT,
	 .text = "size of each file that is written"},
	{KEY(limits, core_size, "core-size", SIZE), .initial = "0", ANY_SIZE, .zero = "no core files", BUILT,
	 .text = "size of core files"},
	{KEY(limits, cgroup, "cgroup", CHOICE), .choices = mechanisms, .initial = "auto", BUILT,
	 .text = "control groups: where the host can (else the run goes on and says so), no start without, or never"},

	{KEY(output, capture, "capture", BOOL), .initial = "no", BUILT,
	 .text = "store what the command writes, and pass on what head and tail say"},
	{KEY(output, head, "head", SIZE), ANY_SIZE, BUILT, .text = "bytes passed on from the start of each stream"},
	{KEY(output, tail, "tail", SIZE), .min = 0, .max = 64 * M, BUILT,
	 .text = "bytes passed on from the end of each stream; they are kept in memory until then"},
	{KEY(output, head_lines, "head-lines", COUNT), .min = 0, .max = INT64_MAX, BUILT,
	 .text = "lines passed on from the start of each stream"},
	{KEY(output, tail_lines, "tail-lines", COUNT), .min = 0, .max = INT64_MAX, BUILT,
	 .text = "lines passed on from the end of each stream, as far as they fit in tail, or without it in 1M"},
	{KEY(output, max, "max", SIZE), .initial = "1G", ANY_SIZE, BUILT, .text = "bytes stored of each stream, from its start"},

	{KEY(syscalls, policy, "policy", CHOICE), .choices = syscall_policies, .initial = "default", BUILT,
	 .text = "the system call filter: what builds and tests need, less than that, or none"},
	{LIST(syscalls, allow, "allow"), .shape = &shape_syscall, BUILT,
	 .text = "system calls or @groups that the filter lets through besides"},
	{LIST(syscalls, deny, "deny"), .shape = &shape_syscall, BUILT,
	 .text = "system calls or @groups that it refuses, whatever allow says"},
	{KEY(syscalls, log, "log", BOOL), .initial = "no", BUILT,
	 .text = "say in the record what was refused"},
	{KEY(syscalls, nested_namespaces, "nested-namespaces", BOOL), .initial = "no", BUILT,
	 .text = "namespaces may be made in the box: a run in a run, unshare, browsers' own sandboxes"},

	{LIST(commands, allow, "allow"), .shape = &shape_command, BUILT,
	 .text = "first words of the command lines that run may start, as a shell would split them; without any, all"},
	{LIST(commands, exec, "exec"), .shape = &shape_program, BUILT,
	 .text = "programs, by path or by name in PATH, that anything in the box may start; without any, all"},
	{0},
};

const size_t key_count = sizeof(key_table) / sizeof(key_table[0]) - 1;

const struct key *key_find(const char *section, const char *name)
{
	for (const struct key *k = key_table; k->section; k++)
		if (str_eq(k->section, section) && str_eq(k->name, name))
			return k;
	return NULL;
}

bool key_section_known(const char *section)
{
	for (const struct key *k = key_table; k->section; k++)
		if (str_eq(k->section, section))
			return true;
	return false;
}

#define NAMES_MAX 128
_Static_assert(sizeof(key_table) / sizeof(key_table[0]) <= NAMES_MAX, "key_advise_* hold all names");

void key_advise_section(const char *section, struct str *out)
{
	const char *names[NAMES_MAX];
	const char *near;
	size_t n = 0;

	for (const struct key *k = key_table; k->section; k++)
		if (!n || !str_eq(names[n - 1], k->section))
			names[n++] = k->section;
	names[n] = NULL;
	near = str_nearest(section, names);
	if (near) {
		str_addf(out, "; did you mean [%s]?", near);
		return;
	}
	str_add(out, "; there are");
	for (size_t i = 0; i < n; i++)
		str_addf(out, "%s %s", i ? "," : "", names[i]);
}

void key_advise_name(const char *section, const char *name, struct str *out)
{
	const char *names[NAMES_MAX];
	const char *near;
	size_t n = 0;

	for (const struct key *k = key_table; k->section; k++) {
		if (str_eq(k->section, section))
			names[n++] = k->name;
		else if (str_eq(k->name, name) && !key_find(section, name)) {
			str_addf(out, "; it belongs to [%s]", k->section);
			return;
		}
	}
	names[n] = NULL;
	near = str_nearest(name, names);
	if (near)
		str_addf(out, "; did you mean %s?", near);
	else
		str_add(out, "; `agentbox show --keys` lists them");
}

void *key_member(struct profile *p, const struct key *k)
{
	return (char *)p + k->offset;
}

const void *key_member_const(const struct profile *p, const struct key *k)
{
	return (const char *)p + k->offset;
}
