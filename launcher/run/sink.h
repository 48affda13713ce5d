/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* One of the caller's streams as something to write to without ever waiting for who reads it. */
#ifndef AGENTBOX_RUN_SINK_H
#define AGENTBOX_RUN_SINK_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"

struct sink {
	int fd;    /* a description of our own where there could be one; -1: closed */
	int epoll; /* that the loop watches it by; -1: none. The caller's description lives on, and would be told of for ever */
	/* What keeps a write from waiting. */
	enum sink_way {
		SINK_AT_ONCE,     /* our own description does, or it is a file */
		SINK_SOCKET,      /* a flag of each write */
		SINK_IN_PIECES,   /* poll(2), and no more than a pipe that is writable takes */
		SINK_IN_TTY_PIECES, /* the same, of a terminal: a byte at a time */
	} way;
};

#define SINK_NONE ((struct sink){.fd = -1, .epoll = -1})

/* stream: 1 or 2, which stay as they are. Return: 0 or -errno with `e` (EBADF: open for reading only). */
int sink_open(struct sink *s, int stream, struct err *e);
void sink_close(struct sink *s);

/* Return: bytes written, 0 where it takes none now, -errno where it never will (EPIPE: nobody reads any more). */
ssize_t sink_write(struct sink *s, const void *bytes, size_t len);

/* A message on standard error, with a second's patience for all of them: its reader must not keep us from our end. */
void sink_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
