/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "box/env.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/mem.h"

#include "base/banned.h"

#define DEFAULT_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

/* ld.so(8), "ENVIRONMENT", and what glibc itself drops in secure mode (sysdeps/generic/unsecvars.h). */
static const char *const loader_names[] = {"GCONV_PATH", "GETCONF_DIR", "GLIBC_TUNABLES", "HOSTALIASES", "LOCALDOMAIN", "LOCPATH",
					   "MALLOC_TRACE", "NIS_PATH", "NLSPATH", "RESOLV_HOST_CONF", "RES_OPTIONS", "TMPDIR",
					   "TZDIR", NULL};

bool env_is_loader(const char *name, size_t len)
{
	if (len >= 3 && memcmp(name, "LD_", 3) == 0)
		return true;
	for (const char *const *n = loader_names; *n; n++)
		if (strlen(*n) == len && memcmp(*n, name, len) == 0)
			return true;
	return false;
}

/* Sets NAME=VALUE; a later one replaces an earlier. */
static void env_put(struct strv *env, const char *name, size_t name_len, const char *value)
{
	char *text = mem_printf("%.*s=%s", (int)name_len, name, value);

	for (size_t i = 0; i < env->n; i++) {
		if (strncmp(env->v[i], text, name_len + 1) != 0)
			continue;
		free(env->v[i]);
		env->v[i] = text;
		return;
	}
	strv_take(env, text);
}

static void env_remove(struct strv *env, const char *name)
{
	size_t len = strlen(name);

	for (size_t i = 0; i < env->n; i++) {
		if (strncmp(env->v[i], name, len) != 0 || env->v[i][len] != '=')
			continue;
		free(env->v[i]);
		memmove(&env->v[i], &env->v[i + 1], (env->n - i) * sizeof(*env->v));
		env->n--;
		return;
	}
}

/* A pattern of `pass`: a name, or a prefix with `*` behind. */
static bool pattern_matches(const char *pattern, const char *name, size_t len)
{
	size_t n = strlen(pattern);

	if (n && pattern[n - 1] == '*')
		return len >= n - 1 && memcmp(name, pattern, n - 1) == 0;
	return len == n && memcmp(name, pattern, n) == 0;
}

static void pass(struct strv *env, const struct val_list *patterns, char *const *environment)
{
	for (char *const *v = environment; *v; v++) {
		size_t len = strcspn(*v, "=");

		if (!len || !(*v)[len] || env_is_loader(*v, len))
			continue;
		for (size_t i = 0; i < patterns->n; i++) {
			if (!pattern_matches(patterns->items[i].text, *v, len))
				continue;
			env_put(env, *v, len, *v + len + 1);
			break;
		}
	}
}

static void put_text(struct strv *env, const char *assignment)
{
	size_t len = strcspn(assignment, "=");

	env_put(env, assignment, len, assignment + len + 1);
}

static const char *caller_value(const struct run_host *host, const char *name)
{
	size_t len = strlen(name);

	for (char *const *v = host->environ; *v; v++)
		if (strncmp(*v, name, len) == 0 && (*v)[len] == '=')
			return *v + len + 1;
	return NULL;
}

int env_add(struct plan *plan, const struct profile *profile, const struct run_request *req, const struct run_host *host,
	    struct err *e)
{
	struct strv *env = &plan->env;
	const char *term = caller_value(host, "TERM");

	strv_add(env, "PATH=" DEFAULT_PATH);
	strv_add(env, "HOME=/workspace/scratch/home");
	strv_take(env, mem_printf("USER=%s", profile->identity.user.v));
	strv_take(env, mem_printf("LOGNAME=%s", profile->identity.user.v));
	strv_add(env, "TMPDIR=/workspace/scratch/tmp");
	if (plan->tty)
		strv_take(env, mem_printf("TERM=%s", term && *term ? term : "dumb"));
	pass(env, &profile->environment.pass, host->environ);
	for (size_t i = 0; i < profile->environment.set.n; i++)
		put_text(env, profile->environment.set.items[i].text);
	for (size_t i = 0; i < req->environment.n; i++) {
		const char *text = req->environment.v[i];

		if (!*text || *text == '=')
			return err_set(e, EINVAL, "--setenv, --unsetenv: the variable's name is empty");
		if (strchr(text, '='))
			put_text(env, text);
		else
			env_remove(env, text);
	}
	/* Who asks where it runs gets the truth, whatever was passed. */
	env_put(env, "AGENTBOX", 8, "1");
	env_put(env, "AGENTBOX_RUN", 12, plan->run_id);
	if (plan->task_id)
		env_put(env, "AGENTBOX_TASK", 13, plan->task_id);
	else
		env_remove(env, "AGENTBOX_TASK");
	return 0;
}
