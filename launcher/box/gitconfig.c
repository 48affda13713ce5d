/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "box/gitconfig.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "sys/fd.h"
#include "sys/path.h"

#include "base/banned.h"

#define GITCONFIG_MAX (1 << 20)

struct gitconfig {
	const char *file, *tree;
	struct strv *out;
	int depth;
	struct err *first; /* code 0: none yet */
	char section[64]; /* lower case, without subsection */
};

static void read_file(const char *file, const char *tree, struct strv *out, int depth, struct err *first);

/* A value as git reads it: quotes go, a backslash takes the next byte, a comment ends it. Caller frees. */
static char *value_of(const char *text)
{
	struct str s = {0};
	bool quoted = false;
	size_t end = 0; /* behind the last byte that counts */

	text += strspn(text, " \t");
	for (; *text; text++) {
		if (*text == '"') {
			quoted = !quoted;
		} else if (!quoted && (*text == '#' || *text == ';')) {
			break;
		} else {
			if (*text == '\\' && text[1])
				text++;
			str_add_n(&s, text, 1);
			if (quoted || !isspace((unsigned char)*text))
				end = s.len;
		}
	}
	if (s.text)
		s.text[end] = '\0';
	return str_steal(&s);
}

static void take_path(struct gitconfig *g, const char *value, const char *base, bool is_config)
{
	const char *home = getenv("HOME");
	cleanup_free char *path = NULL;

	if (!*value)
		return;
	if (value[0] == '~' && value[1] == '/' && home)
		path = mem_printf("%s%s", home, value + 1);
	else
		path = value[0] == '/' ? mem_strdup(value) : path_join(base, value);
	strv_add(g->out, path);
	if (is_config)
		read_file(path, g->tree, g->out, g->depth + 1, g->first);
}

/* A shell's command, or git's own daemon as a boolean (git-config(1)). */
static void take_command(struct gitconfig *g, const char *value)
{
	static const char *const booleans[] = {"true", "yes", "on", "1", "false", "no", "off", "0", NULL};
	cleanup_free char *word = mem_strndup(value, strcspn(value, " \t"));

	for (const char *const *b = booleans; *b; b++)
		if (strcasecmp(word, *b) == 0)
			return;
	take_path(g, word, g->tree, false);
}

static void take_variable(struct gitconfig *g, const char *name, const char *value)
{
	cleanup_free char *dir = mem_strndup(g->file, (size_t)(strrchr(g->file, '/') - g->file));

	if (str_eq(g->section, "core") && strcasecmp(name, "hookspath") == 0)
		take_path(g, value, g->tree, false);
	else if (str_eq(g->section, "core") && strcasecmp(name, "fsmonitor") == 0)
		take_command(g, value);
	else if ((str_eq(g->section, "include") || str_eq(g->section, "includeif")) && strcasecmp(name, "path") == 0)
		take_path(g, value, *dir ? dir : "/", true);
}

/* "[section]", "[section "sub"]" or "[section.sub]". Return: what follows on the line. */
static char *take_section(struct gitconfig *g, char *line)
{
	size_t n = 0;
	bool quoted = false;

	for (line++; isalnum((unsigned char)*line) || *line == '-'; line++)
		if (n < sizeof(g->section) - 1)
			g->section[n++] = (char)tolower((unsigned char)*line);
	g->section[n] = '\0';
	for (; *line && (quoted || *line != ']'); line++) {
		if (*line == '\\' && line[1])
			line++;
		else if (*line == '"')
			quoted = !quoted;
	}
	return *line ? line + 1 : line;
}

static void take_line(struct gitconfig *g, char *line)
{
	size_t n;

	line += strspn(line, " \t\r");
	if (*line == '[') {
		line = take_section(g, line);
		line += strspn(line, " \t");
	}
	n = strspn(line, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-");
	if (n) {
		cleanup_free char *name = mem_strndup(line, n), *value = NULL;

		line += n;
		line += strspn(line, " \t");
		if (*line != '=')
			return;
		value = value_of(line + 1);
		take_variable(g, name, value);
	}
}

/*
 * Ends the line, with those that a backslash before the newline goes on in; not from a comment. Return: the next one; NULL: it was
 * the last.
 */
static char *join_line(char *line)
{
	bool quoted = false, comment = false;
	char *to = line, *from = line;

	for (; *from && *from != '\n'; from++) {
		if (!comment && *from == '\\' && (from[1] == '\n' || (from[1] == '\r' && from[2] == '\n'))) {
			from += from[1] == '\r' ? 2 : 1;
			continue;
		}
		if (!comment && *from == '\\' && from[1])
			*to++ = *from++;
		else if (!comment && *from == '"')
			quoted = !quoted;
		else if (!quoted && (*from == '#' || *from == ';'))
			comment = true;
		*to++ = *from;
	}
	line = *from ? from + 1 : NULL;
	*to = '\0';
	return line;
}

static void read_file(const char *file, const char *tree, struct strv *out, int depth, struct err *first)
{
	struct gitconfig g = {.file = file, .tree = tree, .out = out, .depth = depth, .first = first};
	cleanup_free char *text = NULL, *real = NULL;
	int r;

	if (depth > GITCONFIG_DEPTH || first->code)
		return;
	real = realpath(file, NULL); /* git follows links too, and takes relative names from the directory of the link */
	r = real ? fd_read_file(AT_FDCWD, real, GITCONFIG_MAX, &text, NULL) : -errno;
	if (r < 0) {
		/* Not there, or not a plain file: nothing that a name in it could protect. */
		if (r != -EISDIR && r != -EINVAL && path_unseen(real ? real : file, -r, first) < 0)
			err_prefix(first, "git's configuration");
		return;
	}
	for (char *line = str_has_prefix(text, "\xef\xbb\xbf") ? text + 3 : text, *next; line; line = next) {
		next = join_line(line);
		take_line(&g, line);
	}
}

int gitconfig_paths(const char *file, const char *tree, struct strv *out, struct err *e)
{
	struct err first = {0};

	read_file(file, tree, out, 0, &first);
	if (first.code)
		*e = first;
	return -first.code;
}
