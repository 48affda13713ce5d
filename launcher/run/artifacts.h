/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the run left in /workspace/artifacts, written into the event log with size and digest. */
#ifndef AGENTBOX_RUN_ARTIFACTS_H
#define AGENTBOX_RUN_ARTIFACTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "event/event.h"

/* Bounds of the work, so that what the box planted cannot stall the end of the run. */
#define ARTIFACTS_MAX_ENTRIES 10000
#define ARTIFACTS_MAX_DEPTH 64
#define ARTIFACTS_MAX_HASHED (1ULL << 30) /* bytes read in all */
#define ARTIFACTS_MAX_MS 10000

struct artifacts_summary {
	uint64_t listed;  /* events written */
	uint64_t skipped; /* of them without digest: no regular file, too large, unreadable, changing, out of time */
	uint64_t bytes;   /* hashed */
	bool cut;         /* there may be more than was listed */
	const char *why;  /* of the cut: "entries", "depth", "time"; else NULL */
};

/*
 * One EVENT_ARTIFACT for each entry of the directory but for directories that can be read. Regular files have size and
 * SHA-256; everything else is listed by its kind and never opened.
 * To be called when no process of the box is left. Return: 0 (also where it was cut), or -errno with `e`: the directory
 * cannot be read, or the log cannot be written.
 */
int artifacts_record(int artifacts_dirfd, struct event_log *log, struct artifacts_summary *out, struct err *e);

/* The summary as the `artifacts` field of run.end. A new reference. */
json_t *artifacts_summary_json(const struct artifacts_summary *s);

#endif
