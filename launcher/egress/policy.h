/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The egress policy: the profile's rules compiled once, and the one function that decides for every way out of the box
 * (a captured connection, the proxy port, a DNS question, a TLS or HTTP name, `why`, the eBPF maps' contents).
 *
 * Deny wins over allow. A deny rule for a name is about that name, where it is known: asked for by DNS or at the
 * proxy port, or seen in a stream that a name rule or `*` opened. An address rule opens the address whatever names
 * are used there, so streams to it are not looked into; whoever wants a name closed there denies its address. A deny
 * rule for an address holds for every name that resolves there, `@host` with its loopback, and `deny = @host` for the
 * loopback and the addresses of this host's interfaces, whatever allows them. Addresses that are this host's by a
 * route alone (`ip route add local`, AnyIP) are not known as its own. A name rule never opens a special range or an
 * address of this host, whatever the name resolves to; an address rule does, and so it does for a name that a name
 * rule allows and that resolves there.
 */
#ifndef AGENTBOX_EGRESS_POLICY_H
#define AGENTBOX_EGRESS_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "egress/address.h"
#include "profile/profile.h"
#include "profile/rule.h"

/* What `@host` is called in the box. */
#define POLICY_THIS_HOST "host.agentbox.internal"

enum verdict_reason {
	VERDICT_ALLOWED,
	VERDICT_DENY_RULE,  /* a deny rule matched */
	VERDICT_NO_RULE,    /* no allow rule names the host */
	VERDICT_PORT,       /* an allow rule names the host, on other ports */
	VERDICT_SPECIAL,    /* a special range, which no address rule opened; `range` says which */
	VERDICT_OWN,        /* an address of this host, which no address rule opened */
	VERDICT_BAD_NAME,   /* not a name at all */
	/* Said by the gateway, which knows more than the rules: */
	VERDICT_NOT_RESOLVED,     /* the resolver knows no address */
	VERDICT_NOT_GIVEN,        /* a synthetic address that stands for no name */
	VERDICT_NAME_MISMATCH,    /* the TLS or HTTP name is not the one that the address stands for */
	VERDICT_NO_SNI,           /* a TLS hello without a name */
	VERDICT_NOT_TLS,          /* no TLS hello on a port where one must come */
	VERDICT_NOT_HTTP,         /* no HTTP/1 head where one must come */
	VERDICT_CONNECTIONS,      /* max-connections */
	VERDICT_BYTES,            /* max-bytes */
	VERDICT_PROTOCOL,         /* mode = host: neither TCP nor UDP */
	VERDICT_LISTEN,           /* mode = host: a port of this host's to listen on */
	VERDICT_CLOSED,           /* mode = host: the name server is gone, and with it the way out */
	VERDICT_UNSUPPORTED,      /* not a TCP connection: UDP, another protocol, a SOCKS command */
	VERDICT_REASONS
};

struct verdict {
	bool allowed;
	enum verdict_reason reason;
	int rule;          /* the rule that decided (or, with VERDICT_PORT, that came nearest); -1: none. See policy_rule. */
	const char *range; /* VERDICT_SPECIAL: what kind ("private"); static */
};

/* What is asked. One of name and addr at least. */
struct policy_request {
	const char *name;           /* normal (hostname_normal); NULL: a bare address */
	const struct address *addr; /* what is about to be connected to; NULL: not resolved yet */
	uint16_t port;              /* 0: is there any port that is allowed? (for DNS) */
};

struct policy;

/*
 * Compiles egress.allow and egress.deny. p: borrowed, must outlive the policy (origins point into it). A deny rule
 * without ports denies every port. Return: 0, or -EINVAL with file:line where a rule does not parse.
 */
int policy_new(const struct profile *p, struct policy **out, struct err *e);
void policy_free(struct policy *p);

/* This host's own addresses, closed to names and `*`. Copied; replaces what was set. */
void policy_set_own(struct policy *p, const struct address *own, size_t n);

struct verdict policy_decide(const struct policy *p, const struct policy_request *q);

/*
 * The same for a bare address in a box that has this host's network (mode = host): there the loopback is `@host` by
 * whatever name. addr: not NULL; port: not 0.
 */
struct verdict policy_decide_shared(const struct policy *p, const struct address *addr, uint16_t port);

/*
 * Does a deny rule forbid the name on the port, whatever allows it? (A name seen in a stream to a bare address that `*`
 * opened.)
 */
struct verdict policy_denied_name(const struct policy *p, const char *name, uint16_t port);

/* Is there a deny rule for names, so that the names in a stream to a bare address matter? */
bool policy_denies_names(const struct policy *p);
/* Is there a `deny = @host`? */
bool policy_denies_this_host(const struct policy *p);
/* What policy_set_own was given, sorted; the policy's own. */
const struct address *policy_own(const struct policy *p, size_t *n);
/* Is it an allow rule for an address or a network, which opens it whatever names are used? */
bool policy_is_address_rule(const struct policy *p, int rule);

/* The rule as written and where it stands. Return: NULL for -1. */
const struct val_item *policy_rule(const struct policy *p, int rule);

/* A reason in words for people, without the object: "no rule allows it". range: of the verdict. Return: static text. */
const char *policy_reason_text(enum verdict_reason reason);
/* A word for machines: "no-rule". */
const char *policy_reason_word(enum verdict_reason reason);

/* For the plumbing: what the allow rules can reach at all, whatever the names. */
struct policy_reach {
	struct rule_ports *ports; /* sorted, disjoint; owned */
	size_t n_ports;
	bool any_address;         /* a `*` rule */
	struct rule *nets;        /* the address rules; owned */
	size_t n_nets;
};
void policy_reach(const struct policy *p, struct policy_reach *out);
void policy_reach_free(struct policy_reach *r);

/* The compiled rules of one list, in its order; the policy's own. */
const struct rule *policy_rules(const struct policy *p, bool deny, size_t *n);

/* Room for "file:line: rule" and such. */
#define POLICY_TEXT_MAX 1024
/*
 * The whole verdict in words: "private address", "egress.allow at npm.ini:12 (*.npmjs.test)". buf: any size. Return:
 * buf.
 */
const char *policy_verdict_text(const struct policy *p, const struct verdict *v, char *buf, size_t len);

#endif
