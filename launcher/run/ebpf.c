/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "run/ebpf.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "egress/gateway.h"
#include "run/limits.h"
#include "run/network.h"
#include "run/sweeper.h"

#include "base/banned.h"

#define RECORDS_A_TURN 1024
#define SAME_MS 1000 /* a program that tries again within it is one attempt, as in egress/filterlog.c */
#define RECENT 64
#define SYNTHETIC_MAX 65536
/* The inode of the first pid namespace (include/linux/proc_ns.h, PROC_PID_INIT_INO). */
#define FIRST_PID_NAMESPACE 0xEFFFFFFCU

static bool is_host(const struct supervisor *s)
{
	return s->profile->egress.mode.v == EGRESS_HOST;
}

/* Not in force, for that reason; with `require` no run, and with mode = host never. */
static int without(struct supervisor *s, int code, const char *why, struct err *e)
{
	s->ebpf.wanted = false;
	snprintf(s->ebpf.why, sizeof(s->ebpf.why), "%s", why);
	if (is_host(s)) {
		s->reason = REASON_REFUSED;
		return err_set(e, code,
			       "egress.mode = host: the eBPF filters are the only wall there, and they cannot be in force: %s; run as root, "
			       "or use mode = gateway, which needs no privilege",
			       why);
	}
	if (s->profile->egress.ebpf.v != MECHANISM_REQUIRE)
		return 0;
	s->reason = REASON_REFUSED;
	return err_set(e, code,
		       "[egress] ebpf = require, and the filters cannot be in force: %s; "
		       "run as root, or take the key out: the gateway is the boundary in any case", why);
}

int ebpf_plan(struct supervisor *s, struct err *e)
{
	struct err missing = {0};
	int r;

	if (s->profile->egress.ebpf.v == MECHANISM_OFF)
		snprintf(s->ebpf.why, sizeof(s->ebpf.why), "egress.ebpf = off");
	else if (s->profile->egress.mode.v == EGRESS_NONE)
		snprintf(s->ebpf.why, sizeof(s->ebpf.why), "egress.mode = none: there is no network to filter");
	if (s->ebpf.why[0])
		return is_host(s) ? without(s, EINVAL, "egress.ebpf = off", e) : 0;
	r = bpf_filter_possible(&missing);
	if (r < 0)
		return without(s, -r, missing.msg, e);
	s->ebpf.wanted = true;
	return 0;
}

int ebpf_check_group(struct supervisor *s, struct err *e)
{
	const char *why = s->cgroup.why_no_v2;

	if (!s->ebpf.wanted || cgroup_ebpf_fd(&s->cgroup) >= 0)
		return 0;
	return without(s, ENOTSUP, *why ? why : "no cgroup v2 group could be made", e);
}

static struct address own_address(const char *text)
{
	uint8_t bytes[16] = {0};
	bool v6 = strchr(text, ':');

	inet_pton(v6 ? AF_INET6 : AF_INET, text, bytes);
	return v6 ? address_from_v6(bytes) : address_from_v4(bytes);
}

static int attach_host(struct supervisor *s, struct err *e)
{
	const struct bpf_host_config config = {
		.policy = s->network.policy,
		.name_server = s->network.server,
		.max_bytes = s->profile->egress.max_bytes.bytes,
	};
	struct err missing = {0};
	uint32_t seed = 0;
	int r = bpf_host_load(&s->ebpf.filter, &config, &missing);

	if (r == 0)
		r = sweeper_start(s, &missing);
	if (r == 0)
		r = bpf_filter_attach(&s->ebpf.filter, cgroup_ebpf_fd(&s->cgroup), &missing);
	if (r < 0)
		return without(s, -r, missing.msg, e);
	if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) != sizeof(seed))
		seed = (uint32_t)getpid();
	names_init(&s->ebpf.given, seed);
	s->ebpf.attached = true;
	return 0;
}

/*
 * `deny = @host` is about this host's own addresses too, as they are now: what changes later the gateway sees. Without a list
 * of them this wall lacks them.
 */
static void set_own(struct policy *policy)
{
	struct ifaddrs *list;
	struct address *own = NULL;
	size_t n = 0, cap = 0;

	if (getifaddrs(&list) < 0)
		return;
	for (const struct ifaddrs *i = list; i; i = i->ifa_next) {
		vec_reserve(&own, &cap, n, sizeof(*own));
		n += i->ifa_addr && address_from_sockaddr(i->ifa_addr, &own[n], NULL);
	}
	freeifaddrs(list);
	policy_set_own(policy, own, n);
	free(own);
}

