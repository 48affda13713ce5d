/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The server name in a TLS client's first flight (RFC 8446 4.1.2, RFC 6066 3). Nothing else of TLS is read. */
#ifndef AGENTBOX_EGRESS_TLS_H
#define AGENTBOX_EGRESS_TLS_H

#include <stddef.h>
#include <stdint.h>

#include "base/hostname.h"

#define TLS_HELLO_MAX 16384 /* bytes of records; a post-quantum hello has 1.7K */

enum tls_result {
	TLS_MORE,  /* no fault so far, and not all is there */
	TLS_FOUND, /* name is set */
	TLS_NONE,  /* a whole hello without a server name */
	TLS_BAD,   /* no TLS, or a hello that no client sends: two names, lengths that lie, a name that is none, over TLS_HELLO_MAX */
};

/*
 * Looks at the connection's bytes from its start; called again with more as they come. The hello may span records and
 * segments. With encrypted client hello the outer name counts, as that is where the connection goes.
 * name: HOSTNAME_MAX + 1 bytes, in normal form, "" unless TLS_FOUND.
 */
enum tls_result tls_hello_name(const uint8_t *bytes, size_t len, char *name);

/* A fatal alert "access_denied" (RFC 8446 6.2) in a record, before a hello was answered. */
#define TLS_ALERT_LEN 7
extern const uint8_t tls_alert_access_denied[TLS_ALERT_LEN];

#endif
