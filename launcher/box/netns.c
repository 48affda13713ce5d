/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "box/netns.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_log.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <netlink/attr.h>
#include <netlink/msg.h>
#include <netlink/netlink.h>
#include <netlink/socket.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "box/listen.h"
#include "box/nft.h"
#include "sys/fd.h"

#include "base/banned.h"

#define LOOPBACK_INDEX 1 /* `lo` is the first device of every namespace (net/core/dev.c) */
#define DNS_PORT 53
#define BACKLOG 4096

_Static_assert(NETNS_FDS <= FD_SEND_MAX, "all sockets must fit one message");

int netns_loopback_up(void)
{
	struct ifreq req = {.ifr_name = "lo", .ifr_flags = IFF_UP};
	cleanup_fd int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &req) < 0)
		return -errno;
	return 0;
}

static int fail(struct netns_failure *f, enum netns_step step, int object, int rc)
{
	f->step = step;
	f->object = object;
	return rc;
}

/* --- addresses and routes --- */

struct own {
	struct in_addr v4;
	struct in6_addr v6;
};

static struct own own_addresses(void)
{
	struct own own;

	inet_pton(AF_INET, NETNS_OWN4, &own.v4);
	inet_pton(AF_INET6, NETNS_OWN6, &own.v6);
	return own;
}

/*
 * libnl's own numbers hide errnos, so requests are built with it and sent and acknowledged here. m is freed. Return: 0
 * or -errno.
 */
static int request(int fd, struct nl_msg *m)
{
	struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
	struct nlmsghdr *h = nlmsg_hdr(m);
	union {
		struct nlmsghdr h;
		char bytes[1024];
	} answer;
	ssize_t n;

	h->nlmsg_flags |= NLM_F_REQUEST | NLM_F_ACK;
	n = sendto(fd, h, h->nlmsg_len, 0, (struct sockaddr *)&kernel, sizeof(kernel));
	nlmsg_free(m);
	if (n < 0)
		return -errno;
	do
		n = recv(fd, &answer, sizeof(answer), 0);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	if ((size_t)n < NLMSG_LENGTH(sizeof(struct nlmsgerr)) || answer.h.nlmsg_type != NLMSG_ERROR)
		return -EBADMSG;
	return ((struct nlmsgerr *)NLMSG_DATA(&answer.h))->error;
}

static struct nl_msg *message(int type, int flags, const void *header, size_t len)
{
	struct nl_msg *m = nlmsg_alloc_size(512);

	if (!m)
		return NULL;
	if (!nlmsg_put(m, 0, 0, type, 0, flags) || nlmsg_append(m, (void *)header, len, NLMSG_ALIGNTO) < 0) {
		nlmsg_free(m);
		return NULL;
	}
	return m;
}

static int add_address(int fd, int family, const void *addr)
{
	int len = family == AF_INET ? 4 : 16;
	struct ifaddrmsg head = {.ifa_family = (unsigned char)family,
				 .ifa_prefixlen = (unsigned char)(len * 8),
				 .ifa_index = LOOPBACK_INDEX,
				 /* without it the address is tentative, and unusable, for a second */
				 .ifa_flags = family == AF_INET6 ? IFA_F_NODAD : 0};
	struct nl_msg *m = message(RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, &head, sizeof(head));

	if (!m || nla_put(m, IFA_LOCAL, len, addr) < 0 || nla_put(m, IFA_ADDRESS, len, addr) < 0) {
		nlmsg_free(m);
		return -ENOMEM;
	}
	return request(fd, m);
}

static bool put_metrics(struct nl_msg *m)
{
	struct nlattr *metrics = nla_nest_start(m, RTA_METRICS);

	return metrics && nla_put_string(m, RTAX_CC_ALGO, NETNS_CONGESTION_CONTROL) == 0 && nla_nest_end(m, metrics) == 0;
}

/* AnyIP: every address is local. With the own address as source, as otherwise a packet's source is its destination. */
static int add_route(int fd, int family, const void *source)
{
	int len = family == AF_INET ? 4 : 16;
	struct rtmsg head = {.rtm_family = (unsigned char)family,
			     .rtm_table = RT_TABLE_LOCAL,
			     .rtm_protocol = RTPROT_STATIC,
			     .rtm_scope = RT_SCOPE_HOST,
			     .rtm_type = RTN_LOCAL};
	struct nl_msg *m = message(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL, &head, sizeof(head));

	if (!m || nla_put_u32(m, RTA_OIF, LOOPBACK_INDEX) < 0 || nla_put(m, RTA_PREFSRC, len, source) < 0 || !put_metrics(m)) {
		nlmsg_free(m);
		return -ENOMEM;
	}
	return request(fd, m);
}

/*
 * *have6: false where this host has no IPv6 (not built in, or net.ipv6.conf.*.disable_ipv6), so the box has none
 * either.
 */