int ebpf_attach(struct supervisor *s, struct err *e)
{
	uint32_t synthetic = htonl(NETNS_SYNTHETIC_FIRST);
	struct bpf_filter_config config = {
		.policy = s->network.policy,
		.any_address = s->profile->egress.addresses.v == ADDRESSES_REAL,
		.own4 = own_address(NETNS_OWN4),
		.own6 = own_address(NETNS_OWN6),
		.synthetic = address_from_v4(&synthetic),
		.synthetic_prefix = NETNS_SYNTHETIC_PREFIX,
		.this_host = own_address(GATEWAY_THIS_HOST4),
		.proxy_port = NETNS_PROXY_PORT,
		.capture_port = NETNS_CAPTURE_PORT,
	};
	struct err missing = {0};
	int r;

	if (!s->ebpf.wanted)
		return 0;
	if (is_host(s))
		return attach_host(s, e);
	if (policy_denies_this_host(s->network.policy))
		set_own(s->network.policy);
	r = bpf_filter_load(&s->ebpf.filter, &config, &missing);
	if (r == 0)
		r = bpf_filter_attach(&s->ebpf.filter, cgroup_ebpf_fd(&s->cgroup), &missing);
	if (r < 0)
		return without(s, -r, missing.msg, e);
	s->ebpf.attached = true;
	return 0;
}

/* --- names --- */

/* The number of a synthetic address. Return: false where it is none. */
static bool synthetic_number(const struct address *a, size_t *out)
{
	uint32_t v4;

	if (a->family != 4)
		return false;
	memcpy(&v4, a->b, 4);
	*out = ntohl(v4) - NETNS_SYNTHETIC_FIRST;
	return *out < SYNTHETIC_MAX;
}

void ebpf_note_name(struct supervisor *s, const struct address *addr, const char *name)
{
	struct ebpf *b = &s->ebpf;
	size_t i;

	if (!b->attached || is_host(s) || !synthetic_number(addr, &i))
		return;
	if (i >= b->n_names) {
		size_t n = i + 1 > 2 * b->n_names ? i + 1 : 2 * b->n_names;

		b->names = mem_array(b->names, n, sizeof(*b->names));
		memset(b->names + b->n_names, 0, (n - b->n_names) * sizeof(*b->names));
		b->n_names = n;
	}
	if (!b->names[i])
		b->names[i] = mem_strdup(name);
}

/* --- whose it is --- */

static void remember(struct ebpf *b, const struct bpf_record *r)
{
	/* Pages that no port is in cost nothing. */
	if (!b->syns)
		b->syns = mem_zalloc(EBPF_PORTS * sizeof(*b->syns));
	if (!b->seen)
		b->seen = mem_array(NULL, EBPF_SEEN, sizeof(*b->seen));
	if (r->kind == BPF_RECORD_SYN) {
		b->syns[r->source_port] = *r;
		return;
	}
	b->seen[b->n_seen++ % EBPF_SEEN] = *r;
}

static struct address record_address(const struct bpf_record *r)
{
	struct address a = {.family = r->family};

	memcpy(a.b, r->addr, r->family == 4 ? 4 : 16);
	return a;
}

/*
 * What the gateway took is told apart by the box's own port. What was refused in the box's network has sent no packet
 * that the programs saw: there the last attempt at the same place is it.
 */
static bool is_of(const struct bpf_record *seen, const struct egress_report *r)
{
	struct address a;

	if (!seen->pid || seen->protocol != r->protocol)
		return false;
	if (r->via == EGRESS_VIA_FILTER) {
		a = record_address(seen);
		return seen->port == r->port && address_eq(&a, &r->addr);
	}
	if (r->via != EGRESS_VIA_GATEWAY)
		return seen->port == NETNS_PROXY_PORT;
	return seen->port == r->port || seen->port == NETNS_CAPTURE_PORT;
}

static const struct bpf_record *find_seen(const struct ebpf *b, const struct egress_report *r)
{
	if (r->via != EGRESS_VIA_FILTER)
		return b->syns && r->client_port && is_of(&b->syns[r->client_port], r) ? &b->syns[r->client_port] : NULL;
	for (size_t i = 0; i < EBPF_SEEN && i < b->n_seen; i++) {
		const struct bpf_record *seen = &b->seen[(b->n_seen - 1 - i) % EBPF_SEEN];

		if (is_of(seen, r))
			return seen;
	}
	return NULL;
}

/* The programs see the first pid namespace's numbers; to a host within another one they say nothing. */
static bool pids_are_ours(void)
{
	static int known = -1;
	struct stat st;

	if (known < 0)
		known = stat("/proc/self/ns/pid", &st) == 0 && st.st_ino == FIRST_PID_NAMESPACE;
	return known;
}

static void take_owner(const struct bpf_record *r, pid_t *pid, char *comm)
{
	*pid = pids_are_ours() ? (pid_t)r->pid : 0;
	memcpy(comm, r->comm, sizeof(r->comm));
	comm[sizeof(r->comm)] = '\0';
}

