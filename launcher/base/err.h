/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Errors: a function that can fail takes a `struct err *` last and returns a negative errno. The innermost place
 * names the object and what went wrong; callers put context before it. Nothing is allocated, nothing is printed.
 */
#ifndef AGENTBOX_BASE_ERR_H
#define AGENTBOX_BASE_ERR_H

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>

#define ERR_MSG_MAX 1024

struct err {
	int code; /* errno value, positive; 0 where nothing failed */
	char msg[ERR_MSG_MAX];
};

/*
 * Sets the message, without the errno's words: for faults that the text says whole.
 * e: may be NULL. errnum: positive. Return: -errnum, so that `return err_set(...)` reads well.
 */
int err_set(struct err *e, int errnum, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* The same, with ": " and the words of errnum behind the text. */
int err_errno(struct err *e, int errnum, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Puts "text: " before the message that is there. Return: -e->code. */
int err_prefix(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/*
 * Whatever errnum was (an errno that something reset to 0), a failure is negative and cannot be taken for success. The
 * analyzers see it too.
 */
static inline int err_negative(int r)
{
	return r < 0 ? r : -EIO;
}

#define err_set(...) err_negative((err_set)(__VA_ARGS__))
#define err_errno(...) err_negative((err_errno)(__VA_ARGS__))
#define err_prefix(...) err_negative((err_prefix)(__VA_ARGS__))

#endif
