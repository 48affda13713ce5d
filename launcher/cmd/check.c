/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "box/seccomp.h"
#include "cmd/cmd.h"
#include "cmd/commands.h"
#include "profile/profile.h"

#include "base/banned.h"

/* What is no fault, and yet not what its writer thinks. */
static void print_notes(const struct faults *notes)
{
	for (size_t i = 0; i < notes->n; i++) {
		char place[256];

		fprintf(stderr, "agentbox: note: %s: %s\n", origin_text(notes->v[i].from, place, sizeof(place)), notes->v[i].text);
	}
}

/* Return: STATUS_OK or STATUS_FAULT, with the faults on stdout. */
static int check_one(const char *name, const struct profile_env *env)
{
	cleanup_str struct str text = {0};
	struct faults faults = {0}, notes = {0};
	struct err e = {0};
	struct profile p;
	int status = STATUS_OK;
	int r;

	profile_init(&p);
	r = profile_load(&p, name, env, &faults, &e);
	if (seccomp_check(&p, &faults) < 0)
		r = -EINVAL;
	if (profile_check_conflicts(&p, &faults, &notes) < 0)
		r = -EINVAL;
	faults_text(&faults, &text);
	if (r < 0 && !faults.n) {
		str_add_printable(&text, e.msg, strlen(e.msg));
		str_add(&text, "\n");
	}
	if (r < 0)
		status = STATUS_FAULT;
	else if (profile_supported(&p, &e) < 0) /* right in the language, so no fault of the profile; run refuses it */
		fprintf(stderr, "agentbox: note: %s\n", e.msg);
	print_notes(&notes);
	if (text.len)
		fputs(text.text, stdout);
	faults_free(&faults);
	faults_free(&notes);
	profile_free(&p);
	return status;
}

static const struct cmd_option check_options[] = {{0}};

static int check_run(int argc, char **argv)
{
	struct profile_env env = profile_env_get();
	struct cmd_parsed parsed;
	struct err e = {0};
	int status = STATUS_OK;
	int i = 1;

	while (cmd_next_option(&cmd_check, argc, argv, &i, &parsed, &e))
		;
	if (e.code)
		return cmd_fail(STATUS_REFUSED, &e);
	if (i >= argc)
		return cmd_fail_text(STATUS_REFUSED, "check: no profile named; write `agentbox check PROFILE...`");
	for (; i < argc; i++)
		if (check_one(argv[i], &env) != STATUS_OK)
			status = STATUS_FAULT;
	return cmd_finish(status);
}

const struct cmd cmd_check = {
	.name = "check",
	.synopsis = "PROFILE...",
	.text = "report every fault of a profile, with its line (0 clean, 1 faults)",
	.options = check_options,
	.run = check_run,
};
