/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the run changed in the repository's overlay, written into the event log. */
#ifndef AGENTBOX_RUN_CHANGES_H
#define AGENTBOX_RUN_CHANGES_H

#include "base/err.h"
#include "event/event.h"

/* Bounds of the work. */
#define CHANGES_MAX_ENTRIES 200000
#define CHANGES_MAX_MS 5000
#define CHANGES_MAX_PATHS 100 /* of each kind in the event */

/*
 * One EVENT_FS_CHANGES from an upper layer (mounted with userxattr) against the directory beneath it:
 *   created   not in the lower directory
 *   modified  in both: written, replaced, or its metadata changed. overlayfs copies a file up when it is opened for
 *             writing; such a copy counts even where it has the same contents, as times and sizes are the box's to set
 *   deleted   a whiteout; or a name of the lower directory that an opaque directory hides. A directory counts once
 * A directory in both with the same mode is no change by itself.
 * To be called when the overlay is unmounted and no process of the box is left. The layer is not changed.
 * Return: 0 (also where it was cut), or -errno with `e`: the layer cannot be read, or the log cannot be written.
 */
int changes_record(int upper_dirfd, int lower_dirfd, struct event_log *log, struct err *e);

#endif
