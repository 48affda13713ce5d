/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "profile/inifile.h"

#include <errno.h>
#include <ini.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "base/str.h"
#include "profile/keys.h"
#include "profile/shape.h"

#include "base/banned.h"

/*
 * What inih 55 does by itself (ini.c, ini_parse_stream): takes a line over 199 bytes as several; ends a line at NUL;
 * takes an indented line as more of the key before it; drops a byte order mark; cuts a section's name at 49 bytes;
 * drops what follows "]"; takes ":" for "="; drops a value from " ;" on. So the reader below looks at each line first
 * and hands over only lines that inih and this project read alike; a line with a fault becomes an empty one. A ";" in a
 * value travels as the byte STAND_IN, which no accepted line has.
 */
#define STAND_IN '\001'
#define NO_SECTION "\002" /* where a section's line has a fault: what follows belongs to no section */

struct reader {
	const char *at, *end;
	const char *file;
	struct faults *faults;
	struct inifile *out;
	unsigned line;	     /* the one that inih has, from 1 */
	size_t given, taken; /* entries handed to inih and got back from it */
};

static void reader_fault(struct reader *r, const char *text)
{
	faults_add(r->faults, (struct origin){.file = r->file, .line = r->line}, "%s", text);
}

static bool reader_is_blank(char c)
{
	return c == ' ' || c == '\t';
}

/* Faults of a line as a whole. Return: true where there is none. */
static bool reader_check_line(struct reader *r, const char *line, size_t len)
{
	struct err e;

	if (len > INIFILE_LINE_MAX) {
		faults_add(r->faults, (struct origin){.file = r->file, .line = r->line},
			   "the line has %zu bytes; %d are the most, split or shorten it", len, INIFILE_LINE_MAX);
		return false;
	}
	if (memchr(line, '\0', len)) {
		reader_fault(r, "the line holds a NUL byte; write the file as plain text");
		return false;
	}
	if (r->line == 1 && len >= 3 && memcmp(line, "\xef\xbb\xbf", 3) == 0) {
		reader_fault(r, "the file starts with a byte order mark; save it as UTF-8 without one");
		return false;
	}
	if (shape_bytes(line, len, &e) < 0) {
		reader_fault(r, e.msg);
		return false;
	}
	return true;
}

/*
 * `[name]` and nothing behind it. text: NUL-terminated, without blanks at its ends; cut at the "]". Return: is it
 * known?
 */
static bool reader_check_section(struct reader *r, char *text)
{
	struct origin from = {.file = r->file, .line = r->line};
	char *end = strchr(text, ']');
	cleanup_str struct str advice = {0};
	const char *name = text + 1;

	if (!end) {
		reader_fault(r, "a section without `]`; write [NAME]");
		return false;
	}
	*end = '\0';
	if (end[1]) {
		faults_add(r->faults, from, "[%s]: `%s` follows the section; put it on a line of its own", name,
			   end + 1);
		return false;
	}
	if (strlen(name) > INIFILE_SECTION_MAX) {
		faults_add(r->faults, from, "[%s]: the name has over %d bytes; no section has", name,
			   INIFILE_SECTION_MAX);
		return false;
	}
	if (str_has_prefix(name, "secret ")) {
		faults_add(r->faults, from, "[%s]: secrets are not built into this version; take the section out",
			   name);
		return false;
	}
	if (key_section_known(name))
		return true;
	key_advise_section(name, &advice);
	faults_add(r->faults, from, "[%s]: no such section%s", name, advice.text);
	return false;
}

