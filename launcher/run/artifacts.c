/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "run/artifacts.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium/crypto_hash_sha256.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "sys/tree.h"

#include "base/banned.h"

#define READ_SIZE (256 * 1024)

struct artifacts_work {
	struct event_log *log;
	struct artifacts_summary *sum;
	struct timespec start;
	unsigned char *buf; /* READ_SIZE */
};

static bool work_is_late(const struct artifacts_work *w)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (now.tv_sec - w->start.tv_sec) * 1000 + (now.tv_nsec - w->start.tv_nsec) / 1000000 >= ARTIFACTS_MAX_MS;
}

static const char *kind_name(mode_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFREG:
		return "file";
	case S_IFLNK:
		return "symlink";
	case S_IFIFO:
		return "fifo";
	case S_IFSOCK:
		return "socket";
	case S_IFDIR:
		return "directory";
	case S_IFCHR:
	case S_IFBLK:
		return "device";
	default:
		return "unknown";
	}
}

/*
 * Digest of a regular file that was `st` a moment ago. Exactly st->st_size bytes must be there.
 * Return: NULL, or why there is no digest.
 */
static const char *artifact_hash(struct artifacts_work *w, int parent, const char *name, const struct stat *st, unsigned char *out)
{
	crypto_hash_sha256_state sha;
	uint64_t left = (uint64_t)st->st_size;
	struct stat now;
	cleanup_fd int fd = -1;

	if (left > ARTIFACTS_MAX_HASHED - w->sum->bytes)
		return "over the 1 GiB that is hashed in all";
	/* O_NONBLOCK: should a FIFO stand there by now, the open must not wait for its other end. */
	fd = openat(parent, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0)
		return errno == EACCES || errno == EPERM ? "not readable" : "cannot be opened";
	if (fstat(fd, &now) < 0 || !S_ISREG(now.st_mode) || now.st_dev != st->st_dev || now.st_ino != st->st_ino)
		return "replaced while it was read";
	crypto_hash_sha256_init(&sha);
	for (;;) {
		ssize_t n;

		if (work_is_late(w))
			return "out of time";
		n = read(fd, w->buf, READ_SIZE);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return "cannot be read";
		if (!n)
			break;
		if ((uint64_t)n > left)
			return "changed while it was read";
		left -= (uint64_t)n;
		w->sum->bytes += (uint64_t)n;
		crypto_hash_sha256_update(&sha, w->buf, (unsigned long long)n);
	}
	if (left)
		return "changed while it was read";
	crypto_hash_sha256_final(&sha, out);
	return NULL;
}

static int artifact_entry(void *arg, const struct tree_entry *entry, struct err *e)
{
	struct artifacts_work *w = arg;
	const struct stat *st = entry->st;
	unsigned char digest[crypto_hash_sha256_BYTES];
	char hex[2 * sizeof(digest) + 1];
	const char *why = NULL;
	json_t *fields;

	if (S_ISDIR(st->st_mode) && !entry->unreadable)
		return 0;
	fields = json_object();
	json_object_set_new(fields, "path", event_text_z(entry->path));
	json_object_set_new(fields, "kind", json_string(kind_name(st->st_mode)));
	if (S_ISREG(st->st_mode)) {
		json_object_set_new(fields, "size", json_integer(st->st_size));
		why = artifact_hash(w, entry->parent, entry->name, st, digest);
		if (!why) {
			str_hex(digest, sizeof(digest), hex);
			json_object_set_new(fields, "sha256", json_string(hex));
		}
	} else {
		why = entry->unreadable ? "not readable" : "not a regular file";
	}
	if (why) {
		json_object_set_new(fields, "reason", json_string(why));
		w->sum->skipped++;
	}
	w->sum->listed++;
	return event_write(w->log, EVENT_ARTIFACT, fields, e);
}

int artifacts_record(int artifacts_dirfd, struct event_log *log, struct artifacts_summary *out, struct err *e)
{
	static const struct tree_limits limits = {ARTIFACTS_MAX_ENTRIES, ARTIFACTS_MAX_DEPTH, ARTIFACTS_MAX_MS};
	struct artifacts_work w = {.log = log, .sum = out};
	struct tree_walked walked;
	int r;

	*out = (struct artifacts_summary){0};
	clock_gettime(CLOCK_MONOTONIC, &w.start);
	w.buf = mem_alloc(READ_SIZE);
	r = tree_walk(artifacts_dirfd, &limits, artifact_entry, &w, &walked, e);
	free(w.buf);
	out->cut = walked.cut;
	out->why = walked.why;
	return r < 0 ? err_prefix(e, "listing the artifacts") : 0;
}

json_t *artifacts_summary_json(const struct artifacts_summary *s)
{
	json_t *o = json_object();

	json_object_set_new(o, "listed", json_integer((json_int_t)s->listed));
	json_object_set_new(o, "skipped", json_integer((json_int_t)s->skipped));
	json_object_set_new(o, "bytes", json_integer((json_int_t)s->bytes));
	json_object_set_new(o, "cut", json_boolean(s->cut));
	return o;
}
