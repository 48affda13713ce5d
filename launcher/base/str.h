/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A growable string, a vector of strings, and small questions about text. */
#ifndef AGENTBOX_BASE_STR_H
#define AGENTBOX_BASE_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zero-initialised is empty. text is NULL until something was added, else NUL-terminated (it may hold NULs before). */
struct str {
	char *text;
	size_t len, cap;
};

void str_add(struct str *s, const char *text);
void str_add_n(struct str *s, const void *bytes, size_t len);
void str_addf(struct str *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
char *str_steal(struct str *s); /* caller frees; "" where nothing was added */
void str_free(struct str *s);
#define cleanup_str __attribute__((cleanup(str_free)))

/* Owned strings, NULL-terminated once something was added. */
struct strv {
	char **v;
	size_t n, cap;
};

void strv_add(struct strv *v, const char *text);  /* copies */
void strv_take(struct strv *v, char *text);       /* owns */
void strv_free(struct strv *v);
bool strv_has(const struct strv *v, const char *text);
#define cleanup_strv __attribute__((cleanup(strv_free)))

/* Room for one more member of the given size in a plain vector: `*items` of capacity `*cap` holding n. */
void vec_reserve(void *items_p, size_t *cap, size_t n, size_t size);

bool str_eq(const char *a, const char *b);
bool str_has_prefix(const char *s, const char *prefix);
bool str_has_suffix(const char *s, const char *suffix);

/* How many of the bytes are `c`. Many at a time: all that a command writes is counted by this. */
size_t str_count(const void *bytes, size_t len, char c);

/* Lower-case hex of n bytes; out holds 2n + 1. */
void str_hex(const void *bytes, size_t n, char *out);

/*
 * The name nearest to `name` by edits (a swap of neighbours counts as one), for "did you mean".
 * names: NULL-terminated. Return: NULL where none is near enough to be meant.
 */
const char *str_nearest(const char *name, const char *const *names);

/*
 * Text for a terminal or a message: control characters and bytes that are not UTF-8 as \xHH, so that a name which the
 * box chose cannot move the cursor. Appends to `s`.
 */
void str_add_printable(struct str *s, const char *bytes, size_t len);

/* Length of the valid UTF-8 sequence at `bytes` (1 to 4), 0 where there is none (overlong, surrogate, cut). */
size_t str_utf8_len(const unsigned char *bytes, size_t len);

#endif
