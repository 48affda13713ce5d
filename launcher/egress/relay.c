/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Bytes from one side to the other. Starts by copying through the gateway's one scratch buffer; what the other side
 * does not take at once waits in a buffer of its own, and no more is read until it is gone. Bulk goes through a pipe
 * with splice(2), which copies nothing.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "egress/state.h"

#include "base/banned.h"

#define READ_SMALL (64 * 1024)
#define STREAK_BULK 4               /* so many full reads in a row make it bulk */
#define PIPE_BIG (1024 * 1024) /* as much as pipe-max-size lets an unprivileged user have */
#define PIPE_SMALL (256 * 1024)
#define PIPES_BIG_BYTES (16 * 1024 * 1024) /* while so much is not yet used, pipes are big */
#define PIPES_BYTES (48 * 1024 * 1024) /* of the 64M that one user may have (pipe(7), pipe-user-pages-soft) */
#define TURN_BYTES (4 * 1024 * 1024) /* then the others have theirs */

/*
 * What all connections hold back together, as copies. Beyond BUFFERED_MANY only crumbs are read, so that many slow
 * readers cost their number times READ_CRUMB more at most.
 */
#define BUFFERED_MANY (32 * 1024 * 1024)
#define READ_CRUMB 2048
static size_t buffered;

static size_t read_size(size_t wanted)
{
	return buffered > BUFFERED_MANY && wanted > READ_CRUMB ? READ_CRUMB : wanted;
}

#define CROWDED_HEAD 4096

bool relay_is_crowded(const struct flow *f)
{
	return buffered > BUFFERED_MANY && f->len - f->ready > CROWDED_HEAD;
}

bool relay_is_sent(int fd)
{
	struct tcp_info info;
	socklen_t len = sizeof(info);

	memset(&info, 0, sizeof(info));
	if (fd < 0 || getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) < 0)
		return true;
	return !info.tcpi_unacked && !info.tcpi_notsent_bytes;
}

int conn_fd(const struct conn *c, int direction, bool source)
{
	bool client = (direction == TO_SERVER) == source;

	return client ? c->client.fd : c->server >= 0 ? c->attempts[c->server].source.fd : -1;
}

/* --- buffers --- */

/* Room for `len` more bytes behind what is there. */
static void flow_reserve(struct flow *f, size_t len)
{
	if (f->off && f->off + (f->len - f->off) + len > f->cap) {
		memmove(f->buf, f->buf + f->off, f->len - f->off);
		f->len -= f->off;
		f->ready -= f->off;
		f->off = 0;
	}
	if (f->len + len > f->cap) {
		buffered += f->len + len - f->cap;
		f->cap = (uint32_t)(f->len + len);
		f->buf = mem_array(f->buf, f->cap, 1);
	}
}

static void flow_add(struct flow *f, const void *bytes, size_t len)
{
	flow_reserve(f, len);
	memcpy(f->buf + f->len, bytes, len);
	f->len += (uint32_t)len;
}

void flow_append(struct flow *f, const void *bytes, size_t len)
{
	flow_add(f, bytes, len);
	f->ready = f->len;
}

static void flow_drop_buffer(struct flow *f)
{
	free(f->buf);
	buffered -= f->cap;
	f->buf = NULL;
	f->cap = f->off = f->ready = f->len = 0;
}

static void pipe_give(struct gateway *g, struct flow *f)
{
	if (f->pipe.fd[0] < 0)
		return;
	if (!f->piped && g->n_pipes < sizeof(g->pipes) / sizeof(g->pipes[0])) {
		g->pipes[g->n_pipes++] = f->pipe;
	} else {
		close(f->pipe.fd[0]);
		close(f->pipe.fd[1]);
		g->pipe_bytes -= f->pipe.bytes;
	}
	f->pipe.fd[0] = f->pipe.fd[1] = -1;
	f->piped = 0;
}

static bool pipe_size(struct gateway *g, struct bulk_pipe *p, uint32_t bytes)
{
	if (fcntl(p->fd[1], F_SETPIPE_SZ, bytes) < 0)
		return false;
	p->bytes = bytes;
	g->pipe_bytes += bytes;
	return true;
}

static bool pipe_take(struct gateway *g, struct flow *f)
{
	struct bulk_pipe p;

	if (g->n_pipes) {
		f->pipe = g->pipes[--g->n_pipes];
		return true;
	}
	if (g->pipe_bytes + PIPE_SMALL > PIPES_BYTES || pipe2(p.fd, O_NONBLOCK | O_CLOEXEC) < 0)
		return false;
	if ((g->pipe_bytes < PIPES_BIG_BYTES && pipe_size(g, &p, PIPE_BIG)) || pipe_size(g, &p, PIPE_SMALL)) {
		f->pipe = p;
		return true;
	}
	/* The user's pages are used up: then copying is faster than a small pipe. */
	f->streak = 0;
	close(p.fd[0]);
	close(p.fd[1]);
	return false;
}

void flow_free(struct gateway *g, struct flow *f)
{
	flow_drop_buffer(f);
	pipe_give(g, f);
}

