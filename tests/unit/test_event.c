/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "event/event.h"
#include "sys/fd.h"

#include "base/banned.h"

#define LINES 6

/* A temporary file without a name, as a log is opened. */
static int log_file(void)
{
	char path[] = "/tmp/agentbox-test-XXXXXX";
	int fd = mkostemp(path, O_APPEND | O_CLOEXEC);

	assert_true(fd >= 0);
	unlink(path);
	return fd;
}

static char *log_bytes(int fd, size_t *len)
{
	off_t size = lseek(fd, 0, SEEK_END);
	char *bytes = malloc((size_t)size + 1);

	assert_int_equal(pread(fd, bytes, (size_t)size, 0), size);
	bytes[size] = '\0';
	*len = (size_t)size;
	return bytes;
}

/* A log of LINES events, its bytes and the head of its chain. */
static char *log_make(size_t *len, char *head)
{
	struct event_log log;
	struct err e;
	int fd = log_file(), kept = dup(fd);
	char *bytes;

	event_log_init(&log, fd, "20261129-121314-123456-abcd", NULL);
	for (int i = 0; i < LINES; i++)
		assert_int_equal(event_write(&log, EVENT_SYSCALL_DENIED, json_pack("{s:s,s:i}", "name", "bpf", "count", i), &e), 0);
	event_log_head(&log, head);
	assert_int_equal(event_log_sync(&log, &e), 0);
	assert_int_equal(event_log_close(&log, &e), 0);
	bytes = log_bytes(kept, len);
	close(kept);
	return bytes;
}

/* Return: number of faults; *events and the head as far as it could be read. */
static int log_faults(const char *bytes, size_t len, int *events, char *head, struct err *first)
{
	FILE *in = fmemopen((void *)bytes, len, "r");
	struct event_reader r;
	int faults = 0, got;

	*events = 0;
	event_reader_init(&r, in, true);
	do {
		json_t *event = NULL;
		struct err e = {0};

		got = event_read(&r, &event, &e);
		*events += got == 1;
		if (got < 0 && !faults++)
			*first = e;
		json_decref(event);
	} while (got);
	str_hex(r.prev, sizeof(r.prev), head);
	event_reader_free(&r);
	fclose(in);
	return faults;
}

static void test_chain_whole(void **state)
{
	char head[65], seen[65];
	struct err e;
	size_t len;
	int events;
	char *bytes = log_make(&len, head);

	(void)state;
	assert_int_equal(log_faults(bytes, len, &events, seen, &e), 0);
	assert_int_equal(events, LINES);
	assert_string_equal(head, seen);
	free(bytes);
}

static void test_line_shape(void **state)
{
	char head[65], *line, *end;
	static const char *const order[] = {"{\"v\":1,\"seq\":0,\"time\":\"", "Z\",\"run\":\"20261129-121314-123456-abcd\"",
					    ",\"task\":null,\"type\":\"syscall.denied\",\"name\":\"bpf\",\"count\":0,\"prev\":\"0000"};
	size_t len;
	char *bytes = log_make(&len, head);

	(void)state;
	line = bytes;
	for (size_t i = 0; i < 3; i++) {
		line = strstr(line, order[i]);
		assert_non_null(line);
	}
	end = strchr(bytes, '\n');
	assert_memory_equal(end - 2, "\"}", 2);
	free(bytes);
}

/* Any changed byte: of a line that is not the last by the chain alone, of the last by the head kept apart. */
static void test_chain_changed_byte(void **state)
{
	char head[65], seen[65];
	size_t len;
	char *bytes = log_make(&len, head);
	size_t last = len - 1;

	(void)state;
	while (bytes[last - 1] != '\n')
		last--;
	for (size_t i = 0; i < len; i++) {
		struct err e;
		int events, faults;

		bytes[i] ^= 1;
		faults = log_faults(bytes, len, &events, seen, &e);
		assert_true(i < last ? faults > 0 : faults > 0 || strcmp(head, seen) != 0);
		bytes[i] ^= 1;
	}
	free(bytes);
}

static size_t line_start(const char *bytes, int n)
{
	const char *p = bytes;

	while (n--)
		p = strchr(p, '\n') + 1;
	return (size_t)(p - bytes);
}

