/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A second process in this one's memory and descriptors, which runs a function while this one waits for it: for what has to
 * be done by a process that is somewhere else, as in another control group, and what it clones with CLONE_PARENT is this one's
 * child. The two never run at the same time, so that neither errno nor malloc nor anything else knows of it (posix_spawn's way).
 * It dies with this process. It has the signal mask and dispositions of the moment when it was started.
 */
#ifndef AGENTBOX_SYS_TWIN_H
#define AGENTBOX_SYS_TWIN_H

#include "base/err.h"

struct twin;

/* By a process of one thread. out: set where it was started; twin_end ends it. Return: 0 or -errno. */
int twin_start(struct twin **out, struct err *e);

/* Runs fn(arg) in it, and returns when that has returned. Return: 0; -ECHILD where it was killed. */
int twin_call(struct twin *t, void (*fn)(void *arg), void *arg, struct err *e);

/* Ends it, waits for that, and frees. t: may be NULL. */
void twin_end(struct twin *t);

#endif
