/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "box/landlock.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/mem.h"

#include "base/banned.h"

/* Debian 12's header ends at ABI 2; these are of include/uapi/linux/landlock.h. */
#define FS_REFER (1ULL << 13)     /* ABI 2 */
#define FS_TRUNCATE (1ULL << 14)  /* ABI 3 */
#define FS_IOCTL_DEV (1ULL << 15) /* ABI 5 */
#define SCOPE_ABSTRACT_UNIX (1ULL << 0) /* ABI 6 */
#define SCOPE_SIGNAL (1ULL << 1)

struct ruleset_attr {
	uint64_t fs, net, scoped;
};

#define FS_READ (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define FS_CHANGE                                                                                                           \
	(LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE |                   \
	 LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_SOCK |                         \
	 LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_SYM | FS_REFER | FS_TRUNCATE)
#define FS_ABI_1 ((1ULL << 13) - 1) /* EXECUTE to MAKE_SYM */

/* What each ABI can handle. An ABI that is newer than the table is used as the last of it. */
static const struct {
	uint64_t fs, scoped;
	size_t attr_size; /* of struct ruleset_attr; a kernel takes a longer one only when the rest is zero, an older one not */
} abis[] = {
	{0, 0, 0},
	{FS_ABI_1, 0, 8},
	{FS_ABI_1 | FS_REFER, 0, 8},
	{FS_ABI_1 | FS_REFER | FS_TRUNCATE, 0, 8},
	{FS_ABI_1 | FS_REFER | FS_TRUNCATE, 0, 16},
	{FS_ABI_1 | FS_REFER | FS_TRUNCATE | FS_IOCTL_DEV, 0, 16},
	{FS_ABI_1 | FS_REFER | FS_TRUNCATE | FS_IOCTL_DEV, SCOPE_ABSTRACT_UNIX | SCOPE_SIGNAL, 24},
};
#define ABI_LAST ((int)(sizeof(abis) / sizeof(abis[0])) - 1)

/* No class has MAKE_CHAR and MAKE_BLOCK; only DEV has IOCTL_DEV: a device elsewhere was never the plan. */
static const uint64_t class_rights[LANDLOCK_CLASSES] = {
	[LANDLOCK_READ] = FS_READ,
	[LANDLOCK_READ_EXEC] = FS_READ | LANDLOCK_ACCESS_FS_EXECUTE,
	[LANDLOCK_WRITE] = FS_READ | LANDLOCK_ACCESS_FS_EXECUTE | FS_CHANGE,
	[LANDLOCK_DEV] = FS_READ | LANDLOCK_ACCESS_FS_WRITE_FILE | FS_TRUNCATE | FS_IOCTL_DEV,
	[LANDLOCK_PROC] = FS_READ | LANDLOCK_ACCESS_FS_WRITE_FILE | FS_TRUNCATE,
};

/* What a rule on something that is no directory may hold (security/landlock/fs.c: ACCESS_FILE). */
#define FS_OF_FILES                                                                                                         \
	(LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_READ_FILE | FS_TRUNCATE | FS_IOCTL_DEV)

int landlock_probe(void)
{
	long r = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);

	return r < 0 ? -errno : (int)r;
}

static const char *landlock_why_not(const struct profile *p, int abi)
{
	if (abi == -EOPNOTSUPP)
		return "Landlock is off in this kernel: add landlock to the lsm= list on its command line";
	if (abi < 0)
		return "this kernel has no Landlock (it needs 5.19, with CONFIG_SECURITY_LANDLOCK)";
	/* It denies every rename and link from one directory to another, with no right that would allow it. */
	if (abi < 2)
		return "Landlock ABI 1 denies rename and link between directories (it needs 5.19)";
	/* security/landlock/fs.c, hook_sb_mount and its siblings: a restricted process cannot mount at all. */
	if (p->syscalls.nested_namespaces.v)
		return "Landlock forbids mounting, which nested-namespaces = yes is for";
	return NULL;
}