static void test_chain_removed_line(void **state)
{
	char head[65], seen[65];
	size_t len;
	char *bytes = log_make(&len, head);

	(void)state;
	for (int n = 0; n < LINES; n++) {
		size_t a = line_start(bytes, n), b = line_start(bytes, n + 1);
		char *less = malloc(len);
		struct err e = {0};
		int events, faults;

		memcpy(less, bytes, a);
		memcpy(less + a, bytes + b, len - b);
		faults = log_faults(less, len - (b - a), &events, seen, &e);
		assert_true(n < LINES - 1 ? faults == 1 : faults == 0 && strcmp(head, seen) != 0);
		if (n == 0)
			assert_non_null(strstr(e.msg, "line 1: prev is not zero"));
		else if (n < LINES - 1)
			assert_non_null(strstr(e.msg, "is not the digest of line"));
		free(less);
	}
	free(bytes);
}

static void test_chain_swapped_lines(void **state)
{
	char head[65], seen[65];
	size_t len;
	char *bytes = log_make(&len, head);

	(void)state;
	for (int n = 0; n + 1 < LINES; n++) {
		size_t a = line_start(bytes, n), b = line_start(bytes, n + 1), c = line_start(bytes, n + 2);
		char *other = malloc(len);
		struct err e;
		int events;

		memcpy(other, bytes, len);
		memcpy(other + a, bytes + b, c - b);
		memcpy(other + a + (c - b), bytes + a, b - a);
		assert_true(log_faults(other, len, &events, seen, &e) > 0);
		free(other);
	}
	free(bytes);
}

static void test_chain_cut_tail(void **state)
{
	char head[65], seen[65];
	size_t len;
	char *bytes = log_make(&len, head);
	size_t last = line_start(bytes, LINES - 1);

	(void)state;
	for (size_t cut = 1; cut < len; cut++) {
		struct err e = {0};
		int events, faults = log_faults(bytes, cut, &events, seen, &e);

		if (bytes[cut - 1] != '\n') {
			assert_int_equal(faults, 1);
			assert_int_equal(e.code, ENODATA);
		} else {
			assert_int_equal(faults, 0);
		}
		assert_true(strcmp(head, seen) != 0);
		assert_true(events < LINES);
		if (cut >= last)
			assert_int_equal(events, LINES - 1);
	}
	free(bytes);
}

/* A follower meets a line half written, then its rest. */
static void test_reader_goes_on_in_a_cut_line(void **state)
{
	char head[65];
	size_t len, half;
	char *bytes = log_make(&len, head);
	int fd = log_file();
	char path[64];
	FILE *in;
	struct event_reader r;
	json_t *event;
	struct err e;

	(void)state;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	in = fopen(path, "re"); /* an offset of its own */
	half = line_start(bytes, 1) + 20;
	assert_int_equal(write(fd, bytes, half), half);
	event_reader_init(&r, in, true);
	assert_int_equal(event_read(&r, &event, &e), 1);
	json_decref(event);
	assert_int_equal(event_read(&r, &event, &e), -ENODATA);
	assert_int_equal(event_read(&r, &event, &e), 0);
	assert_int_equal(write(fd, bytes + half, 1), 1);
	assert_int_equal(event_read(&r, &event, &e), -ENODATA);
	assert_int_equal(write(fd, bytes + half + 1, len - half - 1), len - half - 1);
	for (int i = 1; i < LINES; i++) {
		assert_int_equal(event_read(&r, &event, &e), 1);
		json_decref(event);
	}
	assert_int_equal(event_read(&r, &event, &e), 0);
	assert_int_equal(r.line_no, LINES);
	event_reader_free(&r);
	fclose(in);
	close(fd);
	free(bytes);
}

/* One overlong line is one fault, and the next is read. */
static void test_reader_overlong(void **state)
{
	size_t len = EVENT_LINE_MAX + 100;
	char *bytes = malloc(len + 20), seen[65];
	struct err e;
	FILE *in;
	struct event_reader r;
	json_t *event;

	(void)state;
	(void)seen;
	memset(bytes, 'x', len);
	memcpy(bytes + len, "\n{\"type\":\"a\"}\n", 14);
	in = fmemopen(bytes, len + 14, "r");
	event_reader_init(&r, in, false);
	assert_int_equal(event_read(&r, &event, &e), -EBADMSG);
	assert_non_null(strstr(e.msg, "line 1: over"));
	assert_int_equal(event_read(&r, &event, &e), 1);
	json_decref(event);
	assert_int_equal(event_read(&r, &event, &e), 0);
	event_reader_free(&r);
	fclose(in);
	free(bytes);
}

