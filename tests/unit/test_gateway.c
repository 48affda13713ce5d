/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The gateway and the plumbing, end to end, without the rest of the box: see rig.h. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <linux/bpf.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>

#include "base/str.h"
#include "egress/confine.h"
#include "rig.h"

#include "base/banned.h"

#define SERVER "203.0.113.1"
#define SILENT "203.0.113.7" /* nobody answers there: its backlog is full */
#define LIT(s) s, sizeof(s) - 1
/* In the box: a failure is told by its line. */
#define CHECK(x) \
	do { \
		if (!(x)) \
			return box_failed(__LINE__, #x); \
	} while (0)

static int box_failed(int line, const char *what)
{
	fprintf(stderr, "# in the box: line %d: %s (%s)\n", line, what, strerror(errno));
	return 1;
}

static const char hosts[] = "127.0.0.1 localhost loop.test\n"
			    SERVER " a.test b.test x.sub.test\n"
			    "2001:db8::1 six.test\n"
			    "10.9.0.1 private.test\n"
			    "203.0.113.99 many.test\n"
			    "2001:db8::1 many.test\n"
			    SILENT " silent.test\n"
			    "203.0.113.99 dead.test\n"
			    "203.0.113.8 h2.test\n";

/* --- servers --- */

enum service { ECHO_, BANNER, HTTP, RESET, SINK, TLS };

static void serve_echo(int fd)
{
	char buf[65536];
	ssize_t n;

	while ((n = read(fd, buf, sizeof(buf))) > 0)
		for (ssize_t done = 0, w; done < n; done += w)
			if ((w = write(fd, buf + done, (size_t)(n - done))) <= 0)
				return;
	shutdown(fd, SHUT_WR);
}

/* Answers each head with its request line and Host, so that the client sees what came through. */
static void serve_http(int fd)
{
	char buf[65536], answer[2048];
	size_t len = 0;
	ssize_t n;

	while ((n = read(fd, buf + len, sizeof(buf) - len - 1)) > 0) {
		char *end;

		len += (size_t)n;
		buf[len] = '\0';
		while ((end = strstr(buf, "\r\n\r\n"))) {
			bool upgrade = strstr(buf, "Upgrade: websocket") && strstr(buf, "Upgrade: websocket") < end;
			size_t head = (size_t)(end - buf) + 4, line = strcspn(buf, "\r");

			if (upgrade) {
				RIG_MUST(write(fd, LIT("HTTP/1.1 101 Switching Protocols\r\n\r\n")) > 0);
				serve_echo(fd);
				return;
			}
			snprintf(answer, sizeof(answer), "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n%.*s", line, (int)line, buf);
			if (write(fd, answer, strlen(answer)) < 0)
				return;
			if (strstr(buf, "Connection: close") && strstr(buf, "Connection: close") < end && !strstr(buf, "/stay"))
				return;
			memmove(buf, buf + head, len - head + 1);
			len -= head;
		}
	}
}

static void serve(enum service s, int fd)
{
	struct linger now = {1, 0};
	char buf[4096];

	switch (s) {
	case ECHO_:
		serve_echo(fd);
		break;
	case BANNER:
		if (write(fd, LIT("SSH-2.0-x\r\n")) > 0)
			serve_echo(fd);
		break;
	case HTTP:
		serve_http(fd);
		break;
	case RESET:
		if (read(fd, buf, 1) >= 0)
			setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
		break;
	case SINK: /* how the client's direction ended */
		while (read(fd, buf, sizeof(buf)) > 0)
			;
		break;
	case TLS: /* the hello that came through, back */
		serve_echo(fd);
		break;
	}
}

static int listen_on(const char *addr, uint16_t port, int backlog)
{
	bool v6 = strchr(addr, ':') != NULL;
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(port)};
	int one = 1, fd = socket(v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	RIG_MUST(fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) == 0);
	if (v6)
		RIG_MUST(setsockopt(fd, IPPROTO_IPV6, IPV6_FREEBIND, &one, sizeof(one)) == 0);
	RIG_MUST(inet_pton(v6 ? AF_INET6 : AF_INET, addr, v6 ? (void *)&in6.sin6_addr : (void *)&in.sin_addr) == 1);
	RIG_MUST(bind(fd, v6 ? (void *)&in6 : (void *)&in, v6 ? sizeof(in6) : sizeof(in)) == 0 && listen(fd, backlog) == 0);
	return fd;
}

static pid_t servers[32];
static size_t n_servers;

static void start_server(const char *addr, uint16_t port, enum service s)
{
	int fd = listen_on(addr, port, 512);
	pid_t pid = fork();

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		signal(SIGCHLD, SIG_IGN);
		signal(SIGPIPE, SIG_IGN);
		for (;;) {
			int c = accept4(fd, NULL, NULL, SOCK_CLOEXEC);

			if (c >= 0 && fork() == 0) {
				prctl(PR_SET_PDEATHSIG, SIGKILL);
				serve(s, c);
				_exit(0);
			}
			close(c);
		}
	}
	close(fd);
	servers[n_servers++] = pid;
}

static int group_setup(void **state)
{
	int silent, fill;
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(7)};

	(void)state;
	signal(SIGPIPE, SIG_IGN);
	rig_host(hosts);
	start_server(SERVER, 7, ECHO_);
	start_server(SERVER, 22, BANNER);
	start_server(SERVER, 80, HTTP);
	start_server(SERVER, 443, TLS);
	start_server(SERVER, 9, SINK);
	start_server(SERVER, 8080, HTTP);
	start_server(SERVER, 66, RESET);
	start_server("203.0.113.8", 80, ECHO_);
	start_server("2001:db8::1", 7, ECHO_);
	start_server("10.9.0.1", 7, ECHO_);
	start_server("127.0.0.1", 7, ECHO_);
	silent = listen_on(SILENT, 7, 0);
	inet_pton(AF_INET, SILENT, &in.sin_addr);
	for (int i = 0; i < 4; i++) { /* two fill it, whatever the kernel makes of a backlog of 0 */
		fill = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
		connect(fill, (struct sockaddr *)&in, sizeof(in));
	}
	RIG_MUST(silent >= 0);
	return 0;
}

static int group_teardown(void **state)
{
	(void)state;
	for (size_t i = 0; i < n_servers; i++) {
		kill(servers[i], SIGKILL);
		waitpid(servers[i], NULL, 0);
	}
	return 0;
}

/* --- clients, in the box --- */

struct dns_result {
	int rcode, answers;
	char addr[INET6_ADDRSTRLEN];
};

static size_t dns_build(const char *name, uint16_t type, uint8_t *out)
{
	static const uint8_t head[12] = {0x12, 0x34, 1, 0, 0, 1};
	size_t n = sizeof(head);

	memcpy(out, head, n);
	while (*name) {
		size_t label = strcspn(name, ".");

		out[n++] = (uint8_t)label;
		memcpy(out + n, name, label);
		n += label;
		name += label + (name[label] == '.');
	}
	out[n++] = 0;
	out[n++] = (uint8_t)(type >> 8);
	out[n++] = (uint8_t)type;
	out[n++] = 0;
	out[n++] = 1;
	return n;
}

static struct dns_result dns_ask_at(const char *server, const char *name, uint16_t type)
{
	bool v6 = strchr(server, ':') != NULL;
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons(53)};
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(53)};
	struct dns_result r = {.rcode = -1};
	struct timeval wait = {5, 0};
	uint8_t msg[2048];
	size_t n = dns_build(name, type, msg);
	ssize_t got;
	int fd = socket(v6 ? AF_INET6 : AF_INET, SOCK_DGRAM, 0);

	inet_pton(v6 ? AF_INET6 : AF_INET, server, v6 ? (void *)&in6.sin6_addr : (void *)&in.sin_addr);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
	/* connected: an answer from another address than the asked one is not taken */
	if (connect(fd, v6 ? (void *)&in6 : (void *)&in, v6 ? sizeof(in6) : sizeof(in)) == 0 && send(fd, msg, n, 0) == (ssize_t)n) {
		got = recv(fd, msg, sizeof(msg), 0);
		if (got >= 12) {
			r.rcode = msg[3] & 15;
			r.answers = msg[6] << 8 | msg[7];
			if (r.answers && type == 1)
				inet_ntop(AF_INET, msg + n + 12, r.addr, sizeof(r.addr));
			if (r.answers && type == 28)
				inet_ntop(AF_INET6, msg + n + 12, r.addr, sizeof(r.addr));
		}
	}
	close(fd);
	return r;
}

