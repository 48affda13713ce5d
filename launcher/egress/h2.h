/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A client's side of HTTP/2 without TLS (RFC 9113, prior knowledge), as far as the gateway must understand it: which
 * authority each request names. Everything passes unchanged; header blocks are held back until they were read.
 */
#ifndef AGENTBOX_EGRESS_H2_H
#define AGENTBOX_EGRESS_H2_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "egress/address.h"

#define H2_BLOCK_MAX (48 * 1024)  /* frames of one header block */
#define H2_TABLE_MAX (64 * 1024)  /* the dynamic table; 4096 until the client says otherwise (RFC 7541 4.2) */

/* What a field's name means to us. */
enum h2_field { H2_OTHER, H2_AUTHORITY, H2_HOST, H2_METHOD };

struct h2_entry {
	uint8_t field; /* enum h2_field */
	uint32_t name_len, size;
	char *value; /* of authorities only; owned */
};

struct h2 {
	uint32_t skip; /* bytes of a frame that is of no interest, still to come */
	struct h2_entry *entries; /* ring, the newest at `newest` */
	uint32_t cap, newest, n, size, max;
};

void h2_init(struct h2 *h);
void h2_free(struct h2 *h);

/* authority: of a request. Return: whether it may go on. */
typedef bool (*h2_check)(void *arg, const struct target *authority);

/*
 * Takes the next bytes, from behind the preface on.
 * Return: how many of them are judged and may go on (the rest must be given again, with more behind them); -EACCES
 * where check said no; -EBADMSG for what no client sends: frames out of order, a request without authority, lengths
 * that lie, limits.
 */
int64_t h2_feed(struct h2 *h, const uint8_t *bytes, size_t len, h2_check check, void *arg);

/* For the tests: decodes one header block. Return: 0 or as h2_feed. */
int h2_block(struct h2 *h, const uint8_t *block, size_t len, h2_check check, void *arg);

#endif