bool ebpf_owner(struct supervisor *s, const struct egress_report *r, pid_t *pid, char *comm)
{
	struct ebpf *b = &s->ebpf;
	const struct bpf_record *seen;
	struct err ignored;

	if (!b->attached || is_host(s))
		return false;
	/* Its record was written before the gateway could see the connection. */
	ebpf_records(s, &ignored);
	seen = find_seen(b, r);
	if (!seen)
		return false;
	take_owner(seen, pid, comm);
	return true;
}

/* --- what was refused --- */

static bool is_new(const struct bpf_record *r)
{
	static struct {
		struct bpf_record what;
		uint64_t at_ms;
	} recent[RECENT];
	size_t slot = (r->addr[3] * 31U + r->addr[15] * 7U + r->port + r->protocol + r->pid) % RECENT;
	struct bpf_record what = *r;
	uint64_t now = now_ms();
	bool same;

	what.source_port = 0;
	same = memcmp(&recent[slot].what, &what, sizeof(what)) == 0 && now - recent[slot].at_ms < SAME_MS;
	if (!same) {
		recent[slot].what = what;
		recent[slot].at_ms = now;
	}
	return !same;
}

static int denied_event(struct supervisor *s, const struct bpf_record *record, struct err *e)
{
	struct egress_report r = {.type = EGRESS_CONNECT,
				  .count = 1,
				  .port = record->port,
				  .outcome = EGRESS_DENIED,
				  .via = EGRESS_VIA_EBPF,
				  .protocol = (uint8_t)record->protocol};
	struct policy_request q = {.addr = &r.addr, .port = record->port};
	struct verdict v = {.reason = VERDICT_UNSUPPORTED, .rule = -1};
	char comm[EBPF_COMM_MAX];
	pid_t pid;
	size_t i;

	if (record->family)
		r.addr = record_address(record);
	if (synthetic_number(&r.addr, &i) && i < s->ebpf.n_names && s->ebpf.names[i])
		snprintf(r.name, sizeof(r.name), "%s", s->ebpf.names[i]);
	if (record->protocol == IPPROTO_TCP && record->port && record->family)
		v = policy_decide(s->network.policy, &q);
	/* What a rule allows and what was refused all the same is a packet that belongs to no connection. */
	if (v.allowed)
		v = (struct verdict){.reason = VERDICT_UNSUPPORTED, .rule = -1};
	r.reason = (uint8_t)v.reason;
	r.rule = v.rule;
	take_owner(record, &pid, comm);
	return network_connect(s, &r, pid, record->pid ? comm : NULL, e);
}

/* --- mode = host --- */

void ebpf_note_given(struct supervisor *s, const struct address *addr, const char *name)
{
	struct host *h;

	if (!is_host(s) || !s->ebpf.attached)
		return;
	h = names_get(&s->ebpf.given, name);
	if (h && h != s->ebpf.given.this_host)
		names_add_real(&s->ebpf.given, h, addr);
}

/*
 * By the function that the name server asked, with the name that the address was answered for: of several the one that
 * allows it. *name: NULL: none.
 */
static struct verdict host_verdict(struct supervisor *s, const struct address *addr, uint16_t port, const char **name)
{
	struct policy_request q = {.addr = addr, .port = port};
	struct verdict v, one;
	int cursor = -1;

	*name = NULL;
	policy_set_own(s->network.policy, addr, bpf_host_is_own(&s->ebpf.filter, addr) ? 1 : 0);
	v = policy_decide_shared(s->network.policy, addr, port);
	for (const struct host *h; (h = names_find_real(&s->ebpf.given, addr, &cursor));) {
		q.name = h->name;
		one = policy_decide(s->network.policy, &q);
		if (*name && !one.allowed)
			continue;
		*name = h->name;
		if (!v.allowed)
			v = one;
		if (one.allowed)
			break;
	}
	return v;
}

static struct verdict refused_verdict(struct supervisor *s, const struct bpf_record *record, struct verdict v)
{
	struct host_usage u = {0};

	if (!v.allowed)
		return v;
	/* The rules allow it, and it was refused all the same. */
	v = (struct verdict){.reason = VERDICT_PROTOCOL, .rule = -1};
	if ((record->protocol == IPPROTO_TCP || record->protocol == IPPROTO_UDP) && bpf_host_usage(&s->ebpf.filter, &u) && u.closed)
		v.reason = u.used_up ? VERDICT_BYTES : VERDICT_CLOSED;
	return v;
}

