/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Command lines whose options and operands may stand in any order (`stop RUN --grace 1s`). */
#ifndef AGENTBOX_CMD_WORDS_H
#define AGENTBOX_CMD_WORDS_H

#include "base/str.h"
#include "cmd/cmd.h"

/*
 * Calls `take` for each option and appends each operand to `words`; after "--" all are operands.
 * take: 0, or -errno with `e`. Return: 0 or -errno with `e`.
 */
int words_parse(const struct cmd *cmd, int argc, char **argv, int (*take)(void *arg, const struct cmd_parsed *p, struct err *e),
		void *arg, struct strv *words, struct err *e);

#endif
