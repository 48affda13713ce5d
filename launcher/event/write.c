/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sodium/crypto_hash_sha256.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "event/event.h"

#include "base/banned.h"

void event_log_init(struct event_log *log, int fd, const char *run, const char *task)
{
	*log = (struct event_log){.fd = fd, .copy_fd = -1};
	snprintf(log->run, sizeof(log->run), "%s", run);
	snprintf(log->task, sizeof(log->task), "%s", task ? task : "");
}

int event_log_sync(struct event_log *log, struct err *e)
{
	/* EINVAL, EROFS: a descriptor that has nothing to synchronise, as a pipe (fdatasync(2)). */
	if (log->fd >= 0 && fdatasync(log->fd) < 0 && errno != EINVAL && errno != EROFS)
		return err_errno(e, errno, "cannot bring the event log to the disk");
	return 0;
}

int event_log_close(struct event_log *log, struct err *e)
{
	int fd = log->fd;

	log->fd = -1;
	return fd >= 0 && close(fd) < 0 ? err_errno(e, errno, "cannot close the event log") : 0;
}

void event_log_head(const struct event_log *log, char *hex)
{
	str_hex(log->prev, sizeof(log->prev), hex);
}

/* --- the line --- */

static int line_dump(const char *buffer, size_t size, void *data)
{
	str_add_n(data, buffer, size);
	return 0;
}

/* DEL and C1 may stand in JSON as they are, and move a cursor all the same when the log is shown: escape them too. */
static void line_escape_controls(struct str *line)
{
	struct str out = {0};
	size_t done = 0;

	for (size_t i = 0; i < line->len; i++) {
		const unsigned char *b = (const unsigned char *)line->text + i;
		bool c1 = b[0] == 0xc2 && i + 1 < line->len && b[1] < 0xa0;

		if (b[0] != 0x7f && !c1)
			continue;
		str_add_n(&out, line->text + done, i - done);
		str_addf(&out, "\\u00%02x", c1 ? b[1] : b[0]);
		i += c1;
		done = i + 1;
	}
	if (!done)
		return;
	str_add_n(&out, line->text + done, line->len - done);
	str_free(line);
	*line = out;
}

/* Appends `,"name":VALUE...` of the fields; the object's own braces are left out. */
static int line_add_fields(struct str *line, const json_t *fields, struct err *e)
{
	static const char *const frame[] = {"v", "seq", "time", "run", "task", "type", "prev"};
	size_t at = line->len;

	if (!fields || !json_object_size(fields))
		return 0;
	for (size_t i = 0; i < sizeof(frame) / sizeof(*frame); i++)
		if (json_object_get(fields, frame[i]))
			return err_set(e, EINVAL, "event: a field may not be called %s", frame[i]);
	if (json_dump_callback(fields, line_dump, line, JSON_COMPACT | JSON_REAL_PRECISION(15)) < 0)
		return err_set(e, EINVAL, "event: its fields cannot be written as JSON");
	line->text[at] = ',';
	line->text[--line->len] = '\0';
	return 0;
}

static void line_add_id(struct str *line, const char *id)
{
	json_t *text;

	if (!*id) {
		str_add(line, "null");
		return;
	}
	text = event_text_z(id);
	json_dump_callback(text, line_dump, line, JSON_COMPACT | JSON_ENCODE_ANY);
	json_decref(text);
}

static int line_make(const struct event_log *log, enum event_type type, const json_t *fields, struct str *line, struct err *e)
{
	char time_text[40], prev[65];
	struct timespec now;
	int r;

	clock_gettime(CLOCK_REALTIME, &now);
	str_addf(line, "{\"v\":1,\"seq\":%" PRIu64 ",\"time\":\"%s\",\"run\":", log->seq, event_time_text(&now, time_text));
	line_add_id(line, log->run);
	str_add(line, ",\"task\":");
	line_add_id(line, log->task);
	str_addf(line, ",\"type\":\"%s\"", event_type_info(type)->name);
	r = line_add_fields(line, fields, e);
	if (r < 0)
		return r;
	line_escape_controls(line);
	str_hex(log->prev, sizeof(log->prev), prev);
	str_addf(line, ",\"prev\":\"%s\"}\n", prev);
	if (line->len > EVENT_LINE_MAX)
		return err_set(e, EMSGSIZE, "event %s: its line would have %zu bytes, and %d is the most",
			       event_type_info(type)->name, line->len, EVENT_LINE_MAX);
	return 0;
}