static int host_event(struct supervisor *s, const struct bpf_record *record, struct err *e)
{
	struct egress_report r = {.type = EGRESS_CONNECT,
				  .count = 1,
				  .port = record->port,
				  .outcome = record->kind == BPF_RECORD_SENT ? EGRESS_ALLOWED : EGRESS_DENIED,
				  .via = EGRESS_VIA_EBPF,
				  .protocol = (uint8_t)record->protocol};
	struct verdict v = {.reason = VERDICT_PROTOCOL, .rule = -1};
	const char *name = NULL;
	char comm[EBPF_COMM_MAX];
	pid_t pid;

	if (record->kind != BPF_RECORD_SENT && !is_new(record))
		return 0;
	if (record->family)
		r.addr = record_address(record);
	if (record->kind == BPF_RECORD_BIND)
		v.reason = VERDICT_LISTEN;
	else if ((record->protocol == IPPROTO_TCP || record->protocol == IPPROTO_UDP) && record->port && record->family)
		v = host_verdict(s, &r.addr, record->port, &name);
	if (record->kind == BPF_RECORD_DENIED)
		v = refused_verdict(s, record, v);
	if (name)
		snprintf(r.name, sizeof(r.name), "%s", name);
	r.reason = (uint8_t)v.reason;
	r.rule = v.rule;
	take_owner(record, &pid, comm);
	return network_connect(s, &r, pid, record->pid ? comm : NULL, e);
}

/* egress.max-bytes, as limits.c has it for the others. */
static int usage_events(struct supervisor *s, struct err *e)
{
	uint64_t max = s->profile->egress.max_bytes.bytes, used;
	struct ebpf *b = &s->ebpf;
	int r = 0;

	if (!is_host(s) || !bpf_host_usage(&b->filter, &b->usage))
		return 0;
	used = b->usage.sent_bytes + b->usage.received_bytes;
	if (max && used >= max / 5 * 4)
		r = limits_warning(s, "egress.max-bytes", max, used, e);
	return r == 0 && b->usage.used_up ? limits_hit(s, "egress.max-bytes", max, used, e) : r;
}

int ebpf_sample(struct supervisor *s, struct err *e)
{
	int r;

	if (!is_host(s) || !s->ebpf.attached)
		return 0;
	r = ebpf_records(s, e);
	return r < 0 ? r : usage_events(s, e);
}

void ebpf_close(struct supervisor *s)
{
	if (is_host(s) && s->ebpf.attached)
		bpf_host_close(&s->ebpf.filter);
}

/* --- the ring --- */

int ebpf_records(struct supervisor *s, struct err *e)
{
	struct bpf_record record;
	int named = is_host(s) && s->network.ready ? network_report(s, e) : 0;

	/* The names of addresses were told before the box knew the addresses. */
	if (named < 0)
		return named;
	/* Bounded, so that a flood of records does not keep the loop from its other work. */
	for (int i = 0; i < RECORDS_A_TURN && bpf_filter_next(&s->ebpf.filter, &record); i++) {
		int r = 0;

		if (is_host(s))
			r = host_event(s, &record, e);
		else if (record.kind != BPF_RECORD_DENIED)
			remember(&s->ebpf, &record);
		else if (is_new(&record))
			r = denied_event(s, &record, e);
		if (r < 0)
			return r;
	}
	return 0;
}

static int lost_event(struct supervisor *s, struct err *e)
{
	uint64_t lost = bpf_filter_lost(&s->ebpf.filter);
	char text[128];

	if (!lost)
		return 0;
	snprintf(text, sizeof(text), "%llu records were lost: connections were tried faster than they could be written",
		 (unsigned long long)lost);
	return record_event(s, EVENT_EGRESS_ERROR,
			    json_pack("{s:s, s:n, s:n, s:s}", "process", "ebpf", "exit_code", "signal", "reason", text), e);
}

int ebpf_finish(struct supervisor *s, struct err *e)
{
	struct bpf_record record;
	int r = 0;

	if (!s->ebpf.attached)
		return 0;
	/* Nothing of the box runs any more: what is there now is all there will be. */
	while (r == 0 && bpf_filter_next(&s->ebpf.filter, &record)) {
		if (is_host(s))
			r = host_event(s, &record, e);
		else if (record.kind == BPF_RECORD_DENIED && is_new(&record))
			r = denied_event(s, &record, e);
	}
	if (r == 0)
		r = usage_events(s, e);
	if (r == 0)
		r = lost_event(s, e);
	/* A socket that the box gave away lives on, under the programs, and nothing passes it. */
	ebpf_close(s);
	bpf_filter_close(&s->ebpf.filter);
	return r;
}

void ebpf_free(struct supervisor *s)
{
	bpf_filter_close(&s->ebpf.filter);
	for (size_t i = 0; i < s->ebpf.n_names; i++)
		free(s->ebpf.names[i]);
	free(s->ebpf.names);
	names_free(&s->ebpf.given);
	free(s->ebpf.seen);
	free(s->ebpf.syns);
}
