/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The names that the box has asked for, and the addresses that stand for them. Only names that a rule allows come in
 * here. In synthetic mode each has one address from 198.18.0.0/15 for the run's lifetime; in real mode every address
 * that was answered is remembered with the names that it was answered for.
 */
#ifndef AGENTBOX_EGRESS_NAMES_H
#define AGENTBOX_EGRESS_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "egress/address.h"

#define NAMES_MAX 65000      /* below the box's own address, 198.18.255.254 */
#define NAMES_REAL_MAX 65536 /* pairs of address and name */
#define HOST_ADDRESSES 16

enum waiter_kind { WAITER_CONN, WAITER_DNS };
/* Somebody who waits for a name's addresses. Member of the object that waits. */
struct waiter {
	TAILQ_ENTRY(waiter) entry;
	enum waiter_kind kind;
	struct host *host; /* NULL: does not wait */
};
TAILQ_HEAD(waiter_list, waiter);

enum host_state { HOST_NEW, HOST_ASKED, HOST_KNOWN };

struct host {
	char *name;
	uint32_t index;
	enum host_state state;
	int error;            /* HOST_KNOWN without addresses: 0 no such name, else the resolver's trouble as errno */
	uint64_t expires_ms;
	struct address *addrs;
	unsigned n;
	struct waiter_list waiters;
};

struct names {
	struct host **hosts;
	size_t n, cap;
	int *buckets; /* by name */
	size_t mask;
	uint32_t seed;
	struct names_real {
		struct address addr;
		uint32_t host;
		int next;
	} *real;
	size_t n_real, cap_real;
	int *real_buckets;
	struct host *this_host;
};

void names_init(struct names *n, uint32_t seed);
void names_free(struct names *n);
/* Finds or adds. name: normal. Return: NULL where NAMES_MAX are there. */
struct host *names_get(struct names *n, const char *name);
/* The synthetic address of the name. */
struct address names_synthetic(const struct names *n, const struct host *h);
/* Does the address lie where synthetic ones do? *out: whose it is, NULL: nobody's. */
bool names_find_synthetic(const struct names *n, const struct address *a, struct host **out);
/* `addr` was answered for the name. */
void names_add_real(struct names *n, struct host *h, const struct address *addr);
/* The next name that the address was answered for; *cursor: -1 at first. Return: NULL at the end. */
struct host *names_find_real(const struct names *n, const struct address *addr, int *cursor);
bool names_has_real(const struct names *n, const struct host *h, const struct address *addr);

#endif
