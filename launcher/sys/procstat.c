/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "sys/procstat.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/num.h"
#include "sys/fd.h"

#include "base/banned.h"

int procstat_start(pid_t pid, uint64_t *out_ticks)
{
	cleanup_free char *text = NULL;
	char path[64], *field, *rest;
	int r;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	r = fd_read_file(AT_FDCWD, path, 4096, &text, NULL);
	if (r < 0)
		return r == -ENOENT ? -ESRCH : r;
	/* Field 2 is the name in parentheses and may hold any character; the last one closes it. Field 3 follows. */
	rest = strrchr(text, ')');
	if (!rest || rest[1] != ' ')
		return -EINVAL;
	rest += 2;
	for (int n = 3; (field = strsep(&rest, " \n")); n++)
		if (n == 22)
			return num_u64(field, 0, UINT64_MAX, out_ticks);
	return -EINVAL;
}
