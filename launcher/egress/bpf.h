/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The eBPF programs of egress.bpf.c: loaded by libbpf, attached to a run's control group by links, and what they tell.
 * Nothing is pinned: with the last descriptor of this process all of it is gone. Those of mode = host are attached to the
 * group itself instead, and are there as long as it, or a socket that was opened in it, is (see bpf_host_load).
 */
#ifndef AGENTBOX_EGRESS_BPF_H
#define AGENTBOX_EGRESS_BPF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "egress/address.h"
#include "egress/bpfshared.h"
#include "egress/hostshared.h"
#include "egress/policy.h"

struct bpf_object_skeleton;

struct bpf_filter {
	void *object;                      /* libbpf's, with all that follows; NULL: none */
	void (*destroy)(void *object);
	struct bpf_object_skeleton *skeleton;
	bool lasting;                      /* attached without links */
	int ring, lost;                    /* maps; the ring's is for epoll (EPOLLIN) */
	void *consumer, *producer;         /* of the ring, mapped; NULL: not */
	size_t ring_bytes;
	int given, own, ports, askers, usage; /* maps of mode = host; -1: not there */
};

/* Nothing is loaded. What bpf_filter_close takes. */
#define BPF_FILTER_NONE                                                                                                   \
	((struct bpf_filter){.ring = -1, .lost = -1, .given = -1, .own = -1, .ports = -1, .askers = -1, .usage = -1})

struct bpf_filter_config {
	const struct policy *policy;
	bool any_address;            /* see bpf_rules_compile */
	struct address own4, own6;   /* the box's own */
	struct address synthetic;    /* first of the network of addresses that stand for names; family 0: none */
	unsigned synthetic_prefix;
	struct address this_host;    /* of them: what stands for @host */
	uint16_t proxy_port, capture_port; /* at the own addresses: connections to them are recorded too */
};

/*
 * Could this process load and attach them: are they built in, CAP_BPF and CAP_NET_ADMIN there, and that outside of any
 * user namespace? Cheap; nothing is loaded. Return: 0, -ENOTSUP or -EPERM with `e` saying what is missing.
 */
int bpf_filter_possible(struct err *e);

/* Loads the programs and lets them go again, for doctor. Return: 0 or -errno. */
int bpf_filter_try(struct err *e);

/*
 * Loads the programs and fills the maps.
 * f: BPF_FILTER_NONE before; owned by the caller after success (bpf_filter_close), untouched where it fails.
 * Return: 0 or -errno.
 */
int bpf_filter_load(struct bpf_filter *f, const struct bpf_filter_config *config, struct err *e);

struct bpf_host_config {
	const struct policy *policy;
	struct address name_server; /* IPv4 */
	uint64_t max_bytes;         /* 0: no limit */
};

/*
 * The same for egress.mode = host: the programs of host.bpf.c, with the maps that the name server writes to. A socket can
 * outlive the run: the box hands it to a process outside (unix(7), SCM_RIGHTS). It is the host's network's, and so stays
 * under the programs: they are not detached, and end with the group and the last such socket.
 */
int bpf_host_load(struct bpf_filter *f, const struct bpf_host_config *config, struct err *e);

/* Loads them and lets them go again, for doctor. Return: 0 or -errno. */
int bpf_host_try(struct err *e);

/* What went over the network. Return: false where it cannot be read. */
bool bpf_host_usage(const struct bpf_filter *f, struct host_usage *out);

/* Is it in the map of this host's own addresses? */
bool bpf_host_is_own(const struct bpf_filter *f, const struct address *a);

/* From here on nothing passes. Return: 0 or -errno. */
int bpf_host_close(const struct bpf_filter *f);

/* Attaches what was loaded. cgroup: of a v2 directory; stays the caller's. Return: 0 or -errno; then bpf_filter_close. */
int bpf_filter_attach(struct bpf_filter *f, int cgroup, struct err *e);

/* Takes the next record. Return: false where there is none. */
bool bpf_filter_next(struct bpf_filter *f, struct bpf_record *out);

/* How many records did not fit the ring, from the beginning. */
uint64_t bpf_filter_lost(const struct bpf_filter *f);

/* Detaches, but for those of mode = host: they stay as they are, with what was last in their maps. */
void bpf_filter_close(struct bpf_filter *f);

#endif
