/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What the gateway tells the supervisor: fixed-width structs, one a packet, over a SOCK_SEQPACKET pair. The gateway
 * never waits for the supervisor: what the socket does not take is queued, and while the queue is long nothing new is
 * accepted from the box. Equal questions and refusals become one report a second with a count. So whoever is in the box
 * can neither crowd a report out nor have the log grow as fast as it can ask.
 */
#ifndef AGENTBOX_EGRESS_REPORT_H
#define AGENTBOX_EGRESS_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/hostname.h"
#include "egress/address.h"
#include "egress/policy.h"

enum egress_report_type {
	EGRESS_READY = 1, /* confined, and serving; the command may start */
	EGRESS_FAILED,    /* the gateway cannot work and ends: errnum, text */
	EGRESS_GIVEN,     /* mode = host: `addr` is about to be answered for `name` */
	EGRESS_DNS,       /* a question: name, qtype, outcome, reason, rule */
	EGRESS_CONNECT,   /* an attempt was decided */
	EGRESS_CLOSE,     /* a connection that was allowed has ended */
	EGRESS_ERROR,     /* something is wrong, and the gateway goes on: errnum, text */
	EGRESS_LOST,      /* `count` reports did not fit */
	EGRESS_RESOLVER,  /* there is a name to look up: gateway_give_resolver() */
	EGRESS_TYPES
};

enum egress_outcome {
	EGRESS_ALLOWED,
	EGRESS_DENIED,
	EGRESS_UNREACHED, /* allowed, and the other end cannot be reached or resolved: errnum (0: the name has no address) */
	EGRESS_OUTCOMES
};

enum egress_via {
	EGRESS_VIA_GATEWAY, /* captured: the program knew nothing of a proxy */
	EGRESS_VIA_PROXY,   /* HTTP CONNECT or an absolute URL */
	EGRESS_VIA_SOCKS,
	EGRESS_VIA_FILTER, /* refused in the box's network before it came to the gateway */
	EGRESS_VIA_EBPF,   /* by the programs on the control group; said by the supervisor */
	EGRESS_VIAS
};

enum egress_end {
	EGRESS_END_CLOSED,
	EGRESS_END_CLIENT_RESET,
	EGRESS_END_SERVER_RESET,
	EGRESS_END_LIMIT,  /* max-bytes */
	EGRESS_END_DENIED, /* a later request on the connection was denied */
	EGRESS_ENDS
};

#define EGRESS_TEXT_MAX 160

struct egress_report {
	uint32_t type; /* enum egress_report_type */
	uint32_t id;   /* of the connection; CONNECT and CLOSE */
	uint32_t count; /* DNS and CONNECT: how many equal ones it stands for, 1 or more; LOST */
	int32_t rule;    /* see policy_rule; -1: none */
	int32_t errnum;
	uint16_t port, qtype;
	uint16_t client_port; /* CONNECT: the box's own port of the connection; 0: not known */
	uint8_t outcome; /* enum egress_outcome */
	uint8_t reason;  /* enum verdict_reason */
	uint8_t via;     /* enum egress_via */
	uint8_t protocol; /* IPPROTO_TCP, IPPROTO_UDP, ... */
	uint8_t end;     /* enum egress_end */
	struct address addr; /* what was connected to, or would have been; family 0: not known */
	char name[HOSTNAME_MAX + 1]; /* "": a bare address, or a name that is none */
	char seen[HOSTNAME_MAX + 1]; /* VERDICT_NAME_MISMATCH: the name in the stream; "": none was there */
	char text[EGRESS_TEXT_MAX];
	uint64_t to_server_bytes, to_client_bytes, duration_ms;
};

/*
 * Supervisor. Takes one report and checks it: enums in range, texts terminated. Return: 1; 0 at the end (the gateway is
 * gone); -EAGAIN; -EBADMSG.
 */
int egress_report_read(int fd, struct egress_report *out);

/* "gateway", "closed" ... for the events. */
const char *egress_via_text(enum egress_via via);
const char *egress_end_text(enum egress_end end);
const char *egress_outcome_text(enum egress_outcome outcome);

/* --- the gateway's side --- */

#define REPORT_QUEUE_BUSY 512
/* Beyond it reports are lost. What was accepted before the queue was busy makes no more (three a connection). */
#define REPORT_QUEUE_MAX 32768
#define REPORT_SAME_MS 1000
#define REPORT_SAME 256

/* A report that was sent, and how often the same came up since. */
struct report_same {
	struct egress_report report;
	uint64_t at_ms;
	uint32_t repeats;
	bool used;
};

struct reporter {
	int fd;
	struct egress_report *queue; /* a ring, allocated when needed */
	unsigned cap, first, n;
	uint32_t lost;
	bool waiting; /* for room in the socket: the fd is to be watched for writing */
	unsigned n_repeated; /* of `same`: those with repeats */
	uint64_t due_ms;     /* none of those is due before */
	struct report_same *same; /* REPORT_SAME, by hash, allocated when first needed */
};

/* Sends, or queues, or counts as lost. */
void reporter_send(struct reporter *r, const struct egress_report *report);
/* The same for DNS, and for CONNECT that was not allowed and reached: equal ones within REPORT_SAME_MS become one. */
void reporter_send_merged(struct reporter *r, const struct egress_report *report, uint64_t now_ms);
/* Sends the counts that are due; all: every one. */
void reporter_send_counts(struct reporter *r, uint64_t now_ms, bool all);
/* The socket has room. */
void reporter_flush(struct reporter *r);
/* Is nothing new to be accepted, as the supervisor is behind? */
bool reporter_is_busy(const struct reporter *r);
void reporter_free(struct reporter *r);

#endif
