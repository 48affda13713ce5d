/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "profile/shape.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "profile/rule.h"
#include "sys/path.h"

#include "base/banned.h"

#define LOWER "abcdefghijklmnopqrstuvwxyz"
#define UPPER "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS "0123456789"
#define NAME_FIRST LOWER UPPER "_"
#define NAME_BYTES NAME_FIRST DIGITS

/* How much of a value a message repeats. */
#define SHOWN "%.200s"

int shape_bytes(const char *text, size_t len, struct err *e)
{
	const unsigned char *b = (const unsigned char *)text;

	for (size_t i = 0; i < len;) {
		size_t n = str_utf8_len(b + i, len - i);

		if (!n)
			return err_set(e, EINVAL, "byte 0x%02x is not UTF-8; write the file in UTF-8", b[i]);
		/*
		 * C1 (U+0080 to U+009F) moves a terminal's cursor as C0 does, and these texts are shown on terminals.
		 */
		if ((n == 1 && ((b[i] < 0x20 && b[i] != '\t') || b[i] == 0x7f)) ||
		    (n == 2 && b[i] == 0xc2 && b[i + 1] < 0xa0))
			return err_set(e, EINVAL, "control character 0x%02x; take it out", b[i + n - 1]);
		i += n;
	}
	return 0;
}

/* One variable's value at `name`, `len` bytes of a name. */
static int shape_add_variable(const char *name, size_t len, const struct profile_env *env, struct str *s, struct err *e)
{
	cleanup_free char *copy = mem_strndup(name, len);
	const char *value;

	if (!len || strspn(copy, NAME_BYTES) != len || strspn(copy, DIGITS) > 0)
		return err_set(e, EINVAL, "a `$` without the name of a variable; write $$ for a plain `$`");
	value = env->get ? env->get(copy) : NULL;
	/* Empty is as bad as unset: "$DIR/x" would then be "/x". */
	if (!value || !*value)
		return err_set(e, EINVAL, "the variable %.64s is %s; set it, or write the path out", copy,
			       value ? "empty" : "not set");
	str_add(s, value);
	return 0;
}

static int shape_add_home(const char *text, const struct profile_env *env, struct str *s, struct err *e)
{
	if (text[1] != '/' && text[1] != '\0')
		return err_set(e, EINVAL, "`~` stands only for your own home; write the other path out");
	if (!env->home || env->home[0] != '/')
		return err_set(e, EINVAL,
			       "`~` stands for $HOME, which is not set to a path; set it, or write the path out");
	str_add(s, env->home);
	return 0;
}

int shape_expand(const char *text, const struct profile_env *env, char **out, struct err *e)
{
	cleanup_str struct str s = {0};
	const char *c = text;
	int r;

	if (*c == '~') {
		r = shape_add_home(text, env, &s, e);
		if (r < 0)
			return r;
		c++;
	}
	while (*c) {
		size_t plain = strcspn(c, "$");

		str_add_n(&s, c, plain);
		c += plain;
		if (!*c)
			break;
		if (c[1] == '$') {
			str_add(&s, "$");
			c += 2;
			continue;
		}
		if (c[1] == '{') {
			size_t len = strcspn(c + 2, "}");

			if (!c[2 + len])
				return err_set(e, EINVAL, "a `${` without `}`; write ${NAME}");
			r = shape_add_variable(c + 2, len, env, &s, e);
			c += len + 3;
		} else {
			size_t len = strspn(c + 1, NAME_BYTES);

			r = shape_add_variable(c + 1, len, env, &s, e);
			c += len + 1;
		}
		if (r < 0)
			return r;
	}
	r = shape_bytes(s.text ? s.text : "", s.len, e);
	if (r < 0)
		return err_prefix(e, "after `~` and $VAR");
	*out = str_steal(&s);
	return 0;
}

void shape_unexpand(const char *text, struct str *out)
{
	for (; *text; text++)
		str_addf(out, *text == '$' ? "$$" : "%c", *text);
}

/* Is there a `..` among the parts of the path? */
static bool shape_has_dotdot(const char *path)
{
	while (*path) {
		size_t n = strcspn(path, "/");

		if (n == 2 && path[0] == '.' && path[1] == '.')
			return true;
		path += n;
		path += strspn(path, "/");
	}
	return false;
}

/*
 * `..` is refused and not resolved: as text it means another file than to the kernel where a symlink stands before it,
 * and a deny that names another file fails open.
 */
static int shape_check_path(const char *path, struct err *e)
{
	if (shape_has_dotdot(path))
		return err_set(e, EINVAL, "`" SHOWN "` has a `..`; write the path without", path);
	if (strlen(path) >= PATH_MAX)
		return err_set(e, EINVAL, "the path is over %d bytes; no file has such a path", PATH_MAX - 1);
	return 0;
}

