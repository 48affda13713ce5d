/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "profile/rule.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>

#include "base/num.h"
#include "base/str.h"

#include "base/banned.h"

#define RULE_TEXT_MAX 1024
#define THIS_HOST_NAME "host.agentbox.internal"

static int ports_add(struct rule *r, uint16_t first, uint16_t last, const char *text, struct err *e)
{
	if (r->n_ports == RULE_PORTS_MAX)
		return err_set(e, EINVAL, "%s: more than %d ports in one rule; write a range, or a second rule", text, RULE_PORTS_MAX);
	r->ports[r->n_ports++] = (struct rule_ports){.first = first, .last = last};
	return 0;
}

/* One member of the list: "443" or "8000-8100". */
static int ports_parse_one(struct rule *r, char *part, const char *text, struct err *e)
{
	char *dash = strchr(part, '-');
	uint64_t first, last;

	if (dash)
		*dash++ = '\0';
	if (num_u64(part, 1, UINT16_MAX, &first) < 0 || num_u64(dash ? dash : part, 1, UINT16_MAX, &last) < 0)
		return err_set(e, EINVAL, "%s: ports are 1 to 65535; write 443, or 80,443, or 8000-8100, or *", text);
	if (first > last)
		return err_set(e, EINVAL, "%s: the range of ports runs backwards; write %u-%u", text, (unsigned)last, (unsigned)first);
	return ports_add(r, (uint16_t)first, (uint16_t)last, text, e);
}

