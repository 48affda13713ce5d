/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The state directory: runs/ID/ with run.json, events.jsonl, stdout, stderr, artifacts/. It lies outside every box, and
 * nothing in it is read back from what a box could write.
 *
 * A live run holds a lock on its directory; the kernel lets go of it when the supervisor dies. So a run without lock
 * whose run.json does not say "ended" is lost.
 */
#ifndef AGENTBOX_RUN_STATE_H
#define AGENTBOX_RUN_STATE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

#define STATE_ID_MAX 40 /* with NUL; an id has [0-9a-z-] only */

/*
 * Absolute path of the state directory: $AGENTBOX_STATE, else $XDG_STATE_HOME/agentbox, else ~/.local/state/agentbox.
 * Caller frees *out. Return: 0 or -ENOENT (no home directory).
 */
int state_path(char **out, struct err *e);

/*
 * Opens the state directory, made with its parents (0700) where it is missing. Refused (-EPERM) where it belongs to
 * another user or group or others have any right on it: what stands in it steers `stop` and `prune`.
 * Return: descriptor or -errno.
 */
int state_open(struct err *e);

/*
 * A new run: runs/ID, 0700, locked.
 * id: STATE_ID_MAX bytes; "20261129-121314-123456-ab3f" (UTC to the microsecond, then random), so that ids sort by
 * time.
 * Return: the directory's descriptor, or -errno. **The lock lives with the open file description**: until every
 * duplicate of the descriptor is closed. A child that was cloned without exec has one: it must close it, or the run
 * seems live as long as the child lives.
 */
int state_run_create(int state, char *id, struct err *e);

/*
 * The run that a user means: an id, the prefix of just one, or "last" (the newest).
 * id: STATE_ID_MAX bytes. Return: 0; -ENOENT; -ENOTUNIQ (`e` names up to five); another -errno.
 */
int state_run_find(int state, const char *word, char *id, struct err *e);

/* Opens runs/ID. Return: descriptor (without lock) or -errno. */
int state_run_open(int state, const char *id, struct err *e);

/*
 * All runs, oldest first; not one of the last seconds that is still being made (no lock and no events.jsonl yet). Appends
 * to ids. Return: 0 or -errno.
 */
int state_run_list(int state, struct strv *ids, struct err *e);

/* Does a supervisor hold the run's lock? rundir: from state_run_open, not from state_run_create. */
bool state_run_is_live(int rundir);

/*
 * Takes the lock of a run that is not live, for as long as the returned descriptor is open.
 * Return: descriptor; -EWOULDBLOCK where the run is live (or another prune is at it); -errno.
 */
int state_run_lock(int rundir);

/* Replaces run.json in one step. run: stays the caller's. Return: 0 or -errno. */
int state_run_write(int rundir, const json_t *run, struct err *e);

/* Reads run.json. *out: a new reference to an object. Return: 0; -ENOENT; -EBADMSG; -errno. */
int state_run_read(int rundir, json_t **out, struct err *e);

/* "running", "ended" or "lost". run: of run.json, or NULL where that cannot be read. */
const char *state_run_status(const json_t *run, bool live);

/* Removes runs/ID with all in it. The caller holds its lock. Return: 0 or -errno. */
int state_run_remove(int state, const char *id, struct err *e);

/* Milliseconds since 1970 of an RFC 3339 time in UTC, or of the time in a run's id. Return: 0 or -EINVAL. */
int state_time_ms(const char *rfc3339, int64_t *out_ms);
int state_id_time_ms(const char *id, int64_t *out_ms);

#endif
