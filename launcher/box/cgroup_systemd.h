/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A control group from the caller's own systemd --user, for who has none that he may write: after a login with cgroup v2 the
 * caller is in session-N.scope, which is root's. Used by box/cgroup.c only.
 *
 * It is a transient scope, delegated, so that what is beneath it is ours (systemd's CGROUP_DELEGATION.md):
 *
 *     agentbox-RUNID.scope                  systemd's; no processes of its own, so that controllers can be turned on
 *     agentbox-RUNID.scope/holder           a twin of the supervisor (sys/twin.h)
 *     agentbox-RUNID.scope/agentbox-RUNID   the run's limits, with `box` in it, as anywhere else (box/cgroup.h)
 *
 * The supervisor stays where it was: a session that is ended, or a service that is stopped, still ends the run. But clone3 puts
 * a process into a group only where the common ancestor of that and the caller's own may be written, and above a session scope
 * nothing may. So the twin asks for the scope, for itself, and clones the box. It stays, idle, until the record is written:
 * systemd removes the scope with all beneath it when its last process is gone, also where that was killed.
 */
#ifndef AGENTBOX_BOX_CGROUP_SYSTEMD_H
#define AGENTBOX_BOX_CGROUP_SYSTEMD_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/str.h"

/*
 * Asks for the scope, moves this process into it and on to its `holder`. run_id: [A-Za-z0-9-]. timeout_ms: for all of it; what
 * comes later moves this process all the same, and nothing else.
 * Return: the scope's directory, fresh; NULL and why not.
 */
char *cgroup_systemd_scope(const char *run_id, unsigned timeout_ms, struct err *e);

/* Is there anything to ask? Costs a look for two files. */
bool cgroup_systemd_possible(struct err *e);

/* Where systemd --user may be reached. For tests. */
struct cgroup_systemd_place {
	const char *session_bus; /* DBUS_SESSION_BUS_ADDRESS, or NULL */
	const char *runtime_dir; /* XDG_RUNTIME_DIR, or NULL */
	uid_t uid;
};

/*
 * The n-th D-Bus address to try. out: set where there is one. bus: set to whether a bus is there, and not the manager itself.
 * Return: 1; 0: nothing there (a socket that does not exist, an address that is no socket's); -ENOENT after the last.
 */
int cgroup_systemd_address(const struct cgroup_systemd_place *place, int n, struct str *out, bool *bus);

/* The same with places named: the question alone, nothing is moved but by systemd. For tests. */
int cgroup_systemd_ask(const struct cgroup_systemd_place *place, const char *unit, unsigned timeout_ms, struct err *e);

#endif
