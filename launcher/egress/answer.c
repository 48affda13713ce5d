/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What a client is told in its own protocol: yes and no of the proxy, 403 with the reason, a TLS alert. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "egress/socks.h"
#include "egress/state.h"
#include "egress/tls.h"

#include "base/banned.h"

/* "evil.test:443" or "[2001:db8::1]:443". */
static void target_text(const struct conn *c, char *buf, size_t len)
{
	const char *name = conn_name(c);
	char addr[ADDRESS_TEXT_MAX];

	if (*name)
		snprintf(buf, len, "%s:%u", name, c->port);
	else if (!c->addr.family)
		snprintf(buf, len, "request");
	else
		snprintf(buf, len, c->addr.family == 6 ? "[%s]:%u" : "%s:%u", address_text(&c->addr, addr), c->port);
}

static void http_answer(struct gateway *g, struct conn *c, const struct verdict *v, int errnum)
{
	char target[HOSTNAME_MAX + 16], why[POLICY_TEXT_MAX], body[POLICY_TEXT_MAX + 1024], head[512];
	const char *status = v ? "403 Forbidden" : errnum == ETIMEDOUT ? "504 Gateway Timeout" : "502 Bad Gateway";
	bool hint = v && (v->reason == VERDICT_NO_RULE || v->reason == VERDICT_PORT);
	int n;

	target_text(c, target, sizeof(target));
	if (v)
		policy_verdict_text(g->policy, v, why, sizeof(why));
	else
		snprintf(why, sizeof(why), "%s", errnum ? strerrordesc_np(errnum) ?: "not reached" : "the name has no address");
	n = snprintf(body, sizeof(body), "agentbox: %s %s: %s\n%s%s%s", target, v ? "denied" : "not reached", why,
		     hint ? "To allow it: [egress] allow = " : "", hint ? target : "", hint ? "\n" : "");
	if (n < 0 || (size_t)n >= sizeof(body))
		n = (int)strlen(body);
	snprintf(head, sizeof(head),
		 "HTTP/1.1 %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\n"
		 "X-Agentbox-Reason: %s\r\nConnection: close\r\n\r\n",
		 status, n, v ? policy_reason_word(v->reason) : "not-reached");
	flow_append(&c->flows[TO_CLIENT], head, strlen(head));
	flow_append(&c->flows[TO_CLIENT], body, (size_t)n);
}

static void socks_answer(struct conn *c, const struct verdict *v, int errnum)
{
	uint8_t out[SOCKS_REPLY_LEN];
	enum socks_reply reply = SOCKS_DENIED;

	if (v && v->reason == VERDICT_UNSUPPORTED)
		reply = SOCKS_COMMAND;
	else if (v && v->reason == VERDICT_BAD_NAME)
		reply = SOCKS_FAILURE;
	else if (!v && errnum == ECONNREFUSED)
		reply = SOCKS_CONNECTION_REFUSED;
	else if (!v && errnum == ETIMEDOUT)
		reply = SOCKS_TTL_EXPIRED;
	else if (!v)
		reply = SOCKS_UNREACHABLE;
	socks_reply(reply, out);
	flow_append(&c->flows[TO_CLIENT], out, sizeof(out));
}

bool answer_is_due(const struct conn *c)
{
	const struct flow *f = &c->flows[TO_CLIENT];
	int server = conn_fd(c, TO_CLIENT, true);
	char byte;

	if (c->pipelined || f->off < f->len || f->piped || f->eof || f->bytes == c->answers_from || server < 0)
		return false;
	return recv(server, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

bool answer_no(struct gateway *g, struct conn *c, const struct verdict *v, int errnum)
{
	bool to_proxy = c->via != EGRESS_VIA_GATEWAY && !c->answered;

	/* In the middle of a stream only a reset is understood; a client that waits for an answer asks when it has it. */
	if (c->opened && c->filter == FILTER_HTTP && c->requests && answer_is_due(c)) {
		http_answer(g, c, v, errnum);
		return true;
	}
	if (c->opened || c->requests > 1)
		return false;
	if (to_proxy && c->via == EGRESS_VIA_SOCKS) {
		socks_answer(c, v, errnum);
		return true;
	}
	if (to_proxy) {
		http_answer(g, c, v, errnum);
		return true;
	}
	if (!v) /* a reset is what the server's refusal would have been */
		return false;
	if (c->port == 80 && c->flows[TO_SERVER].len) {
		http_answer(g, c, v, errnum);
		return true;
	}
	if (c->port == 443 && c->flows[TO_SERVER].len && v->reason != VERDICT_NOT_TLS) {
		flow_append(&c->flows[TO_CLIENT], tls_alert_access_denied, TLS_ALERT_LEN);
		return true;
	}
	return false;
}

void answer_yes(struct conn *c)
{
	static const char established[] = "HTTP/1.1 200 Connection established\r\n\r\n";
	uint8_t out[SOCKS_REPLY_LEN];

	c->answered = true;
	if (c->via == EGRESS_VIA_SOCKS) {
		socks_reply(SOCKS_SUCCEEDED, out);
		flow_append(&c->flows[TO_CLIENT], out, sizeof(out));
	} else {
		flow_append(&c->flows[TO_CLIENT], established, sizeof(established) - 1);
	}
}
