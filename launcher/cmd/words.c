/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cmd/words.h"

#include "base/banned.h"

int words_parse(const struct cmd *cmd, int argc, char **argv, int (*take)(void *arg, const struct cmd_parsed *p, struct err *e),
		void *arg, struct strv *words, struct err *e)
{
	bool only_words = false;
	int i = 1;

	while (i < argc) {
		struct cmd_parsed p;
		int before = i, r;

		if (only_words || argv[i][0] != '-' || !argv[i][1]) {
			strv_add(words, argv[i++]);
			continue;
		}
		if (!cmd_next_option(cmd, argc, argv, &i, &p, e)) {
			if (e->code)
				return -e->code;
			only_words = i > before; /* "--" */
			continue;
		}
		r = take(arg, &p, e);
		if (r < 0)
			return r;
	}
	return 0;
}
