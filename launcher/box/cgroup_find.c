/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "box/cgroup_find.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "base/str.h"
#include "sys/fd.h"
#include "sys/path.h"

#include "base/banned.h"

static const char *const tree_controllers[TREES] = {
	[TREE_V2] = "", [TREE_MEMORY] = "memory", [TREE_PIDS] = "pids", [TREE_CPU] = "cpu", [TREE_FREEZER] = "freezer"};

/* Is `word` one of the comma-separated words of `list`? */
static bool list_has(const char *list, const char *word)
{
	size_t len = strlen(word);

	for (const char *p = list; *p;) {
		size_t n = strcspn(p, ",");

		if (n == len && memcmp(p, word, n) == 0)
			return true;
		p += n;
		p += *p == ',';
	}
	return false;
}

/* mountinfo writes blank, tab, newline and backslash as \ooo (proc(5)). In place. */
static void unescape(char *s)
{
	char *out = s;

	while (*s) {
		if (s[0] == '\\' && s[1] >= '0' && s[1] <= '3' && s[2] >= '0' && s[2] <= '7' && s[3] >= '0' && s[3] <= '7') {
			*out++ = (char)((s[1] - '0') << 6 | (s[2] - '0') << 3 | (s[3] - '0'));
			s += 4;
		} else {
			*out++ = *s++;
		}
	}
	*out = '\0';
}

/* The next blank-separated field, terminated; NULL at the end. */
static char *next_field(char **rest)
{
	char *s = *rest;

	if (!s || !*s)
		return NULL;
	*rest = strchr(s, ' ');
	if (*rest)
		*(*rest)++ = '\0';
	return s;
}

struct mount_line {
	char *root, *point, *type, *options;
};

/* "36 35 98:0 /root /point opts [optional...] - type source superoptions" (proc(5)). Changes the line. */
static bool mount_line_parse(char *line, struct mount_line *m)
{
	char *dash = strstr(line, " - "), *rest = line, *after;

	if (!dash)
		return false;
	*dash = '\0';
	after = dash + 3;
	next_field(&rest);
	next_field(&rest);
	next_field(&rest);
	m->root = next_field(&rest);
	m->point = next_field(&rest);
	m->type = next_field(&after);
	next_field(&after);
	m->options = next_field(&after);
	if (!m->root || !m->point || !m->type || !m->options)
		return false;
	unescape(m->root);
	unescape(m->point);
	return true;
}

/* The caller's path in a tree, by /proc/self/cgroup: "id:controllers:path". NULL where the line is not there. Fresh memory. */
static char *own_path(const char *groups, enum cgroup_tree tree)
{
	for (const char *line = groups; *line;) {
		size_t len = strcspn(line, "\n");
		cleanup_free char *copy = mem_strndup(line, len);
		char *controllers = strchr(copy, ':');
		char *path = controllers ? strchr(controllers + 1, ':') : NULL;

		line += len;
		line += *line == '\n';
		if (!path)
			continue;
		*path++ = '\0';
		controllers++;
		if (tree == TREE_V2 ? *controllers == '\0' && str_has_prefix(copy, "0:") : list_has(controllers, tree_controllers[tree]))
			return mem_strdup(path);
	}
	return NULL;
}

/* A mount that shows only a part of the tree, which need not hold the caller. */
static char *own_dir(const struct mount_line *m, const char *path)
{
	if (*path != '/' || strstr(path, "/.."))
		return NULL;
	if (!path_is_beneath(path, m->root))
		return NULL;
	return path_join(m->point, path_below(path, m->root));
}

void cgroup_find_in(char *mountinfo, char *groups, struct cgroup_trees *out)
{
	char *line = mountinfo;

	*out = (struct cgroup_trees){0};
	while (line && *line) {
		char *next = strchr(line, '\n');
		struct mount_line m;

		if (next)
			*next++ = '\0';
		if (mount_line_parse(line, &m)) {
			for (int t = 0; t < TREES; t++) {
				cleanup_free char *path = NULL;
				char *dir;

				if (t == TREE_V2 ? !str_eq(m.type, "cgroup2")
						 : !str_eq(m.type, "cgroup") || !list_has(m.options, tree_controllers[t]))
					continue;
				path = own_path(groups, (enum cgroup_tree)t);
				dir = path ? own_dir(&m, path) : NULL;
				if (!dir)
					continue;
				free(out->own[t]); /* the later mount lies above */
				out->own[t] = dir;
			}
		}
		line = next;
	}
}

int cgroup_find(struct cgroup_trees *out, struct err *e)
{
	cleanup_free char *mountinfo = NULL, *groups = NULL;
	int r;

	*out = (struct cgroup_trees){0};
	r = fd_read_file(AT_FDCWD, "/proc/self/mountinfo", 16 << 20, &mountinfo, NULL);
	if (r < 0)
		return err_errno(e, -r, "/proc/self/mountinfo");
	r = fd_read_file(AT_FDCWD, "/proc/self/cgroup", 1 << 20, &groups, NULL);
	if (r < 0)
		return err_errno(e, -r, "/proc/self/cgroup");
	cgroup_find_in(mountinfo, groups, out);
	return 0;
}

void cgroup_trees_free(struct cgroup_trees *t)
{
	for (int i = 0; i < TREES; i++)
		free(t->own[i]);
	*t = (struct cgroup_trees){0};
}
