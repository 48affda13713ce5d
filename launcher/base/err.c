/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "base/err.h"

#include <stdio.h>
#include <string.h>

#include "base/banned.h"

static int err_format(struct err *e, int errnum, const char *fmt, va_list ap)
{
	if (!e)
		return -errnum;
	e->code = errnum;
	vsnprintf(e->msg, sizeof(e->msg), fmt, ap);
	return -errnum;
}

int(err_set)(struct err *e, int errnum, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	err_format(e, errnum, fmt, ap);
	va_end(ap);
	return -errnum;
}

int(err_errno)(struct err *e, int errnum, const char *fmt, ...)
{
	va_list ap;
	size_t len;

	if (!e)
		return -errnum;
	va_start(ap, fmt);
	err_format(e, errnum, fmt, ap);
	va_end(ap);
	len = strlen(e->msg);
	snprintf(e->msg + len, sizeof(e->msg) - len, ": %s", strerrordesc_np(errnum) ?: "unknown error");
	return -errnum;
}

int(err_prefix)(struct err *e, const char *fmt, ...)
{
	char text[ERR_MSG_MAX], inner[ERR_MSG_MAX];
	va_list ap;

	if (!e)
		return -1;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	memcpy(inner, e->msg, sizeof(inner));
	snprintf(e->msg, sizeof(e->msg), "%.480s: %.540s", text, inner);
	return -e->code;
}