/*
 * One write(2). A short one (the disk is full, RLIMIT_FSIZE) is taken back, so that the next line does not grow on
 * its stump.
 */
static int line_store(int fd, const struct str *line, struct err *e)
{
	ssize_t n;
	off_t end;

	do
		n = write(fd, line->text, line->len);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return err_errno(e, errno, "cannot write to the event log");
	if ((size_t)n == line->len)
		return 0;
	end = lseek(fd, 0, SEEK_CUR);
	if (end < n || ftruncate(fd, end - n) < 0)
		return err_set(e, EIO, "the event log took %zd of %zu bytes, and the rest cannot be taken back", n, line->len);
	return err_set(e, ENOSPC, "the event log took %zd of %zu bytes: the disk or the file size limit is used up", n, line->len);
}

/* --- the copy --- */

/*
 * write(2) that cannot kill: SIGPIPE is blocked meanwhile, and taken from the queue where this write made it. The
 * caller may not ignore it for good, as the command would inherit that.
 */
static ssize_t copy_write_pipe(int fd, const char *bytes, size_t len)
{
	sigset_t pipe_set, before, pending;
	struct timespec zero = {0};
	bool was_pending;
	ssize_t n;
	int saved;

	sigemptyset(&pipe_set);
	sigaddset(&pipe_set, SIGPIPE);
	pthread_sigmask(SIG_BLOCK, &pipe_set, &before);
	sigpending(&pending);
	was_pending = sigismember(&pending, SIGPIPE) == 1;
	n = write(fd, bytes, len);
	saved = errno;
	if (n < 0 && saved == EPIPE && !was_pending)
		while (sigtimedwait(&pipe_set, NULL, &zero) < 0 && errno == EINTR)
			;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	errno = saved;
	return n;
}

static int64_t copy_now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/*
 * The descriptor is the caller's: its O_NONBLOCK is not ours to change, and a harness that stopped reading must not
 * stop the supervisor and its timers. A socket takes MSG_DONTWAIT. A pipe that polls writable has room for PIPE_BUF
 * bytes (fs/pipe.c: one free buffer), so no write is larger than that. A regular file gets the line in one, as others
 * may append to it too.
 */
int event_copy_line(int fd, const struct str *line)
{
	struct pollfd p = {.fd = fd, .events = POLLOUT};
	struct stat st;
	int64_t end_ms = copy_now_ms() + EVENT_COPY_WAIT_MS, left_ms;
	size_t done = 0;

	if (fstat(fd, &st) < 0)
		return -errno;
	while (done < line->len) {
		size_t len = line->len - done;
		ssize_t n;
		int ready;

		left_ms = end_ms - copy_now_ms();
		ready = poll(&p, 1, left_ms > 0 ? (int)left_ms : 0);
		if (ready < 0 && errno == EINTR)
			continue;
		if (ready <= 0 || left_ms <= 0)
			return ready < 0 ? -errno : -ETIMEDOUT;
		if (S_ISSOCK(st.st_mode))
			n = send(fd, line->text + done, len, MSG_DONTWAIT | MSG_NOSIGNAL);
		else
			n = copy_write_pipe(fd, line->text + done, S_ISREG(st.st_mode) || len < PIPE_BUF ? len : PIPE_BUF);
		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		done += (size_t)n;
	}
	return 0;
}

int event_write(struct event_log *log, enum event_type type, json_t *fields, struct err *e)
{
	cleanup_str struct str line = {0};
	int r = line_make(log, type, fields, &line, e);

	json_decref(fields);
	if (r == 0 && log->fd >= 0)
		r = line_store(log->fd, &line, e);
	if (r < 0)
		return r;
	crypto_hash_sha256(log->prev, (const unsigned char *)line.text, line.len - 1);
	log->seq++;
	if (log->copy_fd >= 0 && event_copy_line(log->copy_fd, &line) < 0)
		log->copy_fd = -1;
	return 0;
}
