/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "egress/report.h"

#include <errno.h>
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
			r->first = (r->first + 1) % REPORT_QUEUE;
			r->n--;
		} else {
			r->lost = 0;
		}
	}
	r->waiting = false;
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
	if (r->n == REPORT_QUEUE || r->lost) {
		if (r->lost != UINT32_MAX)
			r->lost++;
		return;
	}
	if (!r->queue)
		r->queue = mem_array(NULL, REPORT_QUEUE, sizeof(*r->queue));
	r->queue[(r->first + r->n++) % REPORT_QUEUE] = *report;
}
