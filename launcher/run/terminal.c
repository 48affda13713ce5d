/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "run/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "sys/fd.h"

#include "base/banned.h"

int terminal_start(struct terminal *t, int master, struct err *e)
{
	struct termios raw;
	struct winsize size;

	t->master = master;
	if (fcntl(master, F_SETFL, O_RDWR | O_NONBLOCK) < 0)
		return err_errno(e, errno, "the box's terminal");
	if (tcgetattr(STDIN_FILENO, &t->saved) < 0)
		return err_errno(e, errno, "standard input");
	/* The box's terminal starts with the modes that the caller's has. */
	tcsetattr(master, TCSANOW, &t->saved);
	if (ioctl(STDIN_FILENO, TIOCGWINSZ, &size) == 0)
		ioctl(master, TIOCSWINSZ, &size);
	raw = t->saved;
	cfmakeraw(&raw);
	if (tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) < 0)
		return err_errno(e, errno, "standard input");
	t->raw = true;
	return 0;
}

void terminal_resize(struct terminal *t)
{
	struct winsize size;

	if (t->master >= 0 && ioctl(STDIN_FILENO, TIOCGWINSZ, &size) == 0)
		ioctl(t->master, TIOCSWINSZ, &size);
}

int terminal_input(struct terminal *t)
{
	ssize_t n;

	if (t->in_len)
		return 0;
	n = read(STDIN_FILENO, t->in, sizeof(t->in));
	if (n < 0)
		return errno == EINTR || errno == EAGAIN ? 0 : -errno;
	if (n == 0)
		return -EIO;
	t->in_len = (size_t)n;
	return 0;
}

uint32_t terminal_events(const struct terminal *t)
{
	return EPOLLIN | (t->in_len ? EPOLLOUT : 0U);
}

int terminal_output(struct terminal *t, uint32_t events)
{
	char buf[TERMINAL_BUF];
	ssize_t n;

	if (events & EPOLLOUT && t->in_len) {
		n = write(t->master, t->in, t->in_len);
		if (n > 0) {
			memmove(t->in, t->in + n, t->in_len - (size_t)n);
			t->in_len -= (size_t)n;
		}
	}
	if (!(events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
		return 1;
	n = read(t->master, buf, sizeof(buf));
	if (n > 0) {
		/* A caller that no longer reads does not stop the box. */
		fd_write_all(STDOUT_FILENO, buf, (size_t)n);
		return 1;
	}
	/* EIO: the last process of the box has closed the slave. */
	return n < 0 && (errno == EAGAIN || errno == EINTR);
}

void terminal_finish(struct terminal *t)
{
	if (t->master >= 0) {
		/* Bounded: what is in the kernel's buffer now, not what a survivor might go on writing (there is none). */
		for (int i = 0; i < 64; i++) {
			char buf[TERMINAL_BUF];
			ssize_t n = read(t->master, buf, sizeof(buf));

			if (n <= 0)
				break;
			fd_write_all(STDOUT_FILENO, buf, (size_t)n);
		}
		close(t->master);
		t->master = -1;
	}
	if (t->raw)
		tcsetattr(STDIN_FILENO, TCSADRAIN, &t->saved);
	t->raw = false;
}
