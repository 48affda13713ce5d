/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Allocation that does not return NULL. The supervisor works on small, bounded data before the command runs; where
 * even that cannot be had there is nothing sensible left to do, so the process ends with status 125 and one line.
 * Code that takes sizes from the box bounds them first.
 */
#ifndef AGENTBOX_BASE_MEM_H
#define AGENTBOX_BASE_MEM_H

#include <stddef.h>

void *mem_alloc(size_t size) __attribute__((malloc, returns_nonnull, warn_unused_result));
void *mem_zalloc(size_t size) __attribute__((malloc, returns_nonnull, warn_unused_result));

/* An array of n members of the given size; the product is checked. old may be NULL. */
void *mem_array(void *old, size_t n, size_t size) __attribute__((returns_nonnull, warn_unused_result));

char *mem_strdup(const char *s) __attribute__((malloc, returns_nonnull, warn_unused_result));
char *mem_strndup(const char *s, size_t len) __attribute__((malloc, returns_nonnull, warn_unused_result));
char *mem_printf(const char *fmt, ...)
	__attribute__((malloc, returns_nonnull, warn_unused_result, format(printf, 1, 2)));

#endif
