/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cmd/profile_arg.h"

#include <stdio.h>

#include "cmd/cmd.h"

#include "base/banned.h"

int profile_arg_load(struct profile *p, const char *given, const struct strv *sets)
{
	struct profile_env env = profile_env_get();
	cleanup_str struct str text = {0};
	struct faults faults = {0};
	struct err e = {0};
	int status = STATUS_OK;

	if (given && !*given)
		return cmd_fail_text(STATUS_REFUSED, "--profile: no name; name a profile, or a file with a / in it");
	if (profile_load(p, profile_name(given), &env, &faults, &e) < 0) {
		faults_text(&faults, &text);
		if (text.len)
			fputs(text.text, stderr);
		faults_free(&faults);
		return cmd_fail(STATUS_REFUSED, &e);
	}
	for (size_t i = 0; i < sets->n; i++)
		if (profile_set_text(p, "--set", sets->v[i], &env, &e) < 0)
			status = cmd_fail(STATUS_REFUSED, &e);
	return status;
}
