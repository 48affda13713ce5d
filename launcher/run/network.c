/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "run/network.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "box/child.h"
#include "egress/dns.h"
#include "egress/gateway.h"
#include "run/ebpf.h"
#include "run/limits.h"

#include "base/banned.h"

#define FINISH_MS 4000
#define EXIT_MS 1000
/*
 * Events of one run about names asked for, and about connections that did not come about. The box can cause both without
 * end, and only what is allowed is bounded by what is served.
 */
#define QUESTIONS_MAX 10000
#define REFUSALS_MAX 10000
#define SENT_MAX 100000

int network_names(struct supervisor *s, struct err *e)
{
	struct network *n = &s->network;
	int r;

	if (s->profile->egress.mode.v != EGRESS_HOST)
		return 0;
	r = gateway_host_bind(&n->server, n->names, e);
	if (r < 0)
		return r;
	s->host.name_server = address_text(&n->server, n->server_text);
	return 0;
}

int network_plan(struct supervisor *s, struct err *e)
{
	struct network *n = &s->network;
	int r;

	if (s->profile->egress.mode.v == EGRESS_NONE)
		return 0;
	r = policy_new(s->profile, &n->policy, e);
	if (r < 0 || s->profile->egress.mode.v == EGRESS_HOST)
		return r;
	policy_reach(n->policy, &n->reach);
	s->plan.net = (struct netns_plan){
		.ports = n->reach.ports,
		.n_ports = n->reach.n_ports,
		.nets = n->reach.nets,
		.n_nets = n->reach.n_nets,
		.any_address = n->reach.any_address || s->profile->egress.addresses.v == ADDRESSES_REAL,
	};
	return 0;
}

/* The box's sockets, for the gateway: egress does not know box. */
static int take_sockets(int sock, struct gateway_sockets *out)
{
	struct netns_sockets s;
	int r = netns_receive(sock, &s);

	_Static_assert((int)GATEWAY_SOCKETS == (int)NETNS_FDS, "the two lists of sockets are one");
	_Static_assert(sizeof(GATEWAY_OWN4) == sizeof(NETNS_OWN4) && sizeof(GATEWAY_OWN6) == sizeof(NETNS_OWN6), "so are the addresses");
	_Static_assert(GATEWAY_LISTENERS_MAX == NETNS_LISTENERS_MAX, "so are those of listeners");
	if (r < 0)
		return r;
	memcpy(out->fds, s.fds, sizeof(s.fds));
	memcpy(out->listeners, s.listeners, sizeof(s.listeners));
	out->n_listeners = s.n_listeners;
	out->redirected = s.capture == NETNS_REDIRECT;
	out->packets = s.capture == NETNS_LISTEN;
	return 0;
}

/* The gateway's process: none of the caller's streams, secrets or signal settings. */
static void gateway_child(const struct supervisor *s, pid_t parent, int report, int sockets) __attribute__((noreturn));

static void gateway_child(const struct supervisor *s, pid_t parent, int report, int sockets)
{
	const struct profile *p = s->profile;
	struct gateway_config cfg = {
		.host = p->egress.mode.v == EGRESS_HOST,
		.policy = s->network.policy,
		.synthetic = p->egress.addresses.v == ADDRESSES_SYNTHETIC,
		.inspect = p->egress.inspect.v,
		.max_bytes = p->egress.max_bytes.bytes,
		.max_connections = p->egress.max_connections.n,
		.connect_timeout_ms = p->egress.connect_timeout.ms,
		.parent = parent,
		.take_sockets = take_sockets,
	};

	child_set_title("agentbox-gateway", s->options->title, s->options->title_len);
	child_exit(gateway_main(&cfg, report, sockets));
}

int network_open(struct supervisor *s, struct err *e)
{
	struct network *n = &s->network;
	int report[2], sockets[2];

	if (!n->policy)
		return 0;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, report) < 0)
		return err_errno(e, errno, "socketpair");
	n->report = report[0];
	n->gateway_report = report[1];
	if (fcntl(n->report, F_SETFL, O_NONBLOCK) < 0)
		return err_errno(e, errno, "the egress gateway's reports");
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) < 0)
		return err_errno(e, errno, "socketpair");
	n->box_end = sockets[0];
	n->gateway_end = sockets[1];
	return 0;
}

