/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "base/num.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/banned.h"

/* Reads leading digits; *rest points behind them. */
static int num_digits(const char *text, const char **rest, uint64_t *out)
{
	char *end;
	unsigned long long v;

	if (!text || *text < '0' || *text > '9')
		return -EINVAL;
	errno = 0;
	v = strtoull(text, &end, 10);
	if (errno == ERANGE)
		return -ERANGE;
	*rest = end;
	*out = v;
	return 0;
}

int num_u64(const char *text, uint64_t min, uint64_t max, uint64_t *out)
{
	const char *rest;
	uint64_t v;
	int r = num_digits(text, &rest, &v);

	if (r < 0)
		return r;
	if (*rest)
		return -EINVAL;
	if (v < min || v > max)
		return -ERANGE;
	*out = v;
	return 0;
}

struct num_unit {
	const char *name;
	uint64_t factor;
};

static const struct num_unit size_units[] = {
	{"T", 1ULL << 40}, {"G", 1ULL << 30}, {"M", 1ULL << 20}, {"K", 1ULL << 10}, {"", 1}, {NULL, 0},
};

static const struct num_unit duration_units[] = {
	{"d", 86400000}, {"h", 3600000}, {"m", 60000}, {"s", 1000}, {"ms", 1}, {"", 1000}, {NULL, 0},
};

static int num_with_unit(const char *text, const struct num_unit *units, uint64_t *out)
{
	const char *rest;
	uint64_t v;
	int r = num_digits(text, &rest, &v);

	if (r < 0)
		return r;
	for (const struct num_unit *u = units; u->name; u++) {
		if (strcasecmp(rest, u->name) != 0)
			continue;
		if (__builtin_mul_overflow(v, u->factor, &v))
			return -ERANGE;
		*out = v;
		return 0;
	}
	return -EINVAL;
}

int num_size(const char *text, uint64_t *out_bytes)
{
	return num_with_unit(text, size_units, out_bytes);
}

int num_duration(const char *text, uint64_t *out_ms)
{
	return num_with_unit(text, duration_units, out_ms);
}

int num_milli(const char *text, uint64_t *out_milli)
{
	const char *rest;
	uint64_t v, scale = 100;
	int r = num_digits(text, &rest, &v);

	if (r < 0)
		return r;
	if (__builtin_mul_overflow(v, 1000, &v))
		return -ERANGE;
	if (*rest == '.') {
		rest++;
		if (!*rest)
			return -EINVAL;
		for (; *rest >= '0' && *rest <= '9'; rest++, scale /= 10) {
			if (!scale)
				return -EINVAL;
			if (__builtin_add_overflow(v, (uint64_t)(*rest - '0') * scale, &v))
				return -ERANGE;
		}
	}
	if (*rest)
		return -EINVAL;
	*out_milli = v;
	return 0;
}

static const char *num_unit_text(uint64_t v, const struct num_unit *units, const char *zero, char *buf)
{
	if (!v) {
		snprintf(buf, NUM_TEXT_MAX, "%s", zero);
		return buf;
	}
	for (const struct num_unit *u = units; u->name; u++) {
		if (v % u->factor)
			continue;
		snprintf(buf, NUM_TEXT_MAX, "%" PRIu64 "%s", v / u->factor, u->name);
		return buf;
	}
	return buf;
}

const char *num_size_text(uint64_t bytes, char *buf)
{
	return num_unit_text(bytes, size_units, "0", buf);
}

const char *num_duration_text(uint64_t ms, char *buf)
{
	return num_unit_text(ms, duration_units, "0s", buf);
}
