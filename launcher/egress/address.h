/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Addresses in one normal form, the ranges that are closed to names, and targets as clients write them. */
#ifndef AGENTBOX_EGRESS_ADDRESS_H
#define AGENTBOX_EGRESS_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/hostname.h"

/*
 * An address in normal form: IPv4-mapped IPv6 is IPv4, as it is to connect(2) (RFC 4291 2.5.5.2). Bytes behind the
 * address are zero, so two of them compare with memcmp.
 */
struct address {
	uint8_t family; /* 4 or 6; 0: none */
	uint8_t b[16];  /* network order */
};

#define ADDRESS_TEXT_MAX 48

/* Return: false where sa is neither AF_INET nor AF_INET6. port: host order, may be NULL. */
bool address_from_sockaddr(const struct sockaddr *sa, struct address *out, uint16_t *port);
/* The sockaddr to connect to. Return: its length. */
socklen_t address_to_sockaddr(const struct address *a, uint16_t port, struct sockaddr_storage *out);
/* bytes: 4 or 16 in network order. */
struct address address_from_v4(const void *bytes);
struct address address_from_v6(const void *bytes);
bool address_eq(const struct address *a, const struct address *b);
int address_compare(const void *a, const void *b); /* for qsort and bsearch */
/* Without brackets. buf: ADDRESS_TEXT_MAX. Return: buf. */
const char *address_text(const struct address *a, char *buf);
/* 0.0.0.0 and ::, which connect(2) takes for the loopback. */
bool address_is_unspecified(const struct address *a);

/*
 * The IPv4 address that a translation form of IPv6 stands for: NAT64 (RFC 6052, 8215), 6to4 (3056), Teredo's client
 * (4380), v4-compatible (4291), v4-translated (2765). Return: false where `a` is none of them.
 */
bool address_embedded_v4(const struct address *a, struct address *out);

/*
 * What kind of special range holds the address ("private", "loopback", ...), NULL for a public one. Closed to names and
 * `*`: IANA's special-purpose registries (RFC 6890) without the documentation ranges, and cloud metadata.
 */
const char *address_special(const struct address *a);
/* The ranges themselves, by number from 0. family: 4 or 6. Return: false behind the last one. */
bool address_special_range(uint8_t family, size_t i, struct address *out, unsigned *prefix);

/* What a client asked for: a name, or an address where name is "". */
struct target {
	char name[HOSTNAME_MAX + 1]; /* normal */
	struct address addr;
	uint16_t port; /* 0: none was written */
};

/*
 * HOST or HOST:PORT as in CONNECT, a URL's authority and the Host header: a name, an IPv4 address of four decimal
 * numbers, or an IPv6 address in brackets. bytes: need not be terminated, may hold anything. Return: 0 or -EINVAL.
 */
int target_parse(const char *bytes, size_t len, struct target *out);
/* HOST alone; IPv6 with or without brackets (SOCKS, a TLS hello). */
int target_parse_host(const char *bytes, size_t len, struct target *out);

#endif