static int exec_add(struct landlock_plan *plan, const struct val_item *item, struct err *e)
{
	static const char *const dirs[] = {"/usr/local/bin", "/usr/bin", "/bin"};
	char place[256];

	if (item->text[0] == '/') {
		strv_add(&plan->exec, item->text);
		return 0;
	}
	if (!item->text[0] || strchr(item->text, '/'))
		return err_set(e, EINVAL, "%s: [commands] exec: %.128s: neither a name nor an absolute path; write one of them",
			       origin_text(item->from, place, sizeof(place)), item->text);
	for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++)
		strv_take(&plan->exec, mem_printf("%s/%s", dirs[i], item->text));
	return 0;
}

int landlock_plan_init(const struct profile *p, struct landlock_plan *out, struct err *e)
{
	char place[256];

	*out = (struct landlock_plan){0};
	out->abi = landlock_probe();
	out->why_not = landlock_why_not(p, out->abi);
	out->wanted = !out->why_not;
	if (!p->commands.exec.n)
		return 0;
	if (!out->wanted)
		return err_set(e, ENOTSUP, "%s: [commands] exec cannot be kept: %s",
			       origin_text(p->commands.exec.items[0].from, place, sizeof(place)), out->why_not);
	out->exec_listed = true;
	for (size_t i = 0; i < p->commands.exec.n; i++) {
		int r = exec_add(out, &p->commands.exec.items[i], e);

		if (r < 0)
			return r;
	}
	return 0;
}

void landlock_plan_add(struct landlock_plan *plan, const char *box_path, enum landlock_class class)
{
	if (!plan->wanted)
		return;
	vec_reserve(&plan->rules, &plan->cap, plan->n, sizeof(*plan->rules));
	plan->rules[plan->n++] = (struct landlock_rule){.path = mem_strdup(box_path), .class = class};
}

void landlock_free(struct landlock_plan *plan)
{
	for (size_t i = 0; i < plan->n; i++)
		free(plan->rules[i].path);
	free(plan->rules);
	strv_free(&plan->exec);
	*plan = (struct landlock_plan){0};
}

/* --- the child: async-signal-safe from here on --- */

static int rule_add_fd(int ruleset, int fd, uint64_t rights, uint64_t handled)
{
	struct landlock_path_beneath_attr attr = {.parent_fd = fd};
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISDIR(st.st_mode))
		rights &= FS_OF_FILES;
	attr.allowed_access = rights & handled;
	if (!attr.allowed_access)
		return 0;
	if (syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &attr, 0) < 0)
		return -errno;
	return 0;
}

static int rule_add_path(int ruleset, const char *path, uint64_t rights, uint64_t handled)
{
	int fd = open(path, O_PATH | O_CLOEXEC);
	int r;

	if (fd < 0)
		return errno == ENOENT || errno == ENOTDIR ? 0 : -errno;
	r = rule_add_fd(ruleset, fd, rights, handled);
	close(fd);
	return r;
}

/* A descriptor that stays: it could be used before, and /proc/self/fd/N must not be less than N ("echo >/dev/stderr"). */
static int rule_add_kept(int ruleset, int fd, uint64_t handled)
{
	int flags = fcntl(fd, F_GETFL);
	uint64_t rights = 0;
	struct stat st;
	int r;

	if (flags < 0 || fstat(fd, &st) < 0)
		return 0; /* closed */
	if (S_ISDIR(st.st_mode))
		rights = FS_READ;
	else if (flags & O_PATH)
		return 0;
	else if ((flags & O_ACCMODE) == O_RDONLY)
		rights = LANDLOCK_ACCESS_FS_READ_FILE | FS_IOCTL_DEV;
	else if ((flags & O_ACCMODE) == O_WRONLY)
		rights = LANDLOCK_ACCESS_FS_WRITE_FILE | FS_TRUNCATE | FS_IOCTL_DEV;
	else
		rights = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE | FS_TRUNCATE | FS_IOCTL_DEV;
	r = rule_add_fd(ruleset, fd, rights, handled);
	/* Pipes and sockets lie on no mount, and Landlock lets them pass anyway. */
	return r == -EBADFD ? 0 : r;
}