static struct dns_result dns_ask(const char *name, uint16_t type)
{
	return dns_ask_at("192.0.2.53", name, type);
}

/* Return: a socket, or -1 with errno. */
static int connect_addr(const char *addr, uint16_t port)
{
	bool v6 = strchr(addr, ':') != NULL;
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(port)};
	struct timeval wait = {10, 0};
	int fd = socket(v6 ? AF_INET6 : AF_INET, SOCK_STREAM, 0);

	inet_pton(v6 ? AF_INET6 : AF_INET, addr, v6 ? (void *)&in6.sin6_addr : (void *)&in.sin_addr);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
	if (connect(fd, v6 ? (void *)&in6 : (void *)&in, v6 ? sizeof(in6) : sizeof(in)) < 0) {
		int saved = errno;

		close(fd);
		errno = saved;
		return -1;
	}
	return fd;
}

static int connect_name(const char *name, uint16_t port)
{
	struct dns_result r = dns_ask(name, 1);

	if (r.rcode || !r.answers) {
		errno = ENOENT;
		return -1;
	}
	return connect_addr(r.addr, port);
}

/* Everything until the end; terminated. Return: bytes, or -1 where it ended by a reset. */
static ssize_t read_to_end(int fd, char *buf, size_t cap)
{
	size_t len = 0;
	ssize_t n;

	while (len < cap - 1 && (n = read(fd, buf + len, cap - 1 - len)) != 0) {
		if (n < 0)
			return -1;
		len += (size_t)n;
	}
	buf[len] = '\0';
	return (ssize_t)len;
}

/* Sends all, ends its side, reads all back. */
static bool echo_works(int fd, size_t bytes)
{
	char *out = malloc(bytes), *in = malloc(bytes + 2);
	bool ok;
	pid_t pid;

	for (size_t i = 0; i < bytes; i++)
		out[i] = (char)(i * 2654435761U >> 13);
	pid = fork();
	if (pid == 0) {
		for (size_t done = 0; done < bytes;) {
			ssize_t n = write(fd, out + done, bytes - done);

			if (n <= 0)
				_exit(1);
			done += (size_t)n;
		}
		shutdown(fd, SHUT_WR);
		_exit(0);
	}
	ok = read_to_end(fd, in, bytes + 2) == (ssize_t)bytes && memcmp(in, out, bytes) == 0;
	waitpid(pid, NULL, 0);
	free(out);
	free(in);
	close(fd);
	return ok;
}

/* Sends `request`, reads what comes until the end or until `want` is in it. */
static bool talk(int fd, const char *request, size_t len, const char *want, char *buf, size_t cap)
{
	size_t got = 0;
	ssize_t n;

	if (fd < 0 || write(fd, request, len) != (ssize_t)len)
		return false;
	buf[0] = '\0';
	while (got < cap - 1 && !strstr(buf, want) && (n = read(fd, buf + got, cap - 1 - got)) > 0) {
		got += (size_t)n;
		buf[got] = '\0';
	}
	return strstr(buf, want) != NULL;
}

/* --- what the supervisor sees --- */

/* The next report of the type, others passed over. */
static struct egress_report next(struct rig *r, enum egress_report_type type)
{
	struct egress_report e;

	for (;;) {
		int rc = rig_report(r, &e, 10000);

		if (rc != 1)
			fail_msg("no report of type %d: %d", type, rc);
		if (e.type == type)
			return e;
	}
}

static void begin(struct rig *r, const char *allow, const char *deny)
{
	for (int i = 0; i < 2; i++) {
		char buf[1024];

		snprintf(buf, sizeof(buf), "%s", i ? deny : allow);
		for (char *at = buf, *end; *at; at = end) {
			end = at + strcspn(at, " ");
			if (*end)
				*end++ = '\0';
			rig_rule(i ? &r->profile.egress.deny : &r->profile.egress.allow, at);
		}
	}
	r->config.synthetic = r->config.inspect = true;
}

#define RUN(r, fn) assert_int_equal(rig_run(r, fn, NULL), 0)

/* --- tests: names and addresses --- */

/* To the gateway nothing is paced, whatever the host does to the world. */
static bool is_unpaced(int fd)
{
	char name[16] = "";
	socklen_t len = sizeof(name);

	return getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &len) == 0 && strcmp(name, "reno") == 0;
}

static int box_names(void *arg)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG}, *list;

	(void)arg;
	CHECK(echo_works(connect_name("a.test", 7), 10));
	CHECK(is_unpaced(connect_name("a.test", 7)));
	CHECK(is_unpaced(connect_addr("2001:db8::53", 53)));
	CHECK(echo_works(connect_name("A.TEST", 7), 10));
	CHECK(echo_works(connect_name("x.sub.test", 7), 10));
	CHECK(echo_works(connect_name("six.test", 7), 10));  /* over IPv6, unknown to the client */
	CHECK(echo_works(connect_name("many.test", 7), 10)); /* the first address refuses */
	CHECK(dns_ask("a.test", 1).rcode == 0);
	CHECK(str_eq(dns_ask("a.test", 1).addr, dns_ask("a.test", 1).addr));
	CHECK(!str_eq(dns_ask("a.test", 1).addr, dns_ask("x.sub.test", 1).addr));
	for (uint16_t type = 2; type < 300; type++) {
		struct dns_result r = dns_ask("a.test", type);

		CHECK(r.answers == 0 && r.rcode == (type == 251 || type == 252 ? 4 : 0));
	}
	CHECK(dns_ask("no.test", 1).rcode == 3);
	CHECK(dns_ask("no.test", 28).rcode == 3);
	CHECK(dns_ask("sub.test", 1).rcode == 3);
	CHECK(dns_ask("none.sub.test", 1).rcode == 3); /* allowed, and nobody knows it */
	CHECK(dns_ask_at("2001:db8::53", "a.test", 1).answers == 1);
	CHECK(dns_ask_at("127.0.0.1", "a.test", 1).answers == 1);
	CHECK(dns_ask_at("::1", "a.test", 1).answers == 1);
	CHECK(getaddrinfo("a.test", "7", &hints, &list) == 0 && list);
	return 0;
}

static void test_names(void **state)
{
	struct rig r = {.reports = -1};
	struct egress_report e;

	(void)state;
	begin(&r, "a.test:7 *.sub.test:7 six.test:7 many.test:7", "");
	rig_start(&r);
	RUN(&r, box_names);
	e = next(&r, EGRESS_DNS);
	assert_string_equal(e.name, "a.test");
	assert_int_equal(e.outcome, EGRESS_ALLOWED);
	assert_int_equal(e.qtype, 1);
	assert_int_equal(e.rule, 0);
	e = next(&r, EGRESS_CONNECT);
	assert_string_equal(e.name, "a.test");
	assert_int_equal(e.outcome, EGRESS_ALLOWED);
	assert_int_equal(e.port, 7);
	assert_int_equal(e.addr.family, 4);
	assert_int_equal(e.addr.b[0], 203);
	e = next(&r, EGRESS_CLOSE);
	assert_int_equal(e.to_server_bytes, 10);
	assert_int_equal(e.to_client_bytes, 10);
	assert_int_equal(e.end, EGRESS_END_CLOSED);
	rig_stop(&r);
}

static int box_denied(void *arg)
{
	static const struct {
		const char *addr;
		uint16_t port;
		int error;
	} tries[] = {
		{SERVER, 7, ECONNREFUSED},          /* no address rule */
		{"::ffff:" SERVER, 7, ECONNREFUSED},
		{"2001:db8::1", 7, ECONNREFUSED},
		{"169.254.169.254", 80, ECONNREFUSED},
		{"64:ff9b::a09:1", 7, ECONNREFUSED},
		{"198.18.0.2", 8, ECONNREFUSED},    /* a.test on a port that no rule names */
	};
	char buf[64];
	int fd;

	(void)arg;
	CHECK(dns_ask("a.test", 1).answers == 1); /* 198.18.0.2 */
	for (size_t i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
		errno = 0;
		fd = connect_addr(tries[i].addr, tries[i].port);
		CHECK(fd < 0 && errno == tries[i].error);
	}
	/* an address that stands for nothing; what the names resolve to: loopback, private */
	CHECK((fd = connect_addr("198.19.7.7", 7)) < 0 || (read(fd, buf, 1) < 0 && errno == ECONNRESET));
	CHECK((fd = connect_name("loop.test", 7)) < 0 || (read(fd, buf, 1) < 0 && errno == ECONNRESET));
	CHECK((fd = connect_name("private.test", 7)) < 0 || (read(fd, buf, 1) < 0 && errno == ECONNRESET));
	/* the capture port itself */
	CHECK((fd = connect_addr("127.0.0.1", NETNS_CAPTURE_PORT)) < 0 || (read(fd, buf, 1) < 0 && errno == ECONNRESET));
	/* the box's own servers are its own */
	CHECK((fd = connect_addr("127.0.0.1", 7)) < 0 && errno == ECONNREFUSED);
	/* other protocols */
	fd = socket(AF_INET, SOCK_DGRAM, 0);
	CHECK(sendto(fd, "x", 1, 0, (struct sockaddr *)&(struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(443),
		.sin_addr = {htonl(0xc6120002)}}, sizeof(struct sockaddr_in)) < 0);
	return 0;
}

