/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What the supervisor and pid 1 of the box say to each other over a SOCK_SEQPACKET pair. Fixed-width structs, one a packet.
 * Pid 1 is the supervisor's own code, but it shares a uid with the command: what it sends is checked like any input.
 */
#ifndef AGENTBOX_BOX_MESSAGES_H
#define AGENTBOX_BOX_MESSAGES_H

#include <stdint.h>

/* Phases of the child, in order; the words are in run/words.c. */
enum box_phase {
	PHASE_PARENT = 1, /* bind the life to the supervisor's */
	PHASE_IDS,
	PHASE_HOSTNAME,
	PHASE_NETWORK,
	PHASE_MOUNTS,
	PHASE_ENTER,
	PHASE_TERMINAL,
	PHASE_DIRECTORY,
	PHASE_RLIMITS,
	PHASE_CAPS,
	PHASE_LANDLOCK,
	PHASE_SECCOMP,
	PHASE_REPORT,
	PHASE_START, /* waiting for the supervisor's word, and fork */
	PHASE_SESSION, /* in the command's process: its session, its terminal, its descriptors */
	PHASE_EXEC,
};

enum box_msg_type {
	/* from pid 1 */
	BOX_FAILED = 1, /* phase, errnum, step, object: the box could not be made; pid 1 ends */
	BOX_READY,      /* all is in force; with descriptors as `fds` says */
	BOX_STARTED,    /* the command was executed */
	BOX_NOT_EXEC,   /* errnum: execve of the command failed; pid 1 ends */
	BOX_EXITED,     /* wait_status and usage of the command, `alone`; pid 1 ends */
	/* to pid 1 */
	BOX_GO,         /* start the command */
	BOX_SIGNAL,     /* signum to the command, or to its process group */
};

/* Descriptors that come with BOX_READY, in this order. */
enum box_fds {
	BOX_FD_TTY = 1 << 0,     /* master of the box's pseudo-terminal */
	BOX_FD_SECCOMP = 1 << 1, /* listener of refused system calls */
};

struct box_msg {
	uint32_t type;
	uint32_t phase;
	int32_t errnum;
	int32_t step, object;
	uint32_t fds;
	int32_t wait_status;
	uint32_t signum, group;
	uint32_t alone; /* no process but pid 1 is left in the box */
	uint64_t user_us, system_us, max_rss_kb;
};

#endif
