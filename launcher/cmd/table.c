/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cmd/commands.h"

#include <stddef.h>

#include "base/banned.h"

const struct cmd *const cmd_table[] = {
	&cmd_run,
	&cmd_check,
	&cmd_show,
	&cmd_why,
	&cmd_ps,
	&cmd_stop,
	&cmd_log,
	&cmd_output,
	&cmd_prune,
	&cmd_doctor,
	&cmd_help,
	NULL,
};
