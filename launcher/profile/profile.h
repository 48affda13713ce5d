/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What the operator wrote: the merged profile. Every value knows the line that it came from. Nothing here is resolved
 * against the host: that is the plan's work (box/plan.h, egress/policy.h).
 *
 * The members are named by the key table (profile/keys.c), which is the one source of the language: a member's C type
 * says the key's type, and keys.c checks that at compile time.
 */
#ifndef AGENTBOX_PROFILE_PROFILE_H
#define AGENTBOX_PROFILE_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

/* Where a value came from. file: lives as long as the profile; "default", "--set", "--allow" ... with line 0. */
struct origin {
	const char *file;
	unsigned line;
};

/* One type a kind of key. `set`: some file or option gave it; else the value is the table's default. */
struct val_text {
	char *v; /* owned; NULL where there is none */
	bool set;
	struct origin from;
};
struct val_size {
	uint64_t bytes;
	bool set;
	struct origin from;
};
struct val_duration {
	uint64_t ms;
	bool set;
	struct origin from;
};
struct val_count {
	uint64_t n;
	bool set;
	struct origin from;
};
struct val_milli { /* a decimal number in thousandths: `cpus = 1.5` is 1500 */
	uint64_t milli;
	bool set;
	struct origin from;
};
struct val_choice { /* v: index in the key's list of choices = the enums below */
	int v;
	bool set;
	struct origin from;
};
struct val_bool {
	bool v;
	bool set;
	struct origin from;
};
struct val_item {
	char *text; /* owned, as written */
	struct origin from;
};
struct val_list {
	struct val_item *items;
	size_t n, cap;
};

enum repo_mode { REPO_OVERLAY, REPO_WRITE, REPO_READ, REPO_NONE };
enum egress_mode { EGRESS_NONE, EGRESS_GATEWAY, EGRESS_HOST };
enum egress_addresses { ADDRESSES_SYNTHETIC, ADDRESSES_REAL };
enum mechanism { MECHANISM_AUTO, MECHANISM_REQUIRE, MECHANISM_OFF }; /* egress.ebpf, limits.cgroup */
enum syscall_policy { SYSCALLS_DEFAULT, SYSCALLS_STRICT, SYSCALLS_OFF };

struct profile {
	struct {
		struct val_text name, description;
	} profile;
	struct {
		struct val_choice repo_mode; /* enum repo_mode */
		struct val_bool mirror;
		struct val_size scratch_size;
		struct val_list protect; /* relative to the repo, normal, no glob; starts with the built-in list */
	} workspace;
	struct {
		struct val_text root;          /* "host", "empty" or an absolute path; `~` and $VAR already replaced */
		struct val_list read, write;   /* [?]PATH[:DEST], both absolute, `~` and $VAR already replaced */
		struct val_list deny;          /* absolute path or glob, or relative to the repo */
		struct val_size tmp_size;
	} filesystem;
	struct {
		struct val_list pass; /* NAME, or PREFIX* */
		struct val_list set;  /* NAME=VALUE */
	} environment;
	struct {
		struct val_count uid, gid; /* not set: the caller's */
		struct val_text user, hostname;
	} identity;
	struct {
		struct val_choice mode;      /* enum egress_mode */
		struct val_list allow, deny; /* RULE, see profile/rule.h */
		struct val_choice addresses; /* enum egress_addresses */
		struct val_bool inspect;
		struct val_choice ebpf;      /* enum mechanism */
		struct val_size max_bytes;
		struct val_count max_connections;
		struct val_duration connect_timeout;
	} egress;
	struct {
		struct val_duration wall_time, grace, cpu_time; /* 0 or not set: no limit */
		struct val_size memory, file_size, core_size;
		struct val_count processes, open_files;
		struct val_milli cpus;
		struct val_choice cgroup; /* enum mechanism */
	} limits;
	struct {
		struct val_bool capture;
		struct val_size head, tail, max;
		struct val_count head_lines, tail_lines;
	} output;
	struct {
		struct val_choice policy;   /* enum syscall_policy */
		struct val_list allow, deny; /* names of system calls, or @group */
		struct val_bool log, nested_namespaces;
	} syscalls;
	struct {
		struct val_list allow; /* argv prefixes, words as a shell would split them */
		struct val_list exec;  /* absolute paths, or names looked up in PATH */
	} commands;