static int setup_routes(const struct own *own, bool *have6, struct netns_failure *f)
{
	cleanup_fd int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	int rc;

	if (fd < 0)
		return fail(f, NETNS_STEP_NETLINK, NETLINK_ROUTE, -errno);
	rc = add_address(fd, AF_INET, &own->v4);
	if (rc < 0)
		return fail(f, NETNS_STEP_ADDRESS, 4, rc);
	rc = add_route(fd, AF_INET, &own->v4);
	if (rc < 0)
		return fail(f, NETNS_STEP_ROUTE, 4, rc);
	rc = add_address(fd, AF_INET6, &own->v6);
	*have6 = rc == 0;
	if (rc == -EACCES || rc == -EAFNOSUPPORT || rc == -EOPNOTSUPP)
		return 0;
	if (rc < 0)
		return fail(f, NETNS_STEP_ADDRESS, 6, rc);
	rc = add_route(fd, AF_INET6, &own->v6);
	return rc < 0 ? fail(f, NETNS_STEP_ROUTE, 6, rc) : 0;
}

/* --- sockets --- */

static bool is_v6(enum netns_fd which)
{
	return which == NETNS_TCP6 || which == NETNS_DNS_UDP6 || which == NETNS_DNS_TCP6;
}

static bool is_capture(enum netns_fd which)
{
	return which == NETNS_TCP4 || which == NETNS_TCP6;
}

static bool is_udp(enum netns_fd which)
{
	return which == NETNS_DNS_UDP4 || which == NETNS_DNS_UDP6;
}

static int option(int fd, int level, int name)
{
	int one = 1;

	return setsockopt(fd, level, name, &one, sizeof(one));
}

/* For a burst of questions; the kernel takes net.core.rmem_max where that is less. */
static void widen(int fd)
{
	int bytes = 1 << 20;

	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
}

/* The packet's destination comes along, so that an answer leaves from the address that was asked. */
static int options(int fd, enum netns_fd which, enum netns_capture capture)
{
	if (is_v6(which) && option(fd, IPPROTO_IPV6, IPV6_V6ONLY) < 0)
		return -1;
	if (is_capture(which) && capture == NETNS_TPROXY)
		return is_v6(which) ? option(fd, IPPROTO_IPV6, IPV6_TRANSPARENT) : option(fd, IPPROTO_IP, IP_TRANSPARENT);
	if (which == NETNS_DNS_UDP4)
		return option(fd, IPPROTO_IP, IP_PKTINFO);
	if (which == NETNS_DNS_UDP6) /* and an answer from an address that is on no device needs FREEBIND */
		return option(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO) < 0 ? -1 : option(fd, IPPROTO_IPV6, IPV6_FREEBIND);
	return 0;
}

static int open_socket(enum netns_fd which, enum netns_capture capture)
{
	uint16_t port = is_capture(which) ? NETNS_CAPTURE_PORT : which == NETNS_PROXY ? NETNS_PROXY_PORT : DNS_PORT;
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(port)};
	cleanup_fd int fd = -1;
	int type = is_udp(which) ? SOCK_DGRAM : SOCK_STREAM;
	int rc;

	if (is_capture(which)) {
		in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		in6.sin6_addr = in6addr_loopback;
	}
	fd = socket(is_v6(which) ? AF_INET6 : AF_INET, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0 || options(fd, which, capture) < 0)
		return -errno;
	if (is_udp(which))
		widen(fd);
	else
		listen_options(fd);
	rc = is_v6(which) ? bind(fd, (struct sockaddr *)&in6, sizeof(in6)) : bind(fd, (struct sockaddr *)&in, sizeof(in));
	if (rc < 0 || (type == SOCK_STREAM && listen(fd, BACKLOG) < 0))
		return -errno;
	return steal_fd(&fd);
}

static int open_sockets(struct netns_sockets *s, bool have6, struct netns_failure *f)
{
	for (int i = 0; i < NETNS_NFLOG; i++) {
		if ((is_v6((enum netns_fd)i) && !have6) || (is_capture((enum netns_fd)i) && s->capture == NETNS_LISTEN))
			continue;
		s->fds[i] = open_socket((enum netns_fd)i, s->capture);
		if (s->fds[i] < 0)
			return fail(f, NETNS_STEP_SOCKET, i, s->fds[i]);
	}
	return 0;
}

static struct nl_msg *nflog_config(void)
{
	struct nfgenmsg head = {.nfgen_family = AF_UNSPEC, .version = NFNETLINK_V0, .res_id = htons(NETNS_NFLOG_GROUP)};

	return message(NFNL_SUBSYS_ULOG << 8 | NFULNL_MSG_CONFIG, 0, &head, sizeof(head));
}

