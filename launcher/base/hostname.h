/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Host names: the one place that says what a name is. Every name that comes from a rule, a DNS question, a TLS hello, an
 * HTTP head or a SOCKS request goes through hostname_normal before it is compared with anything.
 */
#ifndef AGENTBOX_BASE_HOSTNAME_H
#define AGENTBOX_BASE_HOSTNAME_H

#include <stdbool.h>
#include <stddef.h>

#define HOSTNAME_MAX 253 /* RFC 1035 2.3.4: 255 on the wire */

/*
 * Normal form: lower case, no trailing dot. Labels of 1 to 63 of a-z 0-9 - _ ; internationalised names only as
 * A-labels (xn--). Text that looks like an IPv4 address in any of inet_aton's forms ("127.1", "0x7f.1", "2130706433") is
 * not a name.
 * bytes: need not be terminated, may hold anything. out: HOSTNAME_MAX + 1 bytes.
 * Return: 0; -EINVAL (an octet that no name has, an empty label, a number); -ENAMETOOLONG.
 */
int hostname_normal(const char *bytes, size_t len, char *out);

/* Is `name` beneath `suffix` ("a.b.example" beneath "example"; a name is not beneath itself)? Both normal. */
bool hostname_is_beneath(const char *name, const char *suffix);

#endif