static void test_denied(void **state)
{
	struct rig r = {.reports = -1};
	static const struct {
		const char *name;
		uint16_t port;
		enum verdict_reason reason;
		enum egress_via via;
	} want[] = {
		{"", 7, VERDICT_NO_RULE, EGRESS_VIA_FILTER},
		{"", 7, VERDICT_NO_RULE, EGRESS_VIA_FILTER},
		{"", 80, VERDICT_NO_RULE, EGRESS_VIA_FILTER},
		{"", 7, VERDICT_NO_RULE, EGRESS_VIA_FILTER},
		{"a.test", 8, VERDICT_PORT, EGRESS_VIA_FILTER},
		{"", 7, VERDICT_NOT_GIVEN, EGRESS_VIA_GATEWAY},
		{"loop.test", 7, VERDICT_SPECIAL, EGRESS_VIA_GATEWAY},
		{"private.test", 7, VERDICT_SPECIAL, EGRESS_VIA_GATEWAY},
	};

	(void)state;
	begin(&r, "a.test:7 loop.test:7 private.test:7", "");
	rig_start(&r);
	RUN(&r, box_denied);
	/* two ways in, so the order between them is not fixed; each must be there */
	for (size_t seen = 0; seen < sizeof(want) / sizeof(want[0]);) {
		struct egress_report e = next(&r, EGRESS_CONNECT);
		bool found = false;

		if (e.protocol != IPPROTO_TCP || e.port == NETNS_CAPTURE_PORT)
			continue;
		assert_int_equal(e.outcome, EGRESS_DENIED);
		for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++)
			found |= str_eq(e.name, want[i].name) && e.port == want[i].port && e.reason == want[i].reason &&
				 e.via == want[i].via;
		if (!found)
			fail_msg("unexpected: %s:%u %s", e.name, e.port, policy_reason_word(e.reason));
		seen++;
	}
	rig_stop(&r);
}

static bool listening; /* NETNS_LISTEN: an address that no rule names is refused after it was accepted */

static int box_address_rules(void *arg)
{
	int fd;
	char c;

	(void)arg;
	CHECK(echo_works(connect_addr(SERVER, 7), 1000));
	CHECK(echo_works(connect_addr("::ffff:" SERVER, 7), 1000));
	CHECK(echo_works(connect_addr("2001:db8::1", 7), 1000));
	CHECK(echo_works(connect_addr("10.9.0.1", 7), 1000));
	CHECK(echo_works(connect_name("private.test", 7), 1000)); /* the address rule opens it to the name */
	CHECK(echo_works(connect_name(POLICY_THIS_HOST, 7), 1000));
	fd = connect_addr("203.0.113.2", 7);
	CHECK(listening ? fd >= 0 && read(fd, &c, 1) < 0 && errno == ECONNRESET : fd < 0 && errno == ECONNREFUSED);
	CHECK((fd = connect_addr(SERVER, 8)) < 0 && errno == ECONNREFUSED);
	CHECK(dns_ask("a.test", 1).rcode == 3);
	return 0;
}

static void test_address_rules(void **state)
{
	(void)state;
	for (enum netns_capture best = NETNS_TPROXY; best < NETNS_CAPTURES; best++) {
		struct rig r = {.reports = -1, .best = best};

		listening = best == NETNS_LISTEN;

		begin(&r, SERVER ":7 [2001:db8::/32]:7 10.9.0.0/16:7 private.test:7 @host:7", "");
		rig_start(&r);
		RUN(&r, box_address_rules);
		rig_stop(&r);
	}
}

static int box_real(void *arg)
{
	struct dns_result r = dns_ask("a.test", 1);
	char buf[512];
	int fd;

	(void)arg;
	CHECK(r.answers == 1 && str_eq(r.addr, SERVER));
	CHECK(echo_works(connect_addr(SERVER, 7), 1000));
	CHECK(talk(connect_addr(SERVER, 80), LIT("GET /r HTTP/1.1\r\nHost: a.test\r\n\r\n"), "GET /r", buf, sizeof(buf)));
	/* b.test has the same address, and was not asked for; then it was */
	CHECK(talk(connect_addr(SERVER, 80), LIT("GET /r HTTP/1.1\r\nHost: b.test\r\n\r\n"), "403 Forbidden", buf, sizeof(buf)));
	CHECK(dns_ask("b.test", 1).answers == 1);
	CHECK(talk(connect_addr(SERVER, 80), LIT("GET /r HTTP/1.1\r\nHost: b.test\r\n\r\n"), "GET /r", buf, sizeof(buf)));
	CHECK(talk(connect_addr(SERVER, 80), LIT("GET /r HTTP/1.1\r\nHost: c.test\r\n\r\n"), "403 Forbidden", buf, sizeof(buf)));
	/* an address that no name was answered with */
	CHECK((fd = connect_addr("203.0.113.3", 7)) < 0 || (read(fd, buf, 1) < 0 && errno == ECONNRESET));
	return 0;
}

static void test_real(void **state)
{
	struct rig r = {.reports = -1};

	(void)state;
	begin(&r, "a.test:7,80 b.test:80", "");
	r.config.synthetic = false;
	rig_start(&r);
	RUN(&r, box_real);
	rig_stop(&r);
}

/* --- tests: streams --- */

static int box_streams(void *arg)
{
	struct linger now = {1, 0};
	char buf[64];
	int fd;

	(void)arg;
	CHECK(echo_works(connect_name("a.test", 7), 20 * 1000 * 1000));
	/* the server speaks first, and ends first */
	fd = connect_name("a.test", 22);
	CHECK(fd >= 0 && read(fd, buf, sizeof(buf)) == 11 && memcmp(buf, "SSH-2.0-x\r\n", 11) == 0);
	CHECK(echo_works(fd, 100));
	/* resets, both ways */
	fd = connect_name("a.test", 66);
	CHECK(fd >= 0 && write(fd, "x", 1) == 1);
	CHECK(read(fd, buf, 1) < 0 && errno == ECONNRESET);
	close(fd);
	fd = connect_name("a.test", 9);
	CHECK(fd >= 0 && write(fd, "x", 1) == 1);
	usleep(100000);
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	close(fd);
	/* nobody listens, nobody answers, no such name */
	fd = connect_name("dead.test", 7);
	CHECK(fd < 0 || (read(fd, buf, 1) < 0 && errno == ECONNRESET));
	fd = connect_name("silent.test", 7);
	CHECK(fd < 0 || (read(fd, buf, 1) < 0 && errno == ECONNRESET));
	return 0;
}

static void test_streams(void **state)
{
	static const enum egress_end ends[] = {EGRESS_END_CLOSED, EGRESS_END_CLOSED, EGRESS_END_SERVER_RESET, EGRESS_END_CLIENT_RESET};
	struct rig r = {.reports = -1};
	struct egress_report e;

	(void)state;
	begin(&r, "a.test:7,9,22,66 dead.test:7 silent.test:7", "");
	r.config.connect_timeout_ms = 700;
	rig_start(&r);
	RUN(&r, box_streams);
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		e = next(&r, EGRESS_CLOSE);
		assert_int_equal(e.end, ends[i]);
		if (i == 0) {
			assert_int_equal(e.to_server_bytes, 20 * 1000 * 1000);
			assert_int_equal(e.to_client_bytes, 20 * 1000 * 1000);
		}
	}
	e = next(&r, EGRESS_CONNECT);
	assert_int_equal(e.outcome, EGRESS_UNREACHED);
	assert_int_equal(e.errnum, ECONNREFUSED);
	e = next(&r, EGRESS_CONNECT);
	assert_int_equal(e.outcome, EGRESS_UNREACHED);
	assert_int_equal(e.errnum, ETIMEDOUT);
	rig_stop(&r);
}

