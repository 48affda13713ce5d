/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "profile/lookup.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "base/str.h"

#include "base/banned.h"

#define SYSTEM_DIR "/etc/agentbox/profiles"
#ifndef PROFILES_DIR /* the Makefile says it; unit builds by hand may not */
#define PROFILES_DIR "/usr/local/share/agentbox/profiles"
#endif

/* How many names "did you mean" looks at. */
#define NAMES_MAX 1000

static const char *lookup_getenv(const char *name)
{
	return getenv(name);
}

struct profile_env profile_env_get(void)
{
	return (struct profile_env){
		.search = getenv("AGENTBOX_PROFILES"),
		.config_home = getenv("XDG_CONFIG_HOME"),
		.home = getenv("HOME"),
		.get = lookup_getenv,
	};
}

const char *profile_name(const char *given)
{
	const char *name = getenv("AGENTBOX_PROFILE");

	return given ? given : name && *name ? name : "default";
}

static char *lookup_folder_of(const char *file)
{
	const char *slash = strrchr(file, '/');

	if (!slash)
		return mem_strdup(".");
	return slash == file ? mem_strdup("/") : mem_strndup(file, (size_t)(slash - file));
}

static void lookup_folders(const char *beside, const struct profile_env *env, struct strv *out)
{
	if (beside)
		strv_take(out, lookup_folder_of(beside));
	for (const char *s = env->search ? env->search : ""; *s;) {
		size_t n = strcspn(s, ":");

		if (n)
			strv_take(out, mem_strndup(s, n));
		s += n + (s[n] == ':');
	}
	/* XDG Base Directory: a relative path is to be ignored. */
	if (env->config_home && env->config_home[0] == '/')
		strv_take(out, mem_printf("%s/agentbox/profiles", env->config_home));
	else if (env->home && env->home[0] == '/')
		strv_take(out, mem_printf("%s/.config/agentbox/profiles", env->home));
	strv_add(out, SYSTEM_DIR);
	strv_add(out, PROFILES_DIR);
}

/* The profiles that there are, for the message. */
static void lookup_names(const struct strv *folders, struct strv *names)
{
	for (size_t i = 0; i < folders->n; i++) {
		cleanup_dir DIR *dir = opendir(folders->v[i]);
		struct dirent *d;

		while (dir && names->n < NAMES_MAX && (d = readdir(dir)))
			if (str_has_suffix(d->d_name, ".ini"))
				strv_take(names, mem_strndup(d->d_name, strlen(d->d_name) - strlen(".ini")));
	}
}

/* A file of that name where one with a / in it is looked for (profile_lookup). Return: fresh memory or NULL. */
static char *lookup_near_file(const char *name, const char *beside)
{
	const char *suffix = str_has_suffix(name, ".ini") ? "" : ".ini";
	cleanup_free char *folder = lookup_folder_of(beside ? beside : name);
	cleanup_free char *path = mem_printf("%s/%s%s", folder, name, suffix);
	struct stat st;

	return stat(path, &st) == 0 && S_ISREG(st.st_mode) ? mem_printf("./%s%s", name, suffix) : NULL;
}

static int lookup_missing(const char *name, const char *beside, const struct strv *folders, struct err *e)
{
	cleanup_free char *file = lookup_near_file(name, beside);
	cleanup_strv struct strv names = {0};
	cleanup_str struct str text = {0};
	const char *near;

	lookup_names(folders, &names);
	near = file ? file : names.n ? str_nearest(name, (const char *const *)names.v) : NULL;
	str_add_printable(&text, name, strlen(name));
	str_add(&text, ": no such profile");
	if (near) {
		str_add(&text, "; did you mean ");
		str_add_printable(&text, near, strlen(near));
		str_add(&text, "?");
	} else {
		str_add(&text, " in ");
		for (size_t i = 0; i < folders->n; i++) {
			str_add(&text, i ? ", " : "");
			str_add_printable(&text, folders->v[i], strlen(folders->v[i]));
		}
		str_add(&text, "; name one that is there, or a file with a / in it");
	}
	return err_set(e, ENOENT, "%s", text.text);
}

/* NAME.ini of the first folder that has it. */
static int lookup_by_name(const char *name, const char *beside, const struct strv *folders, char **out, struct strv *missed,
			  struct err *e)
{
	for (size_t i = 0; i < folders->n; i++) {
		cleanup_free char *path = mem_printf("%s/%s.ini", folders->v[i], name);
		struct stat st;

		if (stat(path, &st) == 0) {
			*out = steal_ptr(&path);
			return 0;
		}
		if (errno != ENOENT && errno != ENOTDIR)
			return err_set(
				e, errno,
				"cannot look for the profile %s: %s; set HOME, or name a file with a / in it",
				path, strerrordesc_np(errno));
		strv_take(missed, steal_ptr(&path));
	}
	return lookup_missing(name, beside, folders, e);
}

int profile_lookup(const char *name, const char *beside, const struct profile_env *env, char **out, struct strv *missed, struct err *e)
{
	cleanup_strv struct strv folders = {0};

	if (!*name)
		return err_set(e, EINVAL, "the profile's name is empty; name one, or a file with a / in it");
	if (strchr(name, '/')) {
		cleanup_free char *folder = beside ? lookup_folder_of(beside) : NULL;

		*out = name[0] == '/' || !folder ? mem_strdup(name) : mem_printf("%s/%s", folder, name);
		return 0;
	}
	lookup_folders(beside, env, &folders);
	return lookup_by_name(name, beside, &folders, out, missed, e);
}