/* A blank at either end would be lost when the profile is printed and read back. */
static int shape_finish_path(char *path, char **out, struct err *e)
{
	size_t len = strlen(path);

	if (strchr(" \t", path[0]) || strchr(" \t", path[len - 1]))
		return err_set(e, EINVAL, "`" SHOWN "` begins or ends with a blank; rename the file", path);
	*out = mem_strdup(path);
	return 0;
}

static int shape_absolute(const char *text, const struct profile_env *env, char **out, struct err *e)
{
	cleanup_free char *path = NULL, *normal = NULL;
	int r = shape_expand(text, env, &path, e);

	if (r < 0)
		return r;
	if (path[0] != '/')
		return err_set(e, EINVAL, "`" SHOWN "` is not an absolute path; start it with /, ~ or $VAR", path);
	r = shape_check_path(path, e);
	if (r < 0)
		return r;
	normal = path_normal(path, NULL);
	return shape_finish_path(normal, out, e);
}

/* A path within the repo: normal, without a leading "/". */
static int shape_relative(const char *path, char **out, struct err *e)
{
	cleanup_free char *normal = NULL;
	int r = shape_check_path(path, e);

	if (r < 0)
		return r;
	normal = path_normal(path, "/");
	if (!normal || str_eq(normal, "/"))
		return err_set(e, EINVAL, "this is the project itself; use repo-mode = read or none");
	return shape_finish_path(normal + 1, out, e);
}

static int shape_check_root(const char *text, const struct profile_env *env, char **out, struct err *e)
{
	int r;

	if (str_eq(text, "host") || str_eq(text, "empty")) {
		*out = mem_strdup(text);
		return 0;
	}
	r = shape_absolute(text, env, out, e);
	if (r < 0)
		return r;
	if (!str_eq(*out, "/"))
		return 0;
	free(*out);
	*out = NULL;
	return err_set(e, EINVAL, "/ is the host's root; write host");
}

static int shape_check_grant(const char *text, const struct profile_env *env, char **out, struct err *e)
{
	bool optional = text[0] == '?';
	const char *start = optional ? text + 1 : text;
	size_t len = strcspn(start, ":");
	cleanup_free char *path = mem_strndup(start, len);
	cleanup_free char *source = NULL, *dest = NULL;
	int r;

	if (start[len] && (!len || strchr(" \t", start[len - 1]) || strchr(" \t", start[len + 1])))
		return err_set(e, EINVAL,
			       "a path must stand on either side of the `:`, without blanks; write PATH:DEST");
	r = shape_absolute(path, env, &source, e);
	if (r == 0 && start[len])
		r = shape_absolute(start + len + 1, env, &dest, e);
	if (r < 0)
		return r;
	/* Also where a variable brought it: the text that is kept is split at the first `:` again. */
	if (strchr(source, ':') || (dest && strchr(dest, ':')))
		return err_set(e, EINVAL,
			       "a path here cannot hold a `:`; write PATH:DEST, or use --bind for such a path");
	*out = mem_printf("%s%s%s%s", optional ? "?" : "", source, dest ? ":" : "", dest ? dest : "");
	return 0;
}

static int shape_check_deny(const char *text, const struct profile_env *env, char **out, struct err *e)
{
	cleanup_free char *path = NULL, *normal = NULL;
	int r = shape_expand(text, env, &path, e);

	if (r < 0)
		return r;
	if (path[0] != '/')
		return shape_relative(path, out, e);
	r = shape_check_path(path, e);
	if (r < 0)
		return r;
	normal = path_normal(path, NULL);
	return shape_finish_path(normal, out, e);
}

static int shape_check_protect(const char *text, const struct profile_env *env, char **out, struct err *e)
{
	(void)env;
	if (text[0] == '/' || text[0] == '~' || text[0] == '$')
		return err_set(
			e, EINVAL,
			"`" SHOWN
			"` is not relative to the project; write it from there, or use [filesystem] read or deny",
			text);
	if (text[strcspn(text, "*?[")])
		return err_set(e, EINVAL, "`" SHOWN "` is a glob; write each path, or use [filesystem] deny", text);
	return shape_relative(text, out, e);
}

static int shape_check_pass(const char *text, const struct profile_env *env, char **out, struct err *e)
{
	size_t n = strspn(text, NAME_BYTES);

	(void)env;
	if (strspn(text, DIGITS) > 0 || (text[n] == '*' ? text[n + 1] != '\0' : text[n] != '\0' || !n))
		return err_set(e, EINVAL, "`" SHOWN "` is no name of a variable; write NAME, or the start of one and *",
			       text);
	*out = mem_strdup(text);
	return 0;
}

static int shape_check_assignment(const char *text, const struct profile_env *env, char **out, struct err *e)
{
	size_t n = strspn(text, NAME_BYTES);

	(void)env;
	if (!n || strspn(text, DIGITS) > 0 || text[n] != '=')
		return err_set(e, EINVAL, "`" SHOWN "` does not set a variable; write NAME=VALUE", text);
	*out = mem_strdup(text);
	return 0;
}

