/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Keys that are right by themselves and not with the others that the profile has. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "profile/profile.h"
#include "profile/rule.h"

#include "base/banned.h"

/* The loopback by number or name: in the box that is the box's own, whatever the rule says. */
static bool is_loopback(const struct rule *r)
{
	static const uint8_t one[16] = {[15] = 1};

	if (r->kind == RULE_NAME)
		return strcmp(r->name, "localhost") == 0;
	if (r->kind != RULE_ADDRESS)
		return false;
	return r->family == AF_INET ? r->addr[0] == 127 : r->prefix == 128 && memcmp(r->addr, one, sizeof(one)) == 0;
}

/* Rules that are right and do not do what they seem to. */
static void note_rules(const struct profile *p, struct faults *notes)
{
	const struct val_list *l = &p->egress.allow;

	if (p->egress.mode.v == EGRESS_NONE && !p->egress.mode.set && l->n)
		faults_add(notes, l->items[0].from, "[egress] allow does nothing with mode = none; write mode = gateway");
	for (size_t i = 0; p->egress.mode.v == EGRESS_GATEWAY && i < l->n; i++) {
		struct rule r;

		if (rule_parse(l->items[i].text, &r, NULL) == 0 && is_loopback(&r))
			faults_add(notes, l->items[i].from,
				   "[egress] allow = %.100s: a program in the box that connects there reaches the box's own loopback; for "
				   "this machine's write @host:PORT, which is host.agentbox.internal in the box", l->items[i].text);
	}
}

static int check_host(const struct profile *p, struct faults *faults, struct faults *notes)
{
	/* set: by somebody, and to what mode = host has no mechanism for. A bound that would not hold is a fault. */
	const struct {
		bool set, bound;
		struct origin from;
		const char *text;
	} keys[] = {
		{p->egress.ebpf.v == MECHANISM_OFF, true, p->egress.ebpf.from,
		 "[egress] ebpf = off: the eBPF filters are the only wall with mode = host; take it out, or use mode = gateway"},
		{p->egress.max_connections.n != 0, true, p->egress.max_connections.from,
		 "[egress] max-connections: nothing counts connections with mode = host; set it to 0, or use mode = gateway"},
		{p->egress.inspect.v && p->egress.inspect.set, true, p->egress.inspect.from,
		 "[egress] inspect = yes: nothing looks into streams with mode = host; set it to no, or use mode = gateway"},
		{p->egress.connect_timeout.ms != 0, false, p->egress.connect_timeout.from,
		 "[egress] connect-timeout does nothing with mode = host: the programs connect by themselves"},
		{p->egress.addresses.v == ADDRESSES_SYNTHETIC && p->egress.addresses.set, false, p->egress.addresses.from,
		 "[egress] addresses = synthetic does nothing with mode = host: names have their real addresses there"},
	};
	int r = 0;

	if (p->egress.mode.v != EGRESS_HOST)
		return 0;
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		struct faults *to = keys[i].bound ? faults : notes;

		if (keys[i].set && to)
			faults_add(to, keys[i].from, "%s", keys[i].text);
		if (keys[i].set && keys[i].bound)
			r = -EINVAL;
	}
	return r;
}

/* Where nobody said anything of capture, what was to be cut or stored would not be. (capture = no turns it off in words.) */
static int check_output(const struct profile *p, struct faults *faults)
{
	const struct {
		bool set;
		struct origin from;
		const char *name;
	} keys[] = {
		{p->output.head.set, p->output.head.from, "head"},
		{p->output.tail.set, p->output.tail.from, "tail"},
		{p->output.head_lines.set, p->output.head_lines.from, "head-lines"},
		{p->output.tail_lines.set, p->output.tail_lines.from, "tail-lines"},
		{p->output.max.set, p->output.max.from, "max"},
	};
	int r = 0;

	if (p->output.capture.set)
		return 0;
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		if (!keys[i].set)
			continue;
		r = -EINVAL;
		if (faults)
			faults_add(faults, keys[i].from, "[output] %s: output is neither cut nor stored without capture = yes; set that too",
				   keys[i].name);
	}
	return r;
}

int profile_check_conflicts(const struct profile *p, struct faults *faults, struct faults *notes)
{
	int host, output;

	if (notes)
		note_rules(p, notes);
	host = check_host(p, faults, notes);
	output = check_output(p, faults);
	return host < 0 ? host : output;
}