/* A reader that does not read: what is in flight is the kernel's buffers and the gateway's one, and nothing is lost. */
static int box_slow(void *arg)
{
	size_t sent = 0, got = 0;
	static char buf[1 << 20];
	int fd = connect_name("a.test", 7);
	ssize_t n;

	(void)arg;
	CHECK(fd >= 0);
	for (int idle = 0; idle < 30;) {
		n = send(fd, buf, sizeof(buf), MSG_DONTWAIT);
		if (n > 0) {
			sent += (size_t)n;
			idle = 0;
		} else {
			CHECK(errno == EAGAIN);
			idle++;
			usleep(10000);
		}
	}
	shutdown(fd, SHUT_WR);
	while ((n = read(fd, buf, sizeof(buf))) > 0)
		got += (size_t)n;
	CHECK(n == 0 && got == sent && sent > sizeof(buf));
	return 0;
}

static size_t resident_kib(pid_t pid)
{
	char path[64], line[128];
	unsigned long kib = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	f = fopen(path, "re");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "VmHWM: %lu", &kib) == 1)
			break;
	fclose(f);
	return kib;
}

static int box_crowd(void *arg)
{
	enum { N = 400, BYTES = 60000 };
	static int fds[N];
	static char out[BYTES], in[BYTES];
	char addr[INET6_ADDRSTRLEN];

	(void)arg;
	snprintf(addr, sizeof(addr), "%s", dns_ask("a.test", 1).addr);
	for (int i = 0; i < N; i++) {
		memset(out, i, sizeof(out));
		fds[i] = connect_addr(addr, 7);
		CHECK(fds[i] >= 0 && write(fds[i], out, sizeof(out)) == sizeof(out));
		shutdown(fds[i], SHUT_WR);
	}
	for (int i = 0; i < N; i++) {
		memset(out, i, sizeof(out));
		CHECK(read_to_end(fds[i], in, sizeof(in)) == sizeof(in) - 1 && memcmp(in, out, sizeof(in) - 1) == 0);
		close(fds[i]);
	}
	/* half-open ones do others no harm */
	for (int i = 0; i < N; i++)
		CHECK((fds[i] = connect_addr(addr, i % 2 ? 80 : 443)) >= 0);
	CHECK(echo_works(connect_addr(addr, 7), 1000));
	return 0;
}

static void test_slow_and_many(void **state)
{
	struct rig r = {.reports = -1};

	(void)state;
	begin(&r, "a.test:7,80,443", "");
	rig_start(&r);
	RUN(&r, box_slow);
	RUN(&r, box_crowd);
#ifndef __SANITIZE_ADDRESS__
	if (resident_kib(r.gateway) > 8192)
		fail_msg("the gateway grew to %zu KiB", resident_kib(r.gateway));
#else
	assert_true(resident_kib(r.gateway) > 0);
#endif
	rig_stop(&r);
}

/* --- tests: HTTP and TLS --- */

static int box_http(void *arg)
{
	char buf[4096], big[3000];
	int fd;

	(void)arg;
	fd = connect_name("a.test", 80);
	CHECK(talk(fd, LIT("GET /1 HTTP/1.1\r\nHost: a.test\r\n\r\n"), "GET /1", buf, sizeof(buf)));
	CHECK(talk(fd, LIT("POST /2 HTTP/1.1\r\nHost: A.test.:80\r\nContent-Length: 0\r\n\r\n"), "POST /2", buf, sizeof(buf)));
	/* on the same connection another host: nothing of it arrives, and the answer is the gateway's */
	CHECK(talk(fd, LIT("GET /3 HTTP/1.1\r\nHost: b.test\r\n\r\n"), "403 Forbidden", buf, sizeof(buf)));
	CHECK(!strstr(buf, "GET /3"));
	/* an answer that is outstanding is not mixed with it */
	fd = connect_name("a.test", 80);
	CHECK(talk(fd, LIT("GET /wait HTTP/1.1\r\nHost: a.test\r\n\r\n"), "GET /wait", buf, sizeof(buf)));
	CHECK(!talk(fd, LIT("GET /wait HTTP/1.1\r\nHost: a.test\r\n\r\nGET /3 HTTP/1.1\r\nHost: b.test\r\n\r\n"), "403", buf, sizeof(buf)));
	/* a body may be another request to a server that does not read it: there is none after it */
	fd = connect_name("a.test", 80);
	CHECK(talk(fd,
		LIT("GET /get HTTP/1.1\r\nHost: a.test\r\nContent-Length: 37\r\n\r\nGET /body HTTP/1.1\r\nHost: b.test\r\n\r\n"),
		"GET /get", buf, sizeof(buf)));
	CHECK(read_to_end(fd, buf, sizeof(buf)) == 0);
	CHECK(talk(connect_name("a.test", 80), LIT("GET / HTTP/1.1\r\nHost: b.test\r\n\r\n"), "403 Forbidden", buf, sizeof(buf)));
	CHECK(strstr(buf, "name-mismatch"));
	CHECK(talk(connect_name("a.test", 80), LIT("GET / HTTP/1.1\r\nHost: " SERVER "\r\n\r\n"), "403", buf, sizeof(buf)));
	CHECK(talk(connect_name("a.test", 80), LIT("GET / HTTP/1.0\r\n\r\n"), "403", buf, sizeof(buf)));
	CHECK(talk(connect_name("a.test", 80), LIT("GET / HTTP/1.1\nHost: a.test\n\n"), "403", buf, sizeof(buf)));
	CHECK(talk(connect_name("a.test", 80), LIT("GET / HTTP/1.1\r\nHost: a.test\r\nHost: b.test\r\n\r\n"), "403", buf, sizeof(buf)));
	/* byte by byte */
	fd = connect_name("a.test", 80);
	for (const char *p = "GET /slow HTTP/1.1\r\nHost: a.test\r\n\r"; *p; p++)
		CHECK(write(fd, p, 1) == 1 && usleep(500) == 0);
	CHECK(talk(fd, "\n", 1, "GET /slow", buf, sizeof(buf)));
	/* a change of protocol, after which anything may come */
	fd = connect_name("a.test", 80);
	CHECK(talk(fd, LIT("GET /ws HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"), "\r\n\r\n", buf, sizeof(buf)));
	CHECK(strstr(buf, "101"));
	CHECK(echo_works(fd, 100000));
	/* not on a later request, where its answer could not be told from another's; the server is not even asked */
	fd = connect_name("a.test", 80);
	CHECK(talk(fd, LIT("GET /1 HTTP/1.1\r\nHost: a.test\r\n\r\n"), "GET /1", buf, sizeof(buf)));
	CHECK(talk(fd, LIT("GET /ws HTTP/1.1\r\nHost: a.test\r\nUpgrade: websocket\r\n\r\n"), "GET /ws", buf, sizeof(buf)));
	/* nor with a body, nor to anything but WebSocket */
	fd = connect_name("a.test", 80);
	CHECK(talk(fd, LIT("POST /ws HTTP/1.1\r\nHost: a.test\r\nUpgrade: websocket\r\nContent-Length: 1\r\n\r\nx"), "POST /ws", buf, sizeof(buf)));
	fd = connect_name("a.test", 80);
	CHECK(talk(fd, LIT("GET /ws HTTP/1.1\r\nHost: a.test\r\nUpgrade: websocket\r\nUpgrade: x\r\n\r\n"), "GET /ws", buf, sizeof(buf)));
	/* another port is not looked into */
	CHECK(talk(connect_name("a.test", 8080), LIT("GET /p HTTP/1.1\r\nHost: b.test\r\n\r\n"), "GET /p", buf, sizeof(buf)));
	memset(big, 'x', sizeof(big));
	return 0;
}

static void test_http(void **state)
{
	struct rig r = {.reports = -1};
	struct egress_report e;

	(void)state;
	begin(&r, "a.test:80,8080", "");
	rig_start(&r);
	RUN(&r, box_http);
	do
		e = next(&r, EGRESS_CONNECT);
	while (e.outcome != EGRESS_DENIED);
	assert_int_equal(e.reason, VERDICT_NAME_MISMATCH);
	assert_string_equal(e.name, "a.test");
	assert_string_equal(e.seen, "b.test");
	rig_stop(&r);
}