static int shape_check_user(const char *text, const struct profile_env *env, char **out, struct err *e)
{
	size_t len = strlen(text);

	(void)env;
	/* useradd(8): 32 bytes at most. The name goes into the box's passwd file, so no `:` and no blank. */
	if (!strchr(NAME_FIRST, text[0]) || strspn(text, NAME_BYTES ".-") != len || len > 32)
		return err_set(e, EINVAL,
			       "`" SHOWN
			       "` is no user name; write a letter, then letters, digits, . _ or -, 32 at most",
			       text);
	*out = mem_strdup(text);
	return 0;
}

static int shape_check_hostname(const char *text, const struct profile_env *env, char **out, struct err *e)
{
	(void)env;
	/* RFC 1123 2.1 for the shape, sethostname(2) for the 64 bytes. */
	if (strlen(text) > 64)
		return err_set(e, EINVAL, "a host name has 64 bytes at most; shorten it");
	for (const char *label = text; label;) {
		size_t n = strcspn(label, ".");
		bool ok = n && n <= 63 && strspn(label, LOWER UPPER DIGITS "-") == n && label[0] != '-' &&
			  label[n - 1] != '-';

		if (!ok)
			return err_set(e, EINVAL,
				       "`" SHOWN
				       "` is no host name; write letters, digits and -, in parts joined by a dot",
				       text);
		label = label[n] ? label + n + 1 : NULL;
	}
	*out = mem_strdup(text);
	return 0;
}

static int shape_check_rule(const char *text, const struct profile_env *env, char **out, struct err *e)
{
	struct rule rule;
	int r = rule_parse(text, &rule, e);

	(void)env;
	if (r < 0)
		return r;
	*out = mem_strdup(text);
	return 0;
}

static int shape_check_syscall(const char *text, const struct profile_env *env, char **out, struct err *e)
{
	const char *name = text[0] == '@' ? text + 1 : text;

	(void)env;
	if (!*name || name[strspn(name, LOWER DIGITS "_-")])
		return err_set(e, EINVAL,
			       "`" SHOWN "` is no system call; write one name as in syscalls(2), or a @group", text);
	*out = mem_strdup(text);
	return 0;
}

static int shape_check_command(const char *text, const struct profile_env *env, char **out, struct err *e)
{
	char quote = '\0';

	(void)env;
	for (const char *c = text; *c; c++) {
		if (*c == '\\' && quote != '\'') {
			if (!c[1])
				return err_set(e, EINVAL, "a `\\` at the end quotes nothing; take it out");
			c++;
		} else if (quote ? *c == quote : *c == '\'' || *c == '"') {
			quote = quote ? '\0' : *c;
		}
	}
	if (quote)
		return err_set(e, EINVAL, "the %c is not closed; put another at the end", quote);
	*out = mem_strdup(text);
	return 0;
}

static int shape_check_program(const char *text, const struct profile_env *env, char **out, struct err *e)
{
	if (strchr("/~$", text[0]))
		return shape_absolute(text, env, out, e);
	if (strchr(text, '/'))
		return err_set(e, EINVAL, "`" SHOWN "` is neither a name nor an absolute path; write one of them",
			       text);
	*out = mem_strdup(text);
	return 0;
}

static int shape_check_extends(const char *text, const struct profile_env *env, char **out, struct err *e)
{
	if (strchr(text, '/'))
		return shape_expand(text, env, out, e);
	*out = mem_strdup(text);
	return 0;
}

const struct shape shape_root = {.what = "host, empty or PATH", .check = shape_check_root, .expands = true};
const struct shape shape_grant = {.what = "[?]PATH[:DEST]", .check = shape_check_grant, .expands = true};
const struct shape shape_deny = {.what = "path or glob", .check = shape_check_deny, .expands = true, .relative = true};
const struct shape shape_protect = {.what = "path in the project", .check = shape_check_protect, .relative = true};
const struct shape shape_pass = {.what = "NAME or PREFIX*", .check = shape_check_pass};
const struct shape shape_assignment = {.what = "NAME=VALUE", .check = shape_check_assignment};
const struct shape shape_user = {.what = "name", .check = shape_check_user};
const struct shape shape_hostname = {.what = "name", .check = shape_check_hostname};
const struct shape shape_egress = {.what = "HOST[:PORTS]", .check = shape_check_rule};
const struct shape shape_syscall = {.what = "name or @group", .check = shape_check_syscall};
const struct shape shape_command = {.what = "words", .check = shape_check_command};
const struct shape shape_program = {.what = "path or name", .check = shape_check_program, .expands = true};
const struct shape shape_extends = {.what = "name or path", .check = shape_check_extends, .expands = true};
