/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Help, made from the table of commands. */
#ifndef AGENTBOX_CMD_USAGE_H
#define AGENTBOX_CMD_USAGE_H

#include <stdio.h>

void usage_print(FILE *out);

/* Says that there is no such command and which is near. Return: STATUS_REFUSED. */
int usage_unknown(const char *name);

#endif
