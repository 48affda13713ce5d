/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Words as a shell splits them, without expansion: blanks between, '...', "..." and \ keep them together. */
#ifndef AGENTBOX_BASE_SPLIT_H
#define AGENTBOX_BASE_SPLIT_H

#include "base/str.h"

/* Appends to out. Return: 0; -EINVAL for a quote that is not closed or a \ at the end (out may have grown). */
int split_words(const char *text, struct strv *out);

#endif
