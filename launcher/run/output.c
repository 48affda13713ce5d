/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "run/output.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "run/limits.h"
#include "run/supervisor.h"

#include "base/banned.h"

#define READ_SIZE (128 << 10)
#define PIPE_SIZE (256 << 10)   /* wished for: an unprivileged user has so many pages of pipes only (pipe(7)) */
#define LINES_TAIL (1ULL << 20) /* of tail-lines without tail */
#define FINISH_MS 1000          /* for a caller that is to take what is left after its time is up */

void output_init(struct output *o)
{
	*o = (struct output){.input = -1};
	for (int i = 0; i < OUTPUT_STREAMS; i++)
		o->v[i] = (struct output_stream){.pipe = -1, .box_end = -1, .file = -1, .sink = SINK_NONE};
}

void output_free(struct output *o)
{
	cleanup_fd_p(&o->input);
	for (int i = 0; i < OUTPUT_STREAMS; i++) {
		struct output_stream *v = &o->v[i];

		cleanup_fd_p(&v->pipe);
		cleanup_fd_p(&v->box_end);
		cleanup_fd_p(&v->file);
		sink_close(&v->sink);
		cut_free(&v->cut);
		free(v->buf);
		v->buf = NULL;
	}
}

/* One part that is asked for alone has the other one empty; none is asked for: all is passed on. */
static struct cut_limits limits_of(const struct profile *p)
{
	struct cut_limits l = {CUT_UNLIMITED, CUT_UNLIMITED, 0, CUT_UNLIMITED};
	bool head = p->output.head.set || p->output.head_lines.set, tail = p->output.tail.set || p->output.tail_lines.set;

	if (p->output.head.set)
		l.head_bytes = p->output.head.bytes;
	if (p->output.head_lines.set)
		l.head_lines = p->output.head_lines.n;
	if (tail && !head)
		l.head_bytes = 0;
	if (p->output.tail_lines.set) {
		l.tail_lines = p->output.tail_lines.n;
		l.tail_bytes = LINES_TAIL;
	}
	if (p->output.tail.set)
		l.tail_bytes = p->output.tail.bytes;
	return l;
}

