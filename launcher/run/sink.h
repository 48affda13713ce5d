/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* One of the caller's streams as something to write to without ever waiting for who reads it. */
#ifndef AGENTBOX_RUN_SINK_H
#define AGENTBOX_RUN_SINK_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"

struct sink {
	int fd;       /* a description of our own where there could be one; -1: closed */
	size_t piece; /* not 0: it is the caller's description, which may block: so much is written, and when poll(2) allows it */
};

/* stream: 1 or 2, which stay as they are. Return: 0 or -errno with `e`. */
int sink_open(struct sink *s, int stream, struct err *e);
void sink_close(struct sink *s);

/* Return: bytes written, 0 where it takes none now, -errno where it never will (EPIPE: nobody reads any more). */
ssize_t sink_write(struct sink *s, const void *bytes, size_t len);

#endif