int network_start(struct supervisor *s, struct err *e)
{
	struct network *n = &s->network;
	pid_t parent = getpid();

	if (!n->policy)
		return 0;
	n->pid = fork();
	if (n->pid == 0)
		gateway_child(s, parent, n->gateway_report, n->gateway_end);
	cleanup_fd_p(&n->gateway_report);
	cleanup_fd_p(&n->gateway_end);
	if (s->plan.private_network)
		cleanup_fd_p(&n->box_end);
	if (n->pid < 0)
		return err_errno(e, errno, "cannot start the egress gateway");
	n->pidfd = pidfd_open(n->pid, 0);
	return n->pidfd < 0 ? err_errno(e, errno, "cannot watch the egress gateway") : 0;
}

int network_attached(struct supervisor *s, struct err *e)
{
	struct network *n = &s->network;
	int fds[GATEWAY_HOST_FDS], r;

	if (s->profile->egress.mode.v != EGRESS_HOST)
		return 0;
	fds[GATEWAY_HOST_UDP] = n->names[0];
	fds[GATEWAY_HOST_TCP] = n->names[1];
	fds[GATEWAY_HOST_GIVEN] = s->ebpf.filter.given;
	fds[GATEWAY_HOST_PORTS] = s->ebpf.filter.ports;
	fds[GATEWAY_HOST_OWN] = s->ebpf.filter.own;
	fds[GATEWAY_HOST_ASKERS] = s->ebpf.filter.askers;
	r = gateway_host_send(n->box_end, fds);
	cleanup_fd_p(&n->box_end);
	cleanup_fd_p(&n->names[0]);
	cleanup_fd_p(&n->names[1]);
	/* It has gone already: its report says why. */
	return r < 0 && r != -EPIPE && r != -ECONNRESET ? err_errno(e, -r, "the sockets for the box's name server") : 0;
}

/* The process and its end of `pair`. Return: a pidfd of it or -errno. */
static int fork_resolver(const struct supervisor *s, const int *pair)
{
	pid_t parent = getpid(), pid = fork();
	int pidfd;

	if (pid < 0)
		return -errno;
	if (pid == 0) {
		child_set_title("agentbox-dns", s->options->title, s->options->title_len);
		resolver_main(pair[1], parent);
	}
	pidfd = pidfd_open(pid, 0);
	if (pidfd >= 0)
		return pidfd;
	pidfd = -errno;
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	return pidfd;
}

/*
 * Once a run: the gateway parses hostile bytes, and may not have us fork without end. Without a resolver the gateway says
 * so, as an error of its own, and goes on.
 */
static void start_resolver(struct supervisor *s)
{
	struct network *n = &s->network;
	int pair[2] = {-1, -1};

	if (n->resolver_asked)
		return;
	n->resolver_asked = true;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0)
		n->resolver_pidfd = fork_resolver(s, pair);
	gateway_give_resolver(n->report, n->resolver_pidfd < 0 ? -1 : pair[0]);
	cleanup_fd_p(&pair[0]);
	cleanup_fd_p(&pair[1]);
}

/* Kills and reaps, where it is there. */
static void end_process(int *pidfd)
{
	if (*pidfd < 0)
		return;
	pidfd_send_signal(*pidfd, SIGKILL, NULL, 0);
	while (waitid(P_PIDFD, (id_t)*pidfd, &(siginfo_t){0}, WEXITED) < 0 && errno == EINTR)
		;
	cleanup_fd_p(pidfd);
}

void network_failure_text(const struct supervisor *s, struct err *e)
{
	err_set(e, ECHILD, "the egress gateway could not start: %s; `agentbox doctor` says what is missing",
		*s->network.failure ? s->network.failure : "it ended");
}

bool network_is_ready(const struct supervisor *s)
{
	return !s->network.policy || s->network.ready;
}

/* --- reports as events --- */

static void put_text(json_t *fields, const char *key, const char *text)
{
	json_object_set_new(fields, key, text && *text ? event_text_z(text) : json_null());
}

static void put_rule(const struct supervisor *s, json_t *fields, int rule)
{
	const struct val_item *item = policy_rule(s->network.policy, rule);
	char place[256];

	if (item)
		put_text(fields, "rule", origin_text(item->from, place, sizeof(place)));
	else
		json_object_set_new(fields, "rule", json_null());
}

