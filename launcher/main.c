/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The entry: refuses to run with raised privileges, then finds the subcommand in the table. */
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
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

/*
 * Variables that make the dynamic loader load or do something else have acted on this image already; the box is set up by
 * one that they did not touch.
 */
static int main_drop_loader_variables(char **argv)
{
	char exe[PATH_MAX];
	bool found = false;
	ssize_t n;

	for (char **v = environ; *v;) {
		if (strncmp(*v, "LD_", 3) != 0 && strncmp(*v, "GLIBC_TUNABLES=", 15) != 0) {
			v++;
			continue;
		}
		found = true;
		for (char **rest = v; *rest; rest++)
			rest[0] = rest[1];
	}
	if (!found)
		return 0;
	n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	if (n < 0)
		return -errno;
	exe[n] = '\0';
	execv(exe, argv);
	return -errno;
}

int main(int argc, char **argv)
{
	const struct cmd *cmd;
	int r = fd_fill_standard();

	if (r < 0)
		exit(cmd_fail_text(STATUS_REFUSED, "cannot open /dev/null in place of a closed standard stream: %s", strerrordesc_np(-r)));
	/* Setuid, setgid or file capabilities: the caller's profile and environment would steer a privileged process. */
	if (getauxval(AT_SECURE))
		exit(cmd_fail_text(STATUS_REFUSED, "installed setuid, setgid or with file capabilities: refused; it needs none"));
	r = main_drop_loader_variables(argv);
	if (r < 0)
		exit(cmd_fail_text(STATUS_REFUSED, "cannot start again without the LD_ variables of the environment: %s",
				   strerrordesc_np(-r)));
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
	if (usage_asked(cmd, argc - 1, argv + 1))
		exit(usage_print_command(cmd));
	exit(cmd->run(argc - 1, argv + 1));
}
