/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * How fast TCP is between two programs: a server for scripts/bench, and its clients, which print one number.
 *
 *	stream serve                 at 127.0.0.1, a free port, which it prints; until it is killed
 *	stream get ADDRESS PORT N    N bytes from there; prints Gbit/s
 *	stream put ADDRESS PORT N    N bytes to there, until the server says that it has all; Gbit/s
 *	stream first ADDRESS PORT N  N times: connect, one byte there and one back; prints the median in microseconds
 *
 * A request is a letter and a number of 64 bits. Connections are served one after the other.
 */
#include <arpa/inet.h>
#include <err.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

struct request {
	uint64_t what; /* 'g', 'p', 'f' */
	uint64_t bytes;
};

static char buf[256 * 1024];

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Return: 0, -1 where the other side ended. */
static int send_bytes(int fd, uint64_t n)
{
	while (n > 0) {
		ssize_t r = write(fd, buf, n < sizeof(buf) ? n : sizeof(buf));

		if (r <= 0)
			return -1;
		n -= (uint64_t)r;
	}
	return 0;
}

static int receive_bytes(int fd, uint64_t n)
{
	while (n > 0) {
		ssize_t r = read(fd, buf, n < sizeof(buf) ? n : sizeof(buf));

		if (r <= 0)
			return -1;
		n -= (uint64_t)r;
	}
	return 0;
}

static void nodelay(int fd)
{
	int one = 1;

	if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) < 0)
		err(1, "TCP_NODELAY");
}

static void serve_one(int fd)
{
	struct request r;

	nodelay(fd);
	if (recv(fd, &r, sizeof(r), MSG_WAITALL) != sizeof(r))
		return;
	switch (r.what) {
	case 'g':
		send_bytes(fd, r.bytes);
		break;
	case 'p':
		if (receive_bytes(fd, r.bytes) == 0)
			send_bytes(fd, 1);
		break;
	case 'f':
		send_bytes(fd, 1);
		break;
	}
}

static void serve(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(a);
	int listener = socket(AF_INET, SOCK_STREAM, 0), fd;

	if (bind(listener, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(listener, 128) < 0 ||
	    getsockname(listener, (struct sockaddr *)&a, &len) < 0)
		err(1, "listen");
	printf("%d\n", ntohs(a.sin_port));
	fflush(stdout);
	while ((fd = accept(listener, NULL, NULL)) >= 0) {
		serve_one(fd);
		close(fd);
	}
	err(1, "accept");
}

/* Connects and asks. */
static int ask(const char *address, const char *port, int what, uint64_t bytes)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
	struct request r = {.what = (uint64_t)what, .bytes = bytes};
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (inet_pton(AF_INET, address, &a.sin_addr) != 1)
		errx(1, "not an address: %s", address);
	if (connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
		err(1, "connect");
	nodelay(fd);
	if (write(fd, &r, sizeof(r)) != sizeof(r))
		err(1, "write");
	return fd;
}

static void bulk(const char *address, const char *port, int what, uint64_t bytes)
{
	int fd = ask(address, port, what, bytes);
	double begin = now();
	int r;

	if (what == 'g')
		r = receive_bytes(fd, bytes);
	else
		r = send_bytes(fd, bytes) < 0 ? -1 : receive_bytes(fd, 1);
	if (r < 0)
		errx(1, "the connection ended too soon");
	printf("%.3f\n", (double)bytes * 8 / (now() - begin) / 1e9);
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static void first(const char *address, const char *port, size_t n)
{
	double *took = calloc(n, sizeof(*took));

	for (size_t i = 0; i < n; i++) {
		double begin = now();
		int fd = ask(address, port, 'f', 0);

		if (receive_bytes(fd, 1) < 0)
			errx(1, "no answer");
		took[i] = (now() - begin) * 1e6;
		close(fd);
	}
	qsort(took, n, sizeof(*took), by_size);
	printf("%.1f\n", took[n / 2]);
}

int main(int argc, char **argv)
{
	signal(SIGPIPE, SIG_IGN);
	if (argc == 2 && strcmp(argv[1], "serve") == 0) {
		serve();
	} else if (argc == 5 && (strcmp(argv[1], "get") == 0 || strcmp(argv[1], "put") == 0)) {
		bulk(argv[2], argv[3], argv[1][0], strtoull(argv[4], NULL, 10));
	} else if (argc == 5 && strcmp(argv[1], "first") == 0 && atoi(argv[4]) > 0) {
		first(argv[2], argv[3], (size_t)atoi(argv[4]));
	} else {
		fprintf(stderr, "usage: stream serve | get ADDRESS PORT BYTES | put ADDRESS PORT BYTES | first ADDRESS PORT TIMES\n");
		return 2;
	}
	return 0;
}
