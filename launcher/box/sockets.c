/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "box/sockets.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

#include "base/banned.h"

int sockets_find(struct strv *out, struct err *e)
{
	cleanup_file FILE *f = fopen("/proc/net/unix", "re");
	cleanup_free char *line = NULL;
	size_t cap = 0;

	if (!f)
		return err_errno(e, errno, "/proc/net/unix");
	while (getline(&line, &cap, f) > 0) {
		char *path = line;

		/* "Num RefCount Protocol Flags Type St Inode Path"; the path is the rest, with whatever is in it. */
		for (int field = 0; *path && field < 7; field++) {
			path += strspn(path, " ");
			path += strcspn(path, " \n");
		}
		if (path[0] != ' ' || path[1] != '/')
			continue;
		path[strcspn(path, "\n")] = '\0';
		strv_add(out, path + 1);
	}
	return ferror(f) ? err_errno(e, EIO, "/proc/net/unix") : 0;
}
