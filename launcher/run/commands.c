/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "run/commands.h"

#include <errno.h>
#include <string.h>

#include "base/split.h"
#include "base/str.h"

#include "base/banned.h"

static bool is_prefix(const struct strv *words, char *const *argv)
{
	if (!words->n)
		return false;
	for (size_t i = 0; i < words->n; i++)
		if (!argv[i] || !str_eq(words->v[i], argv[i]))
			return false;
	return true;
}

int commands_check(const struct profile *p, char *const *argv, struct err *e)
{
	const struct val_list *list = &p->commands.allow;
	char place[256];

	if (!list->n)
		return 0;
	for (size_t i = 0; i < list->n; i++) {
		cleanup_strv struct strv words = {0};

		if (split_words(list->items[i].text, &words) < 0)
			return err_set(e, EINVAL, "%s: [commands] allow: %s: a quote is not closed",
				       origin_text(list->items[i].from, place, sizeof(place)), list->items[i].text);
		if (is_prefix(&words, argv))
			return 0;
	}
	return err_set(e, EPERM, "%s%s%s: no entry of commands.allow begins like it (the list is at %s)",
		       argv[0], argv[1] ? " " : "", argv[1] ? argv[1] : "", origin_text(list->items[0].from, place, sizeof(place)));
}
