/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Numbers from text. The only place that calls strto*: first character a digit, whole string consumed, range checked. */
#ifndef AGENTBOX_BASE_NUM_H
#define AGENTBOX_BASE_NUM_H

#include <stdint.h>

/* Return (all): 0; -EINVAL where the text is no such number; -ERANGE where it is out of range. *out is set only on 0. */

/* Decimal digits, min <= value <= max. */
int num_u64(const char *text, uint64_t min, uint64_t max, uint64_t *out);

/* Digits and one of K M G T (1024, lower case too), or none: bytes. */
int num_size(const char *text, uint64_t *out_bytes);

/* Digits and one of ms s m h d; a bare number is seconds. 0 is allowed. */
int num_duration(const char *text, uint64_t *out_ms);

/* Digits, or digits.digits with at most three places: thousandths ("1.5" gives 1500). */
int num_milli(const char *text, uint64_t *out_milli);

/* The shortest text that num_size or num_duration reads back. buf: at least NUM_TEXT_MAX bytes. Return: buf. */
#define NUM_TEXT_MAX 32
const char *num_size_text(uint64_t bytes, char *buf);
const char *num_duration_text(uint64_t ms, char *buf);

#endif
