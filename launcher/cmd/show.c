/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <stdio.h>

#include "base/str.h"
#include "cmd/cmd.h"
#include "cmd/commands.h"
#include "cmd/profile_arg.h"
#include "profile/profile.h"
#include "run/run.h"

#include "base/banned.h"

enum show_what { SHOW_TEXT, SHOW_JSON, SHOW_KEYS, SHOW_PLAN };

static const struct cmd_option show_options[] = {
	{'p', "profile", "NAME|PATH", "the profile (else $AGENTBOX_PROFILE, else default)"},
	{'s', "set", "SECTION.KEY=VALUE", "as in run; repeatable"},
	{0, "json", NULL, "as JSON"},
	{0, "keys", NULL, "the table of all keys instead"},
	{0, "plan", NULL, "what a run in this directory would set up on this host"},
	{0},
};

static int take_plan(const struct plan *plan, void *arg, struct err *e)
{
	(void)e;
	plan_print(plan, arg);
	return 0;
}

/* Return: STATUS_OK with the text appended, or STATUS_REFUSED with a message. */
static int add_plan(const struct profile *p, const char *name, struct str *text)
{
	struct run_options options = {.profile = p, .profile_name = profile_name(name), .event_fd = -1, .status_fd = -1};
	struct err e = {0};

	return run_with_plan(&options, take_plan, text, &e) < 0 ? cmd_fail(STATUS_REFUSED, &e) : STATUS_OK;
}

static int show_profile(const char *name, const struct strv *sets, enum show_what what)
{
	cleanup_str struct str text = {0};
	struct profile p;
	int status;

	profile_init(&p);
	status = profile_arg_load(&p, name, sets);
	if (status == STATUS_OK && what == SHOW_PLAN)
		status = add_plan(&p, name, &text);
	else if (status == STATUS_OK && what == SHOW_JSON)
		profile_print_json(&p, &text);
	else if (status == STATUS_OK)
		profile_print(&p, true, &text);
	if (status == STATUS_OK) {
		fputs(text.text, stdout);
		status = cmd_finish(status);
	}
	profile_free(&p);
	return status;
}

static int show_keys(void)
{
	cleanup_str struct str text = {0};

	profile_print_keys(&text);
	fputs(text.text, stdout);
	return cmd_finish(STATUS_OK);
}

static int show_run(int argc, char **argv)
{
	cleanup_strv struct strv sets = {0};
	enum show_what what = SHOW_TEXT;
	const char *name = NULL;
	const struct cmd_option *o;
	struct cmd_parsed parsed;
	struct err e = {0};
	int i = 1;

	while ((o = cmd_next_option(&cmd_show, argc, argv, &i, &parsed, &e))) {
		if (str_eq(o->name, "profile"))
			name = parsed.args[0];
		else if (str_eq(o->name, "set"))
			strv_add(&sets, parsed.args[0]);
		else
			what = str_eq(o->name, "json") ? SHOW_JSON : str_eq(o->name, "keys") ? SHOW_KEYS : SHOW_PLAN;
	}
	if (e.code)
		return cmd_fail(STATUS_REFUSED, &e);
	if (i < argc)
		return cmd_fail_text(STATUS_REFUSED, "show: takes no words; name the profile with -p %s", argv[i]);
	return what == SHOW_KEYS ? show_keys() : show_profile(name, &sets, what);
}

const struct cmd cmd_show = {
	.name = "show",
	.synopsis = "[-p PROFILE] [-s SECTION.KEY=VALUE]... [--json|--keys|--plan]",
	.text = "the effective profile and where each value came from; the table of keys; the plan on this host",
	.options = show_options,
	.run = show_run,
};
