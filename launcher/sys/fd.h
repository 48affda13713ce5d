/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Descriptors: whole reads and writes, files beneath a directory, descriptors over a socket. All born CLOEXEC. */
#ifndef AGENTBOX_SYS_FD_H
#define AGENTBOX_SYS_FD_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"

/* Writes all of it; EINTR is continued. Async-signal-safe. Return: 0 or -errno. */
int fd_write_all(int fd, const void *bytes, size_t len);

/* Reads until len bytes or end. EINTR is continued. Async-signal-safe. Return: bytes read or -errno. */
ssize_t fd_read_all(int fd, void *buf, size_t len);

/*
 * Reads a whole file into fresh memory with a NUL behind it (caller frees).
 * dirfd, path: as openat(2); opened O_NOFOLLOW|O_NONBLOCK and refused unless it is a regular file (or a kernel file of
 * length 0 under /proc). max_bytes: longer is -EFBIG. len: may be NULL. Return: 0 or -errno (nothing is set in *out then).
 */
int fd_read_file(int dirfd, const char *path, size_t max_bytes, char **out, size_t *len);

/* Writes a short string to an existing file (a sysctl, an id map). Async-signal-safe. Return: 0 or -errno. */
int fd_write_file(int dirfd, const char *path, const char *text);

/*
 * Replaces dirfd/name by a file with these bytes, in one step: written as ".NAME.new", then the two names are exchanged. What
 * was there before stays under that name, for the next time: to free its block costs more than all else (a disk's discard).
 * One writer at a time. mode: as open(2). Return: 0 or -errno.
 */
int fd_replace_file(int dirfd, const char *name, const void *bytes, size_t len, mode_t mode);

/*
 * One message with at most FD_SEND_MAX descriptors over a UNIX socket. Async-signal-safe.
 * Return: 0 or -errno.
 */
#define FD_SEND_MAX 16
int fd_send(int sock, const void *bytes, size_t len, const int *fds, size_t n_fds);

/*
 * Receives one message. fds: room for max_fds (at most FD_SEND_MAX), received CLOEXEC; more than that are closed.
 * Return: bytes (0 at end of file) or -errno; *n_fds is what came.
 */
ssize_t fd_recv(int sock, void *buf, size_t len, int *fds, size_t max_fds, size_t *n_fds);

/* Closes every descriptor from 3 up, but for the sorted list `keep`. Async-signal-safe. Return: 0 or -errno. */
int fd_close_from_3(const int *keep, size_t n_keep);

/* Opens /dev/null on each of 0, 1, 2 that is closed, so that no later descriptor takes a standard place. 0 or -errno. */
int fd_fill_standard(void);

#endif
