/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the parts of a run's supervisor share. Internal to run/. */
#ifndef AGENTBOX_RUN_SUPERVISOR_H
#define AGENTBOX_RUN_SUPERVISOR_H

#include <jansson.h>
#include <stdint.h>
#include <time.h>

#include "box/cgroup.h"
#include "box/messages.h"
#include "box/plan.h"
#include "egress/bpf.h"
#include "egress/names.h"
#include "egress/policy.h"
#include "egress/report.h"
#include "event/event.h"
#include "run/output.h"
#include "run/run.h"
#include "run/state.h"
#include "run/terminal.h"

/* INTERFACE, "run.end has reason". */
enum run_reason {
	REASON_NONE,
	REASON_EXITED,
	REASON_SIGNALED,
	REASON_TIMEOUT,
	REASON_OOM,
	REASON_LIMIT,
	REASON_CANCELLED,
	REASON_REFUSED,
	REASON_SETUP_FAILED,
	REASON_NOT_EXECUTABLE,
	REASON_NOT_FOUND,
	REASON_FAILED,
	REASON_LOST,
};

/* egress.mode = gateway and host, see run/network.h. */
struct network {
	struct policy *policy; /* NULL: no network */
	struct policy_reach reach;
	pid_t pid;
	int pidfd, resolver_pidfd;                        /* -1: none */
	int report, gateway_report, gateway_end, box_end; /* -1: none; the last three until both processes have them */
	int names[2];          /* mode = host: the name server's sockets, until it has them; -1: none */
	struct address server; /* and its address */
	char server_text[ADDRESS_TEXT_MAX];
	bool ready, finishing, resolver_asked, more_denied;
	bool failed_early; /* the gateway ended before it was ready */
	char failure[256];
	uint64_t denied, sent_bytes, received_bytes;
	uint64_t questions, refusals, sent, unsaid; /* events so far; what came when there were enough of them */
	struct strv denied_names;
};

/* egress.ebpf, see run/ebpf.h. */
#define EBPF_SEEN 1024
#define EBPF_PORTS 65536
struct ebpf {
	bool wanted, attached;
	char why[1024];          /* why it is not attached; as long as an error */
	struct bpf_filter filter;
	struct bpf_record *syns; /* by the box's own port, EBPF_PORTS: the last connection from there that was allowed */
	struct bpf_record *seen; /* ring of EBPF_SEEN: the last ones that were tried */
	size_t n_seen;           /* of all there were */
	char **names;            /* by the number of their synthetic address */
	size_t n_names;
	struct names given;      /* mode = host: what was answered for which name */
	struct host_usage usage; /* mode = host: as last read */
};

struct supervisor {
	const struct run_options *options;
	const struct profile *profile;
	struct plan plan;
	struct run_host host;
	char id[STATE_ID_MAX];
	char *state_path, *run_path;
	int state, run_dir;     /* run_dir holds the lock */
	struct event_log log;
	bool logging;
	json_t *record;         /* run.json */
	struct timespec started; /* CLOCK_MONOTONIC */

	pid_t init;             /* pid 1 of the box, as we see it; 0: none */
	pid_t sweeper;          /* run/sweeper.h; 0: none */
	int init_pidfd, control, seccomp_listener, epoll, signals, parent_pidfd;
	int deadline;           /* timerfd of the next wall-clock event, -1 without limit */
	struct terminal terminal;
	struct output output;
	struct network network;
	struct ebpf ebpf;
	bool box_ready, go_sent, tty_closed, stdin_closed;
	int reserve;            /* disk space for the end of the record (dirs.h), -1: none */
	bool init_gone, init_reaped;
	bool box_empty;         /* the command has ended, and of the box only pid 1 is left, on its way out */
	bool command_refused, command_started, command_ended;
	enum run_reason pending; /* why we are ending the command, if we are */
	int passed_signal;      /* the last one of those to end that the caller sent and the command got; 0: none */
	uint64_t kill_at_ms;    /* CLOCK_MONOTONIC; 0: no kill is due */
	bool wall_warned;
	uint64_t denied_count;
	struct cgroup cgroup;   /* n 0: none */
	struct cgroup_stats usage;
	struct strv limits_hit, limits_warned; /* keys that there were such events of */
	json_t *refused_calls;  /* name -> count, with syscalls.log */

	/* the outcome */
	enum run_reason reason;
	int exit_code, signum;  /* of the command; -1: not so */
	int status;             /* of agentbox */
	struct box_msg exited;
	struct err error;       /* what to say where the command did not run */
};

const char *reason_name(enum run_reason reason);

/* Milliseconds of CLOCK_MONOTONIC. */
uint64_t now_ms(void);
/* When the run began, on the same clock. */
uint64_t start_ms(const struct supervisor *s);

/* --- record.c: events and run.json --- */
/* run.json as it is while the box lives; again when more of it is known. */
int record_running(struct supervisor *s, struct err *e);
int record_start(struct supervisor *s, struct err *e);
int record_ready(struct supervisor *s, struct err *e);
/* Everything that comes after the command: changes, artifacts, run.end, run.json. Best effort; the first failure is in `e`. */
int record_end(struct supervisor *s, struct err *e);
/* Writes an event and counts it where it says that something was denied. fields: stolen. */
int record_event(struct supervisor *s, enum event_type type, json_t *fields, struct err *e);

/* command.refused, with s->error as the reason. list: where the list stands that does not name it. */
void record_command_refused(struct supervisor *s, struct origin list);
/* Takes one refused system call from the listener (syscalls.log), and counts it. */
void record_refused_call(struct supervisor *s);

/* --- loop.c --- */
/* Is it a signal by which a caller says that it wants no more of the command? */
bool loop_is_ending(uint32_t signum);
/* Sends the word to start if all is in force. Return: 0 or -errno with `e`. */
int loop_start_command(struct supervisor *s, struct err *e);
/* Waits until pid 1 has been reaped: then nothing of the box is left, no process and no mount. */
void loop_reap_init(struct supervisor *s);
/*
 * Serves the box until pid 1 is gone, or is alone and about to go. Return: 0 or -errno with `e`: the supervisor itself
 * failed, and pid 1 was killed.
 */
int loop_run(struct supervisor *s, struct err *e);

/* --- words.c --- */
/* What the child's BOX_FAILED means, with the object and what to do, in s->error. */
void words_box_failed(struct supervisor *s, const struct box_msg *msg);

/* Why the command could not be executed, in s->error. */
void words_not_executed(struct supervisor *s, int errnum);

#endif
