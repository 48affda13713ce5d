/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cmd/commands.h"

#include <stddef.h>

const struct cmd *const cmd_table[] = {
	&cmd_help,
	NULL,
};
