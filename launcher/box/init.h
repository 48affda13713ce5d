/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Pid 1 of the box: starts the command, reaps everything, forwards signals, reports the end. */
#ifndef AGENTBOX_BOX_INIT_H
#define AGENTBOX_BOX_INIT_H

#include "box/child.h"

/* tty: the slave of the box's terminal, or -1. Never returns. When it ends, the kernel kills what is left in the box. */
void init_main(const struct child_config *config, int tty) __attribute__((noreturn));

#endif
