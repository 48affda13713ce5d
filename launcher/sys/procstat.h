/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What /proc says of a process. */
#ifndef AGENTBOX_SYS_PROCSTAT_H
#define AGENTBOX_SYS_PROCSTAT_H

#include <stdint.h>
#include <sys/types.h>

/*
 * When a process started: field 22 of /proc/PID/stat (proc(5)), clock ticks since boot. With the pid it names one
 * process, as pids are used again. To be sure of a process: open its pidfd, then compare this.
 * Return: 0; -ESRCH where there is no such process; -errno.
 */
int procstat_start(pid_t pid, uint64_t *out_ticks);

#endif
