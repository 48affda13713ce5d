/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* One value of a profile, by its key's type: from text, to text, its place, whether it is the default. */
#ifndef AGENTBOX_PROFILE_VALUE_H
#define AGENTBOX_PROFILE_VALUE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/str.h"
#include "profile/keys.h"
#include "profile/profile.h"

/*
 * Sets the scalar, or appends to the list (`none` empties it).
 * k: with a member. text: trimmed here. Return: 0, or -EINVAL with "what; what to do" in e and p unchanged.
 */
int value_set(struct profile *p, const struct key *k, const char *text, struct origin from,
	      const struct profile_env *env, struct err *e);

/* Puts the table's default in place of zeroed memory. */
void value_init(struct profile *p, const struct key *k);
void value_free(struct profile *p, const struct key *k);

/* Scalars: is there a value at all (given, or a default of the table)? Lists: has it items? */
bool value_is_there(const struct profile *p, const struct key *k);
bool value_is_default(const struct profile *p, const struct key *k);

/* Scalars: as a file would say it. Only where value_is_there. Appends to out. */
void value_text(const struct profile *p, const struct key *k, struct str *out);
struct origin value_origin(const struct profile *p, const struct key *k);

/* One item of a list as a file would say it. Appends to out. */
void value_item_text(const struct key *k, const char *item, struct str *out);

/* A number of the key's kind as a file would say it. Appends to out. */
void value_number_text(enum key_type type, uint64_t n, struct str *out);

/* What a file may say, for the manual: "overlay|write", "4K..", "yes|no". Appends to out. */
void value_range_text(const struct key *k, struct str *out);
const char *key_type_name(enum key_type type);

/* The origin of every default. */
struct origin value_default_origin(void);

#endif
