/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What the box's network refused before it could come here: the kernel sends the head of each packet (NFLOG; without nf_tables
 * packet(7), of all that asks for something), and each attempt becomes a report.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "egress/packet.h"
#include "egress/state.h"

#include "base/banned.h"

#define MESSAGES_A_TURN 64

static void report(struct gateway *g, const struct packet_attempt *a)
{
	struct policy_request q = {.addr = &a->addr, .port = a->port};
	struct egress_report r = {.type = EGRESS_CONNECT,
				  .id = ++g->next_id,
				  .port = a->port,
				  .outcome = EGRESS_DENIED,
				  .via = EGRESS_VIA_FILTER,
				  .protocol = a->protocol,
				  .addr = a->addr};
	struct verdict v = {.reason = VERDICT_UNSUPPORTED, .rule = -1};
	struct host *h;

	if (names_find_synthetic(&g->names, &a->addr, &h)) {
		if (h) {
			memcpy(r.name, h->name, strlen(h->name) + 1);
			q.name = h->name;
			q.addr = NULL;
		} else {
			v.reason = VERDICT_NOT_GIVEN;
		}
	}
	if (v.reason != VERDICT_NOT_GIVEN && a->protocol == IPPROTO_TCP && a->port)
		v = policy_decide(g->policy, &q);
	/* What a rule allows and what was refused all the same is another protocol to that port. */
	if (v.allowed)
		v = (struct verdict){.reason = VERDICT_UNSUPPORTED, .rule = -1};
	r.reason = (uint8_t)v.reason;
	r.rule = v.rule;
	reporter_send_merged(&g->reporter, &r, g->now_ms);
}

static void take_messages(struct gateway *g, size_t len)
{
	const uint8_t *at = (const uint8_t *)g->scratch, *packet;
	size_t packet_len;

	while ((packet = packet_next(&at, &len, &packet_len))) {
		struct packet_attempt a;

		if (packet_parse(packet, packet_len, &a))
			report(g, &a);
	}
}

static bool is_own(const struct address *a)
{
	static const char *const own[] = {GATEWAY_OWN4, GATEWAY_OWN6, "::1"};

	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
		uint8_t b[16];
		struct address addr;

		if (inet_pton(AF_INET, own[i], b) == 1)
			addr = address_from_v4(b);
		else if (inet_pton(AF_INET6, own[i], b) == 1)
			addr = address_from_v6(b);
		else
			continue;
		if (address_eq(&addr, a))
			return true;
	}
	return false;
}

/* Something that comes to a listener, and is told of by whoever accepts it. */
static bool is_served(const struct gateway *g, const struct packet_attempt *a)
{
	if (a->protocol != IPPROTO_TCP)
		return false;
	for (size_t i = 0; i < g->n_listeners; i++)
		if (g->listener_ports[i] == a->port)
			return true;
	return a->port == 53;
}

void filterlog_event(struct gateway *g)
{
	for (int i = 0; i < MESSAGES_A_TURN && !reporter_is_busy(&g->reporter); i++) {
		ssize_t n = recv(g->nflog.fd, g->scratch, sizeof(g->scratch), MSG_DONTWAIT);
		struct packet_attempt a;

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == ENOBUFS) {
			gateway_error(g, ENOBUFS, "refused packets came faster than they could be logged");
			continue;
		}
		if (n <= 0)
			return;
		if (!g->packets)
			take_messages(g, (size_t)n);
		else if (packet_parse((const uint8_t *)g->scratch, (size_t)n, &a) && !is_own(&a.addr) && !is_served(g, &a))
			report(g, &a);
	}
}