static int nflog_put(int fd, int attr, int len, const void *value)
{
	struct nl_msg *m = nflog_config();

	if (!m || nla_put(m, attr, len, value) < 0) {
		nlmsg_free(m);
		return -ENOMEM;
	}
	return request(fd, m);
}

/* A socket on the group that the refusing rules log to. Return: it or -errno. */
static int open_nflog(void)
{
	struct nfulnl_msg_config_cmd bind_group = {.command = NFULNL_CFG_CMD_BIND};
	struct nfulnl_msg_config_mode mode = {.copy_range = htonl(64), .copy_mode = NFULNL_COPY_PACKET};
	uint32_t at_once = htonl(1);
	cleanup_fd int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER);
	int rc;

	if (fd < 0)
		return -errno;
	rc = nflog_put(fd, NFULA_CFG_CMD, sizeof(bind_group), &bind_group);
	if (rc == 0)
		rc = nflog_put(fd, NFULA_CFG_MODE, sizeof(mode), &mode);
	if (rc == 0)
		rc = nflog_put(fd, NFULA_CFG_QTHRESH, sizeof(at_once), &at_once);
	if (rc < 0)
		return rc;
	return steal_fd(&fd);
}

/* --- all of it --- */

/* TPROXY, else redirection. Return: 0 with s->capture; -errno of the last that was tried. */
static int setup_filter(const struct netns_plan *plan, const struct own *own, bool have6, bool log, struct netns_sockets *s)
{
	struct nft_plan nft = {.ports = plan->ports,
			       .n_ports = plan->n_ports,
			       .nets = plan->nets,
			       .n_nets = plan->n_nets,
			       .any_address = plan->any_address,
			       .own4 = own->v4,
			       .own6 = own->v6,
			       .have6 = have6,
			       .log = log};
	int rc = -ENOENT;

	for (s->capture = plan->best; s->capture <= NETNS_REDIRECT; s->capture++) {
		nft.redirect = s->capture == NETNS_REDIRECT;
		rc = nft_apply(&nft);
		if (rc == 0)
			return 0;
	}
	return rc;
}

/* By nf_tables, with the log of what is refused where the kernel has one; else by listeners. */
static int setup_capture(const struct netns_plan *plan, const struct own *own, bool have6, struct netns_sockets *s,
			 struct netns_failure *f)
{
	int *log = &s->fds[NETNS_NFLOG], rc, filter;

	*log = open_nflog();
	rc = setup_filter(plan, own, have6, *log >= 0, s);
	if (rc < 0 && *log >= 0) { /* a kernel with the log's socket and without its rule */
		cleanup_fd_p(log);
		rc = setup_filter(plan, own, have6, false, s);
	}
	if (*log < 0)
		*log = -1;
	if (rc == 0)
		return 0;
	filter = -rc;
	s->capture = NETNS_LISTEN;
	rc = listen_ports(plan, have6, s);
	if (rc < 0)
		return fail(f, NETNS_STEP_LISTEN, filter, rc);
	*log = listen_log();
	if (*log < 0)
		*log = -1;
	return 0;
}

static int send_all(int sock, const struct netns_sockets *s)
{
	struct netns_message msg = {.capture = s->capture, .n_listeners = (uint32_t)s->n_listeners};
	int present[NETNS_FDS], rc;
	size_t n = 0;

	for (int i = 0; i < NETNS_FDS; i++) {
		if (s->fds[i] < 0)
			continue;
		msg.present |= 1U << i;
		present[n++] = s->fds[i];
	}
	rc = fd_send(sock, &msg, sizeof(msg), present, n);
	for (size_t i = 0; rc == 0 && i < s->n_listeners; i += n) {
		n = s->n_listeners - i < FD_SEND_MAX ? s->n_listeners - i : FD_SEND_MAX;
		rc = fd_send(sock, &msg, sizeof(msg), &s->listeners[i], n);
	}
	return rc;
}

static int setup(const struct netns_plan *plan, int sock, struct netns_sockets *s, struct netns_failure *f)
{
	struct own own = own_addresses();
	bool have6 = false;
	int rc = netns_loopback_up();

	if (rc < 0)
		return fail(f, NETNS_STEP_LOOPBACK, 0, rc);
	rc = setup_routes(&own, &have6, f);
	if (rc == 0)
		rc = setup_capture(plan, &own, have6, s, f);
	if (rc == 0)
		rc = open_sockets(s, have6, f);
	if (rc < 0)
		return rc;
	rc = send_all(sock, s);
	return rc < 0 ? fail(f, NETNS_STEP_SEND, 0, rc) : 0;
}

static void no_sockets(struct netns_sockets *s)
{
	for (int i = 0; i < NETNS_FDS; i++)
		s->fds[i] = -1;
	s->n_listeners = 0;
}

