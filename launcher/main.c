/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The entry: refuses to run with raised privileges, then finds the subcommand in the table. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "base/str.h"
#include "cmd/cmd.h"
#include "cmd/usage.h"
#include "config.h"
#include "sys/fd.h"

#include "base/banned.h"

static const struct cmd *main_find(const char *name)
{
	for (const struct cmd *const *c = cmd_table; *c; c++)
		if (str_eq((*c)->name, name))
			return *c;
	return NULL;
}

int main(int argc, char **argv)
{
	const struct cmd *cmd;
	int r = fd_fill_standard();

	if (r < 0)
		exit(STATUS_REFUSED);
	/* Setuid, setgid or file capabilities: the caller's profile and environment would steer a privileged process. */
	if (getauxval(AT_SECURE))
		exit(cmd_fail_text(STATUS_REFUSED, "installed setuid, setgid or with file capabilities: refused; it needs none"));
	if (argc < 2) {
		usage_print(stderr);
		exit(STATUS_REFUSED);
	}
	if (str_eq(argv[1], "--version") || str_eq(argv[1], "version")) {
		printf("agentbox %s\n", PACKAGE_VERSION);
		exit(cmd_finish(STATUS_OK));
	}
	if (str_eq(argv[1], "--help") || str_eq(argv[1], "-h"))
		cmd = main_find("help");
	else
		cmd = main_find(argv[1]);
	if (!cmd)
		exit(usage_unknown(argv[1]));
	exit(cmd->run(argc - 1, argv + 1));
}
