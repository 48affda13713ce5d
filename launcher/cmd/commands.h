/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Every subcommand's entry, for the table. */
#ifndef AGENTBOX_CMD_COMMANDS_H
#define AGENTBOX_CMD_COMMANDS_H

#include "cmd/cmd.h"

extern const struct cmd cmd_run, cmd_check, cmd_show, cmd_why, cmd_ps, cmd_stop, cmd_log, cmd_output, cmd_prune, cmd_doctor, cmd_help;

#endif
