/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * egress.mode = host: what the name server enters in the eBPF programs' maps. An address that it is about to answer for a
 * name gets the ports that the policy allows for the two, for as long as the run lasts; an address that stands for several
 * names has the ports of all of them. And this host's own addresses, which are closed to names and `*`.
 */
#ifndef AGENTBOX_EGRESS_GIVEN_H
#define AGENTBOX_EGRESS_GIVEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "egress/address.h"
#include "egress/hostshared.h"
#include "egress/policy.h"

#define GIVEN_MAX 65536       /* addresses */
#define GIVEN_PORTS_MAX 65536 /* prefixes of their sets of ports */
#define GIVEN_OWN_MAX 32768   /* more than own.c ever reads, twice: new ones are entered before old ones go */

struct given_place {
	struct address addr; /* family 0: free */
	uint32_t set;        /* index + 1; 0: none yet */
};

struct given {
	int addresses, ports, own, askers; /* maps; not owned */
	const struct policy *policy;
	/* The first port of each segment, in order: within one the policy says the same of every port. The first is 1. */
	uint16_t *segments;
	size_t n_segments, words; /* of a set: a bit a segment */
	uint64_t *sets;           /* n_sets times `words` */
	size_t n_sets, cap_sets, n_port_keys;
	struct given_place *places; /* by hash, at most half full */
	size_t n_places, mask;
	struct address *owned; /* this host's, as they are in the map */
	size_t n_owned;
	uint64_t *scratch;
	uint32_t seed;
};

struct host_address given_key(const struct address *a);

/* Before the process is confined, as it sorts. policy: borrowed. seed: not known to who chooses the addresses. */
void given_init(struct given *g, const struct policy *policy, uint32_t seed);
void given_free(struct given *g);

/* The maps have come. */
void given_use(struct given *g, int addresses, int ports, int own, int askers);

/* name: normal, or POLICY_THIS_HOST. Return: 0 (entered, or there is no port to enter); -errno: do not answer. */
int given_enter(struct given *g, const char *name, const struct address *addr);

/*
 * Does a socket of the run's ask? peer: of the packet or connection; protocol: IPPROTO_*. A program of the host's that asks from where
 * one of the run's has just asked is taken for it, for GIVEN_ASKER_MS.
 */
#define GIVEN_ASKER_MS 5000
bool given_asks(const struct given *g, const struct sockaddr_storage *peer, uint16_t protocol, uint64_t now_ms);

/* Replaces this host's own addresses. Loopback ones are left out, as they are closed anyway. Return: 0 or -errno. */
int given_set_own(struct given *g, const struct address *own, size_t n);

#endif
