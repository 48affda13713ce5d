/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cmd/cmd.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"

#include "base/banned.h"

int cmd_fail(int status, const struct err *e)
{
	cleanup_str struct str text = {0};

	str_add_printable(&text, e->msg, strlen(e->msg));
	fprintf(stderr, "agentbox: %s\n", text.text ? text.text : "");
	return status;
}

int cmd_fail_text(int status, const char *fmt, ...)
{
	va_list ap;

	fputs("agentbox: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	return status;
}

int cmd_finish(int status)
{
	if (fflush(stdout) != 0 || ferror(stdout))
		return cmd_fail_text(STATUS_REFUSED, "cannot write to standard output: %s", strerrordesc_np(errno));
	return status;
}

static int cmd_unknown_option(const struct cmd *cmd, const char *name, struct err *e)
{
	const char *names[64];
	size_t n = 0;
	const char *near;

	for (const struct cmd_option *o = cmd->options; o->name && n < 63; o++)
		names[n++] = o->name;
	names[n] = NULL;
	near = str_nearest(name, names);
	if (near)
		return err_set(e, EINVAL, "%s: no such option: --%s; did you mean --%s?", cmd->name, name, near);
	return err_set(e, EINVAL, "%s: no such option: --%s; `agentbox help %s` lists them", cmd->name, name, cmd->name);
}

/* Takes the arguments of an option from `value` ("--name=value") and the words that follow. */
static const struct cmd_option *cmd_take_args(const struct cmd *cmd, const struct cmd_option *o, const char *value, int argc,
					      char **argv, int *index, struct cmd_parsed *out, struct err *e)
{
	int want = !o->arg ? 0 : strchr(o->arg, ' ') ? 2 : 1;
	int got = 0;

	if (value && !want) {
		err_set(e, EINVAL, "%s: --%s takes no value", cmd->name, o->name);
		return NULL;
	}
	if (value)
		out->args[got++] = value;
	while (got < want && *index < argc)
		out->args[got++] = argv[(*index)++];
	if (got < want) {
		err_set(e, EINVAL, "%s: --%s needs %s", cmd->name, o->name, o->arg);
		return NULL;
	}
	out->option = o;
	return o;
}

const struct cmd_option *cmd_next_option(const struct cmd *cmd, int argc, char **argv, int *index, struct cmd_parsed *out,
					 struct err *e)
{
	const char *word, *value;
	size_t len;

	*out = (struct cmd_parsed){0};
	e->code = 0;
	if (*index >= argc)
		return NULL;
	word = argv[*index];
	if (word[0] != '-' || word[1] == '\0')
		return NULL;
	(*index)++;
	if (str_eq(word, "--"))
		return NULL;
	if (word[1] != '-') {
		for (const struct cmd_option *o = cmd->options; o->name; o++)
			if (o->letter && o->letter == word[1])
				return cmd_take_args(cmd, o, word[2] ? word + 2 : NULL, argc, argv, index, out, e);
		err_set(e, EINVAL, "%s: no such option: %.32s; `agentbox help %s` lists them", cmd->name, word, cmd->name);
		return NULL;
	}
	word += 2;
	value = strchr(word, '=');
	len = value ? (size_t)(value - word) : strlen(word);
	for (const struct cmd_option *o = cmd->options; o->name; o++)
		if (strlen(o->name) == len && memcmp(o->name, word, len) == 0)
			return cmd_take_args(cmd, o, value ? value + 1 : NULL, argc, argv, index, out, e);
	cmd_unknown_option(cmd, word, e);
	return NULL;
}
