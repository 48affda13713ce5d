/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The supervisor's one loop: what the box says, signals of the caller, the terminal, the clock. The box's word is drained
 * before its end is believed: both can be ready at once (bubblewrap says why in its monitor).
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/pidfd.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "box/seccomp.h"
#include "run/ebpf.h"
#include "run/limits.h"
#include "run/network.h"
#include "run/supervisor.h"
#include "sys/fd.h"

#include "base/banned.h"

/* epoll_data of each source. */
enum source {
	SOURCE_CONTROL,
	SOURCE_INIT,
	SOURCE_SIGNALS,
	SOURCE_PARENT,
	SOURCE_CLOCK,
	SOURCE_STDIN,
	SOURCE_TTY,
	SOURCE_TTY_OUT,
	SOURCE_SECCOMP,
	SOURCE_EGRESS,
	SOURCE_EBPF,
	SOURCE_OUTPUT,                                /* the pipes, by number of the stream */
	SOURCE_SINK = SOURCE_OUTPUT + OUTPUT_STREAMS, /* what they are passed on to */
};

uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

uint64_t start_ms(const struct supervisor *s)
{
	return (uint64_t)s->started.tv_sec * 1000 + (uint64_t)s->started.tv_nsec / 1000000;
}

static int watch(struct supervisor *s, int fd, enum source source, uint32_t events, struct err *e)
{
	struct epoll_event ev = {.events = events, .data.u32 = source};

	if (fd < 0)
		return 0;
	if (epoll_ctl(s->epoll, EPOLL_CTL_ADD, fd, &ev) < 0)
		return err_errno(e, errno, "epoll");
	return 0;
}

static void unwatch(struct supervisor *s, int fd)
{
	epoll_ctl(s->epoll, EPOLL_CTL_DEL, fd, NULL);
}

/* Waits for other events than before; for none, not at all: errors and hangups would be told again and again. */
static int rewatch(struct supervisor *s, int fd, enum source source, uint32_t events, struct err *e)
{
	struct epoll_event ev = {.events = events, .data.u32 = source};

	if (!events)
		unwatch(s, fd);
	else if (epoll_ctl(s->epoll, EPOLL_CTL_MOD, fd, &ev) < 0)
		return errno == ENOENT ? watch(s, fd, source, events, e) : err_errno(e, errno, "epoll");
	return 0;
}

/* A pipe is listened to while there is room for what it says. A sink always tells when nobody reads any more: it is closed then. */
static int watch_output(struct supervisor *s, int i, struct err *e)
{
	struct output_stream *o = &s->output.v[i];
	struct epoll_event ev = {.events = o->n_pending ? EPOLLOUT : 0, .data.u32 = (uint32_t)(SOURCE_SINK + i)};

	if (o->sink.epoll >= 0 && epoll_ctl(s->epoll, EPOLL_CTL_MOD, o->sink.fd, &ev) < 0)
		return err_errno(e, errno, "epoll");
	return o->pipe < 0 ? 0 : rewatch(s, o->pipe, (enum source)(SOURCE_OUTPUT + i), o->n_pending ? 0 : EPOLLIN, e);
}

static int watch_outputs(struct supervisor *s, struct err *e)
{
	int r = 0;

	for (int i = 0; r == 0 && i < OUTPUT_STREAMS; i++) {
		struct output_stream *o = &s->output.v[i];
		struct epoll_event ev = {.data.u32 = (uint32_t)(SOURCE_SINK + i)};

		if (o->sink.fd < 0)
			continue;
		/* EPERM: a regular file, which takes everything at once. */
		if (epoll_ctl(s->epoll, EPOLL_CTL_ADD, o->sink.fd, &ev) == 0)
			o->sink.epoll = s->epoll;
		else if (errno != EPERM)
			return err_errno(e, errno, "epoll");
		r = watch_output(s, i, e);
	}
	return r;
}

/* --- ending --- */

static void kill_box(struct supervisor *s)
{
	/* Pid 1 takes everything in its namespace with it. */
	if (s->init_pidfd >= 0)
		pidfd_send_signal(s->init_pidfd, SIGKILL, NULL, 0);
}