/* For the summary at the end: the first few destinations that were denied, each once (a name is asked for as A and AAAA). */
static void note_denied(struct supervisor *s, const struct egress_report *r)
{
	struct strv *names = &s->network.denied_names;
	cleanup_free char *what = NULL;
	char address[ADDRESS_TEXT_MAX];

	s->network.denied++;
	if (r->type == EGRESS_DNS)
		what = mem_strdup(*r->name ? r->name : "?");
	else
		what = mem_printf("%s:%u", *r->name ? r->name : address_text(&r->addr, address), r->port);
	if (strv_has(names, what))
		return;
	if (names->n < 3)
		strv_add(names, what);
	else
		s->network.more_denied = true;
}

/* Is there room for one more event of a kind? Else it is counted, and said at the end. */
static bool is_enough(struct supervisor *s, uint64_t *events, uint64_t max, const struct egress_report *r)
{
	if (++*events <= max)
		return false;
	s->network.unsaid += r->count;
	return true;
}

static int dns_event(struct supervisor *s, const struct egress_report *r, struct err *e)
{
	json_t *fields;
	char type[32];

	if (r->outcome == EGRESS_ALLOWED)
		ebpf_note_name(s, &r->addr, r->name);
	if (is_enough(s, &s->network.questions, QUESTIONS_MAX, r))
		return 0;
	fields = json_object();
	put_text(fields, "name", *r->name ? r->name : "?");
	json_object_set_new(fields, "qtype", json_string(dns_type_text(r->qtype, type)));
	json_object_set_new(fields, "verdict", json_string(r->outcome == EGRESS_DENIED ? "deny" : "allow"));
	put_rule(s, fields, r->rule);
	if (r->outcome == EGRESS_UNREACHED)
		put_text(fields, "reason", policy_reason_text(VERDICT_NOT_RESOLVED));
	else
		put_text(fields, "reason", r->outcome == EGRESS_ALLOWED ? NULL : policy_reason_text((enum verdict_reason)r->reason));
	if (r->outcome == EGRESS_DENIED)
		note_denied(s, r);
	json_object_set_new(fields, "count", json_integer(r->count));
	return record_event(s, EVENT_EGRESS_DNS, fields, e);
}

static const char *protocol_text(unsigned protocol, char buf[16])
{
	switch (protocol) {
	case IPPROTO_TCP:
		return "tcp";
	case IPPROTO_UDP:
		return "udp";
	case IPPROTO_ICMP:
		return "icmp";
	case IPPROTO_ICMPV6:
		return "icmpv6";
	default:
		snprintf(buf, 16, "%u", protocol);
		return buf;
	}
}

int network_connect(struct supervisor *s, const struct egress_report *r, pid_t pid, const char *comm, struct err *e)
{
	char address[ADDRESS_TEXT_MAX], protocol[16], why[512];
	json_t *fields;

	if (r->outcome != EGRESS_ALLOWED && is_enough(s, &s->network.refusals, REFUSALS_MAX, r))
		return 0;
	/* Nothing bounds how fast a box on the host's network connects. */
	if (r->outcome == EGRESS_ALLOWED && r->via == EGRESS_VIA_EBPF && is_enough(s, &s->network.sent, SENT_MAX, r))
		return 0;
	fields = json_object();
	json_object_set_new(fields, "id", r->id ? json_integer(r->id) : json_null());
	json_object_set_new(fields, "verdict", json_string(r->outcome == EGRESS_DENIED ? "deny" : "allow"));
	put_rule(s, fields, r->rule);
	put_text(fields, "name", r->name);
	put_text(fields, "address", r->addr.family ? address_text(&r->addr, address) : NULL);
	json_object_set_new(fields, "port", json_integer(r->port));
	json_object_set_new(fields, "protocol", json_string(protocol_text(r->protocol, protocol)));
	json_object_set_new(fields, "via", json_string(egress_via_text((enum egress_via)r->via)));
	json_object_set_new(fields, "pid", pid ? json_integer(pid) : json_null());
	put_text(fields, "comm", comm);
	why[0] = '\0';
	if (r->outcome == EGRESS_DENIED)
		snprintf(why, sizeof(why), "%s%s%s", policy_reason_text((enum verdict_reason)r->reason), *r->seen ? ": " : "", r->seen);
	else if (r->outcome == EGRESS_UNREACHED)
		snprintf(why, sizeof(why), "not reached: %s",
			 r->errnum ? strerrordesc_np(r->errnum) : policy_reason_text(VERDICT_NOT_RESOLVED));
	put_text(fields, "reason", why);
	if (r->outcome == EGRESS_DENIED)
		note_denied(s, r);
	json_object_set_new(fields, "count", json_integer(r->count));
	return record_event(s, EVENT_EGRESS_CONNECT, fields, e);
}