/* --- the budget of max-bytes --- */

static size_t budget(const struct gateway *g, size_t len)
{
	return g->limited && g->bytes_left < len ? (size_t)g->bytes_left : len;
}

static void spend(struct gateway *g, struct flow *f, size_t len)
{
	f->bytes += len;
	if (g->limited)
		g->bytes_left -= len;
}

/* The budget is at its end; that is a fault only if there is one byte more. */
static enum pump_result at_limit(struct flow *f, int source)
{
	char byte;
	ssize_t n = recv(source, &byte, 1, MSG_PEEK | MSG_DONTWAIT);

	if (n > 0)
		return PUMP_LIMIT;
	if (n == 0)
		f->eof = true;
	else if (errno == EAGAIN)
		f->readable = false;
	else if (errno != EINTR)
		return PUMP_SOURCE_RESET;
	return PUMP_WAIT;
}

/* --- writing --- */

enum pump_result relay_flush(struct conn *c, int direction)
{
	struct flow *f = &c->flows[direction];
	int sink = conn_fd(c, direction, false);

	while (f->off < f->ready && f->writable) {
		ssize_t n = send(sink, f->buf + f->off, f->ready - f->off, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n >= 0) {
			f->off += (uint32_t)n;
			continue;
		}
		if (errno == EAGAIN)
			f->writable = false;
		else if (errno != EINTR)
			return PUMP_SINK_RESET;
	}
	if (f->off == f->len && f->buf)
		flow_drop_buffer(f);
	return PUMP_WAIT;
}

/* The end goes on when everything before it has. */
static enum pump_result pass_end(struct conn *c, int direction)
{
	struct flow *f = &c->flows[direction];

	if (!f->eof || f->off < f->len || f->piped)
		return PUMP_WAIT;
	if (!f->shut) {
		f->shut = true;
		shutdown(conn_fd(c, direction, false), SHUT_WR);
	}
	return PUMP_DONE;
}

/* --- copying --- */

/* Reads once. Return: bytes; 0: nothing for now, or the end; -1: *result says. */
static ssize_t read_once(struct gateway *g, struct flow *f, int source, size_t max, enum pump_result *result)
{
	size_t want = budget(g, max);
	ssize_t n;

	if (!want) {
		*result = at_limit(f, source);
		return *result == PUMP_WAIT ? 0 : -1;
	}
	n = recv(source, g->scratch, want, MSG_DONTWAIT);
	if (n < 0) {
		if (errno == EAGAIN) {
			f->readable = false;
			return 0;
		}
		if (errno == EINTR)
			return 0;
		*result = PUMP_SOURCE_RESET;
		return -1;
	}
	if (n == 0) {
		f->eof = true;
		return 0;
	}
	spend(g, f, (size_t)n);
	/*
	 * A short read emptied the stream (epoll(7)); not where its end was announced already, as no edge will tell of
	 * it.
	 */
	if ((size_t)n < want && !f->hangup)
		f->readable = false;
	f->streak = (size_t)n == max ? (uint8_t)(f->streak + (f->streak < STREAK_BULK)) : 0;
	return n;
}

enum pump_result relay_fill(struct gateway *g, struct conn *c, uint32_t cap)
{
	struct flow *f = &c->flows[TO_SERVER];
	enum pump_result result = PUMP_WAIT;

	while (f->readable && !f->eof && f->len - f->ready < cap) {
		ssize_t n = read_once(g, f, c->client.fd, cap - (f->len - f->ready), &result);

		if (n < 0)
			return result;
		if (n > 0)
			flow_add(f, g->scratch, (size_t)n);
		if (relay_is_crowded(f))
			return PUMP_LIMIT;
	}
	return f->eof ? PUMP_DONE : PUMP_WAIT;
}

/* Straight from one side to the other; what does not go at once is kept. */
static enum pump_result copy_once(struct gateway *g, struct conn *c, int direction, size_t *moved)
{
	struct flow *f = &c->flows[direction];
	enum pump_result result = PUMP_WAIT;
	size_t done = 0, len;
	ssize_t n = read_once(g, f, conn_fd(c, direction, true), read_size(READ_SMALL), &result);

	if (n <= 0)
		return n < 0 ? result : PUMP_WAIT;
	len = (size_t)n;
	*moved += len;
	if (direction == TO_CLIENT && c->filter == FILTER_UPGRADE)
		inspect_answer(c, g->scratch, len);
	while (done < len && f->writable) {
		n = send(conn_fd(c, direction, false), g->scratch + done, len - done, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n >= 0)
			done += (size_t)n;
		else if (errno == EAGAIN)
			f->writable = false;
		else if (errno != EINTR)
			return PUMP_SINK_RESET;
	}
	if (done < len)
		flow_append(f, g->scratch + done, len - done);
	return PUMP_WAIT;
}

void conn_dropped(struct conn *c)
{
	if (c->flows[TO_CLIENT].bytes == c->answers_from)
		c->pipelined = true;
	else
		c->next_request = true;
}