static void signal_command(struct supervisor *s, int signum, bool group)
{
	struct box_msg msg = {.type = BOX_SIGNAL, .signum = (uint32_t)signum, .group = group};

	/* Pid 1 waits for the word to start, and takes nothing else for it. */
	if (!s->go_sent)
		return;
	fd_send(s->control, &msg, sizeof(msg), NULL, 0);
}

static void arm_clock(struct supervisor *s);

/* Asks the command to end, and has everything killed after the grace. */
static void begin_end(struct supervisor *s, enum run_reason reason, uint64_t grace_ms)
{
	if (s->pending == REASON_NONE)
		s->pending = reason;
	if (!s->command_started || grace_ms == 0) {
		kill_box(s);
		return;
	}
	signal_command(s, SIGTERM, true);
	signal_command(s, SIGCONT, true); /* a stopped one could not take it */
	s->kill_at_ms = now_ms() + grace_ms;
	arm_clock(s);
}

/* --- the clock --- */

static uint64_t wall_limit_ms(const struct supervisor *s)
{
	return s->profile->limits.wall_time.ms;
}

static uint64_t elapsed_ms(const struct supervisor *s)
{
	return now_ms() - start_ms(s);
}

static void arm_clock(struct supervisor *s)
{
	uint64_t limit = wall_limit_ms(s), at = 0, elapsed = elapsed_ms(s);
	struct itimerspec spec = {0};

	if (s->deadline < 0)
		return;
	if (s->kill_at_ms) {
		uint64_t now = now_ms();

		at = s->kill_at_ms > now ? s->kill_at_ms - now : 1;
	} else if (limit) {
		uint64_t next = s->wall_warned ? limit : limit / 5 * 4;

		at = next > elapsed ? next - elapsed : 1;
	}
	if (limits_interval_ms(s) && (!at || at > limits_interval_ms(s)))
		at = limits_interval_ms(s);
	spec.it_value.tv_sec = (time_t)(at / 1000);
	spec.it_value.tv_nsec = (long)(at % 1000) * 1000000;
	timerfd_settime(s->deadline, 0, &spec, NULL);
}

static int on_clock(struct supervisor *s, struct err *e)
{
	uint64_t limit = wall_limit_ms(s), elapsed = elapsed_ms(s), ticks;
	int r = 0;

	if (read(s->deadline, &ticks, sizeof(ticks)) < 0 && errno != EAGAIN)
		return err_errno(e, errno, "timerfd");
	if (s->kill_at_ms) {
		if (now_ms() >= s->kill_at_ms)
			kill_box(s);
	} else if (limit && elapsed >= limit) {
		r = limits_hit(s, "limits.wall-time", limit, elapsed, e);
		begin_end(s, REASON_TIMEOUT, s->profile->limits.grace.ms);
	} else if (limit && !s->wall_warned && elapsed >= limit / 5 * 4) {
		s->wall_warned = true;
		r = limits_warning(s, "limits.wall-time", limit, elapsed, e);
	}
	if (r == 0)
		r = limits_sample(s, e);
	if (r == 0)
		r = ebpf_sample(s, e);
	arm_clock(s);
	return r;
}

/* --- the caller's signals --- */

static void on_stop(struct supervisor *s)
{
	/* The caller's shell expects its job to stop. */
	signal_command(s, SIGTSTP, true);
	raise(SIGSTOP);
	signal_command(s, SIGCONT, true);
}

bool loop_is_ending(uint32_t signum)
{
	return signum == SIGTERM || signum == SIGINT || signum == SIGHUP || signum == SIGQUIT;
}