void netns_close(struct netns_sockets *s)
{
	for (int i = 0; i < NETNS_FDS; i++)
		cleanup_fd_p(&s->fds[i]);
	while (s->n_listeners)
		close(s->listeners[--s->n_listeners]);
}

int netns_setup(const struct netns_plan *plan, int sock, struct netns_failure *failure)
{
	struct netns_sockets s;
	int rc;

	no_sockets(&s);
	rc = setup(plan, sock, &s, failure);
	netns_close(&s);
	return rc;
}

/* The next message of those that netns_setup sent. n: descriptors that it must have. Return: 0 or -errno. */
static int receive_part(int sock, struct netns_message *msg, int *fds, size_t *n)
{
	ssize_t len = fd_recv(sock, msg, sizeof(*msg), fds, FD_SEND_MAX, n);

	if (len < 0)
		return (int)len;
	if (len == sizeof(*msg))
		return 0;
	for (size_t i = 0; i < *n; i++)
		close(fds[i]);
	*n = 0;
	return len == 0 ? -ENODATA : -EBADMSG;
}

static int receive_listeners(int sock, struct netns_sockets *out, size_t wanted)
{
	while (out->n_listeners < wanted) {
		struct netns_message msg;
		int got[FD_SEND_MAX], rc;
		size_t n;

		rc = receive_part(sock, &msg, got, &n);
		if (rc < 0)
			return rc;
		for (size_t i = 0; i < n; i++) {
			if (out->n_listeners < wanted)
				out->listeners[out->n_listeners++] = got[i];
			else
				close(got[i]);
		}
		if (!n)
			return -EBADMSG;
	}
	return 0;
}

int netns_receive(int sock, struct netns_sockets *out)
{
	int got[FD_SEND_MAX], rc;
	struct netns_message msg;
	size_t n, used = 0;

	no_sockets(out);
	rc = receive_part(sock, &msg, got, &n);
	if (rc < 0)
		return rc;
	if (msg.capture < NETNS_CAPTURES && msg.present < 1U << NETNS_FDS && (size_t)__builtin_popcount(msg.present) == n &&
	    msg.n_listeners <= NETNS_LISTENERS_MAX) {
		for (int i = 0; i < NETNS_FDS; i++)
			if (msg.present & 1U << i)
				out->fds[i] = got[used++];
		out->capture = (enum netns_capture)msg.capture;
		rc = receive_listeners(sock, out, msg.n_listeners);
		if (rc < 0)
			netns_close(out);
		return rc;
	}
	for (size_t i = 0; i < n; i++)
		close(got[i]);
	return -EBADMSG;
}

static const char *const fd_names[NETNS_FDS] = {
	[NETNS_TCP4] = "the IPv4 listener",    [NETNS_TCP6] = "the IPv6 listener",
	[NETNS_DNS_UDP4] = "the DNS socket",   [NETNS_DNS_UDP6] = "the IPv6 DNS socket",
	[NETNS_DNS_TCP4] = "the DNS listener", [NETNS_DNS_TCP6] = "the IPv6 DNS listener",
	[NETNS_PROXY] = "the proxy listener",  [NETNS_NFLOG] = "the log of refused packets",
};

int netns_failure_text(const struct netns_failure *f, int errnum, struct err *e)
{
	switch (f->step) {
	case NETNS_STEP_NAMESPACE:
		return err_errno(e, errnum, "cannot make the box's network namespace; `agentbox doctor` says what is missing");
	case NETNS_STEP_LOOPBACK:
		return err_errno(e, errnum, "the box's network: lo does not come up");
	case NETNS_STEP_SOCKET:
		return err_errno(e, errnum, "the box's network: %s cannot be opened",
				 f->object >= 0 && f->object < NETNS_FDS ? fd_names[f->object] : "a socket");
	case NETNS_STEP_NETLINK:
		return err_errno(e, errnum, "the box's network: no netlink socket");
	case NETNS_STEP_ADDRESS:
		return err_errno(e, errnum, "the box's network: its own IPv%d address cannot be set", f->object);
	case NETNS_STEP_ROUTE:
		return err_errno(e, errnum, "the box's network: its IPv%d route cannot be set", f->object);
	case NETNS_STEP_LISTEN:
		if (errnum == E2BIG)
			return err_errno(e, f->object, "the box's network: nf_tables takes neither a tproxy nor a redirect rule, and "
						       "egress.allow opens more than %d ports, for which there can be no listeners; one of the "
						       "kernel modules nft_tproxy and nft_redir is needed (`agentbox doctor`)",
					 NETNS_LISTEN_PORTS);
		return err_errno(e, errnum, "the box's network: no nf_tables, and no listeners in its place");
	case NETNS_STEP_SEND:
		return err_errno(e, errnum, "the box's network: its sockets cannot be handed to the gateway");
	default:
		return err_errno(e, errnum, "the box's network cannot be set up");
	}
}
