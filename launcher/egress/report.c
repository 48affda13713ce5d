/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "egress/report.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/mem.h"

#include "base/banned.h"

int egress_report_read(int fd, struct egress_report *out)
{
	ssize_t n;

	do
		n = recv(fd, out, sizeof(*out), MSG_DONTWAIT | MSG_TRUNC);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == ECONNRESET ? 0 : -errno;
	if (n == 0)
		return 0;
	if (n != sizeof(*out) || !out->type || out->type >= EGRESS_TYPES || out->outcome >= EGRESS_OUTCOMES ||
	    out->reason >= VERDICT_REASONS || out->via >= EGRESS_VIAS || out->end >= EGRESS_ENDS || out->rule < -1 ||
	    (out->addr.family && out->addr.family != 4 && out->addr.family != 6) || out->errnum < 0)
		return -EBADMSG;
	out->name[sizeof(out->name) - 1] = '\0';
	out->seen[sizeof(out->seen) - 1] = '\0';
	out->text[sizeof(out->text) - 1] = '\0';
	return 1;
}

const char *egress_via_text(enum egress_via via)
{
	static const char *const texts[EGRESS_VIAS] = {"gateway", "proxy", "socks", "filter", "ebpf"};

	return (unsigned)via < EGRESS_VIAS ? texts[via] : "unknown";
}

const char *egress_end_text(enum egress_end end)
{
	static const char *const texts[EGRESS_ENDS] = {"closed", "client-reset", "server-reset", "limit", "denied"};

	return (unsigned)end < EGRESS_ENDS ? texts[end] : "unknown";
}

const char *egress_outcome_text(enum egress_outcome outcome)
{
	static const char *const texts[EGRESS_OUTCOMES] = {"allowed", "denied", "allowed"};

	return (unsigned)outcome < EGRESS_OUTCOMES ? texts[outcome] : "unknown";
}

static int send_one(struct reporter *r, const struct egress_report *report)
{
	ssize_t n;

	do
		n = send(r->fd, report, sizeof(*report), MSG_DONTWAIT | MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : 0;
}

/* An empty queue that was long gives its memory back. */
static void shrink(struct reporter *r)
{
	if (r->n || r->cap <= 2 * REPORT_QUEUE_BUSY)
		return;
	free(r->queue);
	r->queue = NULL;
	r->cap = r->first = 0;
}

void reporter_flush(struct reporter *r)
{
	while (r->n || r->lost) {
		struct egress_report lost = {.type = EGRESS_LOST, .rule = -1, .count = r->lost};
		const struct egress_report *next = r->n ? &r->queue[r->first] : &lost;
		int rc = send_one(r, next);

		if (rc == -EAGAIN || rc == -ENOBUFS) {
			r->waiting = true;
			return;
		}
		/* Another failure means that the supervisor is gone, and so is the gateway in a moment. */
		if (r->n) {
			r->first = (r->first + 1) % r->cap;
			r->n--;
		} else {
			r->lost = 0;
		}
	}
	r->waiting = false;
	shrink(r);
}

static void grow(struct reporter *r)
{
	unsigned cap = r->cap ? r->cap * 2 : 2 * REPORT_QUEUE_BUSY;
	struct egress_report *queue = mem_array(NULL, cap, sizeof(*queue));

	for (unsigned i = 0; i < r->n; i++)
		queue[i] = r->queue[(r->first + i) % r->cap];
	free(r->queue);
	r->queue = queue;
	r->cap = cap;
	r->first = 0;
}

void reporter_send(struct reporter *r, const struct egress_report *report)
{
	if (r->n || r->lost)
		reporter_flush(r);
	if (!r->n && !r->lost) {
		int rc = send_one(r, report);

		if (rc != -EAGAIN && rc != -ENOBUFS)
			return;
	}
	r->waiting = true;
	if (r->n == REPORT_QUEUE_MAX || r->lost) {
		if (r->lost != UINT32_MAX)
			r->lost++;
		return;
	}
	if (r->n == r->cap)
		grow(r);
	r->queue[(r->first + r->n++) % r->cap] = *report;
}

bool reporter_is_busy(const struct reporter *r)
{
	return r->n > REPORT_QUEUE_BUSY || r->lost;
}

/* --- equal ones --- */

static bool is_same(const struct egress_report *a, const struct egress_report *b)
{
	return a->type == b->type && a->rule == b->rule && a->errnum == b->errnum && a->port == b->port &&
	       a->qtype == b->qtype && a->outcome == b->outcome && a->reason == b->reason && a->via == b->via &&
	       a->protocol == b->protocol && address_eq(&a->addr, &b->addr) && strcmp(a->name, b->name) == 0 &&
	       strcmp(a->seen, b->seen) == 0;
}

/* Whoever makes two fall on one place has them reported as if this were not there: no less. */
static struct report_same *place(struct reporter *r, const struct egress_report *report)
{
	uint32_t h = 2166136261U ^ report->type ^ (uint32_t)report->port << 8 ^ (uint32_t)report->qtype << 20 ^ report->reason;

	for (const char *p = report->name; *p; p++)
		h = (h ^ (uint8_t)*p) * 16777619U;
	for (const char *p = report->seen; *p; p++)
		h = (h ^ (uint8_t)*p) * 16777619U;
	for (size_t i = 0; i < sizeof(report->addr.b); i++)
		h = (h ^ report->addr.b[i]) * 16777619U;
	if (!r->same)
		r->same = mem_zalloc(REPORT_SAME * sizeof(*r->same));
	return &r->same[(h ^ h >> 16) % REPORT_SAME];
}

static void send_count(struct reporter *r, struct report_same *s)
{
	if (!s->repeats)
		return;
	s->report.count = s->repeats;
	if (s->repeats > 1)
		s->report.client_port = 0; /* it stands for several */
	s->repeats = 0;
	r->n_repeated--;
	reporter_send(r, &s->report);
}

void reporter_send_merged(struct reporter *r, const struct egress_report *report, uint64_t now_ms)
{
	struct report_same *s = place(r, report);

	if (s->used && now_ms - s->at_ms < REPORT_SAME_MS && is_same(&s->report, report) && s->repeats < UINT32_MAX) {
		if (!s->repeats++ && (!r->n_repeated++ || s->at_ms + REPORT_SAME_MS < r->due_ms))
			r->due_ms = s->at_ms + REPORT_SAME_MS;
		s->report.id = report->id;
		s->report.client_port = report->client_port;
		return;
	}
	send_count(r, s);
	s->report = *report;
	s->report.count = 1;
	s->at_ms = now_ms;
	s->used = true;
	reporter_send(r, &s->report);
}

void reporter_send_counts(struct reporter *r, uint64_t now_ms, bool all)
{
	uint64_t due = UINT64_MAX;

	if (!r->n_repeated || (!all && now_ms < r->due_ms))
		return;
	for (size_t i = 0; i < REPORT_SAME && r->n_repeated; i++) {
		struct report_same *s = &r->same[i];

		if (!s->repeats)
			continue;
		if (all || s->at_ms + REPORT_SAME_MS <= now_ms) {
			send_count(r, s);
			s->at_ms = now_ms;
		} else if (s->at_ms + REPORT_SAME_MS < due) {
			due = s->at_ms + REPORT_SAME_MS;
		}
	}
	r->due_ms = due;
}

void reporter_free(struct reporter *r)
{
	free(r->queue);
	free(r->same);
	r->queue = NULL;
	r->same = NULL;
	r->n = r->cap = r->n_repeated = 0;
}