static void on_signal(struct supervisor *s, const struct signalfd_siginfo *info)
{
	/* A key of the caller's terminal meant the whole foreground group (signal(7): SI_KERNEL). */
	bool group = info->ssi_code == SI_KERNEL;

	switch (info->ssi_signo) {
	case SIGWINCH:
		terminal_resize(&s->terminal);
		if (s->terminal.master < 0)
			signal_command(s, SIGWINCH, true);
		return;
	case SIGCHLD:
		return; /* the pidfd says it */
	case SIGTSTP:
		on_stop(s);
		return;
	case SIGTERM:
		/* `agentbox stop`: the value is the grace in milliseconds. */
		if (info->ssi_code == SI_QUEUE && info->ssi_int >= 0) {
			begin_end(s, REASON_CANCELLED, (uint64_t)info->ssi_int);
			return;
		}
		break;
	default:
		break;
	}
	if (!s->command_started && info->ssi_signo != SIGCONT) {
		begin_end(s, REASON_CANCELLED, 0);
		return;
	}
	signal_command(s, (int)info->ssi_signo, group);
	if (loop_is_ending(info->ssi_signo)) /* timeout(1) sends SIGCONT behind its SIGTERM */
		s->passed_signal = (int)info->ssi_signo;
}

static int on_signals(struct supervisor *s, struct err *e)
{
	struct signalfd_siginfo info;
	ssize_t n;

	while ((n = read(s->signals, &info, sizeof(info))) == sizeof(info))
		on_signal(s, &info);
	return n < 0 && errno != EAGAIN && errno != EINTR ? err_errno(e, errno, "signalfd") : 0;
}

/* --- the box's word --- */

/*
 * The word to start, once everything that bounds the command is in force. The box itself waits for it only when it is done
 * with its own part, so where nothing else is to come it may be said ahead.
 */
int loop_start_command(struct supervisor *s, struct err *e)
{
	struct box_msg go = {.type = BOX_GO};
	int r;

	if (s->go_sent || !network_is_ready(s) || (s->plan.tty && !s->box_ready))
		return 0;
	s->go_sent = true;
	r = fd_send(s->control, &go, sizeof(go), NULL, 0);
	if (r < 0 && r != -EPIPE) /* EPIPE: the box is gone, and has said why */
		return err_errno(e, -r, "cannot start the command");
	return 0;
}

#define FAILED_BOX_MS 500 /* for what the box has to say of its own failure */

static int on_egress(struct supervisor *s, struct err *e)
{
	int r = network_report(s, e);

	if (r < 0 || !s->network.failed_early)
		return r < 0 ? r : loop_start_command(s, e);
	if (!s->kill_at_ms) {
		s->kill_at_ms = now_ms() + FAILED_BOX_MS;
		arm_clock(s);
	}
	return 0;
}

static int on_ready(struct supervisor *s, const struct box_msg *msg, const int *fds, size_t n_fds, struct err *e)
{
	size_t next = 0;
	int r = 0;

	if (msg->fds & BOX_FD_TTY && next < n_fds) {
		if (s->output.on) {
			s->terminal.seen = output_from_terminal;
			s->terminal.seen_arg = s;
		}
		r = terminal_start(&s->terminal, fds[next++], e);
		if (r == 0)
			r = watch(s, STDIN_FILENO, SOURCE_STDIN, EPOLLIN, e);
		if (r == 0)
			r = watch(s, s->terminal.master, SOURCE_TTY, EPOLLIN, e);
	}
	if (r == 0 && msg->fds & BOX_FD_SECCOMP && next < n_fds) {
		s->seccomp_listener = fds[next++];
		r = watch(s, s->seccomp_listener, SOURCE_SECCOMP, EPOLLIN, e);
	}
	for (; next < n_fds; next++)
		close(fds[next]);
	if (r < 0)
		return r;
	s->box_ready = true;
	r = record_ready(s, e);
	return r < 0 ? r : loop_start_command(s, e);
}

/* Whoever waits for the end of the caller's streams is not kept waiting by us. */
static void release_streams(struct supervisor *s)
{
	int null;

	if (s->plan.tty)
		return;
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null < 0)
		return;
	for (int fd = 0; fd <= 1; fd++)
		dup2(null, fd);
	close(null);
}