/* With whose connection it was, where the eBPF programs saw it. */
static int connect_event(struct supervisor *s, const struct egress_report *r, struct err *e)
{
	char comm[EBPF_COMM_MAX];
	pid_t pid;

	return ebpf_owner(s, r, &pid, comm) ? network_connect(s, r, pid, comm, e) : network_connect(s, r, 0, NULL, e);
}

static int close_event(struct supervisor *s, const struct egress_report *r, struct err *e)
{
	json_t *fields = json_object();

	s->network.sent_bytes += r->to_server_bytes;
	s->network.received_bytes += r->to_client_bytes;
	json_object_set_new(fields, "id", json_integer(r->id));
	json_object_set_new(fields, "sent_bytes", json_integer((json_int_t)r->to_server_bytes));
	json_object_set_new(fields, "received_bytes", json_integer((json_int_t)r->to_client_bytes));
	json_object_set_new(fields, "duration_ms", json_integer((json_int_t)r->duration_ms));
	json_object_set_new(fields, "how", json_string(egress_end_text((enum egress_end)r->end)));
	return record_event(s, EVENT_EGRESS_CLOSE, fields, e);
}

static int error_event(struct supervisor *s, int exit_code, int signum, const char *reason, struct err *e)
{
	json_t *fields = json_object();

	json_object_set_new(fields, "process", json_string("gateway"));
	json_object_set_new(fields, "exit_code", exit_code >= 0 ? json_integer(exit_code) : json_null());
	json_object_set_new(fields, "signal", signum >= 0 ? json_integer(signum) : json_null());
	put_text(fields, "reason", reason);
	return record_event(s, EVENT_EGRESS_ERROR, fields, e);
}

static int on_report(struct supervisor *s, const struct egress_report *r, struct err *e)
{
	char text[EGRESS_TEXT_MAX + 64];

	switch ((enum egress_report_type)r->type) {
	case EGRESS_READY:
		s->network.ready = true;
		return 0;
	case EGRESS_GIVEN:
		ebpf_note_given(s, &r->addr, r->name);
		return 0;
	case EGRESS_DNS:
		return dns_event(s, r, e);
	case EGRESS_CONNECT:
		return connect_event(s, r, e);
	case EGRESS_CLOSE:
		return close_event(s, r, e);
	case EGRESS_RESOLVER:
		start_resolver(s);
		return 0;
	case EGRESS_LOST:
		snprintf(text, sizeof(text), "%u reports were lost: they came faster than they could be written", r->count);
		return error_event(s, -1, -1, text, e);
	case EGRESS_FAILED:
		snprintf(s->network.failure, sizeof(s->network.failure), "%s%s%s", r->text, r->errnum ? ": " : "",
			 r->errnum ? strerrordesc_np(r->errnum) : "");
		return 0;
	case EGRESS_ERROR:
		if (r->errnum == EDQUOT)
			return limits_hit(s, "egress.max-bytes", s->profile->egress.max_bytes.bytes, s->profile->egress.max_bytes.bytes, e);
		snprintf(text, sizeof(text), "%s%s%s", r->text, r->errnum ? ": " : "",
			 r->errnum ? strerrordesc_np(r->errnum) : "");
		return error_event(s, -1, -1, text, e);
	case EGRESS_TYPES:
		break;
	}
	return 0;
}

/*
 * The gateway has closed its end. Where we asked for that, its process is reaped at the end of all. Otherwise it is gone:
 * the box's network ends nowhere, and the command goes on.
 */
static int on_gone(struct supervisor *s, struct err *e)
{
	struct network *n = &s->network;
	siginfo_t info = {0};

	cleanup_fd_p(&n->report);
	if (n->finishing)
		return 0;
	/* One that closed its end and runs on has no business any more; what was killed already keeps its own status. */
	pidfd_send_signal(n->pidfd, SIGKILL, NULL, 0);
	while (waitid(P_PIDFD, (id_t)n->pidfd, &info, WEXITED) < 0 && errno == EINTR)
		;
	cleanup_fd_p(&n->pidfd);
	end_process(&n->resolver_pidfd);
	/* Perhaps because the box failed, which says better why: loop.c gives it a moment. */
	n->failed_early = !n->ready;
	if (n->failed_early)
		return 0;
	/* mode = host: nobody would see any more that an address became this host's own. */
	ebpf_close(s);
	return error_event(s, info.si_code == CLD_EXITED ? info.si_status : -1, info.si_code == CLD_EXITED ? -1 : info.si_status,
			   *n->failure ? n->failure : "the gateway ended", e);
}