static void text_round_trip(const char *bytes, size_t len)
{
	cleanup_str struct str back = {0};
	json_t *text = event_text(bytes, len);

	assert_non_null(text);
	assert_int_equal(strlen(json_string_value(text)), json_string_length(text));
	event_text_bytes(json_string_value(text), &back);
	assert_int_equal(back.len, len);
	if (len)
		assert_memory_equal(back.text, bytes, len);
	json_decref(text);
}

static void test_text_round_trip(void **state)
{
	char bytes[64];
	unsigned seed = 1;

	(void)state;
	text_round_trip("", 0);
	for (int b = 0; b < 256; b++) {
		bytes[0] = (char)b;
		text_round_trip(bytes, 1);
		/* the escapes themselves, whole and cut */
		memcpy(bytes, "\xf4\x8f", 2);
		bytes[2] = (char)(0xa0 | b >> 6);
		bytes[3] = (char)(0x80 | (b & 0x3f));
		for (size_t n = 1; n <= 4; n++)
			text_round_trip(bytes, n);
	}
	for (int i = 0; i < 20000; i++) {
		size_t n = (size_t)(rand_r(&seed) % 64);

		for (size_t j = 0; j < n; j++)
			bytes[j] = (char)(rand_r(&seed) % 3 ? 0x80 | rand_r(&seed) : rand_r(&seed));
		text_round_trip(bytes, n);
	}
}

static void test_text_plain_utf8_stays(void **state)
{
	json_t *text = event_text_z("na\xc3\xafve \xf0\x9f\x93\xa6");

	(void)state;
	assert_string_equal(json_string_value(text), "na\xc3\xafve \xf0\x9f\x93\xa6");
	json_decref(text);
	text = event_text("\xff", 1);
	assert_string_equal(json_string_value(text), "\xf4\x8f\xa3\xbf"); /* U+10F8FF */
	json_decref(text);
}

/* Nothing in a line moves a cursor: C0 by JSON, DEL and C1 by the writer. The value stays. */
static void test_line_has_no_controls(void **state)
{
	static const char name[] = "a\x1b[2J\x7f\xc2\x9b" "31m\xc2\xa0z\n";
	struct event_log log;
	struct err e;
	int fd = log_file(), kept = dup(fd);
	size_t len;
	json_t *event;
	char *bytes;

	(void)state;
	event_log_init(&log, fd, "r", "t");
	assert_int_equal(event_write(&log, EVENT_SYSCALL_DENIED, json_pack("{s:o}", "name", event_text_z(name)), &e), 0);
	bytes = log_bytes(kept, &len);
	for (size_t i = 0; i + 1 < len; i++) {
		unsigned char c = (unsigned char)bytes[i];

		assert_true(c >= 0x20 && c != 0x7f);
		assert_false(c == 0xc2 && (unsigned char)bytes[i + 1] < 0xa0);
	}
	event = json_loadb(bytes, len, 0, NULL);
	assert_string_equal(json_string_value(json_object_get(event, "name")), name);
	assert_string_equal(json_string_value(json_object_get(event, "task")), "t");
	json_decref(event);
	free(bytes);
	event_log_close(&log, &e);
	close(kept);
}

static void test_write_refuses(void **state)
{
	struct event_log log;
	struct err e;
	char *huge = malloc(EVENT_LINE_MAX + 1);
	unsigned char before[32];

	(void)state;
	event_log_init(&log, log_file(), "r", NULL);
	memcpy(before, log.prev, 32);
	assert_int_equal(event_write(&log, EVENT_ARTIFACT, json_pack("{s:s}", "prev", "x"), &e), -EINVAL);
	memset(huge, 'x', EVENT_LINE_MAX);
	huge[EVENT_LINE_MAX] = '\0';
	assert_int_equal(event_write(&log, EVENT_ARTIFACT, json_pack("{s:s}", "path", huge), &e), -EMSGSIZE);
	free(huge);
	assert_memory_equal(before, log.prev, 32);
	assert_int_equal(log.seq, 0);
	assert_int_equal(lseek(log.fd, 0, SEEK_END), 0);
	event_log_close(&log, &e);
}