/* `key = value`. text: NUL-terminated, without blanks at its ends. Return: is it one? */
static bool reader_check_entry(struct reader *r, const char *text)
{
	static const char key_bytes[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
	const char *equals = strchr(text, '=');
	size_t len;

	if (!equals) {
		faults_add(r->faults, (struct origin){.file = r->file, .line = r->line},
			   "`%s`: neither a section nor a key; write KEY = VALUE", text);
		return false;
	}
	len = (size_t)(equals - text);
	while (len && reader_is_blank(text[len - 1]))
		len--;
	if (len && strspn(text, key_bytes) >= len)
		return true;
	faults_add(r->faults, (struct origin){.file = r->file, .line = r->line},
		   "`%.*s`: no key has such a name; write KEY = VALUE", (int)len, text);
	return false;
}

/* One line, checked: what inih is to see of it goes into buf (INIFILE_LINE_MAX + 1 bytes). */
static void reader_line(struct reader *r, const char *line, size_t len, char *buf)
{
	char *equals;

	buf[0] = '\0';
	if (!reader_check_line(r, line, len)) {
		/* A damaged line could have been a section: do not give what follows to the one before it. */
		if (len && line[0] == '[')
			memcpy(buf, "[" NO_SECTION "]", sizeof("[" NO_SECTION "]"));
		return;
	}
	while (len && reader_is_blank(line[len - 1]))
		len--;
	if (!len || line[0] == '#' || line[0] == ';')
		return;
	if (reader_is_blank(line[0])) {
		reader_fault(
			r,
			"the line is indented; start it at the margin (a list is several lines with one key)");
		return;
	}
	memcpy(buf, line, len);
	buf[len] = '\0';
	if (buf[0] == '[') {
		if (reader_check_section(r, buf)) {
			len = strlen(buf);
			buf[len] = ']';
			buf[len + 1] = '\0';
		} else {
			memcpy(buf, "[" NO_SECTION "]", sizeof("[" NO_SECTION "]"));
		}
		return;
	}
	if (!reader_check_entry(r, buf)) {
		buf[0] = '\0';
		return;
	}
	equals = strchr(buf, '=');
	for (char *c = equals; *c; c++)
		if (*c == ';')
			*c = STAND_IN;
	r->given++;
}

/* fgets for inih: one line without its end. num: room in str. */
static char *reader_next(char *str, int num, void *stream)
{
	struct reader *r = stream;
	char buf[INIFILE_LINE_MAX + 1];
	const char *newline;
	size_t len;

	if (r->at == r->end)
		return NULL;
	newline = memchr(r->at, '\n', (size_t)(r->end - r->at));
	len = (size_t)((newline ? newline : r->end) - r->at);
	r->line++;
	reader_line(r, r->at, newline && len && r->at[len - 1] == '\r' ? len - 1 : len, buf);
	r->at = newline ? newline + 1 : r->end;
	len = strlen(buf);
	/* An inih that was built with shorter lines than ours must not split this one. */
	if (num < 1 || len >= (size_t)num) {
		reader_fault(r, "the line is too long for the inih that agentbox was built with; shorten it");
		len = 0;
	}
	memcpy(str, buf, len);
	str[len] = '\0';
	return str;
}

static int reader_take(void *user, const char *section, const char *name, const char *value)
{
	struct reader *r = user;
	struct inifile_entry entry;

	r->taken++;
	if (str_eq(section, NO_SECTION))
		return 1;
	if (!*section) {
		faults_add(r->faults, (struct origin){.file = r->file, .line = r->line},
			   "%s: no section stands before it; write [SECTION] above", name);
		return 1;
	}
	entry = (struct inifile_entry){
		.section = mem_strdup(section), .key = mem_strdup(name), .value = mem_strdup(value), .line = r->line};
	for (char *c = entry.value; *c; c++)
		if (*c == STAND_IN)
			*c = ';';
	vec_reserve(&r->out->v, &r->out->cap, r->out->n, sizeof(*r->out->v));
	r->out->v[r->out->n++] = entry;
	return 1;
}

void inifile_read(const char *bytes, size_t len, const char *file, struct inifile *out, struct faults *faults)
{
	struct reader r = {.at = bytes, .end = bytes + len, .file = file, .faults = faults, .out = out};
	int rc = ini_parse_stream(reader_next, &r, reader_take, &r);

	/*
	 * Cannot be; if it is, this inih reads a line otherwise than the reader, and nothing of the file can be relied
	 * on.
	 */
	if (rc != 0 || r.given != r.taken)
		faults_add(
			faults, (struct origin){.file = file, .line = rc > 0 ? (unsigned)rc : r.line},
			"inih reads this file otherwise than agentbox does; rebuild agentbox with your system's inih");
}

void inifile_free(struct inifile *f)
{
	for (size_t i = 0; i < f->n; i++) {
		free(f->v[i].section);
		free(f->v[i].key);
		free(f->v[i].value);
	}
	free(f->v);
	*f = (struct inifile){0};
}
