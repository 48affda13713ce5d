/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "sys/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/mem.h"

#include "base/banned.h"

int fd_write_all(int fd, const void *bytes, size_t len)
{
	const char *p = bytes;

	while (len) {
		ssize_t n = write(fd, p, len);

		if (n < 0) {
			if (errno == EINTR)
				continue;
			return -errno;
		}
		p += n;
		len -= (size_t)n;
	}
	return 0;
}

ssize_t fd_read_all(int fd, void *buf, size_t len)
{
	size_t done = 0;

	while (done < len) {
		ssize_t n = read(fd, (char *)buf + done, len - done);

		if (n < 0) {
			if (errno == EINTR)
				continue;
			return -errno;
		}
		if (!n)
			break;
		done += (size_t)n;
	}
	return (ssize_t)done;
}

int fd_read_file(int dirfd, const char *path, size_t max_bytes, char **out, size_t *len)
{
	cleanup_fd int fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	cleanup_free char *buf = NULL;
	size_t cap, n = 0;
	struct stat st;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return S_ISDIR(st.st_mode) ? -EISDIR : -EINVAL;
	if (st.st_size > 0 && (uint64_t)st.st_size > max_bytes)
		return -EFBIG;
	cap = st.st_size > 0 ? (size_t)st.st_size + 1 : 4096;
	for (;;) {
		ssize_t got;

		buf = mem_array(buf, cap + 1, 1);
		got = fd_read_all(fd, buf + n, cap - n);
		if (got < 0)
			return (int)got;
		n += (size_t)got;
		if (n > max_bytes)
			return -EFBIG;
		if (n < cap)
			break;
		cap *= 2;
	}
	buf[n] = '\0';
	if (len)
		*len = n;
	*out = steal_ptr(&buf);
	return 0;
}

int fd_write_file(int dirfd, const char *path, const char *text)
{
	int fd = openat(dirfd, path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
	int r;

	if (fd < 0)
		return -errno;
	r = fd_write_all(fd, text, strlen(text));
	close(fd);
	return r;
}

int fd_replace_file(int dirfd, const char *name, const void *bytes, size_t len, mode_t mode)
{
	char temporary[NAME_MAX + 1];
	int fd, r;

	if (snprintf(temporary, sizeof(temporary), ".%s.new", name) >= (int)sizeof(temporary))
		return -ENAMETOOLONG;
	fd = openat(dirfd, temporary, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, mode);
	if (fd < 0)
		return -errno;
	r = fd_write_all(fd, bytes, len);
	if (r == 0 && ftruncate(fd, (off_t)len) < 0)
		r = -errno;
	if (close(fd) < 0 && r == 0)
		r = -errno;
	if (r == 0 && renameat2(dirfd, temporary, dirfd, name, RENAME_EXCHANGE) < 0 && renameat(dirfd, temporary, dirfd, name) < 0)
		r = -errno;
	if (r < 0)
		unlinkat(dirfd, temporary, 0);
	return r;
}

int fd_send(int sock, const void *bytes, size_t len, const int *fds, size_t n_fds)
{
	union {
		char buf[CMSG_SPACE(sizeof(int) * FD_SEND_MAX)];
		struct cmsghdr align;
	} control;
	struct iovec iov = {.iov_base = (void *)bytes, .iov_len = len};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	if (n_fds > FD_SEND_MAX)
		return -E2BIG;
	if (n_fds) {
		struct cmsghdr *c;

		memset(&control, 0, sizeof(control));
		msg.msg_control = control.buf;
		msg.msg_controllen = CMSG_SPACE(sizeof(int) * n_fds);
		c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int) * n_fds);
		memcpy(CMSG_DATA(c), fds, sizeof(int) * n_fds);
	}
	while (sendmsg(sock, &msg, MSG_NOSIGNAL) < 0)
		if (errno != EINTR)
			return -errno;
	return 0;
}

ssize_t fd_recv(int sock, void *buf, size_t len, int *fds, size_t max_fds, size_t *n_fds)
{
	union {
		char buf[CMSG_SPACE(sizeof(int) * FD_SEND_MAX)];
		struct cmsghdr align;
	} control;
	struct iovec iov = {.iov_base = buf, .iov_len = len};
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.buf, .msg_controllen = sizeof(control.buf)};
	ssize_t n;

	*n_fds = 0;
	do
		n = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c; c = CMSG_NXTHDR(&msg, c)) {
		size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < count; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
			if (*n_fds < max_fds)
				fds[(*n_fds)++] = fd;
			else
				close(fd);
		}
	}
	return n;
}

int fd_close_from_3(const int *keep, size_t n_keep)
{
	unsigned from = 3;

	for (size_t i = 0; i < n_keep; i++) {
		unsigned fd = (unsigned)keep[i];

		if (keep[i] < 3)
			continue;
		if (fd > from && close_range(from, fd - 1, 0) < 0)
			return -errno;
		from = fd + 1;
	}
	return close_range(from, ~0U, 0) < 0 ? -errno : 0;
}

int fd_fill_standard(void)
{
	for (int fd = 0; fd <= 2; fd++) {
		int got;

		if (fcntl(fd, F_GETFD) >= 0)
			continue;
		/* The lowest free number is fd itself, as the lower ones are open by now. Not CLOEXEC: it is the command's. */
		got = open("/dev/null", O_RDWR | O_NOCTTY);
		if (got < 0)
			return -errno;
		if (got != fd) {
			close(got);
			return -EBADF;
		}
	}
	return 0;
}
