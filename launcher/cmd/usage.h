/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Help, made from the table of commands. */
#ifndef AGENTBOX_CMD_USAGE_H
#define AGENTBOX_CMD_USAGE_H

#include <stdbool.h>
#include <stdio.h>

#include "cmd/cmd.h"

void usage_print(FILE *out);

/*
 * Whether --help or -h stands among the options of a command line, where an option may stand (so not as another's argument,
 * nor among the words of `run`'s COMMAND). argv[0] is the subcommand.
 */
bool usage_asked(const struct cmd *cmd, int argc, char **argv);

/* What `agentbox help COMMAND` prints. Return: exit status. */
int usage_print_command(const struct cmd *cmd);

/* Says that there is no such command and which is near. Return: STATUS_REFUSED. */
int usage_unknown(const char *name);

#endif
