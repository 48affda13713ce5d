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

/* What is writable takes so much without waiting (pipe(7)). Of a terminal that holds for a byte alone. */
#define PIECE PIPE_BUF
#define PIECE_TTY 128 /* of them, in one call */
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

/* Where a write could wait: as much as cannot. Return: as sink_write, errors in errno. */
static ssize_t write_piece(int fd, const void *bytes, size_t len)
{
	struct pollfd pfd = {.fd = fd, .events = POLLOUT};

	if (poll(&pfd, 1, 0) <= 0)
		return 0;
	if (pfd.revents & POLLOUT)
		return write(fd, bytes, len);
	errno = EPIPE; /* its other end is gone; a terminal's write would wait all the same */
	return -1;
}

static ssize_t write_tty(int fd, const char *bytes, size_t len)
{
	size_t at = 0;
	ssize_t n = 1;

	/* Byte by byte: what is writable takes one, and newlines may be two (drivers/tty/n_tty.c, do_output_char). */
	while (at < len && at < PIECE_TTY && n > 0) {
		n = write_piece(fd, bytes + at, 1);
		at += n > 0;
	}
	return at ? (ssize_t)at : n;
}

ssize_t sink_write(struct sink *s, const void *bytes, size_t len)
{
	ssize_t n = -1;

	if (s->fd < 0)
		return -EBADF;
	switch (s->way) {
	case SINK_AT_ONCE:
		n = write(s->fd, bytes, len);
		break;
	case SINK_SOCKET:
		n = send(s->fd, bytes, len, MSG_DONTWAIT | MSG_NOSIGNAL);
		break;
	case SINK_IN_PIECES:
		n = write_piece(s->fd, bytes, len < PIECE ? len : PIECE);
		break;
	case SINK_IN_TTY_PIECES:
		n = write_tty(s->fd, bytes, len);
		break;
	}
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	return n;
}

void sink_say(const char *fmt, ...)
{
	static bool impatient; /* it was waited for in vain once */
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

		if (wrote == 0 && poll(&pfd, 1, impatient ? 0 : SAY_MS) <= 0)
			impatient = true;
		else if (wrote >= 0)
			at += (size_t)wrote;
		if (wrote < 0 || (wrote == 0 && impatient))
			break;
	}
	sink_close(&s);
}
