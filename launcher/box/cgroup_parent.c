/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "box/cgroup_parent.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "base/str.h"
#include "box/cgroup_dir.h"
#include "sys/fd.h"

#include "base/banned.h"

const char *const cgroup_controllers[CGROUP_LIMITS] = {
	[CGROUP_MEMORY] = "memory", [CGROUP_PROCESSES] = "pids", [CGROUP_CPUS] = "cpu"};

static bool file_has_word(const char *dir, const char *file, const char *word)
{
	cleanup_free char *path = mem_printf("%s/%s", dir, file), *text = NULL;
	size_t len = strlen(word);

	if (fd_read_file(AT_FDCWD, path, 4096, &text, NULL) < 0)
		return false;
	for (char *p = text; *p;) {
		size_t n = strcspn(p, " \n");

		if (n == len && memcmp(p, word, n) == 0)
			return true;
		p += n;
		p += strspn(p, " \n");
	}
	return false;
}

/* Can groups be made here, and processes be moved to them? The second needs the common ancestor's cgroup.procs. */
static int v2_parent_usable(const char *dir)
{
	cleanup_free char *procs = mem_printf("%s/cgroup.procs", dir);

	if (faccessat(AT_FDCWD, dir, W_OK | X_OK, AT_EACCESS) < 0 || faccessat(AT_FDCWD, procs, W_OK, AT_EACCESS) < 0)
		return -errno;
	return 0;
}

/*
 * May controllers be turned on for what lies beneath? Not where the group has processes itself, unless it is the root, which has
 * no cgroup.type (cgroups(7), "no internal processes"). The kernel refuses that for memory only: for pids and cpu it turns the
 * group into a threaded one, which no process can then be moved beneath, and it stays so [seen on 6.1].
 */
static bool v2_may_enable(const char *dir)
{
	cleanup_free char *type = mem_printf("%s/cgroup.type", dir), *procs = mem_printf("%s/cgroup.procs", dir), *text = NULL;

	if (faccessat(AT_FDCWD, type, F_OK, 0) < 0)
		return errno == ENOENT;
	return fd_read_file(AT_FDCWD, procs, 1 << 20, &text, NULL) == 0 && !*text;
}

unsigned cgroup_enable(const char *dir, unsigned asked, int *why)
{
	bool may = v2_may_enable(dir);
	unsigned can = 0;

	for (int i = 0; i < CGROUP_LIMITS; i++) {
		cleanup_free char *path = mem_printf("%s/cgroup.subtree_control", dir);
		char word[32];
		int r = 0;

		if (!(asked & 1U << i))
			continue;
		if (!file_has_word(dir, "cgroup.controllers", cgroup_controllers[i])) {
			*why = -ENODEV;
			continue;
		}
		snprintf(word, sizeof(word), "+%s", cgroup_controllers[i]);
		if (!file_has_word(dir, "cgroup.subtree_control", cgroup_controllers[i]))
			r = may ? fd_write_file(AT_FDCWD, path, word) : -EBUSY;
		if (r == 0)
			can |= 1U << i;
		else
			*why = r;
	}
	return can;
}

void cgroup_parent_explain(const char *dir, int why, char *text, size_t len)
{
	if (why == -EACCES || why == -EPERM || why == -EROFS)
		snprintf(text, len, "%.80s is not writable for this user", dir);
	else if (why == -EBUSY)
		snprintf(text, len, "%.80s has processes of its own", dir);
	else if (why == -ENODEV)
		snprintf(text, len, "%.80s was given no such controller; its Delegate= says which", dir);
	else
		snprintf(text, len, "%.80s: %s", dir, strerrordesc_np(-why));
}

/* What is a slice of systemd's has its name (systemd.slice(5)). */
static bool keeps_controllers(const char *dir, unsigned asked)
{
	if (!str_has_suffix(dir, ".slice"))
		return true;
	for (int i = 0; i < CGROUP_LIMITS; i++)
		if (asked & 1U << i && !file_has_word(dir, "cgroup.subtree_control", cgroup_controllers[i]))
			return false;
	return true;
}

char *cgroup_parent(const char *own, unsigned asked, bool slices, unsigned *can, int *why)
{
	cleanup_free char *above = mem_strdup(own);
	char *slash = strrchr(above, '/');
	bool usable = false;
	int r = v2_parent_usable(own);

	*can = 0;
	*why = r;
	if (r == 0) {
		usable = true;
		*can = cgroup_enable(own, asked, why);
		if (*can == asked)
			return mem_strdup(own);
	}
	if (slash && slash != above) {
		bool v2 = false;
		cleanup_fd int fd = -1;

		*slash = '\0';
		fd = open(above, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
		if (fd >= 0 && cgroup_is_cgroupfs(fd, &v2) && v2 && v2_parent_usable(above) == 0) {
			unsigned more = 0;

			if (slices || keeps_controllers(above, asked))
				more = cgroup_enable(above, asked, why);
			else
				*why = -EAGAIN;
			if (!usable || __builtin_popcount(more) > __builtin_popcount(*can)) {
				*can = more;
				return steal_ptr(&above);
			}
		}
	}
	return usable ? mem_strdup(own) : NULL;
}