/* HTTP/2 with prior knowledge: unchanged to the server, and each request's authority is looked at. */
static int box_h2(void *arg)
{
	static const char start[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
	static const char good[] = "\0\0\x0a\x01\x05\0\0\0\x01\x82\x41\x07h2.test", more[] = "\0\0\x02\x01\x05\0\0\0\x03\x82\xbe";
	static const char bad[] = "\0\0\x09\x01\x05\0\0\0\x05\x82\x41\x06" "b.test";
	char buf[256];
	int fd = connect_name("h2.test", 80);

	(void)arg;
	/* what is before the first request passes by itself: clients may wait for the server's settings */
	CHECK(fd >= 0 && write(fd, start, sizeof(start) - 1) == sizeof(start) - 1);
	CHECK(recv(fd, buf, sizeof(start) - 1, MSG_WAITALL) == sizeof(start) - 1 && memcmp(buf, start, sizeof(start) - 1) == 0);
	CHECK(write(fd, good, sizeof(good) - 1) == sizeof(good) - 1);
	CHECK(recv(fd, buf, sizeof(good) - 1, MSG_WAITALL) == sizeof(good) - 1 && memcmp(buf, good, sizeof(good) - 1) == 0);
	CHECK(write(fd, more, sizeof(more) - 1) == sizeof(more) - 1);
	CHECK(recv(fd, buf, sizeof(more) - 1, MSG_WAITALL) == sizeof(more) - 1);
	CHECK(write(fd, bad, sizeof(bad) - 1) == sizeof(bad) - 1);
	CHECK(recv(fd, buf, 1, 0) < 0 && errno == ECONNRESET);
	return 0;
}

static void test_h2(void **state)
{
	struct rig r = {.reports = -1};
	struct egress_report e;

	(void)state;
	begin(&r, "h2.test:80", "");
	rig_start(&r);
	RUN(&r, box_h2);
	do
		e = next(&r, EGRESS_CONNECT);
	while (e.outcome != EGRESS_DENIED);
	assert_int_equal(e.reason, VERDICT_NAME_MISMATCH);
	assert_string_equal(e.seen, "b.test");
	assert_int_equal(next(&r, EGRESS_CLOSE).end, EGRESS_END_DENIED);
	rig_stop(&r);
}

/* More reports than the queue holds, and nobody reads them: the gateway goes on, and says how many were lost. */
static int box_same(void *arg)
{
	char c;
	int fd;

	(void)arg;
	for (int i = 0; i < 1000; i++)
		CHECK(dns_ask("no.test", 1).rcode == 3);
	for (int i = 0; i < 500; i++) {
		CHECK((fd = connect_addr("198.19.7.7", 7)) < 0 || (read(fd, &c, 1) < 0 && errno == ECONNRESET));
		close(fd);
	}
	return 0;
}

/* Questions for as many names, and nobody waits for the answers. */
static int box_flood(void *arg)
{
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(53)};
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	(void)arg;
	inet_pton(AF_INET, "192.0.2.53", &in.sin_addr);
	CHECK(connect(fd, (struct sockaddr *)&in, sizeof(in)) == 0);
	for (int i = 0; i < 5000; i++) {
		char msg[] = "\0\1\1\0\0\1\0\0\0\0\0\0\4nnnn\4test\0\0\1\0\1";

		for (int at = 16, n = i; at > 12; at--, n /= 10)
			msg[at] = (char)('0' + n % 10);
		CHECK(send(fd, msg, sizeof(msg) - 1, 0) == sizeof(msg) - 1 || errno == ECONNREFUSED);
		if (i % 100 == 99)
			usleep(1000);
	}
	return 0;
}

static int box_echo(void *arg)
{
	(void)arg;
	CHECK(echo_works(connect_addr("198.18.0.2", 7), 10));
	return 0;
}

static int box_name(void *arg)
{
	(void)arg;
	CHECK(str_eq(dns_ask("a.test", 1).addr, "198.18.0.2"));
	return 0;
}

/* What the box can say without end is counted; and what a busy supervisor has not taken is kept. */
static void test_floods(void **state)
{
	unsigned questions = 0, connects = 0, reports = 0, ends = 0;
	struct rig r = {.reports = -1};
	struct egress_report e;

	(void)state;
	begin(&r, "a.test:7", "");
	rig_start(&r);
	RUN(&r, box_name);
	assert_int_equal(next(&r, EGRESS_DNS).count, 1);
	RUN(&r, box_same);
	while (rig_report(&r, &e, 1500) == 1) {
		reports++;
		questions += e.type == EGRESS_DNS ? e.count : 0;
		connects += e.type == EGRESS_CONNECT ? e.count : 0;
	}
	assert_int_equal(questions, 1000);
	assert_int_equal(connects, 500);
	assert_true(reports < 30);

	r.deaf = true;
	RUN(&r, box_flood);
	r.deaf = false;
	RUN(&r, box_echo);
	questions = reports = 0;
	while (rig_report(&r, &e, 500) == 1) {
		assert_int_not_equal(e.type, EGRESS_LOST);
		questions += e.type == EGRESS_DNS ? e.count : 0;
		connects += e.type == EGRESS_CONNECT && e.outcome == EGRESS_ALLOWED;
		ends += e.type == EGRESS_CLOSE;
	}
	assert_int_equal(connects, 501);
	assert_int_equal(ends, 1);
	assert_true(questions > 500 && questions <= 5000);
	rig_stop(&r);
}

/* Return: what the function, confined, ended with: an exit status, or minus the signal. */
static int confined(int (*confine)(void), int (*fn)(pid_t other))
{
	pid_t other = fork(), pid;
	int status = -1;

	if (other == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pause();
		_exit(0);
	}
	pid = fork();
	if (pid == 0)
		_exit(confine() < 0 ? 99 : fn(other));
	waitpid(pid, &status, 0);
	assert_int_equal(waitpid(other, NULL, WNOHANG), 0); /* it lives */
	kill(other, SIGKILL);
	waitpid(other, NULL, 0);
	return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

static int as_gateway(void)
{
	const char *what;

	return confine_gateway(false, &what);
}

static int as_name_server(void)
{
	const char *what;

	return confine_gateway(true, &what);
}

/* The name server of mode = host writes maps, and connects to nothing. */
static int bpf_update(pid_t other)
{
	union bpf_attr attr = {.map_fd = 0};

	(void)other;
	return syscall(SYS_bpf, BPF_MAP_UPDATE_ELEM, &attr, sizeof(attr)) < 0 && errno != EPERM ? 0 : 1;
}

static int bpf_create(pid_t other)
{
	union bpf_attr attr = {.map_type = BPF_MAP_TYPE_ARRAY};

	(void)other;
	return syscall(SYS_bpf, BPF_MAP_CREATE, &attr, sizeof(attr)) < 0;
}

static int open_socket(pid_t other)
{
	(void)other;
	return socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0) < 0;
}

static int own_by_fcntl(pid_t other)
{
	return fcntl(0, F_SETOWN, other) < 0;
}

static int pipes(pid_t other)
{
	int fd[2];

	(void)other;
	return pipe2(fd, O_CLOEXEC) < 0 || fcntl(fd[0], F_SETPIPE_SZ, 8192) < 0;
}

/* Each of them must be refused; the number of the one that was not. */
static int others(pid_t other)
{
	struct rlimit r = {0, 0};

	if (fcntl(0, F_SETOWN, other) == 0 || fcntl(0, F_SETSIG, SIGKILL) == 0)
		return 1;
	if (syscall(SYS_tgkill, other, other, SIGKILL) == 0 || syscall(SYS_tkill, other, SIGKILL) == 0 || kill(other, SIGKILL) == 0)
		return 2;
	if (prlimit(other, RLIMIT_NOFILE, &r, NULL) == 0 || setpriority(PRIO_PROCESS, (id_t)other, 19) == 0)
		return 3;
	if (syscall(SYS_pidfd_open, other, 0) >= 0 || fork() >= 0)
		return 4;
	return prlimit(0, RLIMIT_NOFILE, NULL, &r) < 0 ? 5 : 0;
}

