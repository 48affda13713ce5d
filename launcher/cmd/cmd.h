/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The command line as one table: each subcommand is one file cmd/NAME.c and one entry in cmd/table.c. */
#ifndef AGENTBOX_CMD_CMD_H
#define AGENTBOX_CMD_CMD_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/* Exit statuses that are agentbox's own (INTERFACE, "Exit status"). */
enum {
	STATUS_OK = 0,
	STATUS_FAULT = 1,       /* check, why, doctor: the answer is no */
	STATUS_TIMEOUT = 124,
	STATUS_REFUSED = 125,   /* usage, profile, host: the command did not run */
	STATUS_NOT_EXECUTABLE = 126,
	STATUS_NOT_FOUND = 127,
};

struct cmd_option {
	char letter;        /* 0: none */
	const char *name;   /* without "--" */
	const char *arg;    /* how the argument is called in help; NULL: none. Two words: two arguments */
	const char *text;   /* one line of help */
};

struct cmd {
	const char *name;
	const char *synopsis; /* what follows `agentbox NAME` */
	const char *text;     /* one line */
	const struct cmd_option *options; /* ends with name NULL */
	bool mixed;           /* options may stand behind operands (cmd/words.h); else the first operand ends them */
	int (*run)(int argc, char **argv); /* argv[0] is the subcommand; Return: exit status */
};

extern const struct cmd *const cmd_table[]; /* ends with NULL */

/*
 * One option of a command line read so far. Options end at "--" or at the first word that is none.
 * Return: the option; NULL at the end (*index is then the first operand) or on a fault (e->code set).
 */
struct cmd_parsed {
	const struct cmd_option *option;
	const char *args[2];
};
const struct cmd_option *cmd_next_option(const struct cmd *cmd, int argc, char **argv, int *index, struct cmd_parsed *out,
					 struct err *e);

/* "agentbox: MESSAGE" on stderr. Return: status. */
int cmd_fail(int status, const struct err *e);
/* The same for a message of its own. */
int cmd_fail_text(int status, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Flushes stdout. Return: status, or STATUS_REFUSED with a message where the output could not be written. */
int cmd_finish(int status);

#endif