/* What a full disk took of a line is taken back: the log stays readable, and goes on when there is room again. */
static void test_short_write_is_taken_back(void **state)
{
	struct rlimit old, low = {100, RLIM_INFINITY};
	struct event_log log;
	struct err e = {0};
	int fd = log_file(), kept = dup(fd), events, r;
	char seen[65], head[65], *bytes;
	size_t len;

	(void)state;
	event_log_init(&log, fd, "r", NULL);
	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &old);
	low.rlim_max = old.rlim_max;
	setrlimit(RLIMIT_FSIZE, &low);
	r = event_write(&log, EVENT_BOX_READY, NULL, &e);
	setrlimit(RLIMIT_FSIZE, &old);
	signal(SIGXFSZ, SIG_DFL);
	assert_int_equal(r, -ENOSPC);
	assert_int_equal(lseek(kept, 0, SEEK_END), 0);
	assert_int_equal(event_write(&log, EVENT_BOX_READY, NULL, &e), 0);
	event_log_head(&log, head);
	bytes = log_bytes(kept, &len);
	assert_int_equal(log_faults(bytes, len, &events, seen, &e), 0);
	assert_string_equal(head, seen);
	free(bytes);
	event_log_close(&log, &e);
	close(kept);
}

static void test_copy_is_equal(void **state)
{
	struct event_log log;
	struct err e;
	int pair[2], sock[2], fd = log_file(), kept = dup(fd);
	char buf[4096], *bytes;
	size_t len;
	ssize_t n;

	(void)state;
	assert_int_equal(pipe2(pair, O_CLOEXEC), 0);
	event_log_init(&log, fd, "r", NULL);
	log.copy_fd = pair[1];
	assert_int_equal(event_write(&log, EVENT_BOX_READY, NULL, &e), 0);
	n = read(pair[0], buf, sizeof(buf));
	bytes = log_bytes(kept, &len);
	assert_int_equal(n, len);
	assert_memory_equal(buf, bytes, len);
	free(bytes);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sock), 0);
	log.copy_fd = sock[1];
	assert_int_equal(event_write(&log, EVENT_BOX_READY, NULL, &e), 0);
	assert_true(read(sock[0], buf, sizeof(buf)) > 0);
	assert_int_equal(log.copy_fd, sock[1]);
	event_log_close(&log, &e);
	close(kept);
	for (int i = 0; i < 2; i++) {
		close(pair[i]);
		close(sock[i]);
	}
}

/* A long line goes through a pipe whole where somebody reads. */
static void test_copy_long_line(void **state)
{
	struct event_log log;
	struct err e;
	size_t want = 0, len = 300000;
	char *path = malloc(len + 1), buf[4096];
	int pair[2], status_pipe[2], fd = log_file();
	pid_t pid;
	ssize_t n;

	(void)state;
	memset(path, 'p', len);
	path[len] = '\0';
	assert_int_equal(pipe2(pair, O_CLOEXEC), 0);
	assert_int_equal(pipe2(status_pipe, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0) {
		size_t got = 0;

		close(pair[1]);
		while ((n = read(pair[0], buf, sizeof(buf))) > 0)
			got += (size_t)n;
		_exit(write(status_pipe[1], &got, sizeof(got)) != sizeof(got));
	}
	event_log_init(&log, fd, "r", NULL);
	log.copy_fd = pair[1];
	assert_int_equal(event_write(&log, EVENT_ARTIFACT, json_pack("{s:s}", "path", path), &e), 0);
	assert_int_equal(log.copy_fd, pair[1]);
	close(pair[1]);
	assert_int_equal(read(status_pipe[0], &want, sizeof(want)), sizeof(want));
	assert_int_equal(want, lseek(fd, 0, SEEK_END));
	event_log_close(&log, &e);
	close(pair[0]);
	close(status_pipe[0]);
	close(status_pipe[1]);
	free(path);
}

static void copy_goes_off(int fd)
{
	struct event_log log;
	struct err e;
	int kept, file = log_file();
	size_t len;
	int events;
	char seen[65], *bytes;

	kept = dup(file);
	signal(SIGPIPE, SIG_DFL);
	event_log_init(&log, file, "r", NULL);
	log.copy_fd = fd;
	assert_int_equal(event_write(&log, EVENT_BOX_READY, NULL, &e), 0);
	assert_int_equal(log.copy_fd, -1);
	assert_int_equal(event_write(&log, EVENT_BOX_READY, NULL, &e), 0);
	bytes = log_bytes(kept, &len);
	assert_int_equal(log_faults(bytes, len, &events, seen, &e), 0);
	assert_int_equal(events, 2);
	free(bytes);
	event_log_close(&log, &e);
	close(kept);
}

static void test_copy_without_reader(void **state)
{
	int pair[2], sock[2];

	(void)state;
	assert_int_equal(pipe2(pair, O_CLOEXEC), 0);
	close(pair[0]);
	copy_goes_off(pair[1]);
	close(pair[1]);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sock), 0);
	close(sock[0]);
	copy_goes_off(sock[1]);
	close(sock[1]);
	copy_goes_off(999); /* no such descriptor */
}