/* Neither process can do anything to another one of the same user. */
static void test_confined(void **state)
{
	(void)state;
#ifndef __SANITIZE_ADDRESS__ /* there is no filter then */
	assert_int_equal(confined(as_gateway, own_by_fcntl), -SIGSYS);
	assert_int_equal(confined(as_gateway, pipes), 0);
	assert_int_equal(confined(as_gateway, open_socket), 0);
	assert_int_equal(confined(as_gateway, bpf_update), -SIGSYS);
	assert_int_equal(confined(as_name_server, own_by_fcntl), -SIGSYS);
	assert_int_equal(confined(as_name_server, open_socket), -SIGSYS);
	assert_int_equal(confined(as_name_server, bpf_create), -SIGSYS);
	assert_int_equal(confined(as_name_server, bpf_update), 0);
	assert_int_equal(confined(confine_resolver, others), 0);
#else
	(void)confined, (void)as_gateway, (void)own_by_fcntl, (void)pipes, (void)others, (void)as_name_server;
	(void)bpf_update, (void)bpf_create, (void)open_socket;
#endif
}

static int box_open(void *arg)
{
	char addr[INET6_ADDRSTRLEN];
	struct dns_result d = dns_ask("a.test", 1);

	(void)arg;
	snprintf(addr, sizeof(addr), "%s", d.addr);
	for (int i = 0; i < 300; i++) {
		CHECK(write(connect_addr(addr, 9), "0123456789", 10) == 10);
		if (i % 10 == 9)
			usleep(10000); /* a kernel drops the SYNs of a burst */
	}
	return 0; /* which ends them */
}

static int box_look_up(void *arg)
{
	(void)arg;
	CHECK(dns_ask("a.test", 1).answers == 1);
	return 0;
}

/* The run ends: what is open, and what was sent a moment ago, is in the log. */
static void test_end_of_run(void **state)
{
	struct rig r = {.reports = -1};
	unsigned connects = 0, ends = 0;
	struct egress_report e;
	uint64_t sent = 0;

	(void)state;
	begin(&r, "a.test:9", "");
	rig_start(&r);
	RUN(&r, box_look_up); /* so that there is a resolver */
	r.deaf = true;
	RUN(&r, box_open);
	assert_int_equal(gateway_end(r.reports), 0);
	while (rig_report(&r, &e, 3000) == 1) {
		connects += e.type == EGRESS_CONNECT && e.outcome == EGRESS_ALLOWED;
		ends += e.type == EGRESS_CLOSE;
		sent += e.type == EGRESS_CLOSE ? e.to_server_bytes : 0;
	}
	assert_int_equal(connects, 300);
	assert_int_equal(ends, 300);
	assert_int_equal(sent, 3000);
	rig_stop(&r);
}

static int box_fire(void *arg)
{
	static const char request[] = "GET http://a.test:9/ HTTP/1.1\r\nHost: a.test:9\r\n\r\n";

	(void)arg;
	CHECK(write(connect_addr(NETNS_OWN4, NETNS_PROXY_PORT), LIT(request)) == sizeof(request) - 1);
	return 0;
}

/* The first name of a run is asked for at its end: the resolver comes yet. */
static void test_resolver_at_end(void **state)
{
	struct rig r = {.reports = -1};
	struct egress_report e;
	uint64_t sent = 0;

	(void)state;
	begin(&r, "a.test:9", "");
	rig_start(&r);
	r.deaf = true;
	RUN(&r, box_fire);
	assert_int_equal(gateway_end(r.reports), 0);
	assert_int_equal(r.resolver, 0);
	while (rig_report(&r, &e, 3000) == 1)
		sent += e.type == EGRESS_CLOSE ? e.to_server_bytes : 0;
	assert_int_not_equal(r.resolver, 0);
	assert_int_not_equal(sent, 0);
	rig_stop(&r);
}

static int box_address_only(void *arg)
{
	(void)arg;
	CHECK(dns_ask("a.test", 1).rcode == 2); /* SERVFAIL */
	CHECK(echo_works(connect_addr(SERVER, 7), 10));
	return 0;
}

/* A supervisor that cannot start one: names are not resolved, at once and in words, and addresses go on. */
static void test_no_resolver(void **state)
{
	struct rig r = {.reports = -1};
	struct egress_report e;
	bool said = false;

	(void)state;
	begin(&r, "a.test:7 " SERVER ":7", "");
	rig_start(&r);
	assert_int_equal(gateway_give_resolver(r.reports, -1), 0);
	RUN(&r, box_address_only);
	while (!said && rig_report(&r, &e, 3000) == 1)
		said = e.type == EGRESS_ERROR && strstr(e.text, "names cannot be resolved");
	assert_true(said);
	assert_int_equal(r.resolver, 0);
	rig_stop(&r);
}

/* A hello with one name, or none. */
static size_t hello(const char *name, uint8_t *out)
{
	size_t len = strlen(name), ext = len ? len + 9 : 0, body = 2 + 32 + 1 + 4 + 2 + 2 + ext, n = 0;

	const uint8_t head[] = {22, 3, 1, (uint8_t)((body + 4) >> 8), (uint8_t)(body + 4), 1, 0, (uint8_t)(body >> 8), (uint8_t)body, 3, 3};

	memcpy(out, head, sizeof(head));
	n = sizeof(head);
	memset(out + n, 'R', 32);
	n += 32;
	memcpy(out + n, "\0\0\x02\x13\x01\x01\0", 7);
	n += 7;
	out[n++] = (uint8_t)(ext >> 8);
	out[n++] = (uint8_t)ext;
	if (len) {
		const uint8_t sni[] = {0, 0, 0, (uint8_t)(len + 5), 0, (uint8_t)(len + 3), 0, 0, (uint8_t)len};

		memcpy(out + n, sni, sizeof(sni));
		memcpy(out + n + sizeof(sni), name, len);
		n += sizeof(sni) + len;
	}
	return n;
}

/* Return: 'o' the hello came back, 'a' an alert came, 'r' a reset. piece: bytes a segment. */
static char try_hello(int fd, const char *name, size_t piece)
{
	uint8_t msg[512], back[512];
	size_t n = hello(name, msg);
	int one = 1;
	ssize_t got;

	setsockopt(fd, IPPROTO_TCP, 1 /* TCP_NODELAY */, &one, sizeof(one));
	for (size_t at = 0; at < n; at += piece) {
		size_t part = n - at < piece ? n - at : piece;

		if (write(fd, msg + at, part) != (ssize_t)part)
			return 'r';
		if (piece < n)
			usleep(2000);
	}
	got = recv(fd, back, n, MSG_WAITALL);
	close(fd);
	if (got == (ssize_t)n && memcmp(msg, back, n) == 0)
		return 'o';
	return got == 7 && back[0] == 21 ? 'a' : 'r';
}

static int box_tls(void *arg)
{
	(void)arg;
	CHECK(try_hello(connect_name("a.test", 443), "a.test", 512) == 'o');
	CHECK(try_hello(connect_name("a.test", 443), "A.TEST", 512) == 'o');
	CHECK(try_hello(connect_name("a.test", 443), "a.test", 7) == 'o');
	CHECK(try_hello(connect_name("a.test", 443), "b.test", 512) == 'a');
	CHECK(try_hello(connect_name("a.test", 443), "b.test", 7) == 'a');
	CHECK(try_hello(connect_name("a.test", 443), "", 512) == 'a');
	/* no TLS at all */
	CHECK(!echo_works(connect_name("a.test", 443), 100));
	/* nothing at all, and an end */
	int fd = connect_name("a.test", 443);
	char c;

	CHECK(shutdown(fd, SHUT_WR) == 0 && read(fd, &c, 1) == 0);
	return 0;
}

static void test_tls(void **state)
{
	unsigned seen[VERDICT_REASONS] = {0};
	struct rig r = {.reports = -1};
	struct egress_report e;

	(void)state;
	begin(&r, "a.test:443", "");
	rig_start(&r);
	RUN(&r, box_tls);
	while (rig_report(&r, &e, 1500) == 1)
		if (e.type == EGRESS_CONNECT && e.outcome == EGRESS_DENIED)
			seen[e.reason] += e.count;
	assert_int_equal(seen[VERDICT_NAME_MISMATCH], 2);
	assert_int_equal(seen[VERDICT_NO_SNI], 1);
	assert_int_equal(seen[VERDICT_NOT_TLS], 1);
	rig_stop(&r);
}

static int box_uninspected(void *arg)
{
	(void)arg;
	CHECK(echo_works(connect_name("a.test", 443), 1000));
	CHECK(try_hello(connect_name("a.test", 443), "b.test", 512) == 'o');
	return 0;
}