static void on_not_executed(struct supervisor *s, int errnum)
{
	const struct val_list *listed = &s->profile->commands.exec;
	char place[256];

	s->reason = errnum == ENOENT || errnum == ENOTDIR ? REASON_NOT_FOUND : REASON_NOT_EXECUTABLE;
	words_not_executed(s, errnum);
	if (errnum != EACCES || !s->plan.landlock.exec_listed)
		return;
	err_set(&s->error, errnum, "%s: not executable, or not named by commands.exec (the list is at %s)", s->plan.argv.v[0],
		origin_text(listed->items[0].from, place, sizeof(place)));
	record_command_refused(s, listed->items[0].from);
}

static int on_message(struct supervisor *s, const struct box_msg *msg, const int *fds, size_t n_fds, struct err *e)
{
	switch (msg->type) {
	case BOX_READY:
		return on_ready(s, msg, fds, n_fds, e);
	case BOX_FAILED:
		words_box_failed(s, msg);
		s->reason = REASON_SETUP_FAILED;
		return 0;
	case BOX_STARTED:
		s->command_started = true;
		release_streams(s);
		if (s->pending != REASON_NONE)
			kill_box(s);
		/* Not before: what fails with its output fails when it has been started. */
		return watch_outputs(s, e);
	case BOX_NOT_EXEC:
		on_not_executed(s, msg->errnum);
		return 0;
	case BOX_EXITED:
		s->command_ended = true;
		s->exited = *msg;
		s->box_empty = msg->alone;
		return 0;
	default:
		return err_set(e, EPROTO, "the box sent a message that makes no sense (type %u)", msg->type);
	}
}

/* Return: 1 something was read; 0 nothing is there; -errno. */
static int drain_one(struct supervisor *s, struct err *e)
{
	struct box_msg msg;
	struct pollfd pfd = {.fd = s->control, .events = POLLIN};
	int fds[FD_SEND_MAX];
	size_t n_fds = 0;
	ssize_t n;
	int r;

	if (s->control < 0 || poll(&pfd, 1, 0) <= 0 || !(pfd.revents & (POLLIN | POLLHUP)))
		return 0;
	n = fd_recv(s->control, &msg, sizeof(msg), fds, FD_SEND_MAX, &n_fds);
	if (n <= 0 || n != sizeof(msg)) {
		for (size_t i = 0; i < n_fds; i++)
			close(fds[i]);
		unwatch(s, s->control);
		return 0;
	}
	r = on_message(s, &msg, fds, n_fds, e);
	return r < 0 ? r : 1;
}

static int drain_control(struct supervisor *s, struct err *e)
{
	int r;

	while ((r = drain_one(s, e)) > 0)
		;
	return r;
}

/* --- sources --- */

/* Each side is listened to only while there is room for what it says. */
static int watch_terminal(struct supervisor *s, struct err *e)
{
	struct terminal *t = &s->terminal;
	int r = rewatch(s, t->master, SOURCE_TTY, s->tty_closed ? 0 : terminal_events(t), e);

	if (r == 0)
		r = rewatch(s, t->out.fd, SOURCE_TTY_OUT, terminal_out_events(t), e);
	if (r == 0)
		r = rewatch(s, STDIN_FILENO, SOURCE_STDIN, s->stdin_closed || t->in_len ? 0 : EPOLLIN, e);
	return r;
}

static int on_tty(struct supervisor *s, uint32_t events, struct err *e)
{
	if (!terminal_output(&s->terminal, events))
		s->tty_closed = true;
	if (s->output.error)
		return err_errno(e, s->output.error, "what the command writes cannot be stored in %s", s->run_path);
	return watch_terminal(s, e);
}

static int on_stdin(struct supervisor *s, struct err *e)
{
	if (terminal_input(&s->terminal) < 0) {
		s->stdin_closed = true;
		signal_command(s, SIGHUP, true);
	}
	return watch_terminal(s, e);
}

static int on_output(struct supervisor *s, const struct epoll_event *ev, struct err *e)
{
	int i = (int)ev->data.u32 - SOURCE_OUTPUT, r = 0;

	if (i < OUTPUT_STREAMS)
		r = output_read(s, &s->output.v[i], e);
	else
		r = output_write(s, &s->output.v[i -= OUTPUT_STREAMS], ev->events, e);
	return r < 0 ? r : watch_output(s, i, e);
}