static int open_stream(struct supervisor *s, int i, struct err *e)
{
	static const struct cut_limits all = {CUT_UNLIMITED, CUT_UNLIMITED, 0, CUT_UNLIMITED};
	struct output_stream *o = &s->output.v[i];
	struct cut_limits limits = s->plan.tty ? all : limits_of(s->profile);
	int pair[2];

	o->name = i ? "stderr" : "stdout";
	o->file = openat(s->run_dir, o->name, O_WRONLY | O_APPEND | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (o->file < 0)
		return err_errno(e, errno, "%s/%s", s->run_path, o->name);
	cut_init(&o->cut, &limits);
	if (s->plan.tty)
		return 0;
	o->buf = mem_alloc(READ_SIZE);
	if (pipe2(pair, O_CLOEXEC) < 0)
		return err_errno(e, errno, "a pipe for the command's %s", o->name);
	o->pipe = pair[0];
	o->box_end = pair[1];
	if (fcntl(o->pipe, F_SETFL, O_NONBLOCK) < 0)
		return err_errno(e, errno, "fcntl");
	fcntl(o->pipe, F_SETPIPE_SZ, PIPE_SIZE); /* else it stays as it is */
	return sink_open(&o->sink, STDOUT_FILENO + i, e);
}

int output_prepare(struct supervisor *s, struct err *e)
{
	int r;

	if (!s->plan.capture)
		return 0;
	s->output.on = true;
	if (s->plan.read_stdin) {
		s->output.input = open("/proc/self/fd/0", O_RDONLY | O_NOCTTY | O_CLOEXEC);
		if (s->output.input < 0)
			return err_errno(e, errno, "output.capture: the terminal at standard input cannot be opened for reading alone, and "
					 "the command could write there past the capture; use </dev/null");
	}
	r = open_stream(s, 0, e);
	if (r == 0 && !s->plan.one_stream)
		r = open_stream(s, 1, e);
	return r;
}

void output_started(struct output *o)
{
	cleanup_fd_p(&o->input);
	for (int i = 0; i < OUTPUT_STREAMS; i++)
		cleanup_fd_p(&o->v[i].box_end);
}

/* --- storing --- */

static int store(struct supervisor *s, struct output_stream *o, const char *bytes, size_t len, struct err *e)
{
	uint64_t max = s->profile->output.max.bytes, room = max - o->stored;
	size_t n = len < room ? len : (size_t)room, at = 0;

	while (at < n && !o->store_failed) {
		ssize_t wrote = write(o->file, bytes + at, n - at);

		if (wrote < 0 && errno == EINTR)
			continue;
		if (wrote < 0) {
			o->store_failed = true;
			return err_errno(e, errno, "what the command writes to %s cannot be stored in %s", o->name, s->run_path);
		}
		at += (size_t)wrote;
		o->stored += (uint64_t)wrote;
	}
	if (n < len)
		return limits_hit(s, "output.max", max, o->stored + (len - n), e);
	return o->stored >= max / 5 * 4 ? limits_warning(s, "output.max", max, o->stored, e) : 0;
}

void output_from_terminal(void *arg, const char *bytes, size_t len)
{
	struct supervisor *s = arg;
	struct output_stream *o = &s->output.v[0];
	struct err e = {0};

	o->passed += cut_feed(&o->cut, bytes, len); /* counts the terminal's end as the caller's */
	if (store(s, o, bytes, len, &e) < 0 && !s->output.error)
		s->output.error = e.code;
}

/* --- passing on --- */

static void add_pending(struct output_stream *o, const void *bytes, size_t len)
{
	if (len)
		o->pending[o->n_pending++] = (struct iovec){(void *)bytes, len};
}

/*
 * At most so many bytes. Return: how many, which are stored and counted; *head: of them, those that are to be passed on. 0 at the
 * end, -EAGAIN where nothing is there, another -errno with `e`.
 */
static ssize_t take(struct supervisor *s, struct output_stream *o, size_t most, size_t *head, struct err *e)
{
	ssize_t n;
	int r;

	do
		n = read(o->pipe, o->buf, most < READ_SIZE ? most : READ_SIZE);
	while (n < 0 && errno == EINTR);
	if (n <= 0)
		return n == 0 || errno == EAGAIN ? (n ? -EAGAIN : 0) : err_errno(e, errno, "the command's %s", o->name);
	*head = cut_feed(&o->cut, o->buf, (size_t)n);
	r = store(s, o, o->buf, (size_t)n, e);
	return r < 0 ? r : n;
}

/* What the box has written by now; a process outside that was handed its end could go on for ever. */
static size_t waiting(const struct output_stream *o)
{
	int n = 0;

	return o->pipe >= 0 && ioctl(o->pipe, FIONREAD, &n) == 0 && n > 0 ? (size_t)n : 0;
}

/*
 * The caller reads no more: then the command's writes fail too, as if the caller's stream were its own. What it has written is
 * stored and counted all the same.
 */
static int end_caller(struct supervisor *s, struct output_stream *o, bool abandoned, struct err *e)
{
	size_t left = waiting(o), head;
	ssize_t n = 1;

	o->abandoned = abandoned;
	o->n_pending = 0;
	while (left && n > 0) {
		n = take(s, o, left, &head, e);
		left -= n > 0 ? (size_t)n : 0;
	}
	cleanup_fd_p(&o->pipe);
	sink_close(&o->sink);
	return n < 0 && n != -EAGAIN ? (int)n : 0;
}

/* What can be passed on without waiting. Return: 0 or -errno with `e`: what the caller should have got is lost. */
static int flush(struct supervisor *s, struct output_stream *o, struct err *e)
{
	while (o->n_pending) {
		struct iovec *v = &o->pending[0];
		ssize_t n = sink_write(&o->sink, v->iov_base, v->iov_len);

		if (n == 0)
			return 0;
		if (n == -EPIPE || n == -ECONNRESET || n == -EIO) /* EIO: a terminal that hung up */
			return end_caller(s, o, false, e);
		if (n < 0)
			return err_errno(e, (int)-n, "what the command writes to %s cannot be passed on", o->name);
		if (v->iov_base < (void *)o->mark || v->iov_base >= (void *)(o->mark + sizeof(o->mark)))
			o->passed += (uint64_t)n;
		v->iov_base = (char *)v->iov_base + n;
		v->iov_len -= (size_t)n;
		if (!v->iov_len)
			memmove(o->pending, o->pending + 1, --o->n_pending * sizeof(*v));
	}
	/* Whoever waits for the end of the stream is not kept waiting by us. */
	if (o->pipe < 0)
		sink_close(&o->sink);
	return 0;
}

/* Where something was left out, a line says so; the command can write such a line too, so the record says it as well. */
static int end_stream(struct supervisor *s, struct output_stream *o, struct err *e)
{
	const struct cut_limits *l = &o->cut.limits;
	bool in_line = o->cut.passed_in_line;
	struct cut_tail tail;
	int n = 0;

	cleanup_fd_p(&o->pipe);
	cut_end(&o->cut, &tail);
	if (tail.left_bytes && (l->tail_bytes || (l->head_bytes && l->head_lines)))
		n = snprintf(o->mark, sizeof(o->mark), "%s[agentbox: %" PRIu64 " bytes, %" PRIu64 " lines left out; agentbox output %s%s]\n",
			     in_line ? "\n" : "", tail.left_bytes, tail.left_newlines, s->id, o == &s->output.v[1] ? " --stderr" : "");
	add_pending(o, o->mark, (size_t)n);
	add_pending(o, tail.part[0], tail.len[0]);
	add_pending(o, tail.part[1], tail.len[1]);
	return flush(s, o, e);
}

int output_read(struct supervisor *s, struct output_stream *o, struct err *e)
{
	size_t head;
	ssize_t n;

	if (o->pipe < 0 || o->n_pending)
		return 0;
	/* Once: who reads a pipe dry again and again wakes its writer for little (measured: a third slower). */
	n = take(s, o, READ_SIZE, &head, e);
	if (n == -EAGAIN)
		return 0;
	if (n == 0)
		return end_stream(s, o, e);
	if (n < 0)
		return (int)n;
	add_pending(o, o->buf, head);
	return flush(s, o, e);
}

int output_write(struct supervisor *s, struct output_stream *o, uint32_t events, struct err *e)
{
	if (o->n_pending)
		return flush(s, o, e);
	return events & (EPOLLERR | EPOLLHUP) ? end_caller(s, o, false, e) : 0;
}

/* --- the end --- */

/* What goes without waiting. left: of what was in the pipe. Return: 1 the caller has to take something first; 0 all is done; -errno. */
static int finish_stream(struct supervisor *s, struct output_stream *o, size_t *left, struct err *e)
{
	int r = flush(s, o, e);

	while (r == 0 && !o->n_pending && o->pipe >= 0) {
		size_t head = 0;
		ssize_t n = *left ? take(s, o, *left, &head, e) : 0;

		if (n < 0 && n != -EAGAIN)
			return (int)n;
		*left -= n > 0 ? (size_t)n : *left;
		if (n > 0) {
			add_pending(o, o->buf, head);
			r = flush(s, o, e);
		} else {
			r = end_stream(s, o, e);
		}
	}
	return r < 0 ? r : o->n_pending != 0;
}

/* Did the caller ask for the end? Its other signals mean nothing any more. */
static bool is_asked_to_end(const struct supervisor *s)
{
	struct signalfd_siginfo info;
	bool asked = false;

	while (read(s->signals, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo == SIGTSTP)
			raise(SIGSTOP);
		asked = asked || loop_is_ending(info.ssi_signo);
	}
	return asked;
}

/* Waits until one of the callers' streams takes something. Return: whether it was worth it. */
static bool wait_for_caller(const struct supervisor *s, uint64_t end_ms)
{
	struct pollfd fds[OUTPUT_STREAMS + 2];
	uint64_t now = now_ms();
	int n = 0, timeout = -1;

	for (int i = 0; i < OUTPUT_STREAMS; i++)
		if (s->output.v[i].n_pending)
			fds[n++] = (struct pollfd){.fd = s->output.v[i].sink.fd, .events = POLLOUT};
	fds[n++] = (struct pollfd){.fd = s->signals, .events = POLLIN};
	fds[n++] = (struct pollfd){.fd = s->parent_pidfd, .events = POLLIN};
	if (end_ms)
		timeout = end_ms <= now ? 0 : end_ms - now > INT32_MAX ? INT32_MAX : (int)(end_ms - now);
	if (poll(fds, (nfds_t)n, timeout) < 0)
		return errno == EINTR;
	return (!end_ms || now < end_ms) && !(fds[n - 1].revents & POLLIN) && !(fds[n - 2].revents && is_asked_to_end(s));
}

/* Who sends SIGTERM or SIGHUP wants an end, however the command takes it; SIGINT and SIGQUIT may be one of its keys. */
static bool was_ended_by_caller(const struct supervisor *s)
{
	int status = s->exited.wait_status;

	if (s->passed_signal == SIGTERM || s->passed_signal == SIGHUP)
		return true;
	return s->command_ended && WIFSIGNALED(status) && WTERMSIG(status) == s->passed_signal;
}

/* CLOCK_MONOTONIC until when a caller that does not read is waited for; 0: as long as it takes, as any program would. */
static uint64_t finish_by(const struct supervisor *s)
{
	uint64_t limit = s->profile->limits.wall_time.ms, at = start_ms(s) + limit, least = now_ms() + FINISH_MS;

	if (s->pending != REASON_NONE || was_ended_by_caller(s))
		return least;
	return !limit ? 0 : at > least ? at : least;
}

int output_finish(struct supervisor *s, struct err *e)
{
	size_t left[OUTPUT_STREAMS];
	uint64_t end_ms = finish_by(s);
	int r = 0, busy = 1;

	for (int i = 0; i < OUTPUT_STREAMS; i++)
		left[i] = waiting(&s->output.v[i]);

	while (r == 0 && busy) {
		busy = 0;
		for (int i = 0; r >= 0 && i < OUTPUT_STREAMS; i++) {
			r = finish_stream(s, &s->output.v[i], &left[i], e);
			busy += r > 0;
		}
		r = r < 0 ? r : 0;
		if (r == 0 && busy && !wait_for_caller(s, end_ms))
			break;
	}
	for (int i = 0; i < OUTPUT_STREAMS; i++) {
		struct err second;

		if (s->output.v[i].sink.fd >= 0 && end_caller(s, &s->output.v[i], busy > 0, &second) < 0 && r == 0) {
			*e = second;
			r = -e->code;
		}
	}
	if (r == 0 && s->output.error)
		r = err_errno(e, s->output.error, "what the command wrote to its terminal cannot be stored in %s", s->run_path);
	return r;
}

/* --- the record --- */

/* By the profile, or as the caller did not read. That it closed its end (head -1) is its own doing. */
static bool is_cut(const struct output_stream *o)
{
	return o->name && (o->cut.passed < o->cut.bytes || o->stored < o->cut.bytes || o->abandoned);
}

static json_t *fields(const struct output_stream *o)
{
	json_t *f = json_object();

	json_object_set_new(f, "total_bytes", json_integer((json_int_t)o->cut.bytes));
	json_object_set_new(f, "total_lines", json_integer((json_int_t)cut_lines(&o->cut)));
	json_object_set_new(f, "passed_bytes", json_integer((json_int_t)o->passed));
	if (o->passed == o->cut.passed) /* else the caller went in the middle of it */
		json_object_set_new(f, "passed_lines", json_integer((json_int_t)cut_passed_lines(&o->cut)));
	json_object_set_new(f, "stored_bytes", json_integer((json_int_t)o->stored));
	return f;
}

int output_record(struct supervisor *s, struct err *e)
{
	int r = 0;

	for (int i = 0; r == 0 && i < OUTPUT_STREAMS; i++) {
		const struct output_stream *o = &s->output.v[i];
		json_t *f;

		if (!is_cut(o))
			continue;
		f = fields(o);
		json_object_set_new(f, "stream", json_string(o->name));
		r = record_event(s, EVENT_OUTPUT_TRUNCATED, f, e);
	}
	return r;
}

void output_fields(const struct output *o, json_t *into)
{
	json_t *all = json_object();

	for (int i = 0; i < OUTPUT_STREAMS; i++)
		if (o->v[i].name)
			json_object_set_new(all, o->v[i].name, fields(&o->v[i]));
	if (o->on)
		json_object_set(into, "output", all);
	json_decref(all);
}

unsigned output_summary(const struct output *o, struct str *out)
{
	unsigned n = 0;

	for (int i = 0; i < OUTPUT_STREAMS; i++) {
		const struct output_stream *v = &o->v[i];

		if (!is_cut(v))
			continue;
		str_addf(out, "%s%s: %" PRIu64 " of %" PRIu64 " bytes passed on, %" PRIu64 " stored", out->len ? "; " : "", v->name, v->passed,
			 v->cut.bytes, v->stored);
		n++;
	}
	return n;
}
