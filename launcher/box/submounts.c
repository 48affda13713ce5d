/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "box/submounts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "sys/path.h"

#include "base/banned.h"

/* proc(5): space, tab, newline and backslash are written as \ooo. In place. */
static void unescape(char *s)
{
	char *out = s;

	for (; *s; s++) {
		if (s[0] == '\\' && s[1] >= '0' && s[1] <= '3' && s[2] >= '0' && s[2] <= '7' && s[3] >= '0' && s[3] <= '7') {
			*out++ = (char)((s[1] - '0') << 6 | (s[2] - '0') << 3 | (s[3] - '0'));
			s += 3;
		} else {
			*out++ = *s;
		}
	}
	*out = '\0';
}

int submounts_find(const char *dir, struct strv *out, struct err *e)
{
	cleanup_file FILE *f = fopen("/proc/self/mountinfo", "re");
	cleanup_free char *line = NULL;
	size_t cap = 0;

	if (!f)
		return err_errno(e, errno, "/proc/self/mountinfo");
	while (getline(&line, &cap, f) > 0) {
		char *field = line, *end;

		/* The fifth field is the mount point. */
		for (int i = 0; field && i < 4; i++) {
			field = strchr(field, ' ');
			if (field)
				field++;
		}
		end = field ? strchr(field, ' ') : NULL;
		if (!end)
			return err_set(e, EPROTO, "/proc/self/mountinfo: a line without a mount point");
		*end = '\0';
		unescape(field);
		if (path_is_beneath(field, dir) && !str_eq(field, dir))
			strv_add(out, field);
	}
	return ferror(f) ? err_errno(e, EIO, "/proc/self/mountinfo") : 0;
}

int submounts_same(const char *a, const char *b)
{
	struct statx sa, sb;

	if (statx(AT_FDCWD, a, 0, STATX_MNT_ID, &sa) < 0 || statx(AT_FDCWD, b, 0, STATX_MNT_ID, &sb) < 0)
		return -errno;
	return sa.stx_mnt_id == sb.stx_mnt_id;
}