/* ports: NULL where the rule has none. Changed in place. */
static int ports_parse(struct rule *r, char *ports, const char *text, struct err *e)
{
	if (!ports) {
		r->ports_default = true;
		ports_add(r, 80, 80, text, e);
		return ports_add(r, 443, 443, text, e);
	}
	if (str_eq(ports, "*"))
		return ports_add(r, 1, UINT16_MAX, text, e);
	for (char *next; ports; ports = next) {
		int rc;

		next = strchr(ports, ',');
		if (next)
			*next++ = '\0';
		rc = ports_parse_one(r, ports, text, e);
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* Clears the host bits. Return: whether any was set. */
static bool address_mask(uint8_t *addr, unsigned prefix, unsigned bits)
{
	bool was_set = false;

	for (unsigned i = 0; i < bits / 8; i++) {
		unsigned keep = prefix >= (i + 1) * 8 ? 8 : prefix > i * 8 ? prefix - i * 8 : 0;
		uint8_t mask = (uint8_t)(0xff00 >> keep);

		was_set |= (addr[i] & ~mask) != 0;
		addr[i] &= mask;
	}
	return was_set;
}

/* An IPv4-mapped rule is the IPv4 rule: a socket reaches the same host by either form (RFC 4291 2.5.5.2). */
static void address_unmap(struct rule *r)
{
	static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

	if (r->family != AF_INET6 || r->prefix < 96 || memcmp(r->addr, mapped, sizeof(mapped)) != 0)
		return;
	memmove(r->addr, r->addr + 12, 4);
	memset(r->addr + 4, 0, 12);
	r->family = AF_INET;
	r->prefix -= 96;
}

/* addr: the address as text; prefix: behind the '/', or NULL. */
static int address_parse(struct rule *r, int family, const char *addr, const char *prefix, const char *text, struct err *e)
{
	unsigned bits = family == AF_INET ? 32 : 128;
	char right[INET6_ADDRSTRLEN];
	uint64_t n = bits;

	r->kind = RULE_ADDRESS;
	r->family = family;
	if (inet_pton(family, addr, r->addr) != 1)
		return err_set(e, EINVAL, "%s: %s is no IPv%c address", text, addr, family == AF_INET ? '4' : '6');
	if (prefix && num_u64(prefix, 0, bits, &n) < 0)
		return err_set(e, EINVAL, "%s: the prefix of an IPv%c network is 0 to %u", text, family == AF_INET ? '4' : '6', bits);
	r->prefix = (unsigned)n;
	if (address_mask(r->addr, r->prefix, bits)) {
		inet_ntop(family, r->addr, right, sizeof(right));
		return err_set(e, EINVAL, "%s: the address has bits beyond its prefix; write %s/%u, or %s alone", text, right,
			       r->prefix, addr);
	}
	address_unmap(r);
	return 0;
}

/* "[addr]", "[addr/prefix]" or "[addr]/prefix", then ":PORTS" or nothing. host is changed in place. */
static int bracket_parse(struct rule *r, char *host, const char *text, struct err *e)
{
	char *end = strchr(host, ']'), *prefix, *rest, *ports = NULL;
	int rc;

	if (!end)
		return err_set(e, EINVAL, "%s: the bracket is not closed; write [ADDRESS]:PORTS", text);
	*end = '\0';
	rest = end + 1;
	prefix = strchr(host, '/');
	if (prefix)
		*prefix++ = '\0';
	if (*rest == '/' && !prefix) {
		prefix = ++rest;
		rest += strcspn(rest, ":");
	}
	if (*rest == ':') {
		*rest = '\0';
		ports = rest + 1;
	} else if (*rest) {
		return err_set(e, EINVAL, "%s: %s behind the address; write [ADDRESS]:PORTS", text, rest);
	}
	rc = address_parse(r, AF_INET6, host + 1, prefix, text, e);
	return rc < 0 ? rc : ports_parse(r, ports, text, e);
}

/* The commonest slips get the right spelling named. */
static int name_fault(const char *host, int rc, const char *text, struct err *e)
{
	if (rc == -ENAMETOOLONG)
		return err_set(e, EINVAL, "%s: the name is too long (%d bytes, 63 a label, at most)", text, HOSTNAME_MAX);
	for (const char *p = host; *p; p++)
		if (*p & 0x80)
			return err_set(e, EINVAL, "%s: names are ASCII; write the xn-- form of it", text);
	if (strchr(host, '*'))
		return err_set(e, EINVAL, "%s: * stands alone or before the first dot; write *.NAME", text);
	if (*host && strspn(host, "0123456789.xXabcdefABCDEF") == strlen(host))
		return err_set(e, EINVAL, "%s: neither a name nor an IPv4 address of four decimal numbers", text);
	return err_set(e, EINVAL, "%s: no host name; write NAME, *.NAME, ADDRESS, ADDRESS/PREFIX, * or @host, then :PORTS", text);
}

static bool is_ipv4(const char *host)
{
	struct in_addr ignored;

	return inet_pton(AF_INET, host, &ignored) == 1;
}

static int host_parse(struct rule *r, char *host, const char *text, struct err *e)
{
	char *slash = strchr(host, '/');
	int rc;

	if (slash)
		*slash++ = '\0';
	if (is_ipv4(host))
		return address_parse(r, AF_INET, host, slash, text, e);
	if (slash)
		return err_set(e, EINVAL, "%s: a rule has no path; write the name alone", text);
	if (str_eq(host, "*")) {
		r->kind = RULE_ANY_PUBLIC;
		return 0;
	}
	if (host[0] == '@') {
		r->kind = RULE_THIS_HOST;
		if (str_eq(host, "@host"))
			return 0;
		return err_set(e, EINVAL, "%s: only @host starts with @", text);
	}
	r->kind = RULE_NAME;
	if (str_has_prefix(host, "*.")) {
		r->kind = RULE_SUBDOMAINS;
		host += 2;
	}
	rc = hostname_normal(host, strlen(host), r->name);
	if (rc < 0)
		return name_fault(host, rc, text, e);
	if (str_eq(r->name, THIS_HOST_NAME))
		return err_set(e, EINVAL, "%s: %s is this machine; write @host", text, THIS_HOST_NAME);
	return 0;
}

int rule_parse(const char *text, struct rule *out, struct err *e)
{
	char copy[RULE_TEXT_MAX], *colon, *ports = NULL;
	size_t len = strlen(text);
	int rc;

	*out = (struct rule){.kind = RULE_NAME};
	if (!len)
		return err_set(e, EINVAL, "an empty rule; write NAME:PORTS");
	if (len >= sizeof(copy))
		return err_set(e, EINVAL, "%.40s...: the rule is too long", text);
	memcpy(copy, text, len + 1);
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)copy[i] <= ' ' || copy[i] == 0x7f)
			return err_set(e, EINVAL, "%s: a blank or control character in the rule; write one rule a line", text);
	if (strstr(copy, "://"))
		return err_set(e, EINVAL, "%s: a rule is no URL; write the name alone, with :PORTS behind it", text);
	if (copy[0] == '[')
		return bracket_parse(out, copy, text, e);
	colon = strchr(copy, ':');
	if (colon && strchr(colon + 1, ':'))
		return err_set(e, EINVAL, "%s: more than one colon; an IPv6 address stands in brackets: [::1]:443", text);
	if (colon) {
		*colon = '\0';
		ports = colon + 1;
	}
	rc = host_parse(out, copy, text, e);
	return rc < 0 ? rc : ports_parse(out, ports, text, e);
}
