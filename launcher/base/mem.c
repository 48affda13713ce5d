/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "base/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/banned.h"

static void mem_exhausted(void) __attribute__((noreturn));

static void mem_exhausted(void)
{
	static const char text[] = "agentbox: out of memory\n";

	if (write(STDERR_FILENO, text, sizeof(text) - 1) < 0)
		_exit(125);
	_exit(125);
}

void *mem_alloc(size_t size)
{
	void *p = malloc(size ? size : 1);

	if (!p)
		mem_exhausted();
	return p;
}

void *mem_zalloc(size_t size)
{
	void *p = calloc(1, size ? size : 1);

	if (!p)
		mem_exhausted();
	return p;
}

void *mem_array(void *old, size_t n, size_t size)
{
	void *p = reallocarray(old, n ? n : 1, size);

	if (!p)
		mem_exhausted();
	return p;
}

char *mem_strndup(const char *s, size_t len)
{
	char *p = strndup(s, len);

	if (!p)
		mem_exhausted();
	return p;
}

char *mem_strdup(const char *s)
{
	char *p = strdup(s);

	if (!p)
		mem_exhausted();
	return p;
}

char *mem_printf(const char *fmt, ...)
{
	va_list ap;
	char *s;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&s, fmt, ap);
	va_end(ap);
	if (n < 0)
		mem_exhausted();
	return s;
}
