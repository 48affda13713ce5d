/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "box/root.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "sys/path.h"

#include "base/banned.h"

static const struct origin built_in = {0};

/* Of the host's root; what is a symbolic link there (merged /usr) is one here. */
static const char *const system_dirs[] = {"usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", NULL};

/*
 * Of the host's /etc, what programs need to start and to speak TLS; nothing that names users, hosts, keys or services.
 * passwd, group, hosts and the like are the box's own, see own_files.
 */
static const char *const etc_names[] = {
	"alternatives", "crypto-policies", "fonts", "java-11-openjdk", "java-17-openjdk", "java-21-openjdk",
	"ld.so.cache", "localtime", "mime.types", "os-release", "pki", "protocols",
	"services", "ssl", "timezone", NULL,
};

bool root_etc_is_shown(const char *name)
{
	for (const char *const *n = etc_names; *n; n++)
		if (str_eq(*n, name))
			return true;
	return false;
}

/*
 * One name of a host directory at the same place in the box: a directory or file read-only, a symbolic link as itself.
 * What is not there, or is neither, is left out; what cannot be looked at is an error, as the box would be another.
 */
static int add_host_name(struct plan *plan, const char *dir, const char *name, const char *box_dir, struct err *e)
{
	cleanup_free char *path = path_join(dir, name);
	struct mount_step *s;
	struct stat st;

	if (lstat(path, &st) < 0)
		return errno == ENOENT || errno == ENOTDIR ? 0 : err_errno(e, errno, "%s", path);
	if (S_ISLNK(st.st_mode)) {
		char target[PATH_MAX];
		ssize_t n = readlink(path, target, sizeof(target) - 1);

		if (n < 0)
			return err_errno(e, errno, "%s", path);
		target[n] = '\0';
		s = plan_add(plan, MOUNT_SYMLINK, path_join(box_dir, name), built_in);
		s->source = mem_strdup(target);
		return 0;
	}
	if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
		return 0;
	s = plan_add(plan, MOUNT_BIND, path_join(box_dir, name), built_in);
	s->source = mem_strdup(path);
	s->flags = MOUNT_RO | MOUNT_NODEV;
	s->dev = st.st_dev;
	s->ino = st.st_ino;
	return 0;
}

static int add_host_names(struct plan *plan, const char *dir, const char *const *names, const char *box_dir, struct err *e)
{
	int r = 0;

	for (const char *const *n = names; r == 0 && *n; n++)
		r = add_host_name(plan, dir, *n, box_dir, e);
	return r;
}

static void add_dir(struct plan *plan, const char *dest, mode_t mode)
{
	plan_add(plan, MOUNT_DIR, mem_strdup(dest), built_in)->mode = mode;
}

static void add_file(struct plan *plan, const char *dest, char *data)
{
	struct mount_step *s = plan_add(plan, MOUNT_FILE, mem_strdup(dest), built_in);

	s->data = data;
	s->data_len = strlen(data);
	s->mode = 0444;
}

static void add_symlink(struct plan *plan, const char *target, const char *dest)
{
	plan_add(plan, MOUNT_SYMLINK, mem_strdup(dest), built_in)->source = mem_strdup(target);
}

