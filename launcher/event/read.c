/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <inttypes.h>
#include <sodium/crypto_hash_sha256.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "event/event.h"

#include "base/banned.h"

void event_reader_init(struct event_reader *r, FILE *in, bool verify)
{
	*r = (struct event_reader){.in = in, .verify = verify};
}

void event_reader_free(struct event_reader *r)
{
	free(r->line);
	r->line = NULL;
	r->line_len = r->line_cap = 0;
}

/*
 * The next line into r->line, from where a cut one stopped. A longer one than EVENT_LINE_MAX is read to its end and
 * dropped.
 * Return: 1; 0 at the end; -ENODATA, -EMSGSIZE, or -EIO where the file cannot be read.
 */
static int reader_line(struct event_reader *r)
{
	int c;

	clearerr(r->in);
	if (!r->cut_len)
		r->line_len = 0;
	while ((c = getc_unlocked(r->in)) != EOF && c != '\n') {
		if (r->line_len > EVENT_LINE_MAX)
			continue;
		if (r->line_len + 1 >= r->line_cap) {
			r->line_cap = r->line_cap ? r->line_cap * 2 : 1024;
			r->line = mem_array(r->line, r->line_cap, 1);
		}
		r->line[r->line_len++] = (char)c;
	}
	if (r->line)
		r->line[r->line_len] = '\0';
	if (c == EOF && ferror(r->in))
		return -EIO;
	if (c == EOF) {
		bool grown = r->line_len > r->cut_len;

		r->cut_len = r->line_len;
		return grown ? -ENODATA : 0;
	}
	r->cut_len = 0;
	r->line_no++;
	return r->line_len > EVENT_LINE_MAX ? -EMSGSIZE : 1;
}

static int reader_fault(const struct event_reader *r, struct err *e, const char *what)
{
	return err_set(e, EBADMSG, "line %" PRIu64 ": %s", r->line_no, what);
}

/* v, seq and prev of the line against what they must be. */
static int reader_check(const struct event_reader *r, const json_t *event, const char *want_prev, struct err *e)
{
	const json_t *v = json_object_get(event, "v"), *seq = json_object_get(event, "seq");
	const char *prev = json_string_value(json_object_get(event, "prev"));

	if (!json_is_integer(v) || json_integer_value(v) != 1)
		return reader_fault(r, e, "v is not 1: not a line of this log, or of a later version");
	if (!prev || strlen(prev) != 64)
		return reader_fault(r, e, "no prev with the digest of the line before");
	if (!r->unlinked && !str_eq(prev, want_prev)) {
		if (r->line_no == 1)
			return reader_fault(r, e, "prev is not zero: lines before this one are missing");
		return err_set(e, EBADMSG, "line %" PRIu64 ": prev is not the digest of line %" PRIu64
			       ": that line was changed, or lines were removed, added or moved", r->line_no, r->line_no - 1);
	}
	if (!json_is_integer(seq) || (uint64_t)json_integer_value(seq) != r->seq)
		return err_set(e, EBADMSG, "line %" PRIu64 ": seq is not %" PRIu64, r->line_no, r->seq);
	return 0;
}

int event_read(struct event_reader *r, json_t **out, struct err *e)
{
	int got = reader_line(r), fault = 0;
	const json_t *seq;
	json_error_t why;
	char want_prev[65];
	json_t *event;

	if (got == 0)
		return 0;
	if (got == -EIO)
		return err_errno(e, EIO, "the event log cannot be read beyond line %" PRIu64, r->line_no);
	if (got == -ENODATA)
		return err_set(e, ENODATA, "line %" PRIu64 ": cut: the writer was ended while it wrote, or is writing",
			       r->line_no + 1);
	if (got == -EMSGSIZE) {
		r->unlinked = true;
		r->seq++;
		return err_set(e, EBADMSG, "line %" PRIu64 ": over %d bytes", r->line_no, EVENT_LINE_MAX);
	}
	str_hex(r->prev, sizeof(r->prev), want_prev);
	crypto_hash_sha256(r->prev, (const unsigned char *)(r->line ? r->line : ""), r->line_len);
	event = json_loadb(r->line ? r->line : "", r->line_len, JSON_REJECT_DUPLICATES, &why);
	if (!json_is_object(event)) {
		json_decref(event);
		r->unlinked = false;
		r->seq++;
		return reader_fault(r, e, "not a JSON object");
	}
	if (r->verify)
		fault = reader_check(r, event, want_prev, e);
	/*
	 * After a fault the next line is judged by this one, so that one change is not a fault of every line that
	 * follows.
	 */
	seq = json_object_get(event, "seq");
	r->seq = (json_is_integer(seq) && json_integer_value(seq) >= 0 ? (uint64_t)json_integer_value(seq) : r->seq) + 1;
	r->unlinked = false;
	if (fault < 0) {
		json_decref(event);
		return fault;
	}
	*out = event;
	return 1;
}
