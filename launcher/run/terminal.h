/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Between the caller's terminal and the box's own pseudo-terminal: bytes both ways, the window's size inwards. The
 * caller's terminal is raw meanwhile and as it was afterwards. The box has no descriptor of the caller's terminal.
 */
#ifndef AGENTBOX_RUN_TERMINAL_H
#define AGENTBOX_RUN_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <termios.h>

#include "base/err.h"
#include "run/sink.h"

#define TERMINAL_BUF 16384

struct terminal {
	int master;          /* -1: no terminal */
	struct sink out;     /* the caller's terminal */
	bool raw;            /* saved is to be restored */
	struct termios saved;
	char in[TERMINAL_BUF]; /* from the caller, not yet taken by the box */
	size_t in_len;
	char pending[TERMINAL_BUF]; /* from the box, not yet taken by the caller's terminal */
	size_t pending_len;
	void (*seen)(void *arg, const char *bytes, size_t len); /* told of all that the box wrote; NULL: nobody */
	void *seen_arg;
};

/* master: owned from now on. Copies the caller's modes and window to it, then makes the caller's terminal raw. 0 or -errno. */
int terminal_start(struct terminal *t, int master, struct err *e);

/* SIGWINCH: the window's size to the box; the kernel signals the foreground group there. */
void terminal_resize(struct terminal *t);

/* The caller typed. Return: 0; -errno where the caller's terminal is gone. */
int terminal_input(struct terminal *t);

/* The box's side is ready: writes what is waiting, and reads what it wrote. Return: 1 more may come; 0 the box's side is closed. */
int terminal_output(struct terminal *t, uint32_t events);

/* The caller's terminal takes more. What it does not take waits, and the box waits with it; the supervisor does not. */
void terminal_flush(struct terminal *t);

/* Which epoll events of the master and of `out` matter now; 0: none. */
uint32_t terminal_events(const struct terminal *t);
uint32_t terminal_out_events(const struct terminal *t);

/* Passes on what the box wrote last, for TERMINAL_FINISH_MS at most, closes the master and restores the caller's terminal. */
#define TERMINAL_FINISH_MS 1000
void terminal_finish(struct terminal *t);

#endif
