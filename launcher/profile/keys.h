/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The key table: the one source of the profile language. Parse, check, show, the man page's key section and the
 * fuzzer's dictionary walk it; nothing about a key is said in a second place.
 */
#ifndef AGENTBOX_PROFILE_KEYS_H
#define AGENTBOX_PROFILE_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "profile/profile.h"
#include "profile/shape.h"

/* The kind of value, and with it the C type of the member: KEY_SIZE is a struct val_size, and so on. */
enum key_type { KEY_TEXT, KEY_SIZE, KEY_DURATION, KEY_COUNT, KEY_MILLI, KEY_CHOICE, KEY_BOOL, KEY_LIST };

/* What a file does to the value that it extends. */
enum key_merge {
	MERGE_OVERRIDE, /* the extending file's value holds */
	MERGE_APPEND,   /* lists: the items of both; `none` empties what there is so far */
	MERGE_OWN,      /* not inherited: says something about its own file alone */
};

/* An item that a list starts with, and why it is there. */
struct key_item {
	const char *text, *why;
};

#define KEY_NO_MEMBER SIZE_MAX /* the key steers the loading itself */

struct key {
	const char *section, *name;
	enum key_type type;
	enum key_merge merge;
	size_t offset;                   /* of the member in struct profile, or KEY_NO_MEMBER */
	const char *initial;             /* the default as a file would say it; NULL: none, the value is then not set */
	const struct key_item *items;    /* KEY_LIST: what it starts with, ends with text NULL; or NULL */
	const char *const *choices;      /* KEY_CHOICE: by enum value, ends with NULL */
	uint64_t min, max;               /* numbers: bytes, ms, n or thousandths */
	const char *zero;                /* numbers: what 0 means where it may stand below min; NULL: it may not */
	const struct shape *shape;       /* KEY_TEXT, KEY_LIST; NULL: any text */
	bool built;                      /* its mechanism is in this version */
	unsigned built_choices;          /* KEY_CHOICE: bit v says that the mechanism of choice v is */
	const char *text;                /* one line for the manual */
};

extern const struct key key_table[]; /* sections together, ends with section NULL */
extern const size_t key_count;

/* Return: NULL where there is none. */
const struct key *key_find(const char *section, const char *name);
bool key_section_known(const char *section);

/* What to write instead of a section or key that is not there, as "; ..." for a message. Appends to out. */
void key_advise_section(const char *section, struct str *out);
void key_advise_name(const char *section, const char *name, struct str *out);

/* Member of p that the key names. Only where it has one. */
void *key_member(struct profile *p, const struct key *k);
const void *key_member_const(const struct profile *p, const struct key *k);

#endif
