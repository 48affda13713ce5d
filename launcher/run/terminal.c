/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "run/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"

#include "base/banned.h"

static uint64_t terminal_now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

int terminal_start(struct terminal *t, int master, struct err *e)
{
	struct termios raw;
	struct winsize size;

	t->master = master;
	if (sink_open(&t->out, STDOUT_FILENO, e) < 0)
		return -e->code;
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
	if (tcsetattr(STDIN_FILENO, TCSANOW, &raw) < 0)
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
	return (t->pending_len ? 0U : EPOLLIN) | (t->in_len ? EPOLLOUT : 0U);
}

uint32_t terminal_out_events(const struct terminal *t)
{
	return t->pending_len ? EPOLLOUT : 0;
}

void terminal_flush(struct terminal *t)
{
	ssize_t n;

	if (!t->pending_len)
		return;
	n = sink_write(&t->out, t->pending, t->pending_len);
	if (n > 0) {
		memmove(t->pending, t->pending + n, t->pending_len - (size_t)n);
		t->pending_len -= (size_t)n;
	} else if (n < 0) {
		t->pending_len = 0; /* a caller that is gone does not stop the box */
	}
}

static void take(struct terminal *t, size_t n)
{
	t->pending_len = n;
	if (t->seen)
		t->seen(t->seen_arg, t->pending, n);
}

int terminal_output(struct terminal *t, uint32_t events)
{
	ssize_t n;

	if (events & EPOLLOUT && t->in_len) {
		n = write(t->master, t->in, t->in_len);
		if (n > 0) {
			memmove(t->in, t->in + n, t->in_len - (size_t)n);
			t->in_len -= (size_t)n;
		}
	}
	if (events & EPOLLHUP) /* nobody has the box's side open: who opens it again has not been typed to */
		t->in_len = 0;
	if (t->pending_len || !(events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
		return 1;
	n = read(t->master, t->pending, sizeof(t->pending));
	if (n > 0) {
		take(t, (size_t)n);
		terminal_flush(t);
		return 1;
	}
	/* EIO: the last process of the box has closed the slave. */
	return n < 0 && (errno == EAGAIN || errno == EINTR);
}

/* Until the caller's terminal has taken what is pending, or the time is up. */
static bool flush_by(struct terminal *t, uint64_t end_ms)
{
	while (t->pending_len) {
		struct pollfd pfd = {.fd = t->out.fd, .events = POLLOUT};
		uint64_t now = terminal_now_ms();

		if (now >= end_ms || poll(&pfd, 1, (int)(end_ms - now)) <= 0)
			return false;
		terminal_flush(t);
	}
	return true;
}

void terminal_finish(struct terminal *t)
{
	uint64_t end_ms = terminal_now_ms() + TERMINAL_FINISH_MS;

	/* What is in the kernel's buffer; nobody is left who could go on writing. */
	while (t->master >= 0 && flush_by(t, end_ms)) {
		ssize_t n = read(t->master, t->pending, sizeof(t->pending));

		if (n <= 0)
			break;
		take(t, (size_t)n);
	}
	cleanup_fd_p(&t->master);
	sink_close(&t->out);
	if (t->raw)
		tcsetattr(STDIN_FILENO, TCSANOW, &t->saved);
	t->raw = false;
}