	struct strv files; /* every file that was read, the outermost first; origins point into it */
	struct strv missed; /* where one was looked for before it was found */
};

/* A fault of a profile, with its place. Rendered as `file:line: [section] key: what; what to do`. */
struct fault {
	struct origin from;
	char *text; /* owned; from "[section] key: ..." on */
};
struct faults {
	struct fault *v;
	size_t n, cap;
};

void faults_add(struct faults *f, struct origin from, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void faults_free(struct faults *f);
/* One line a fault. Appends to out. */
void faults_text(const struct faults *f, struct str *out);

/* The caller's environment as the lookup and `~`, `$VAR` need it; so that tests can say it. */
struct profile_env {
	const char *search;      /* AGENTBOX_PROFILES, a path list, or NULL */
	const char *config_home; /* XDG_CONFIG_HOME, or NULL for ~/.config */
	const char *home;        /* HOME, or NULL */
	const char *(*get)(const char *name); /* value of a variable or NULL; getenv */
};

/* Reads the process's environment. */
struct profile_env profile_env_get(void);

/*
 * The profile to load: `given`, else $AGENTBOX_PROFILE, else "default". given: may be NULL. An empty variable is as one that
 * is not set; an empty `given` stays that, and profile_lookup() refuses it.
 */
const char *profile_name(const char *given);

/* Every value at its default. Must come first; profile_free undoes it. */
void profile_init(struct profile *p);
void profile_free(struct profile *p);

/*
 * Loads a profile with all that it extends on top of what `p` holds.
 * name: a name (looked up as INTERFACE says) or, with a '/' in it, a file.
 * faults: all faults of all files are added. Return: 0; -EINVAL where there are faults; -ENOENT etc. with `e` where the
 * file cannot be read at all.
 */
int profile_load(struct profile *p, const char *name, const struct profile_env *env, struct faults *faults,
		 struct err *e);

/*
 * One value from the command line, as `--set SECTION.KEY=VALUE` and the short options do.
 * what: the option's name, as the origin ("--set"); must live as long as p. Lists append; scalars override.
 * Return: 0 or -EINVAL with `e`.
 */
int profile_set(struct profile *p, const char *what, const char *section, const char *key, const char *value,
		const struct profile_env *env, struct err *e);
/* `SECTION.KEY=VALUE` whole. */
int profile_set_text(struct profile *p, const char *what, const char *assignment, const struct profile_env *env,
		     struct err *e);

/*
 * The effective profile as INI that profile_load reads back to the same; with_origins: a comment above each value. (A
 * path that `~` or an option made longer than a line may be gives a line that is refused when read, not one that is
 * misread.)
 */
void profile_print(const struct profile *p, bool with_origins, struct str *out);
/*
 * The same as JSON: {"section": {"key": {"value": ..., "from": "file:line"}}}; lists: both are arrays; not set: null.
 */
void profile_print_json(const struct profile *p, struct str *out);
/* The key table, for `show --keys`: one line a key, of fields with a tab between (the first line names them). */
void profile_print_keys(struct str *out);

/*
 * The first key that the profile asks for (set, and not at its default) whose mechanism is not built into this
 * version: `run` refuses then. Return: 0, or -ENOTSUP with the key, its place and why in `e`.
 */
int profile_supported(const struct profile *p, struct err *e);

/*
 * Keys that do not go with others of the profile's: what sets a bound that would not hold is a fault, what does nothing a note.
 * faults, notes: added to; may be NULL. Return: 0, or -EINVAL where there is a fault.
 */
int profile_check_conflicts(const struct profile *p, struct faults *faults, struct faults *notes);

/* "file:line", or the option's name. buf: any size. Return: buf. */
const char *origin_text(struct origin from, char *buf, size_t len);

#endif