/* The files of /etc that are the box's own. dir: where they go. */
static void own_files(struct plan *plan, const struct profile *profile, const char *dir)
{
	static const char hosts[] = "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n";
	/* The gateway answers at any address; this one is always there. */
	const char *server = profile->egress.mode.v == EGRESS_GATEWAY ? NETNS_OWN4 : plan->name_server;
	const char *user = profile->identity.user.v;
	cleanup_str struct str passwd = {0}, group = {0};
	struct {
		const char *name;
		char *data;
	} files[] = {
		{"passwd", NULL},
		{"group", NULL},
		{"hosts", mem_printf("%s127.0.0.1 %s\n", hosts, plan->hostname)},
		{"hostname", mem_printf("%s\n", plan->hostname)},
		{"resolv.conf", server ? mem_printf("nameserver %s\noptions edns0 timeout:1 attempts:5\n", server)
				       : mem_strdup("# no name server: the box has no network\n")},
		{"nsswitch.conf", mem_strdup("passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nnetworks: files\n"
					     "services: files\nprotocols: files\nrpc: files\nethers: files\n")},
	};

	if (plan->box_uid != 0)
		str_add(&passwd, "root:x:0:0:root:/root:/usr/sbin/nologin\n");
	str_addf(&passwd, "%s:x:%u:%u::/workspace/scratch/home:/bin/sh\n", user, plan->box_uid, plan->box_gid);
	str_add(&passwd, "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n");
	if (plan->box_gid != 0)
		str_add(&group, "root:x:0:\n");
	str_addf(&group, "%s:x:%u:\ntty:x:5:\nnogroup:x:65534:\n", user, plan->box_gid);
	files[0].data = str_steal(&passwd);
	files[1].data = str_steal(&group);
	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
		cleanup_free char *dest = path_join(dir, files[i].name);

		add_file(plan, dest, files[i].data);
	}
}

static void add_dev(struct plan *plan)
{
	static const char *const nodes[] = {"null", "zero", "full", "random", "urandom", "tty", NULL};
	static const char *const links[][2] = {
		{"/proc/self/fd", "/dev/fd"},     {"/proc/self/fd/0", "/dev/stdin"}, {"/proc/self/fd/1", "/dev/stdout"},
		{"/proc/self/fd/2", "/dev/stderr"}, {"pts/ptmx", "/dev/ptmx"},
	};

	add_dir(plan, "/dev", 0755);
	for (const char *const *n = nodes; *n; n++) {
		struct mount_step *s = plan_add(plan, MOUNT_BIND, path_join("/dev", *n), built_in);

		/* Read-only keeps its mode and owner; a device's data does not ask the mount (fs/open.c, special_file). */
		s->source = path_join("/dev", *n);
		s->flags = MOUNT_RO | MOUNT_NOEXEC | MOUNT_FLAT;
	}
	plan_add(plan, MOUNT_DEVPTS, mem_strdup("/dev/pts"), built_in);
	for (size_t i = 0; i < sizeof(links) / sizeof(*links); i++)
		add_symlink(plan, links[i][0], links[i][1]);
}

/*
 * What /proc shows of the machine rather than of the box. As uid 0 of the host the command owns those files, whatever its
 * capabilities: sysctls and sysrq-trigger ask for the uid alone (A11). What asks for a capability of the host's by itself
 * (kcore, kmsg, mtrr, scsi) needs no cover.
 */
static const struct {
	const char *name;
	enum mount_op op;
	bool root_only; /* for another uid the file's own mode does it */
} proc_covers[] = {
	{"sys", MOUNT_PIN, false},         {"keys", MOUNT_MASK, false},      {"irq", MOUNT_PIN, true},
	{"bus", MOUNT_PIN, true},          {"fs", MOUNT_PIN, true},          {"acpi", MOUNT_PIN, true},
	{"sysrq-trigger", MOUNT_MASK, true}, {"timer_list", MOUNT_MASK, true}, {"kpagecount", MOUNT_MASK, true},
	{"kpageflags", MOUNT_MASK, true},  {"kpagecgroup", MOUNT_MASK, true}, {"slabinfo", MOUNT_MASK, true},
	{"vmallocinfo", MOUNT_MASK, true}, {"pagetypeinfo", MOUNT_MASK, true},
};