static int on_event(struct supervisor *s, const struct epoll_event *ev, struct err *e)
{
	if (ev->data.u32 >= SOURCE_OUTPUT)
		return on_output(s, ev, e);
	switch ((enum source)ev->data.u32) {
	case SOURCE_CONTROL:
		return drain_control(s, e);
	case SOURCE_INIT:
		s->init_gone = true;
		return 0;
	case SOURCE_SIGNALS:
		return on_signals(s, e);
	case SOURCE_PARENT:
		unwatch(s, s->parent_pidfd);
		begin_end(s, REASON_CANCELLED, 0);
		return 0;
	case SOURCE_CLOCK:
		return on_clock(s, e);
	case SOURCE_STDIN:
		return on_stdin(s, e);
	case SOURCE_TTY:
		return on_tty(s, ev->events, e);
	case SOURCE_TTY_OUT:
		terminal_flush(&s->terminal);
		return watch_terminal(s, e);
	case SOURCE_EGRESS:
		return on_egress(s, e);
	case SOURCE_EBPF:
		return ebpf_records(s, e);
	case SOURCE_SECCOMP:
		record_refused_call(s);
		return 0;
	case SOURCE_OUTPUT:
	case SOURCE_SINK:
		break;
	}
	return 0;
}

static int loop_start(struct supervisor *s, struct err *e)
{
	int r;

	s->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (s->epoll < 0)
		return err_errno(e, errno, "epoll");
	s->deadline = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (s->deadline < 0)
		return err_errno(e, errno, "timerfd");
	r = watch(s, s->control, SOURCE_CONTROL, EPOLLIN, e);
	if (r == 0)
		r = watch(s, s->init_pidfd, SOURCE_INIT, EPOLLIN, e);
	if (r == 0)
		r = watch(s, s->signals, SOURCE_SIGNALS, EPOLLIN, e);
	if (r == 0)
		r = watch(s, s->parent_pidfd, SOURCE_PARENT, EPOLLIN, e);
	if (r == 0)
		r = watch(s, s->deadline, SOURCE_CLOCK, EPOLLIN, e);
	if (r == 0)
		r = watch(s, s->network.report, SOURCE_EGRESS, EPOLLIN, e);
	if (r == 0)
		r = watch(s, s->ebpf.filter.ring, SOURCE_EBPF, EPOLLIN, e);
	arm_clock(s);
	return r;
}

void loop_reap_init(struct supervisor *s)
{
	siginfo_t info;

	if (s->init_pidfd < 0 || s->init_reaped)
		return;
	/* It has said its last word, and nothing keeps it: not a SIGSTOP from outside either, as no clock runs any more. */
	if (s->box_empty)
		pidfd_send_signal(s->init_pidfd, SIGKILL, NULL, 0);
	while (waitid(P_PIDFD, (id_t)s->init_pidfd, &info, WEXITED) < 0 && errno == EINTR)
		;
	s->init_gone = s->init_reaped = true;
}

int loop_run(struct supervisor *s, struct err *e)
{
	int r = loop_start(s, e);

	while (r == 0 && !s->init_gone && !s->box_empty) {
		struct epoll_event events[8];
		int n = epoll_wait(s->epoll, events, 8, -1);

		if (n < 0 && errno != EINTR)
			r = err_errno(e, errno, "epoll");
		for (int i = 0; r == 0 && i < n; i++)
			r = on_event(s, &events[i], e);
	}
	if (r == 0)
		r = drain_control(s, e);
	if (r < 0)
		kill_box(s);
	/* Where only pid 1 was left, its namespaces come down while the record is made (record_end waits for it). */
	if (r < 0 || !s->box_empty)
		loop_reap_init(s);
	terminal_finish(&s->terminal);
	if (s->output.on) {
		struct err second;
		int end = output_finish(s, &second);

		if (r == 0 && end < 0) {
			*e = second;
			r = end;
		}
	}
	return r;
}
