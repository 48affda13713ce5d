/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <stdio.h>

#include "base/str.h"
#include "cmd/cmd.h"
#include "cmd/commands.h"
#include "cmd/usage.h"

#include "base/banned.h"

void usage_print(FILE *out)
{
	fputs("usage: agentbox COMMAND [options]\n\n", out);
	for (const struct cmd *const *c = cmd_table; *c; c++)
		fprintf(out, "  %-8s %s\n", (*c)->name, (*c)->text);
	fputs("\n`agentbox help COMMAND` and `agentbox COMMAND --help` say more; agentbox(1) says all.\n", out);
}

int usage_unknown(const char *name)
{
	const char *names[32];
	size_t n = 0;
	const char *near;

	for (const struct cmd *const *c = cmd_table; *c && n < 31; c++)
		names[n++] = (*c)->name;
	names[n] = NULL;
	near = str_nearest(name, names);
	if (near)
		return cmd_fail_text(STATUS_REFUSED, "no such command: %s; did you mean `agentbox %s`?", name, near);
	return cmd_fail_text(STATUS_REFUSED, "no such command: %s; `agentbox help` lists them", name);
}

bool usage_asked(const struct cmd *cmd, int argc, char **argv)
{
	struct cmd_parsed parsed;
	struct err ignored;
	int i = 1;

	while (i < argc && !str_eq(argv[i], "--")) {
		if (str_eq(argv[i], "--help") || str_eq(argv[i], "-h"))
			return true;
		if (argv[i][0] != '-' || !argv[i][1]) {
			if (!cmd->mixed)
				return false;
			i++;
		} else if (!cmd_next_option(cmd, argc, argv, &i, &parsed, &ignored)) {
			return false; /* the command says what is wrong */
		}
	}
	return false;
}

int usage_print_command(const struct cmd *c)
{
	printf("usage: agentbox %s %s\n\n%s\n", c->name, c->synopsis, c->text);
	if (c->options->name)
		fputc('\n', stdout);
	for (const struct cmd_option *o = c->options; o->name; o++) {
		char head[80];

		snprintf(head, sizeof(head), "%s%c%s--%s%s%s", o->letter ? "-" : "", o->letter ? o->letter : ' ',
			 o->letter ? ", " : "   ", o->name, o->arg ? " " : "", o->arg ? o->arg : "");
		printf("  %-30s %s\n", head, o->text);
	}
	return cmd_finish(STATUS_OK);
}

static int help_run(int argc, char **argv)
{
	if (argc < 2) {
		usage_print(stdout);
		return cmd_finish(STATUS_OK);
	}
	for (const struct cmd *const *c = cmd_table; *c; c++)
		if (str_eq((*c)->name, argv[1]))
			return usage_print_command(*c);
	return usage_unknown(argv[1]);
}

static const struct cmd_option help_options[] = {{0}};

const struct cmd cmd_help = {
	.name = "help",
	.synopsis = "[COMMAND]",
	.text = "what the commands and their options are",
	.options = help_options,
	.run = help_run,
};
