/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Scope cleanups (systemd's and crun's habit). Each keeps errno. A value that leaves its scope is taken out with
 * the matching steal function.
 */
#ifndef AGENTBOX_BASE_CLEANUP_H
#define AGENTBOX_BASE_CLEANUP_H

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static inline void cleanup_fd_p(int *fd)
{
	int saved = errno;

	/* close is never retried: on Linux the descriptor is gone whatever it returns (close(2), NOTES). */
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
	errno = saved;
}

static inline void cleanup_free_p(void *p)
{
	int saved = errno;

	free(*(void **)p);
	errno = saved;
}

static inline void cleanup_file_p(FILE **f)
{
	int saved = errno;

	if (*f)
		fclose(*f);
	*f = NULL;
	errno = saved;
}

static inline void cleanup_dir_p(DIR **d)
{
	int saved = errno;

	if (*d)
		closedir(*d);
	*d = NULL;
	errno = saved;
}

#define cleanup_fd __attribute__((cleanup(cleanup_fd_p)))
#define cleanup_free __attribute__((cleanup(cleanup_free_p)))
#define cleanup_file __attribute__((cleanup(cleanup_file_p)))
#define cleanup_dir __attribute__((cleanup(cleanup_dir_p)))

static inline int steal_fd(int *fd)
{
	int taken = *fd;

	*fd = -1;
	return taken;
}

static inline void *steal_ptr_p(void *p)
{
	void *taken = *(void **)p;

	*(void **)p = NULL;
	return taken;
}

#define steal_ptr(p) ((__typeof__(*(p)))steal_ptr_p(p))

#endif