static void add_proc(struct plan *plan)
{
	plan_add(plan, MOUNT_PROC, mem_strdup("/proc"), built_in);
	for (size_t i = 0; i < sizeof(proc_covers) / sizeof(*proc_covers); i++) {
		cleanup_free char *host = path_join("/proc", proc_covers[i].name);

		if (proc_covers[i].root_only && plan->host_uid != 0)
			continue;
		if (access(host, F_OK) < 0 && errno == ENOENT) /* for any other reason: pid 1 sees what is there */
			continue;
		plan_add(plan, proc_covers[i].op, path_join("/proc", proc_covers[i].name), built_in)->flags = MOUNT_OPTIONAL;
	}
	if (!plan->nested_namespaces)
		return;
	/*
	 * A user namespace inside may mount a /proc of its own only where one without covers is in its mount namespace
	 * (fs/namespace.c, mnt_already_visible). This one cannot be reached: a locked mount hides its directory.
	 */
	add_dir(plan, "/.nested", 0755);
	plan_add(plan, MOUNT_PROC, mem_strdup("/.nested/proc"), built_in);
	plan_add(plan, MOUNT_MASK, mem_strdup("/.nested"), built_in);
}

static void add_temporary(struct plan *plan, const struct profile *profile)
{
	static const struct {
		const char *dest;
		mode_t mode;
		unsigned flags;
	} dirs[] = {
		{"/tmp", 01777, 0}, {"/var/tmp", 01777, 0}, {"/run", 0755, MOUNT_NOEXEC}, {"/dev/shm", 01777, 0},
	};

	add_dir(plan, "/var", 0755);
	for (size_t i = 0; i < sizeof(dirs) / sizeof(*dirs); i++) {
		struct mount_step *s = plan_add(plan, MOUNT_TMP_DIR, mem_strdup(dirs[i].dest), profile->filesystem.tmp_size.from);

		s->mode = dirs[i].mode;
		s->flags = MOUNT_NODEV | dirs[i].flags;
		s->size_bytes = profile->filesystem.tmp_size.bytes;
	}
	add_symlink(plan, "/run", "/var/run");
}

/* A root directory of the profile's: its top-level entries read-only, but for the places that are the box's own. */
static int add_other_root(struct plan *plan, const struct profile *profile, const char *root, struct err *e)
{
	static const char *const own[] = {".", "..", "proc", "dev", "tmp", "run", "var", "etc", "sys", "workspace", NULL};
	cleanup_free char *etc = NULL;
	cleanup_dir DIR *dir = NULL;
	struct dirent *d;
	size_t n = 0;
	int r;

	dir = opendir(root);
	if (!dir)
		return err_errno(e, errno, "filesystem.root: %s", root);
	while ((errno = 0, d = readdir(dir))) {
		const char *const *name = own;

		while (*name && !str_eq(*name, d->d_name))
			name++;
		if (*name)
			continue;
		if (++n > 256)
			return err_set(e, E2BIG, "filesystem.root: %s has over 256 entries; name the root of a system", root);
		r = add_host_name(plan, root, d->d_name, "/", e);
		if (r < 0)
			return err_prefix(e, "filesystem.root");
	}
	if (errno)
		return err_errno(e, errno, "filesystem.root: %s", root);
	etc = path_join(root, "etc");
	add_dir(plan, "/etc", 0755);
	r = add_host_names(plan, etc, etc_names, "/etc", e);
	if (r < 0)
		return err_prefix(e, "filesystem.root");
	own_files(plan, profile, "/etc");
	return 0;
}

int root_add(struct plan *plan, const struct profile *profile, struct err *e)
{
	const char *root = profile->filesystem.root.v;
	int r = 0;

	if (str_eq(root, "host")) {
		r = add_host_names(plan, "/", system_dirs, "/", e);
		add_dir(plan, "/etc", 0755);
		if (r == 0)
			r = add_host_names(plan, "/etc", etc_names, "/etc", e);
		own_files(plan, profile, "/etc");
	} else if (str_eq(root, "empty")) {
		add_dir(plan, "/etc", 0755);
		own_files(plan, profile, "/etc");
	} else {
		r = add_other_root(plan, profile, root, e);
	}
	add_dev(plan);
	add_proc(plan);
	add_temporary(plan, profile);
	return r;
}
