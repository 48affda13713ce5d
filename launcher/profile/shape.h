/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What the text of a key may look like: one shape each, named by the key table. Nothing is looked up on the host.
 */
#ifndef AGENTBOX_PROFILE_SHAPE_H
#define AGENTBOX_PROFILE_SHAPE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "profile/profile.h"

/* Any value: valid UTF-8 without control characters (a blank may be a tab). Return: 0 or -EINVAL with e. */
int shape_bytes(const char *text, size_t len, struct err *e);

/* `~`, $VAR, ${VAR} and `$$` replaced. Return: 0 with fresh memory in *out, or -EINVAL with e. */
int shape_expand(const char *text, const struct profile_env *env, char **out, struct err *e);

/* The text that shape_expand reads back to `text`, which does not start with `~`. Appends to out. */
void shape_unexpand(const char *text, struct str *out);

/*
 * Checks and normalises one text, or one item of a list. text: as shape_bytes wants it, not empty, no blanks at its
 * ends.
 * Return: 0 with fresh memory in *out (caller frees), or -EINVAL with "what; what to do" in e.
 */
typedef int shape_fn(const char *text, const struct profile_env *env, char **out, struct err *e);

struct shape {
	const char *what; /* for the manual */
	shape_fn *check;
	bool expands;  /* `~` and $VAR are replaced, `$$` is a plain `$` */
	bool relative; /* the normal form is a path relative to the project; "./" before it changes nothing */
};

extern const struct shape shape_root;	    /* host, empty, PATH */
extern const struct shape shape_grant;	    /* [?]PATH[:DEST], absolute */
extern const struct shape shape_deny;	    /* path or glob, absolute or relative to the project */
extern const struct shape shape_protect;    /* path relative to the project */
extern const struct shape shape_pass;	    /* NAME, PREFIX* */
extern const struct shape shape_assignment; /* NAME=VALUE */
extern const struct shape shape_user;
extern const struct shape shape_hostname;
extern const struct shape shape_egress;	 /* HOST[:PORTS] */
extern const struct shape shape_syscall; /* name or @group */
extern const struct shape shape_command; /* words as in a shell */
extern const struct shape shape_program; /* absolute path or name */
extern const struct shape shape_extends; /* name of a profile, or a path */

#endif
