/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "profile/profile.h"

#include "base/banned.h"

void faults_add(struct faults *f, struct origin from, const char *fmt, ...)
{
	va_list ap;
	char *text;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&text, fmt, ap);
	va_end(ap);
	if (n < 0)
		abort();
	vec_reserve(&f->v, &f->cap, f->n, sizeof(*f->v));
	f->v[f->n++] = (struct fault){.from = from, .text = text};
}

void faults_free(struct faults *f)
{
	for (size_t i = 0; i < f->n; i++)
		free(f->v[i].text);
	free(f->v);
	*f = (struct faults){0};
}

static void origin_add(struct origin from, struct str *out)
{
	const char *file = from.file ? from.file : "default";

	/* A file's name may hold anything, and this goes to terminals. */
	str_add_printable(out, file, strlen(file));
	if (from.line)
		str_addf(out, ":%u", from.line);
}

void faults_text(const struct faults *f, struct str *out)
{
	for (size_t i = 0; i < f->n; i++) {
		origin_add(f->v[i].from, out);
		str_addf(out, ": %s\n", f->v[i].text);
	}
}

const char *origin_text(struct origin from, char *buf, size_t len)
{
	cleanup_str struct str s = {0};

	origin_add(from, &s);
	snprintf(buf, len, "%s", s.text ? s.text : "");
	return buf;
}
