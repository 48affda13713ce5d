/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "run/sink.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/mem.h"

#include "base/banned.h"

/* What is writable takes so much without waiting: a pipe by pipe(7), a terminal by WAKEUP_CHARS of drivers/tty/n_tty.c. */
#define PIECE PIPE_BUF
#define PIECE_TTY 128
#define SAY_MS 1000

/* To open a pseudo-terminal's master by its name makes another one (pts(4)). */
static bool is_terminal(int fd, const struct stat *st)
{
	return S_ISCHR(st->st_mode) && st->st_rdev != makedev(5, 2) && isatty(fd);
}

static enum sink_way way_of(int fd, const struct stat *st)
{
	if (S_ISSOCK(st->st_mode))
		return SINK_SOCKET;
	if (S_ISFIFO(st->st_mode))
		return SINK_IN_PIECES;
	return S_ISCHR(st->st_mode) && isatty(fd) ? SINK_IN_TTY_PIECES : SINK_AT_ONCE;
}

int sink_open(struct sink *s, int stream, struct err *e)
{
	const char *name = stream == STDERR_FILENO ? "standard error" : "standard output";
	int flags = fcntl(stream, F_GETFL);
	char path[32];
	struct stat st;

	*s = SINK_NONE;
	if (flags < 0 || fstat(stream, &st) < 0)
		return err_errno(e, errno, "%s", name);
	if ((flags & O_ACCMODE) == O_RDONLY)
		return err_set(e, EBADF, "%s is open for reading only", name);
	/* O_NONBLOCK on the caller's description would be everybody's who shares it. A file opened again begins at its start. */
	if (S_ISFIFO(st.st_mode) || is_terminal(stream, &st)) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", stream);
		s->fd = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	}
	if (s->fd >= 0)
		return 0;
	s->fd = fcntl(stream, F_DUPFD_CLOEXEC, 3);
	if (s->fd < 0)
		return err_errno(e, errno, "%s", name);
	s->way = way_of(stream, &st);
	return 0;
}

void sink_close(struct sink *s)
{
	if (s->fd >= 0 && s->epoll >= 0)
		epoll_ctl(s->epoll, EPOLL_CTL_DEL, s->fd, NULL);
	if (s->fd >= 0)
		close(s->fd);
	*s = SINK_NONE;
}

ssize_t sink_write(struct sink *s, const void *bytes, size_t len)
{
	struct pollfd pfd = {.fd = s->fd, .events = POLLOUT};
	size_t piece = s->way == SINK_IN_TTY_PIECES ? PIECE_TTY : PIECE;
	ssize_t n;

	if (s->fd < 0)
		return -EBADF;
	if (s->way == SINK_SOCKET) {
		n = send(s->fd, bytes, len, MSG_DONTWAIT | MSG_NOSIGNAL);
	} else if (s->way == SINK_AT_ONCE) {
		n = write(s->fd, bytes, len);
	} else {
		if (poll(&pfd, 1, 0) <= 0)
			return 0;
		n = write(s->fd, bytes, len < piece ? len : piece);
	}
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	return n;
}

void sink_say(const char *fmt, ...)
{
	cleanup_free char *text = NULL;
	struct sink s;
	struct err e;
	size_t at = 0, len;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&text, fmt, ap);
	va_end(ap);
	if (n < 0 || sink_open(&s, STDERR_FILENO, &e) < 0)
		return;
	for (len = (size_t)n; at < len;) {
		struct pollfd pfd = {.fd = s.fd, .events = POLLOUT};
		ssize_t wrote = sink_write(&s, text + at, len - at);

		if (wrote < 0 || (wrote == 0 && poll(&pfd, 1, SAY_MS) <= 0))
			break;
		at += (size_t)wrote;
	}
	sink_close(&s);
}
