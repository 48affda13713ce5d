/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Capabilities: none, in no set, and no way to get one back. */
#ifndef AGENTBOX_BOX_CAPS_H
#define AGENTBOX_BOX_CAPS_H

/*
 * Empties every set (effective, permitted, inheritable, bounding, ambient), locks the securebits so that uid 0 gains
 * nothing on exec, sets no_new_privs, and reads all of it back. Child. Return: 0 or -errno (EPERM: something stayed).
 */
int caps_drop(void);

#endif
