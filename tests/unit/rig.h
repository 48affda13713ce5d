/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A whole gateway without a box: a "host" (user, network and mount namespaces of the test's own, with servers on
 * addresses that look public), the gateway in it, and a "box" (a network namespace plumbed by netns_setup). Nothing
 * leaves the machine.
 */
#ifndef AGENTBOX_TESTS_RIG_H
#define AGENTBOX_TESTS_RIG_H

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "box/netns.h"
#include "egress/gateway.h"
#include "egress/report.h"

struct rig {
	struct profile profile;
	struct gateway_config config;
	int reports;   /* our end */
	pid_t gateway, box, resolver; /* resolver 0: none yet */
	int to_box, from_box; /* functions to run in the box, and what they returned */
	enum netns_capture best; /* see struct netns_plan */
	bool deaf;            /* rig_run leaves the reports where they are, as a supervisor that is behind does */
	struct egress_report *kept; /* reports that came during rig_run */
	size_t n_kept, next_kept;
};

/* Ends the program: a rig that does not stand tests nothing. */
#define RIG_MUST(x) \
	do { \
		if (!(x)) { \
			fprintf(stderr, "rig: %s:%d: %s: %s\n", __FILE__, __LINE__, #x, strerror(errno)); \
			exit(1); \
		} \
	} while (0)

static inline void rig_write(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	RIG_MUST(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	close(fd);
}

static inline void rig_unshare(int flags)
{
	unsigned uid = geteuid(), gid = getegid();
	char map[64];

	RIG_MUST(unshare(CLONE_NEWUSER | flags) == 0);
	rig_write("/proc/self/setgroups", "deny");
	snprintf(map, sizeof(map), "0 %u 1", uid);
	rig_write("/proc/self/uid_map", map);
	snprintf(map, sizeof(map), "0 %u 1", gid);
	rig_write("/proc/self/gid_map", map);
}

/* A network that is local as a whole: servers may bind to any address of it, and none is the host's own. */
static inline void rig_anyip(int family, const char *net, unsigned char prefix)
{
	struct {
		struct nlmsghdr h;
		struct rtmsg r;
		struct rtattr dst;
		unsigned char addr[16];
		struct rtattr oif;
		uint32_t index;
	} m;
	unsigned short len = family == AF_INET ? 4 : 16;
	struct {
		struct nlmsghdr h;
		struct nlmsgerr e;
	} answer;
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	char *p = (char *)&m;
	size_t at;

	memset(&m, 0, sizeof(m));
	m.r = (struct rtmsg){.rtm_family = (unsigned char)family, .rtm_dst_len = prefix, .rtm_table = RT_TABLE_LOCAL,
			     .rtm_protocol = RTPROT_STATIC, .rtm_scope = RT_SCOPE_HOST, .rtm_type = RTN_LOCAL};
	m.dst = (struct rtattr){.rta_len = (unsigned short)(4 + len), .rta_type = RTA_DST};
	RIG_MUST(inet_pton(family, net, m.addr) == 1);
	at = offsetof(__typeof__(m), addr) + len;
	memcpy(p + at, &(struct rtattr){.rta_len = 8, .rta_type = RTA_OIF}, 4);
	memcpy(p + at + 4, &(uint32_t){1}, 4);
	m.h = (struct nlmsghdr){.nlmsg_len = (uint32_t)at + 8, .nlmsg_type = RTM_NEWROUTE,
				.nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE};
	RIG_MUST(fd >= 0 && send(fd, &m, m.h.nlmsg_len, 0) == (ssize_t)m.h.nlmsg_len);
	RIG_MUST(recv(fd, &answer, sizeof(answer), MSG_TRUNC) > 0 && answer.e.error == 0);
	close(fd);
}

/* Puts `text` in the place of /etc/NAME, for this mount namespace. /mnt is a tmpfs by then. */
static inline void rig_etc(const char *name, const char *text)
{
	char path[64], made[64];
	int fd;

	snprintf(path, sizeof(path), "/etc/%s", name);
	snprintf(made, sizeof(made), "/mnt/%s.%d", name, (int)getpid());
	fd = open(made, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	RIG_MUST(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	close(fd);
	RIG_MUST(mount(made, path, NULL, MS_BIND, NULL) == 0);
}

/* The calling process becomes the host. Once. */
static inline void rig_host(const char *hosts)
{
	rig_unshare(CLONE_NEWNET | CLONE_NEWNS);
	RIG_MUST(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
	RIG_MUST(mount("rig", "/mnt", "tmpfs", 0, NULL) == 0);
	RIG_MUST(netns_loopback_up() == 0);
	rig_anyip(AF_INET, "203.0.113.0", 24);
	rig_anyip(AF_INET, "10.9.0.0", 16);
	rig_anyip(AF_INET6, "2001:db8::", 32);
	rig_etc("hosts", hosts);
	rig_etc("nsswitch.conf", "hosts: files\n");
}

static inline void rig_rule(struct val_list *l, const char *text)
{
	l->items = mem_array(l->items, l->n + 1, sizeof(*l->items));
	l->items[l->n++] = (struct val_item){.text = mem_strdup(text), .from = {"rig.ini", (unsigned)l->n + 1}};
}

static inline int rig_take(int sock, struct gateway_sockets *out)
{
	struct netns_sockets s;
	int rc = netns_receive(sock, &s);

	if (rc < 0)
		return rc;
	memcpy(out->fds, s.fds, sizeof(s.fds));
	memcpy(out->listeners, s.listeners, sizeof(s.listeners));
	out->n_listeners = s.n_listeners;
	out->redirected = s.capture == NETNS_REDIRECT;
	out->packets = s.capture == NETNS_LISTEN;
	return 0;
}

/* What a supervisor does when it is asked for a resolver. */
static inline void rig_resolver(struct rig *r)
{
	pid_t parent = getpid();
	int pair[2];

	RIG_MUST(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
	r->resolver = fork();
	if (r->resolver == 0)
		resolver_main(pair[1], parent);
	RIG_MUST(r->resolver > 0 && gateway_give_resolver(r->reports, pair[0]) == 0);
	close(pair[0]);
	close(pair[1]);
}

/* As egress_report_read, which may wait. What is not for a test is done here. Return: 2: it was that. */
static inline int rig_read(struct rig *r, struct egress_report *out)
{
	int rc = egress_report_read(r->reports, out);

	if (rc != 1 || out->type != EGRESS_RESOLVER)
		return rc;
	rig_resolver(r);
	return 2;
}

typedef int (*rig_fn)(void *arg);

/*
 * In the box: runs each function that comes down the pipe in a process of its own. Function pointers are good across
 * fork.
 */
static inline void rig_box_loop(int in, int out)
{
	struct {
		rig_fn fn;
		void *arg;
	} call;

	while (read(in, &call, sizeof(call)) == sizeof(call)) {
		int status = -1;
		pid_t pid = fork();

		if (pid == 0) {
			alarm(60);
			_exit(call.fn(call.arg));
		}
		waitpid(pid, &status, 0);
		RIG_MUST(write(out, &status, sizeof(status)) == sizeof(status));
	}
	_exit(0);
}

/* Return: the wait status of fn's process; its exit status is fn's value. */
static inline int rig_run(struct rig *r, rig_fn fn, void *arg)
{
	struct {
		rig_fn fn;
		void *arg;
	} call = {fn, arg};
	int status = -1;

	RIG_MUST(write(r->to_box, &call, sizeof(call)) == sizeof(call));
	for (;;) {
		struct pollfd p[2] = {{r->from_box, POLLIN, 0}, {r->deaf ? -1 : r->reports, POLLIN, 0}};
		struct egress_report report;

		RIG_MUST(poll(p, 2, -1) > 0);
		if (p[0].revents)
			break;
		switch (rig_read(r, &report)) {
		case 1:
			break;
		case 2:
			continue;
		default:
			r->deaf = true;
			continue;
		}
		r->kept = mem_array(r->kept, r->n_kept + 1, sizeof(report));
		r->kept[r->n_kept++] = report;
	}
	RIG_MUST(read(r->from_box, &status, sizeof(status)) == sizeof(status));
	return status;
}

/* The next report, waited for. Return: 1, or 0 when none comes within timeout_ms, -1 at the gateway's end. */
static inline int rig_report(struct rig *r, struct egress_report *out, int timeout_ms)
{
	struct pollfd p = {r->reports, POLLIN, 0};

	if (r->next_kept < r->n_kept) {
		*out = r->kept[r->next_kept++];
		return 1;
	}
	for (;;) {
		int rc;

		if (poll(&p, 1, timeout_ms) <= 0)
			return 0;
		rc = rig_read(r, out);
		if (rc != 2)
			return rc == 1 ? 1 : -1;
	}
}

/* Starts gateway and box for what r->profile and r->config say. */
static inline void rig_start(struct rig *r)
{
	int reports[2], sockets[2], down[2], up[2];
	struct policy_reach reach;
	struct netns_plan plan;
	struct egress_report ready;
	struct err e = {0};

	if (policy_new(&r->profile, &r->config.policy, &e) < 0) {
		fprintf(stderr, "rig: %s\n", e.msg);
		exit(1);
	}
	policy_reach(r->config.policy, &reach);
	plan = (struct netns_plan){.ports = reach.ports, .n_ports = reach.n_ports, .nets = reach.nets, .n_nets = reach.n_nets,
				   .any_address = reach.any_address || !r->config.synthetic, .best = r->best};
	r->config.parent = getpid();
	r->config.take_sockets = rig_take;
	RIG_MUST(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, reports) == 0);
	RIG_MUST(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) == 0);
	RIG_MUST(pipe2(down, O_CLOEXEC) == 0 && pipe2(up, O_CLOEXEC) == 0);
	r->gateway = fork();
	if (r->gateway == 0)
		_exit(gateway_main(&r->config, reports[1], sockets[1]));
	r->box = fork();
	if (r->box == 0) {
		struct netns_failure failure = {0};
		int rc;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(reports[0]);
		close(reports[1]);
		close(sockets[1]);
		close(down[1]);
		close(up[0]);
		rig_unshare(CLONE_NEWNET | CLONE_NEWNS);
		rig_etc("resolv.conf", "nameserver " NETNS_OWN4 "\noptions timeout:1 attempts:5\n");
		rig_etc("hosts", "127.0.0.1 localhost\n");
		rig_etc("nsswitch.conf", "hosts: files dns\n");
		rc = netns_setup(&plan, sockets[0], &failure);
		close(sockets[0]);
		if (rc < 0) {
			netns_failure_text(&failure, -rc, &e);
			fprintf(stderr, "rig: %s\n", e.msg);
			_exit(1);
		}
		rig_box_loop(down[0], up[1]);
	}
	close(reports[1]);
	close(sockets[0]);
	close(sockets[1]);
	close(down[0]);
	close(up[1]);
	r->reports = reports[0];
	r->to_box = down[1];
	r->from_box = up[0];
	policy_reach_free(&reach);
	if (rig_report(r, &ready, 10000) != 1 || ready.type != EGRESS_READY) {
		fprintf(stderr, "rig: the gateway is not ready: %s\n", ready.type == EGRESS_FAILED ? ready.text : "no report");
		exit(1);
	}
}

static inline void rig_stop(struct rig *r)
{
	close(r->to_box);
	close(r->from_box);
	close(r->reports);
	kill(r->box, SIGKILL);
	waitpid(r->box, NULL, 0);
	waitpid(r->gateway, NULL, 0);
	if (r->resolver)
		waitpid(r->resolver, NULL, 0);
	policy_free(r->config.policy);
	free(r->kept);
	for (int i = 0; i < 2; i++) {
		struct val_list *l = i ? &r->profile.egress.deny : &r->profile.egress.allow;

		for (size_t k = 0; k < l->n; k++)
			free(l->items[k].text);
		free(l->items);
	}
	memset(r, 0, sizeof(*r));
}

#endif