/* The client's direction with a filter on it: read, judge, write what was judged. */
static enum pump_result filter_once(struct gateway *g, struct conn *c, size_t *moved)
{
	struct flow *f = &c->flows[TO_SERVER];
	enum pump_result result = PUMP_WAIT;
	ssize_t n;

	if (c->filter == FILTER_UPGRADE)
		return PUMP_WAIT; /* the client is not read until the server has answered */
	n = read_once(g, f, c->client.fd, read_size(HTTP_HEAD_MAX), &result);
	if (n <= 0)
		return n < 0 ? result : PUMP_WAIT;
	*moved += (size_t)n;
	f->streak = 0;
	if (c->filter == FILTER_DROP) {
		conn_dropped(c);
		return PUMP_WAIT;
	}
	flow_add(f, g->scratch, (size_t)n);
	if (!inspect_run(g, c))
		return PUMP_ENDED;
	if (relay_is_crowded(f)) {
		conn_deny_reason(g, c, VERDICT_CONNECTIONS, NULL);
		return PUMP_ENDED;
	}
	return relay_flush(c, TO_SERVER);
}

/* --- splicing --- */

static enum pump_result splice_in(struct gateway *g, struct conn *c, int direction, size_t *moved)
{
	struct flow *f = &c->flows[direction];
	int source = conn_fd(c, direction, true);
	size_t want = budget(g, f->pipe.bytes - f->piped);
	ssize_t n;

	if (!want)
		return at_limit(f, source);
	n = splice(source, NULL, f->pipe.fd[1], NULL, want, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
	if (n > 0) {
		f->piped += (uint32_t)n;
		*moved += (size_t)n;
		spend(g, f, (size_t)n);
	} else if (n == 0) {
		f->eof = true;
	} else if (errno == EAGAIN) {
		/*
		 * The pipe's slots may be full while its bytes are few; only an empty pipe says that the socket is
		 * empty.
		 */
		if (!f->piped)
			f->readable = false;
	} else if (errno != EINTR) {
		return PUMP_SOURCE_RESET;
	}
	return PUMP_WAIT;
}

static enum pump_result splice_out(struct conn *c, int direction)
{
	struct flow *f = &c->flows[direction];
	ssize_t n = splice(f->pipe.fd[0], NULL, conn_fd(c, direction, false), NULL, f->piped, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);

	if (n > 0)
		f->piped -= (uint32_t)n;
	else if (n < 0 && errno == EAGAIN)
		f->writable = false;
	else if (n < 0 && errno != EINTR)
		return PUMP_SINK_RESET;
	return PUMP_WAIT;
}

/* Fills, then empties the pipe once. */
static enum pump_result splice_once(struct gateway *g, struct conn *c, int direction, size_t *moved)
{
	struct flow *f = &c->flows[direction];
	enum pump_result result = PUMP_WAIT;

	if (f->readable && !f->eof && f->piped < f->pipe.bytes)
		result = splice_in(g, c, direction, moved);
	if (result == PUMP_WAIT && f->piped && f->writable)
		result = splice_out(c, direction);
	/*
	 * An empty pipe and an empty socket: somebody else may have the pipe. Where we are faster than the source that is
	 * every turn, and bulk is over only when a turn brought little.
	 */
	if (!f->piped && (!f->readable || f->eof)) {
		pipe_give(g, f);
		if (*moved < READ_SMALL / 2)
			f->streak = 0;
	}
	return result;
}

/* --- a turn --- */

static bool can_move(const struct flow *f)
{
	if (f->off < f->ready || f->piped)
		return f->writable || (f->pipe.fd[0] >= 0 && f->readable && !f->eof && f->piped < f->pipe.bytes);
	return f->readable && !f->eof;
}

enum pump_result relay_pump(struct gateway *g, struct conn *c, int direction)
{
	struct flow *f = &c->flows[direction];
	size_t moved = 0;

	while (moved < TURN_BYTES) {
		bool filtered = direction == TO_SERVER && c->filter != FILTER_NONE;
		enum pump_result result;
		uint32_t piped = f->piped, len = f->len - f->off;
		size_t before = moved;

		if (f->off < f->ready) {
			result = relay_flush(c, direction);
		} else if (f->pipe.fd[0] >= 0) {
			result = splice_once(g, c, direction, &moved);
		} else if (!f->readable || f->eof) {
			break;
		} else if (filtered) {
			result = filter_once(g, c, &moved);
		} else if (f->streak == STREAK_BULK && !(direction == TO_CLIENT && c->filter == FILTER_UPGRADE) && pipe_take(g, f)) {
			continue;
		} else {
			result = copy_once(g, c, direction, &moved);
		}
		if (result != PUMP_WAIT)
			return result;
		if (moved == before && f->piped == piped && f->len - f->off == len)
			break;
	}
	if (pass_end(c, direction) == PUMP_DONE)
		return PUMP_DONE;
	return moved >= TURN_BYTES && can_move(f) ? PUMP_MORE : PUMP_WAIT;
}