/*
 * Is this text what a dynamic linker is called? The program may lie where an earlier run of the same task could write, and
 * must not be able to name curl as its interpreter.
 */
static bool is_linker(const char *path)
{
	const char *base = strrchr(path, '/');

	if (strncmp(path, "/lib", 4) != 0 && strncmp(path, "/usr/lib", 8) != 0)
		return false;
	return base && strncmp(base, "/ld", 3) == 0 && !strstr(path, "/../");
}

/* The kernel opens the interpreter of an ELF program for execution too (fs/binfmt_elf.c). */
static int exec_add_linker(int ruleset, int fd, uint64_t handled)
{
	Elf64_Ehdr head;
	Elf64_Phdr part;
	char path[256];

	if (pread(fd, &head, sizeof(head), 0) != sizeof(head) || memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
	    head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_phentsize != sizeof(part))
		return 0;
	for (unsigned i = 0; i < head.e_phnum && i < 128; i++) {
		if (pread(fd, &part, sizeof(part), (off_t)(head.e_phoff + i * sizeof(part))) != sizeof(part))
			return 0;
		if (part.p_type != PT_INTERP)
			continue;
		if (part.p_filesz < 2 || part.p_filesz > sizeof(path) ||
		    pread(fd, path, part.p_filesz, (off_t)part.p_offset) != (ssize_t)part.p_filesz)
			return 0;
		path[part.p_filesz - 1] = '\0';
		return is_linker(path) ? rule_add_path(ruleset, path, LANDLOCK_ACCESS_FS_EXECUTE, handled) : 0;
	}
	return 0;
}

static int exec_add_rule(int ruleset, const char *path, uint64_t handled)
{
	int r = rule_add_path(ruleset, path, LANDLOCK_ACCESS_FS_EXECUTE, handled);
	struct stat st;
	int fd;

	/* Looked at first, as opening a device or a FIFO may act; nothing runs in the box yet that could swap it. */
	if (r < 0 || stat(path, &st) < 0 || !S_ISREG(st.st_mode))
		return r;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0) /* executable, but not readable: then it is static or fails to start */
		return 0;
	r = exec_add_linker(ruleset, fd, handled);
	close(fd);
	return r;
}

static int rules_add(const struct landlock_plan *plan, int ruleset, uint64_t handled)
{
	int r = 0;

	for (size_t i = 0; i < plan->n && r == 0; i++) {
		uint64_t rights = class_rights[plan->rules[i].class];

		if (plan->exec_listed)
			rights &= ~(uint64_t)LANDLOCK_ACCESS_FS_EXECUTE;
		r = rule_add_path(ruleset, plan->rules[i].path, rights, handled);
	}
	for (size_t i = 0; i < plan->exec.n && r == 0; i++)
		r = exec_add_rule(ruleset, plan->exec.v[i], handled);
	for (int fd = 0; fd <= 2 && r == 0; fd++)
		r = rule_add_kept(ruleset, fd, handled);
	for (size_t i = 0; i < plan->n_keep_fds && r == 0; i++)
		r = rule_add_kept(ruleset, plan->keep_fds[i], handled);
	return r;
}

int landlock_apply(const struct landlock_plan *plan)
{
	int abi = plan->abi > ABI_LAST ? ABI_LAST : plan->abi;
	struct ruleset_attr attr = {0};
	long ruleset;
	int r;

	if (!plan->wanted)
		return 0;
	if (abi < 1)
		return -EINVAL;
	attr.fs = abis[abi].fs;
	attr.scoped = abis[abi].scoped;
	ruleset = syscall(SYS_landlock_create_ruleset, &attr, abis[abi].attr_size, 0);
	if (ruleset < 0)
		return -errno;
	r = rules_add(plan, (int)ruleset, attr.fs);
	if (r == 0 && syscall(SYS_landlock_restrict_self, ruleset, 0) < 0)
		r = -errno;
	close((int)ruleset);
	return r;
}
