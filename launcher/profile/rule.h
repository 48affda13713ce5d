/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * An egress rule as written: HOST[:PORTS]. The profile checks it when it is read; egress/policy compiles it.
 * HOST: `name`, `*.name`, an address or CIDR (IPv6 in brackets), `*`, `@host`. PORTS: `443`, `80,443`, `8000-8100`, `*`;
 * 80,443 where none are named.
 */
#ifndef AGENTBOX_PROFILE_RULE_H
#define AGENTBOX_PROFILE_RULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/hostname.h"

enum rule_host {
	RULE_NAME,       /* exactly `name` */
	RULE_SUBDOMAINS, /* every name that ends in ".name", at any depth; not itself */
	RULE_ADDRESS,    /* addr/prefix of family */
	RULE_ANY_PUBLIC, /* any name and any public address */
	RULE_THIS_HOST,  /* @host: the loopback of the machine itself */
};

#define RULE_PORTS_MAX 32

struct rule_ports {
	uint16_t first, last; /* inclusive, host order */
};

struct rule {
	enum rule_host kind;
	char name[HOSTNAME_MAX + 1]; /* RULE_NAME, RULE_SUBDOMAINS: normal form, without "*." */
	int family;                  /* RULE_ADDRESS: AF_INET or AF_INET6 */
	uint8_t addr[16];            /* network order, the host bits zero */
	unsigned prefix;             /* bits of addr that count */
	struct rule_ports ports[RULE_PORTS_MAX];
	size_t n_ports;
	bool ports_default; /* none were written */
};

/* Return: 0, or -EINVAL with what is wrong and what to write instead. */
int rule_parse(const char *text, struct rule *out, struct err *e);

#endif