/* A harness that stopped reading does not stop the supervisor. */
static void test_copy_full_pipe(void **state)
{
	struct timespec a, b;
	int pair[2];

	(void)state;
	assert_int_equal(pipe2(pair, O_CLOEXEC | O_NONBLOCK), 0);
	while (write(pair[1], "x", 1) == 1)
		;
	assert_int_equal(fcntl(pair[1], F_SETFL, 0), 0);
	clock_gettime(CLOCK_MONOTONIC, &a);
	copy_goes_off(pair[1]);
	clock_gettime(CLOCK_MONOTONIC, &b);
	assert_true(b.tv_sec - a.tv_sec <= 3);
	close(pair[0]);
	close(pair[1]);
}

static void test_print(void **state)
{
	static const struct {
		const char *json, *text;
	} cases[] = {
		{"{\"time\":\"2026-11-29T12:13:14.123456789Z\",\"type\":\"run.start\",\"profile\":\"default\",\"argv\":[\"sh\",\"-c\",\"true\"]}",
		 "12:13:14.123 run.start profile default: sh -c true"},
		{"{\"time\":\"2026-11-29T12:13:14.123456789Z\",\"type\":\"command.exit\",\"exit_code\":null,\"signal\":11,\"core\":false}",
		 "12:13:14.123 command.exit signal=11 (SIGSEGV)"},
		{"{\"time\":\"2026-11-29T12:13:14.123456789Z\",\"type\":\"egress.connect\",\"verdict\":\"deny\",\"name\":\"a.example\","
		 "\"address\":\"192.0.2.1\",\"port\":443,\"protocol\":\"tcp\",\"via\":\"gateway\",\"rule\":\"p.ini:3\",\"reason\":\"no rule\"}",
		 "12:13:14.123 egress.connect deny a.example:443 at 192.0.2.1 tcp via gateway by p.ini:3: no rule"},
		{"{\"type\":\"odd\xc2\x9b\",\"x\":[1,{\"y\":\"\\u001b\"}]}", "--:--:--.--- odd\\xc2\\x9b x=[1,{\"y\":\"\\u001B\"}]"},
		{"{}", "--:--:--.--- ?"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		cleanup_str struct str out = {0};
		json_t *event = json_loads(cases[i].json, 0, NULL);

		assert_non_null(event);
		event_print(event, &out);
		assert_string_equal(out.text, cases[i].text);
		json_decref(event);
	}
}

static void test_is_denied(void **state)
{
	static const struct {
		const char *json;
		bool denied;
	} cases[] = {
		{"{\"type\":\"egress.connect\",\"verdict\":\"allow\"}", false},
		{"{\"type\":\"egress.connect\",\"verdict\":\"deny\"}", true},
		{"{\"type\":\"egress.dns\"}", true},
		{"{\"type\":\"egress.close\"}", false},
		{"{\"type\":\"egress.error\"}", true},
		{"{\"type\":\"command.refused\"}", true},
		{"{\"type\":\"syscall.denied\"}", true},
		{"{\"type\":\"limit.warn\"}", false},
		{"{\"type\":\"limit.hit\"}", true},
		{"{\"type\":\"output.truncated\"}", true},
		{"{\"type\":\"run.end\",\"reason\":\"exited\"}", false},
		{"{\"type\":\"run.end\",\"reason\":\"refused\"}", true},
		{"{\"type\":7}", false},
		{"{}", false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		json_t *event = json_loads(cases[i].json, 0, NULL);

		assert_int_equal(event_is_denied(event), cases[i].denied);
		json_decref(event);
	}
}

static void test_types_table(void **state)
{
	static const char *const kinds[] = {"string", "integer", "number", "boolean", "array", "object", "string?", "integer?",
					    "number?", "boolean?", "array?", "object?"};

	(void)state;
	for (int t = 0; t < EVENT_TYPES; t++) {
		const struct event_type_info *info = event_type_info(t);

		assert_non_null(info->name);
		assert_int_equal(event_type_find(info->name), t);
		for (const struct event_field *f = info->fields; f->name; f++) {
			size_t k = 0;

			while (k < 12 && !str_eq(kinds[k], f->type))
				k++;
			assert_true(k < 12);
			assert_true(f->text && *f->text);
		}
	}
	assert_int_equal(event_type_find("run.star"), EVENT_TYPES);
}

static void test_check_fields(void **state)
{
	static const struct {
		const char *json, *fault;
	} cases[] = {
		{"{\"type\":\"syscall.denied\",\"name\":\"bpf\",\"count\":1}", NULL},
		{"{\"type\":\"syscall.denied\",\"name\":\"bpf\",\"count\":1,\"more\":2}", NULL},
		{"{\"type\":\"syscall.denied\",\"name\":\"bpf\"}", "no field count"},
		{"{\"type\":\"syscall.denied\",\"name\":1,\"count\":1}", "name is not of type string"},
		{"{\"type\":\"artifact\",\"path\":\"x\",\"kind\":\"fifo\",\"size\":null}", NULL},
		{"{\"type\":\"artifact\",\"path\":\"x\",\"kind\":\"file\",\"size\":\"1\"}", "size is not of type integer?"},
		{"{\"type\":\"some.later\"}", NULL},
		{"{}", "no type"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		json_t *event = json_loads(cases[i].json, 0, NULL);
		struct err e = {0};

		assert_int_equal(event_check(event, &e), cases[i].fault ? -EBADMSG : 0);
		if (cases[i].fault)
			assert_non_null(strstr(e.msg, cases[i].fault));
		json_decref(event);
	}
}

/*
 * agentbox-events(5) lists exactly the table: ".Ss TYPE", then ".It Va FIELD Pq TYPE" in order, " , optional" for
 * "?". Run from the source tree.
 */
static void test_man_page(void **state)
{
	FILE *in = fopen("man/agentbox-events.5", "re");
	cleanup_str struct str man = {0}, table = {0};
	char line[1024];
	bool inside = false;

	(void)state;
	assert_non_null(in);
	while (fgets(line, sizeof(line), in)) {
		if (str_has_prefix(line, ".Sh "))
			inside = str_eq(line, ".Sh EVENTS\n");
		else if (inside && (str_has_prefix(line, ".Ss ") || str_has_prefix(line, ".It ")))
			str_add(&man, line);
	}
	fclose(in);
	for (int t = 0; t < EVENT_TYPES; t++) {
		const struct event_type_info *info = event_type_info(t);

		str_addf(&table, ".Ss %s\n", info->name);
		for (const struct event_field *f = info->fields; f->name; f++)
			str_addf(&table, ".It Va %s Pq %.*s%s\n", f->name, (int)strcspn(f->type, "?"), f->type,
				 strchr(f->type, '?') ? " , optional" : "");
	}
	assert_string_equal(man.text, table.text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_chain_whole),
		cmocka_unit_test(test_line_shape),
		cmocka_unit_test(test_chain_changed_byte),
		cmocka_unit_test(test_chain_removed_line),
		cmocka_unit_test(test_chain_swapped_lines),
		cmocka_unit_test(test_chain_cut_tail),
		cmocka_unit_test(test_reader_goes_on_in_a_cut_line),
		cmocka_unit_test(test_reader_overlong),
		cmocka_unit_test(test_text_round_trip),
		cmocka_unit_test(test_text_plain_utf8_stays),
		cmocka_unit_test(test_line_has_no_controls),
		cmocka_unit_test(test_write_refuses),
		cmocka_unit_test(test_short_write_is_taken_back),
		cmocka_unit_test(test_copy_is_equal),
		cmocka_unit_test(test_copy_long_line),
		cmocka_unit_test(test_copy_without_reader),
		cmocka_unit_test(test_copy_full_pipe),
		cmocka_unit_test(test_print),
		cmocka_unit_test(test_is_denied),
		cmocka_unit_test(test_types_table),
		cmocka_unit_test(test_check_fields),
		cmocka_unit_test(test_man_page),
	};

	return cmocka_run_group_tests_name("event", tests, NULL, NULL);
}
