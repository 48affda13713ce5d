/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "run/sink.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sys/fd.h"

#include "base/banned.h"

/* What is writable takes so much without waiting: a pipe by pipe(7), a terminal by WAKEUP_CHARS of drivers/tty/n_tty.c. */
#define PIECE PIPE_BUF
#define PIECE_TERMINAL 128

int sink_open(struct sink *s, int stream, struct err *e)
{
	char path[32];
	struct stat st;

	s->fd = -1;
	s->piece = 0;
	if (fstat(stream, &st) < 0)
		return err_errno(e, errno, "%s", stream == STDERR_FILENO ? "standard error" : "standard output");
	/* O_NONBLOCK on the caller's description would be everybody's who shares it. A file opened again begins at its start. */
	if (S_ISFIFO(st.st_mode) || S_ISCHR(st.st_mode)) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", stream);
		s->fd = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	}
	if (s->fd >= 0)
		return 0;
	s->fd = fcntl(stream, F_DUPFD_CLOEXEC, 3);
	if (s->fd < 0)
		return err_errno(e, errno, "%s", stream == STDERR_FILENO ? "standard error" : "standard output");
	s->piece = S_ISREG(st.st_mode) ? SSIZE_MAX : S_ISCHR(st.st_mode) ? PIECE_TERMINAL : PIECE;
	return 0;
}

void sink_close(struct sink *s)
{
	if (s->fd >= 0)
		close(s->fd);
	s->fd = -1;
}

ssize_t sink_write(struct sink *s, const void *bytes, size_t len)
{
	struct pollfd pfd = {.fd = s->fd, .events = POLLOUT};
	ssize_t n;

	if (s->fd < 0)
		return -EBADF;
	if (s->piece && (poll(&pfd, 1, 0) <= 0 || !(pfd.revents & (POLLOUT | POLLERR | POLLNVAL))))
		return 0;
	if (s->piece && len > s->piece)
		len = s->piece;
	n = write(s->fd, bytes, len);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	return n;
}
