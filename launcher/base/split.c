/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "base/split.h"

#include <errno.h>
#include <string.h>

#include "base/banned.h"

/* One word from *text on, which moves behind it. */
static int split_word(const char **text, struct str *word)
{
	const char *p = *text;
	char quote = 0;

	for (; *p && (quote || (*p != ' ' && *p != '\t')); p++) {
		if (*p == quote) {
			quote = 0;
		} else if (!quote && (*p == '\'' || *p == '"')) {
			quote = *p;
		} else {
			if (*p == '\\' && quote != '\'' && !*++p)
				return -EINVAL;
			str_add_n(word, p, 1);
		}
	}
	*text = p;
	return quote ? -EINVAL : 0;
}

int split_words(const char *text, struct strv *out)
{
	for (;;) {
		cleanup_str struct str word = {0};
		int r;

		text += strspn(text, " \t");
		if (!*text)
			return 0;
		r = split_word(&text, &word);
		if (r < 0)
			return r;
		strv_take(out, str_steal(&word));
	}
}
