/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * commands.allow: the command lines that `run` may start, as prefixes of argv. It bounds what a caller may ask of
 * agentbox, not what the command then starts itself: that is commands.exec (box/landlock.h).
 */
#ifndef AGENTBOX_RUN_COMMANDS_H
#define AGENTBOX_RUN_COMMANDS_H

#include "profile/profile.h"

/*
 * argv: NULL-terminated. Return: 0 where the list is empty or one entry's words are argv's first ones; -EPERM with `e`;
 * -EINVAL with `e` for an entry that cannot be split.
 */
int commands_check(const struct profile *p, char *const *argv, struct err *e);

#endif