static void test_uninspected(void **state)
{
	struct rig r = {.reports = -1};

	(void)state;
	begin(&r, "a.test:443", "");
	r.config.inspect = false;
	rig_start(&r);
	RUN(&r, box_uninspected);
	rig_stop(&r);
}

/* `*` lets bare addresses through; a denied name must not ride on one. */
static int box_star(void *arg)
{
	char buf[512];

	(void)arg;
	CHECK(try_hello(connect_addr(SERVER, 443), "a.test", 512) == 'o');
	CHECK(try_hello(connect_addr(SERVER, 443), "", 512) == 'o');
	CHECK(try_hello(connect_addr(SERVER, 443), "b.test", 512) == 'a');
	CHECK(talk(connect_addr(SERVER, 80), LIT("GET /b HTTP/1.1\r\nHost: b.test\r\n\r\n"), "403", buf, sizeof(buf)));
	CHECK(talk(connect_addr(SERVER, 80), LIT("GET /b HTTP/1.1\r\nHost: " SERVER "\r\n\r\n"), "GET /b", buf, sizeof(buf)));
	CHECK(dns_ask("b.test", 1).rcode == 3);
	int fd = connect_addr("10.9.0.1", 80);

	CHECK(fd < 0 || talk(fd, LIT("GET /b HTTP/1.1\r\nHost: x\r\n\r\n"), "403", buf, sizeof(buf)) || errno == ECONNRESET);
	return 0;
}

static void test_star(void **state)
{
	struct rig r = {.reports = -1};

	(void)state;
	begin(&r, "*", "b.test");
	rig_start(&r);
	RUN(&r, box_star);
	rig_stop(&r);
}

/* --- tests: the proxy port --- */

static int proxy(void)
{
	return connect_addr("127.0.0.1", NETNS_PROXY_PORT);
}

static int box_proxy(void *arg)
{
	char buf[2048];
	int fd;

	(void)arg;
	fd = proxy();
	CHECK(talk(fd, LIT("CONNECT a.test:7 HTTP/1.1\r\nHost: a.test:7\r\n\r\n"), "200 Connection established\r\n\r\n", buf, sizeof(buf)));
	CHECK(echo_works(fd, 1000000));
	fd = connect_addr(NETNS_OWN4, NETNS_PROXY_PORT);
	CHECK(talk(fd, LIT("CONNECT a.test:7 HTTP/1.1\r\nHost: a.test\r\n\r\nearly"), "early", buf, sizeof(buf)));
	CHECK(talk(proxy(), LIT("CONNECT no.test:443 HTTP/1.1\r\nHost: no.test\r\n\r\n"), "allow = no.test:443", buf, sizeof(buf)));
	CHECK(strstr(buf, "HTTP/1.1 403 "));
	CHECK(talk(proxy(), LIT("CONNECT 127.0.0.1:7 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"), "403", buf, sizeof(buf)));
	CHECK(talk(proxy(), LIT("CONNECT loop.test:7 HTTP/1.1\r\nHost: loop.test\r\n\r\n"), "403", buf, sizeof(buf)));
	CHECK(talk(proxy(), LIT("CONNECT 0x7f.1:7 HTTP/1.1\r\nHost: 0x7f.1\r\n\r\n"), "403", buf, sizeof(buf)));
	CHECK(talk(proxy(), LIT("CONNECT dead.test:7 HTTP/1.1\r\nHost: dead.test\r\n\r\n"), "502", buf, sizeof(buf)));
	CHECK(talk(proxy(), LIT("CONNECT silent.test:7 HTTP/1.1\r\nHost: silent.test\r\n\r\n"), "504", buf, sizeof(buf)));
	CHECK(talk(proxy(), LIT("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n"), "403", buf, sizeof(buf)));
	/* the tunnel is inspected like any connection */
	fd = proxy();
	CHECK(talk(fd, LIT("CONNECT a.test:443 HTTP/1.1\r\nHost: a.test\r\n\r\n"), "\r\n\r\n", buf, sizeof(buf)));
	CHECK(try_hello(fd, "b.test", 512) == 'a');
	fd = proxy();
	CHECK(talk(fd, LIT("CONNECT a.test:443 HTTP/1.1\r\nHost: a.test\r\n\r\n"), "\r\n\r\n", buf, sizeof(buf)));
	CHECK(try_hello(fd, "a.test", 9) == 'o');
	/* URLs: one request each */
	fd = proxy();
	CHECK(talk(fd, LIT("GET http://a.test/u HTTP/1.1\r\nHost: a.test\r\n\r\n"
			   "GET http://b.test/v HTTP/1.1\r\nHost: b.test\r\n\r\n"),
		   "GET /u HTTP/1.1", buf, sizeof(buf)));
	CHECK(read_to_end(fd, buf, sizeof(buf)) >= 0 && !strstr(buf, "/v"));
	fd = proxy(); /* a server that stays, and a client that asks on */
	CHECK(talk(fd, LIT("GET http://a.test/stay HTTP/1.1\r\nHost: a.test\r\n\r\n"), "GET /stay", buf, sizeof(buf)));
	CHECK(write(fd, LIT("GET http://a.test/v HTTP/1.1\r\nHost: a.test\r\n\r\n")) > 0);
	CHECK(read_to_end(fd, buf, sizeof(buf)) == 0);
	CHECK(talk(proxy(), LIT("GET http://a.test:8080/u HTTP/1.1\r\nHost: a.test:8080\r\n\r\n"), "GET /u HTTP/1.1", buf, sizeof(buf)));
	CHECK(talk(proxy(), LIT("GET http://no.test/u HTTP/1.1\r\nHost: no.test\r\n\r\n"), "403", buf, sizeof(buf)));
	CHECK(talk(proxy(), LIT("GET http://a.test/u HTTP/1.1\r\nHost: no.test\r\n\r\n"), "403", buf, sizeof(buf)));
	return 0;
}

static int box_socks(void *arg)
{
	static const char request[] = "\x05\x01\0\x05\x01\0\x03\x06" "a.test\0\x07";
	char buf[256];
	int fd = proxy();

	(void)arg;
	CHECK(write(fd, request, 3) == 3 && read(fd, buf, 2) == 2 && memcmp(buf, "\x05\0", 2) == 0);
	CHECK(write(fd, request + 3, 13) == 13 && read(fd, buf, 10) == 10 && buf[1] == 0);
	CHECK(echo_works(fd, 100000));
	fd = proxy(); /* at once, and with early bytes */
	CHECK(write(fd, LIT("\x05\x01\0\x05\x01\0\x03\x06" "a.test\0\x07" "early")) == 21);
	CHECK(recv(fd, buf, 17, MSG_WAITALL) == 17 && memcmp(buf + 12, "early", 5) == 0);
	fd = proxy(); /* a name with a NUL in it */
	CHECK(write(fd, LIT("\x05\x01\0\x05\x01\0\x03\x0b" "evil\0a.test\0\x07")) == 21);
	CHECK(recv(fd, buf, 12, MSG_WAITALL) == 12 && buf[3] == 1);
	fd = proxy(); /* by the address that stands for the name */
	CHECK(str_eq(dns_ask("a.test", 1).addr, "198.18.0.2"));
	CHECK(write(fd, LIT("\x05\x01\0\x05\x01\0\x01\xc6\x12\0\x02\0\x07" "early")) == 18);
	CHECK(recv(fd, buf, 17, MSG_WAITALL) == 17 && memcmp(buf + 12, "early", 5) == 0);
	fd = proxy(); /* denied */
	CHECK(write(fd, LIT("\x05\x01\0\x05\x01\0\x03\x07" "no.test\0\x07")) == 17);
	CHECK(recv(fd, buf, 12, MSG_WAITALL) == 12 && buf[3] == 2);
	fd = proxy(); /* UDP ASSOCIATE */
	CHECK(write(fd, LIT("\x05\x01\0\x05\x03\0\x01\0\0\0\0\0\0")) == 13);
	CHECK(recv(fd, buf, 12, MSG_WAITALL) == 12 && buf[3] == 7);
	fd = proxy(); /* a password is asked for */
	CHECK(write(fd, LIT("\x05\x01\x02")) == 3 && read(fd, buf, 2) == 2 && buf[1] == (char)0xff);
	return 0;
}

