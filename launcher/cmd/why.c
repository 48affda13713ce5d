/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* `agentbox why`: is it allowed, and by which line. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "box/explain.h"
#include "cmd/commands.h"
#include "cmd/profile_arg.h"
#include "egress/policy.h"
#include "run/run.h"
#include "sys/path.h"

#include "base/banned.h"

static const struct cmd_option why_options[] = {
	{'p', "profile", "NAME|PATH", "the profile (else $AGENTBOX_PROFILE, else default)"},
	{'s', "set", "SECTION.KEY=VALUE", "as in run; repeatable"},
	{0, "repo", "DIR", "as in run"},
	{0},
};

struct why_question {
	enum explain_access access;
	const char *path;
	int allowed;
};

static int why_path(const struct plan *plan, void *arg, struct err *e)
{
	struct why_question *q = arg;
	cleanup_str struct str text = {0};
	cleanup_free char *path = path_normal(q->path, plan->cwd);

	if (!path)
		return err_set(e, EINVAL, "why: the path is empty");
	q->allowed = plan_explain(plan, q->access, path, &text);
	fputs(text.text, stdout);
	return 0;
}

/* By the function that the gateway and the name server ask. A name's addresses are checked again when it is connected to. */
static int why_connect(const struct profile *profile, const char *where)
{
	struct policy_request q = {0};
	struct policy *policy = NULL;
	char text[POLICY_TEXT_MAX];
	struct target target;
	struct verdict verdict;
	struct err e = {0};

	if (target_parse(where, strlen(where), &target) < 0 || !target.port)
		return cmd_fail_text(STATUS_REFUSED, "why: connect %s: write HOST:PORT, an IPv6 address in brackets", where);
	if (profile->egress.mode.v == EGRESS_NONE) {
		printf("denied: %s: egress.mode = none\n", where);
		return cmd_finish(STATUS_FAULT);
	}
	if (policy_new(profile, &policy, &e) < 0)
		return cmd_fail(STATUS_REFUSED, &e);
	q.name = *target.name ? target.name : NULL;
	q.addr = *target.name ? NULL : &target.addr;
	q.port = target.port;
	if (profile->egress.mode.v == EGRESS_HOST && !q.name)
		verdict = policy_decide_shared(policy, q.addr, q.port);
	else
		verdict = policy_decide(policy, &q);
	printf("%s: %s: %s\n", verdict.allowed ? "allowed" : "denied", where,
	       policy_verdict_text(policy, &verdict, text, sizeof(text)));
	policy_free(policy);
	return cmd_finish(verdict.allowed ? STATUS_OK : STATUS_FAULT);
}

static int why_file(struct run_options *options, const char *verb, const char *path)
{
	static const char *const verbs[] = {"read", "write", "exec"};
	struct why_question q = {.path = path};
	struct err e = {0};

	if (str_eq(verb, "connect"))
		return why_connect(options->profile, path);

	while (q.access <= EXPLAIN_EXEC && !str_eq(verb, verbs[q.access]))
		q.access++;
	if (q.access > EXPLAIN_EXEC)
		return cmd_fail_text(STATUS_REFUSED, "why: %s: no such question; ask read, write or exec PATH, or connect HOST:PORT", verb);
	if (run_with_plan(options, why_path, &q, &e) < 0)
		return cmd_fail(STATUS_REFUSED, &e);
	return cmd_finish(q.allowed ? STATUS_OK : STATUS_FAULT);
}

static int why_main(int argc, char **argv)
{
	struct run_options options = {.event_fd = -1, .status_fd = -1};
	cleanup_strv struct strv sets = {0};
	const char *profile_name = NULL;
	struct cmd_parsed parsed;
	struct profile profile;
	struct err e = {0};
	int i = 1, status;

	while (cmd_next_option(&cmd_why, argc, argv, &i, &parsed, &e)) {
		if (str_eq(parsed.option->name, "profile"))
			profile_name = parsed.args[0];
		else if (str_eq(parsed.option->name, "repo"))
			options.request.repo = parsed.args[0];
		else
			strv_add(&sets, parsed.args[0]);
	}
	if (e.code)
		return cmd_fail(STATUS_REFUSED, &e);
	if (argc - i != 2)
		return cmd_fail_text(STATUS_REFUSED, "usage: agentbox why %s", cmd_why.synopsis);
	profile_init(&profile);
	status = profile_arg_load(&profile, profile_name, &sets);
	if (status == STATUS_OK) {
		options.profile = &profile;
		options.profile_name = profile_name ? profile_name : "default";
		status = why_file(&options, argv[i], argv[i + 1]);
	}
	profile_free(&profile);
	return status;
}

const struct cmd cmd_why = {
	.name = "why",
	.synopsis = "[-p PROFILE] [-s SECTION.KEY=VALUE] [--repo DIR] read|write|exec PATH | connect HOST:PORT",
	.text = "is it allowed, and by which line",
	.options = why_options,
	.run = why_main,
};