int network_report(struct supervisor *s, struct err *e)
{
	/* Bounded, so that a flood of reports does not keep the loop from its other work. */
	for (int i = 0; i < 256 && s->network.report >= 0; i++) {
		struct egress_report report;
		int r = egress_report_read(s->network.report, &report);

		if (r == -EAGAIN)
			return 0;
		if (r == -EBADMSG)
			return err_set(e, EBADMSG, "the egress gateway sent a report that makes no sense");
		if (r < 0)
			return err_errno(e, -r, "the egress gateway's reports cannot be read");
		if (r == 0)
			return on_gone(s, e);
		r = on_report(s, &report, e);
		if (r < 0)
			return r;
	}
	return 0;
}

static int end_gateway(struct supervisor *s, struct err *e)
{
	struct network *n = &s->network;
	struct pollfd pfd = {.fd = n->report, .events = POLLIN};
	uint64_t end = now_ms() + FINISH_MS;
	int r = 0;

	if (n->pidfd < 0 || n->report < 0)
		return 0;
	n->finishing = true;
	/* What it still has to say comes before its end. Where it is gone already, that is read in the same way. */
	gateway_end(n->report);
	while (r == 0 && n->report >= 0 && now_ms() < end) {
		int left = (int)(end - now_ms());

		if (poll(&pfd, 1, left > 0 ? left : 0) <= 0)
			break;
		r = network_report(s, e);
	}
	if (n->report >= 0) {
		cleanup_fd_p(&n->report);
		end_process(&n->pidfd);
		if (r == 0)
			r = error_event(s, -1, -1, "the last reports did not come in time; the log lacks connections and their ends", e);
	}
	return r;
}

int network_finish(struct supervisor *s, struct err *e)
{
	char text[128];
	int r = end_gateway(s, e);

	if (r < 0 || !s->network.unsaid)
		return r;
	snprintf(text, sizeof(text), "%llu more questions and connections are not in the log",
		 (unsigned long long)s->network.unsaid);
	s->network.unsaid = 0;
	return error_event(s, -1, -1, text, e);
}

void network_end_fields(const struct supervisor *s, json_t *end)
{
	const struct host_usage *u = &s->ebpf.usage;

	if (!s->network.policy)
		return;
	json_object_set_new(end, "egress_sent_bytes", json_integer((json_int_t)(s->network.sent_bytes + u->sent_bytes)));
	json_object_set_new(end, "egress_received_bytes", json_integer((json_int_t)(s->network.received_bytes + u->received_bytes)));
	if (s->profile->egress.mode.v != EGRESS_HOST)
		return;
	json_object_set_new(end, "egress_sent_packets", json_integer((json_int_t)u->sent_packets));
	json_object_set_new(end, "egress_received_packets", json_integer((json_int_t)u->received_packets));
}

void network_summary(const struct supervisor *s, struct str *out)
{
	const struct network *n = &s->network;

	if (!n->denied)
		return;
	str_add(out, "denied: ");
	for (size_t i = 0; i < n->denied_names.n; i++) {
		str_add(out, i ? ", " : "");
		str_add_printable(out, n->denied_names.v[i], strlen(n->denied_names.v[i]));
	}
	if (n->more_denied)
		str_add(out, ", ...");
}

void network_free(struct supervisor *s)
{
	struct network *n = &s->network;

	/* One that has said all and closed its end is on its way out. */
	if (n->pidfd >= 0 && n->finishing)
		poll(&(struct pollfd){.fd = n->pidfd, .events = POLLIN}, 1, EXIT_MS);
	end_process(&n->pidfd);
	end_process(&n->resolver_pidfd);
	cleanup_fd_p(&n->report);
	cleanup_fd_p(&n->box_end);
	cleanup_fd_p(&n->gateway_report);
	cleanup_fd_p(&n->gateway_end);
	cleanup_fd_p(&n->names[0]);
	cleanup_fd_p(&n->names[1]);
	policy_reach_free(&n->reach);
	policy_free(n->policy);
	strv_free(&n->denied_names);
}