static void test_proxy(void **state)
{
	struct rig r = {.reports = -1};

	(void)state;
	begin(&r, "a.test:7,80,443,8080 loop.test:7 dead.test:7 silent.test:7", "");
	r.config.connect_timeout_ms = 700;
	rig_start(&r);
	RUN(&r, box_proxy);
	RUN(&r, box_socks);
	rig_stop(&r);
}

/* --- tests: limits, DNS faults, the gateway itself --- */

static int box_bytes(void *arg)
{
	(void)arg;
	CHECK(echo_works(connect_name("a.test", 7), 500)); /* 1000 both ways: all there is, and no fault */
	CHECK(!echo_works(connect_name("a.test", 7), 1));
	CHECK(!echo_works(connect_name("a.test", 7), 1));
	return 0;
}

static void test_max_bytes(void **state)
{
	struct rig r = {.reports = -1};
	struct egress_report e;

	(void)state;
	begin(&r, "a.test:7", "");
	r.config.max_bytes = 1000;
	rig_start(&r);
	RUN(&r, box_bytes);
	e = next(&r, EGRESS_CLOSE);
	assert_int_equal(e.end, EGRESS_END_CLOSED);
	e = next(&r, EGRESS_ERROR);
	assert_int_equal(e.errnum, EDQUOT);
	e = next(&r, EGRESS_CLOSE);
	assert_int_equal(e.end, EGRESS_END_LIMIT);
	e = next(&r, EGRESS_CONNECT);
	assert_int_equal(e.reason, VERDICT_BYTES);
	rig_stop(&r);
}

static int box_connections(void *arg)
{
	char c;
	int a = connect_name("a.test", 7), b = connect_name("a.test", 7), third;

	(void)arg;
	CHECK(write(a, "x", 1) == 1 && read(a, &c, 1) == 1 && write(b, "x", 1) == 1 && read(b, &c, 1) == 1);
	third = connect_name("a.test", 7);
	CHECK(third < 0 || (read(third, &c, 1) < 0 && errno == ECONNRESET));
	close(a);
	usleep(100000);
	CHECK(echo_works(connect_name("a.test", 7), 10));
	return 0;
}

static void test_max_connections(void **state)
{
	struct rig r = {.reports = -1};
	struct egress_report e;

	(void)state;
	begin(&r, "a.test:7", "");
	r.config.max_connections = 2;
	rig_start(&r);
	RUN(&r, box_connections);
	do
		e = next(&r, EGRESS_CONNECT);
	while (e.outcome != EGRESS_DENIED);
	assert_int_equal(e.reason, VERDICT_CONNECTIONS);
	rig_stop(&r);
}

static int box_dns_tcp(void *arg)
{
	uint8_t msg[2048], back[2048];
	size_t n = dns_build("a.test", 1, msg + 2);
	int fd = connect_addr("192.0.2.1", 53);

	(void)arg;
	msg[0] = 0;
	msg[1] = (uint8_t)n;
	CHECK(fd >= 0);
	for (int i = 0; i < 3; i++) /* several in one go */
		CHECK(write(fd, msg, n + 2) == (ssize_t)(n + 2));
	CHECK(recv(fd, back, 3 * (n + 18), MSG_WAITALL) == (ssize_t)(3 * (n + 18)));
	CHECK(back[1] == n + 16 && (back[5] & 15) == 0);
	/* in pieces */
	for (size_t i = 0; i < n + 2; i++)
		CHECK(write(fd, msg + i, 1) == 1);
	CHECK(recv(fd, back, n + 18, MSG_WAITALL) == (ssize_t)(n + 18));
	/* a message of 64K is the end of it; so is one that is none */
	CHECK(write(fd, "\xff\xff", 2) == 2 && read(fd, back, 1) <= 0);
	fd = connect_addr("192.0.2.1", 53);
	CHECK(write(fd, "\0\x02xx", 4) == 4 && read(fd, back, 1) <= 0);
	/* the port is the name server's, whatever the rules say */
	CHECK(dns_ask("a.test", 1).answers == 1);
	return 0;
}

static int box_dns_faults(void *arg)
{
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(53), .sin_addr = {htonl(0x08080808)}};
	static uint8_t big[60000];
	uint8_t loop[] = {0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0xc0, 0x0c, 0, 1, 0, 1}, back[512];
	struct timeval wait = {0, 300000};
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	(void)arg;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
	CHECK(connect(fd, (struct sockaddr *)&in, sizeof(in)) == 0);
	CHECK(send(fd, loop, sizeof(loop), 0) == sizeof(loop) && recv(fd, back, sizeof(back), 0) == 12 && (back[3] & 15) == 1);
	memcpy(big, loop, 12);
	CHECK(send(fd, big, sizeof(big), 0) == sizeof(big) && recv(fd, back, sizeof(back), 0) < 0 && errno == EAGAIN);
	CHECK(send(fd, "x", 1, 0) == 1 && recv(fd, back, sizeof(back), 0) < 0);
	CHECK(dns_ask("a.test", 1).answers == 1);
	CHECK(dns_ask("1.2.3.4", 1).rcode == 3);
	return 0;
}

static void test_dns(void **state)
{
	struct rig r = {.reports = -1};

	(void)state;
	begin(&r, "a.test:7", "");
	rig_start(&r);
	RUN(&r, box_dns_tcp);
	RUN(&r, box_dns_faults);
	rig_stop(&r);
}

static int box_alive(void *arg)
{
	(void)arg;
	CHECK(echo_works(connect_name("a.test", 7), 10));
	return 0;
}

static int box_after_death(void *arg)
{
	char c;
	int fd = connect_addr("198.18.0.2", 7);

	(void)arg;
	CHECK(fd < 0 || read(fd, &c, 1) < 0);
	return 0;
}

static void status_has(pid_t pid, const char *line)
{
	char path[64], buf[8192];
	size_t n;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	f = fopen(path, "re");
	assert_non_null(f);
	n = fread(buf, 1, sizeof(buf) - 1, f);
	fclose(f);
	buf[n] = '\0';
	if (!strstr(buf, line))
		fail_msg("the gateway's status has no '%s'", line);
}

static void test_confined_and_killed(void **state)
{
	struct rig r = {.reports = -1};
	struct egress_report e;

	(void)state;
	begin(&r, "a.test:7", "");
	rig_start(&r);
	status_has(r.gateway, "CapEff:\t0000000000000000");
	status_has(r.gateway, "CapPrm:\t0000000000000000");
	status_has(r.gateway, "CapBnd:\t0000000000000000");
	status_has(r.gateway, "NoNewPrivs:\t1");
#ifndef __SANITIZE_ADDRESS__
	status_has(r.gateway, "Seccomp:\t2");
#endif
	RUN(&r, box_alive);
	while (rig_report(&r, &e, 200) == 1)
		;
	kill(r.gateway, SIGKILL);
	waitpid(r.gateway, NULL, 0);
	assert_int_equal(rig_report(&r, &e, 1000), -1); /* the supervisor sees it */
	RUN(&r, box_after_death);
	rig_stop(&r);
}

/* When the supervisor closes its end, the gateway ends by itself, with success. */
static void test_ends_with_supervisor(void **state)
{
	struct rig r = {.reports = -1};
	int status = -1;

	(void)state;
	begin(&r, "a.test:7", "");
	rig_start(&r);
	shutdown(r.reports, SHUT_RDWR);
	assert_int_equal(waitpid(r.gateway, &status, 0), r.gateway);
	assert_int_equal(status, 0);
	rig_stop(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_denied),
		cmocka_unit_test(test_address_rules),
		cmocka_unit_test(test_real),
		cmocka_unit_test(test_streams),
		cmocka_unit_test(test_slow_and_many),
		cmocka_unit_test(test_http),
		cmocka_unit_test(test_h2),
		cmocka_unit_test(test_floods),
		cmocka_unit_test(test_confined),
		cmocka_unit_test(test_end_of_run),
		cmocka_unit_test(test_resolver_at_end),
		cmocka_unit_test(test_no_resolver),
		cmocka_unit_test(test_tls),
		cmocka_unit_test(test_uninspected),
		cmocka_unit_test(test_star),
		cmocka_unit_test(test_proxy),
		cmocka_unit_test(test_max_bytes),
		cmocka_unit_test(test_max_connections),
		cmocka_unit_test(test_dns),
		cmocka_unit_test(test_confined_and_killed),
		cmocka_unit_test(test_ends_with_supervisor),
	};

	return cmocka_run_group_tests_name("gateway", tests, group_setup, group_teardown);
}
