/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The key table and the values: defaults, what each kind of key takes and refuses, printing and reading back. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "profile/keys.h"
#include "profile/load.h"
#include "profile/profile.h"
#include "profile/value.h"

#include "base/banned.h"

static const char *test_get(const char *name)
{
	if (str_eq(name, "DIR"))
		return "/srv/dir";
	if (str_eq(name, "ODD"))
		return "/srv/a$b";
	if (str_eq(name, "COLON"))
		return "/srv/a:b";
	if (str_eq(name, "LINES"))
		return "/srv/a\nallow = *";
	if (str_eq(name, "LATIN"))
		return "/srv/\xe9";
	if (str_eq(name, "EMPTY"))
		return "";
	if (str_eq(name, "BLANK"))
		return "/srv/a ";
	return NULL;
}

static const struct profile_env test_env = {.home = "/home/me", .config_home = "/nonexistent", .get = test_get};

static void load_text(struct profile *p, const char *text)
{
	struct faults faults = {0};
	struct str out = {0};

	profile_init(p);
	if (profile_load_bytes(p, "/nonexistent/t.ini", text, strlen(text), &test_env, &faults) < 0) {
		faults_text(&faults, &out);
		fail_msg("%s", out.text);
	}
	faults_free(&faults);
}

/* --- the table --- */

static void table_is_sound(void **state)
{
	(void)state;
	for (const struct key *k = key_table; k->section; k++) {
		assert_ptr_equal(key_find(k->section, k->name), k);
		assert_non_null(k->text);
		assert_null(strpbrk(k->text, "\t\n"));
		assert_int_equal(k->type == KEY_CHOICE, k->choices != NULL);
		assert_int_equal(k->type == KEY_LIST, k->merge == MERGE_APPEND);
		assert_true(k->min <= k->max);
		assert_false(k->initial && k->type == KEY_LIST);
		/* What is not built must not be asked for by default. */
		if (!k->built && k->type == KEY_BOOL && !str_eq(k->section, "egress"))
			assert_string_equal(k->initial, "no");
		for (const struct key *o = key_table; o < k; o++)
			assert_false(o->offset == k->offset && k->offset != KEY_NO_MEMBER);
		/* Sections stand together, or the printed profile would open one twice. */
		if (k > key_table && !str_eq(k[-1].section, k->section))
			for (const struct key *o = key_table; o < k; o++)
				assert_string_not_equal(o->section, k->section);
	}
}

static void table_choices_are_the_enums(void **state)
{
	(void)state;
	assert_string_equal(key_find("workspace", "repo-mode")->choices[REPO_NONE], "none");
	assert_string_equal(key_find("egress", "mode")->choices[EGRESS_HOST], "host");
	assert_string_equal(key_find("egress", "addresses")->choices[ADDRESSES_REAL], "real");
	assert_string_equal(key_find("egress", "ebpf")->choices[MECHANISM_OFF], "off");
	assert_string_equal(key_find("limits", "cgroup")->choices[MECHANISM_REQUIRE], "require");
	assert_string_equal(key_find("syscalls", "policy")->choices[SYSCALLS_OFF], "off");
}

static void defaults_are_the_interface(void **state)
{
	struct profile p;
	struct err e;

	(void)state;
	profile_init(&p);
	assert_int_equal(p.egress.mode.v, EGRESS_NONE);
	assert_int_equal(p.workspace.repo_mode.v, REPO_OVERLAY);
	assert_string_equal(p.filesystem.root.v, "host");
	assert_int_equal(p.workspace.scratch_size.bytes, 1 << 30);
	assert_int_equal(p.filesystem.tmp_size.bytes, 256 << 20);
	assert_int_equal(p.limits.core_size.bytes, 0);
	assert_int_equal(p.limits.grace.ms, 5000);
	assert_int_equal(p.limits.wall_time.ms, 0);
	assert_false(p.limits.wall_time.set);
	assert_false(p.limits.grace.set);
	assert_int_equal(p.syscalls.policy.v, SYSCALLS_DEFAULT);
	assert_string_equal(p.identity.user.v, "agent");
	assert_string_equal(p.identity.hostname.v, "agentbox");
	assert_true(p.egress.inspect.v);
	assert_false(p.identity.uid.set);
	assert_null(p.profile.name.v);
	assert_true(p.workspace.protect.n > 8 && p.workspace.protect.n <= 16);
	assert_string_equal(p.workspace.protect.items[0].text, ".git/hooks");
	assert_string_equal(p.workspace.protect.items[0].from.file, "default");
	assert_int_equal(profile_supported(&p, &e), 0);
	profile_free(&p);
}

/* --- one value --- */

struct value_case {
	const char *section, *key, *text;
	const char *want; /* as printed; NULL: refused with `message` */
	const char *message;
};

#define ID_MAX "4294967294"

static const struct value_case value_cases[] = {
	{"workspace", "repo-mode", "write", "write", NULL},
	{"workspace", "repo-mode", " read\t", "read", NULL},
	{"workspace", "repo-mode", "overlai", NULL, "`overlai` is no choice; did you mean overlay?"},
	{"workspace", "repo-mode", "x", NULL, "`x` is no choice; write one of overlay|write|read|none"},
	{"workspace", "repo-mode", "Write", NULL, "`Write` is no choice; did you mean write?"},
	{"workspace", "repo-mode", "", NULL, "no value; write one, or take the line out"},
	{"workspace", "mirror", "yes", "yes", NULL},
	{"workspace", "mirror", "true", NULL, "`true` is neither; write yes or no"},
	{"workspace", "scratch-size", "4096K", "4M", NULL},
	{"workspace", "scratch-size", "0", NULL, "`0` is out of range; write 4K or more"},
	{"workspace", "scratch-size", "-1", NULL,
	 "`-1` is no size; write a whole number with K, M, G or T behind it, as 512M"},
	{"workspace", "scratch-size", "99999999999999T", NULL, "`99999999999999T` is out of range; write 4K or more"},
	{"limits", "memory", "512M", "512M", NULL},
	{"limits", "memory", "0", "0", NULL},
	{"limits", "memory", "512", NULL, "`512` is out of range; write 1M or more, or 0 (no limit)"},
	{"limits", "wall-time", "90s", "90s", NULL},
	{"limits", "wall-time", "120", "2m", NULL},
	{"limits", "wall-time", "1500ms", "1500ms", NULL},
	{"limits", "wall-time", "5 s", NULL,
	 "`5 s` is no duration; write a whole number with ms, s, m, h or d behind it, as 30s"},
	{"limits", "cpu-time", "10ms", NULL, "`10ms` is out of range; write 1s to 3650d, or 0 (no limit)"},
	{"limits", "cpus", "1.5", "1.5", NULL},
	{"limits", "cpus", "2.050", "2.05", NULL},
	{"limits", "cpus", "0.001", NULL, "`0.001` is out of range; write 0.01 to 8192, or 0 (no limit)"},
	{"limits", "cpus", "1,5", NULL, "`1,5` is no number; write digits with at most three places, as 1.5"},
	{"limits", "open-files", "3", NULL, "`3` is out of range; write 16 to 1073741816, or 0 (no limit)"},
	{"limits", "processes", "0x10", NULL, "`0x10` is no number; write digits alone"},
	{"identity", "uid", "0", "0", NULL},
	{"identity", "uid", ID_MAX, ID_MAX, NULL},
	{"identity", "uid", "4294967295", NULL, "`4294967295` is out of range; write 0 to 4294967294"},
	{"identity", "user", "an.agent_1", "an.agent_1", NULL},
	{"identity", "user", "a:b", NULL,
	 "`a:b` is no user name; write a letter, then letters, digits, . _ or -, 32 at most"},
	{"identity", "hostname", "a-1.b", "a-1.b", NULL},
	{"identity", "hostname", "-a", NULL,
	 "`-a` is no host name; write letters, digits and -, in parts joined by a dot"},
	{"identity", "hostname", "a..b", NULL,
	 "`a..b` is no host name; write letters, digits and -, in parts joined by a dot"},
	{"identity", "hostname", "a_b", NULL,
	 "`a_b` is no host name; write letters, digits and -, in parts joined by a dot"},
	{"filesystem", "root", "empty", "empty", NULL},
	{"filesystem", "root", "~/roots/./x//", "/home/me/roots/x", NULL},
	{"filesystem", "root", "hosts", NULL, "`hosts` is not an absolute path; start it with /, ~ or $VAR"},
	{"filesystem", "root", "/", NULL, "/ is the host's root; write host"},
	{"filesystem", "read", "/a", "/a", NULL},
	{"filesystem", "read", "?~:/x/", "?/home/me:/x", NULL},
	{"filesystem", "read", "$DIR/a:${DIR}", "/srv/dir/a:/srv/dir", NULL},
	{"filesystem", "read", "/a$$b", "/a$$b", NULL},
	{"filesystem", "read", "$ODD/c", "/srv/a$$b/c", NULL},
	{"filesystem", "read", "/a b ;c #d", "/a b ;c #d", NULL},
	{"filesystem", "read", "/a/~", "/a/~", NULL},
	{"filesystem", "read", "a/b", NULL, "`a/b` is not an absolute path; start it with /, ~ or $VAR"},
	{"filesystem", "read", "?", NULL, "`` is not an absolute path; start it with /, ~ or $VAR"},
	{"filesystem", "read", "$NONE/a", NULL, "the variable NONE is not set; set it, or write the path out"},
	{"filesystem", "read", "$EMPTY/a", NULL, "the variable EMPTY is empty; set it, or write the path out"},
	{"filesystem", "read", "?$NONE/a", NULL, "the variable NONE is not set; set it, or write the path out"},
	{"filesystem", "read", "/a/$/b", NULL, "a `$` without the name of a variable; write $$ for a plain `$`"},
	{"filesystem", "read", "/a/$1", NULL, "a `$` without the name of a variable; write $$ for a plain `$`"},
	{"filesystem", "read", "/a/${DIR", NULL, "a `${` without `}`; write ${NAME}"},
	{"filesystem", "read", "/a/${D-R}", NULL, "a `$` without the name of a variable; write $$ for a plain `$`"},
	{"filesystem", "read", "~you/x", NULL, "`~` stands only for your own home; write the other path out"},
	{"filesystem", "read", "/a/../b", NULL, "`/a/../b` has a `..`; write the path without"},
	{"filesystem", "read", "/a:/b:/c", NULL,
	 "a path here cannot hold a `:`; write PATH:DEST, or use --bind for such a path"},
	{"filesystem", "read", "$COLON", NULL,
	 "a path here cannot hold a `:`; write PATH:DEST, or use --bind for such a path"},
	{"filesystem", "read", "/a:", NULL,
	 "a path must stand on either side of the `:`, without blanks; write PATH:DEST"},
	{"filesystem", "read", "/a : /b", NULL,
	 "a path must stand on either side of the `:`, without blanks; write PATH:DEST"},
	{"filesystem", "read", "$LINES", NULL, "after `~` and $VAR: control character 0x0a; take it out"},
	{"filesystem", "read", "$LATIN", NULL, "after `~` and $VAR: byte 0xe9 is not UTF-8; write the file in UTF-8"},
	{"filesystem", "read", "$BLANK", NULL, "`/srv/a ` begins or ends with a blank; rename the file"},
	{"filesystem", "read", "/a\nb", NULL, "control character 0x0a; take it out"},
	{"filesystem", "read", "/a\x1b[2J", NULL, "control character 0x1b; take it out"},
	{"filesystem", "read", "/a\xc2\x9b", NULL, "control character 0x9b; take it out"},
	{"filesystem", "read", "/\xff", NULL, "byte 0xff is not UTF-8; write the file in UTF-8"},
	{"filesystem", "deny", "**/*.pem", "**/*.pem", NULL},
	{"filesystem", "deny", "~/.ssh", "/home/me/.ssh", NULL},
	{"filesystem", "deny", "./none", "./none", NULL},
	{"filesystem", "deny", "./~x", "./~x", NULL},
	{"filesystem", "deny", "a/../b", NULL, "`a/../b` has a `..`; write the path without"},
	{"filesystem", "deny", ".", NULL, "this is the project itself; use repo-mode = read or none"},
	{"filesystem", "deny", "./ x", NULL, "` x` begins or ends with a blank; rename the file"},
	{"workspace", "protect", "a//b/./c/", "a/b/c", NULL},
	{"workspace", "protect", "./$x", "./$x", NULL},
	{"workspace", "protect", "/etc", NULL,
	 "`/etc` is not relative to the project; write it from there, or use [filesystem] read or deny"},
	{"workspace", "protect", "*.sh", NULL, "`*.sh` is a glob; write each path, or use [filesystem] deny"},
	{"workspace", "protect", "../x", NULL, "`../x` has a `..`; write the path without"},
	{"environment", "pass", "LC_*", "LC_*", NULL},
	{"environment", "pass", "*", "*", NULL},
	{"environment", "pass", "1A", NULL, "`1A` is no name of a variable; write NAME, or the start of one and *"},
	{"environment", "pass", "A*B", NULL, "`A*B` is no name of a variable; write NAME, or the start of one and *"},
	{"environment", "set", "A=b=$c ;d", "A=b=$c ;d", NULL},
	{"environment", "set", "A=", "A=", NULL},
	{"environment", "set", "=b", NULL, "`=b` does not set a variable; write NAME=VALUE"},
	{"environment", "set", "A-B=c", NULL, "`A-B=c` does not set a variable; write NAME=VALUE"},
	{"egress", "allow", "*.example.org:443", "*.example.org:443", NULL},
	{"syscalls", "allow", "@keyring", "@keyring", NULL},
	{"syscalls", "allow", "io_uring_setup", "io_uring_setup", NULL},
	{"syscalls", "allow", "@", NULL, "`@` is no system call; write one name as in syscalls(2), or a @group"},
	{"syscalls", "allow", "a b", NULL, "`a b` is no system call; write one name as in syscalls(2), or a @group"},
	{"commands", "allow", "git -c 'a b' diff", "git -c 'a b' diff", NULL},
	{"commands", "allow", "git 'diff", NULL, "the ' is not closed; put another at the end"},
	{"commands", "allow", "git \\", NULL, "a `\\` at the end quotes nothing; take it out"},
	{"commands", "exec", "python3", "python3", NULL},
	{"commands", "exec", "$DIR/bin/x", "/srv/dir/bin/x", NULL},
	{"commands", "exec", "bin/x", NULL, "`bin/x` is neither a name nor an absolute path; write one of them"},
	{"commands", "exec", "", NULL, "no value; write one, or none to empty the list"},
};

static void print_value(const struct profile *p, const struct key *k, struct str *out)
{
	if (k->type == KEY_LIST) {
		const struct val_list *l = key_member_const(p, k);

		assert_true(l->n > 0);
		value_item_text(k, l->items[l->n - 1].text, out);
	} else {
		value_text(p, k, out);
	}
}

static void values_are_checked(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(value_cases) / sizeof(value_cases[0]); i++) {
		const struct value_case *c = &value_cases[i];
		const struct key *k = key_find(c->section, c->key);
		struct profile p;
		struct str printed = {0}, before = {0}, after = {0};
		struct err e = {0};
		int r;

		assert_non_null(k);
		profile_init(&p);
		profile_print(&p, true, &before);
		r = value_set(&p, k, c->text, (struct origin){"t", 7}, &test_env, &e);
		if (c->want) {
			if (r < 0)
				fail_msg("%s.%s = %s: %s", c->section, c->key, c->text, e.msg);
			print_value(&p, k, &printed);
			assert_string_equal(printed.text, c->want);
			assert_string_equal(value_origin(&p, k).file, "t");
			assert_int_equal(value_origin(&p, k).line, 7);
		} else {
			assert_int_equal(r, -EINVAL);
			assert_string_equal(e.msg, c->message);
			profile_print(&p, true, &after);
			assert_string_equal(after.text, before.text);
		}
		str_free(&printed);
		str_free(&before);
		str_free(&after);
		profile_free(&p);
	}
}

/* --- printing --- */

static void assert_reads_back(const struct profile *p)
{
	struct str a = {0}, b = {0}, c = {0};
	struct profile q;

	profile_print(p, false, &a);
	load_text(&q, a.text);
	profile_print(&q, false, &b);
	assert_string_equal(a.text, b.text);
	profile_free(&q);
	/* With the origins as comments it is the same profile. */
	profile_print(p, true, &c);
	load_text(&q, c.text);
	str_free(&b);
	profile_print(&q, false, &b);
	assert_string_equal(a.text, b.text);
	profile_free(&q);
	str_free(&a);
	str_free(&b);
	str_free(&c);
}

static void defaults_read_back(void **state)
{
	struct profile p;

	(void)state;
	profile_init(&p);
	assert_reads_back(&p);
	profile_free(&p);
}

static void all_values_read_back(void **state)
{
	struct profile p;
	struct err e;

	(void)state;
	profile_init(&p);
	for (size_t i = 0; i < sizeof(value_cases) / sizeof(value_cases[0]); i++) {
		const struct value_case *c = &value_cases[i];

		if (!c->want)
			continue;
		assert_int_equal(profile_set(&p, "--set", c->section, c->key, c->text, &test_env, &e), 0);
		assert_reads_back(&p);
	}
	assert_int_equal(profile_set(&p, "--set", "workspace", "protect", "none", &test_env, &e), 0);
	assert_int_equal(p.workspace.protect.n, 0);
	assert_reads_back(&p);
	profile_free(&p);
}

static void json_has_values_and_places(void **state)
{
	struct profile p;
	struct str out = {0};
	json_t *root, *key;

	(void)state;
	load_text(&p, "[limits]\ncpus = 1.5\nmemory = 1M\n[filesystem]\nread = /a\nread = /b\n");
	profile_print_json(&p, &out);
	root = json_loads(out.text, 0, NULL);
	assert_non_null(root);
	key = json_object_get(json_object_get(root, "limits"), "cpus");
	assert_true(json_real_value(json_object_get(key, "value")) == 1.5);
	assert_string_equal(json_string_value(json_object_get(key, "from")), "/nonexistent/t.ini:2");
	key = json_object_get(json_object_get(root, "limits"), "memory");
	assert_int_equal(json_integer_value(json_object_get(key, "value")), 1 << 20);
	key = json_object_get(json_object_get(root, "filesystem"), "read");
	assert_string_equal(json_string_value(json_array_get(json_object_get(key, "value"), 1)), "/b");
	assert_string_equal(json_string_value(json_array_get(json_object_get(key, "from"), 1)), "/nonexistent/t.ini:6");
	key = json_object_get(json_object_get(root, "limits"), "wall-time");
	assert_true(json_is_null(json_object_get(key, "value")));
	assert_string_equal(json_string_value(json_object_get(key, "from")), "default");
	json_decref(root);
	str_free(&out);
	profile_free(&p);
}

static void a_long_path_is_refused_when_read_back(void **state)
{
	char value[400] = "/";
	struct faults faults = {0};
	struct profile p, q;
	struct str out = {0};
	struct err e;

	(void)state;
	memset(value + 1, 'a', 250);
	profile_init(&p);
	assert_int_equal(profile_set(&p, "--set", "filesystem", "read", value, &test_env, &e), 0);
	profile_print(&p, false, &out);
	profile_init(&q);
	assert_int_equal(profile_load_bytes(&q, "/nonexistent/t.ini", out.text, out.len, &test_env, &faults), -EINVAL);
	assert_int_equal(q.filesystem.read.n, 0);
	faults_free(&faults);
	str_free(&out);
	profile_free(&p);
	profile_free(&q);
}

/* --- options --- */

static void set_overrides_and_appends(void **state)
{
	struct profile p;
	struct err e;
	char place[64];

	(void)state;
	load_text(&p, "[limits]\nmemory = 1G\n[filesystem]\nread = /a\n");
	assert_int_equal(profile_set_text(&p, "--set", "limits.memory=2G", &test_env, &e), 0);
	assert_int_equal(p.limits.memory.bytes, 2ULL << 30);
	assert_string_equal(origin_text(p.limits.memory.from, place, sizeof(place)), "--set");
	assert_int_equal(profile_set_text(&p, "--set", "filesystem.read=/b", &test_env, &e), 0);
	assert_int_equal(p.filesystem.read.n, 2);
	assert_int_equal(profile_set_text(&p, "--set", "environment.set=A=b=c", &test_env, &e), 0);
	assert_string_equal(p.environment.set.items[0].text, "A=b=c");
	assert_int_equal(profile_set_text(&p, "--set", "filesystem.read=none", &test_env, &e), 0);
	assert_int_equal(p.filesystem.read.n, 0);
	profile_free(&p);
}

static void set_says_what_is_wrong(void **state)
{
	static const struct {
		const char *text, *message;
	} cases[] = {
		{"limits.memry=1G", "--set: [limits] memry: no such key; did you mean memory?"},
		{"limit.memory=1G", "--set: [limit]: no such section; did you mean [limits]?"},
		{"zzzzzzzz.memory=1G",
		 "--set: [zzzzzzzz]: no such section; there are profile, workspace, filesystem, environment, "
		 "identity, egress, limits, output, syscalls, commands"},
		{"egress.memory=1G", "--set: [egress] memory: no such key; it belongs to [limits]"},
		{"limits.zzzzzzzz=1G", "--set: [limits] zzzzzzzz: no such key; `agentbox show --keys` lists them"},
		{"limits.memory=", "--set: [limits] memory: no value; write one, or take the line out"},
		{"limits.memory", "--set: `limits.memory` sets nothing; write SECTION.KEY=VALUE, as limits.memory=1G"},
		{"memory=a.b", "--set: `memory=a.b` sets nothing; write SECTION.KEY=VALUE, as limits.memory=1G"},
		{"a\x1b", "--set: `a\\x1b` sets nothing; write SECTION.KEY=VALUE, as limits.memory=1G"},
		{"profile.extends=x",
		 "--set: [profile] extends: stands in files only; name that profile with --profile"},
		{"filesystem.read=/a\n[egress]", "--set: [filesystem] read: control character 0x0a; take it out"},
	};
	struct profile p;
	struct err e;

	(void)state;
	profile_init(&p);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(profile_set_text(&p, "--set", cases[i].text, &test_env, &e), -EINVAL);
		assert_string_equal(e.msg, cases[i].message);
	}
	profile_free(&p);
}

/* --- what is built --- */

static void what_is_not_built_is_refused(void **state)
{
	struct str text = {0};
	struct profile p;
	struct err e;

	(void)state;
	for (const struct key *k = key_table; k->section; k++) {
		if (k->built && !(k->type == KEY_CHOICE && ~k->built_choices))
			continue;
		profile_init(&p);
		assert_int_equal(profile_supported(&p, &e), 0);
		for (size_t i = 0; k->choices && k->choices[i]; i++) {
			if ((k->built && k->built_choices & 1U << i) || str_eq(k->choices[i], k->initial))
				continue;
			assert_int_equal(profile_set(&p, "--set", k->section, k->name, k->choices[i], &test_env, &e),
					 0);
			assert_int_equal(profile_supported(&p, &e), -ENOTSUP);
			str_free(&text);
			str_addf(
				&text,
				"--set: [%s] %s = %s: not built into this version; take it out, or use a version that has it",
				k->section, k->name, k->choices[i]);
			assert_string_equal(e.msg, text.text);
		}
		profile_free(&p);
	}
	profile_init(&p);
	assert_int_equal(profile_set(&p, "--set", "output", "capture", "yes", &test_env, &e), 0);
	assert_int_equal(profile_supported(&p, &e), 0);
	/* Said, but the same as not said. */
	assert_int_equal(profile_set(&p, "--set", "output", "capture", "no", &test_env, &e), 0);
	assert_int_equal(profile_set(&p, "--set", "egress", "max-bytes", "0", &test_env, &e), 0);
	assert_int_equal(profile_set(&p, "--set", "egress", "allow", "none", &test_env, &e), 0);
	assert_int_equal(profile_supported(&p, &e), 0);
	str_free(&text);
	profile_free(&p);
}

static void origins_are_printable(void **state)
{
	char buf[64], small[5];

	(void)state;
	assert_string_equal(origin_text((struct origin){"a\x1b[2J", 3}, buf, sizeof(buf)), "a\\x1b[2J:3");
	assert_string_equal(origin_text((struct origin){"abcdefgh", 3}, small, sizeof(small)), "abcd");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(table_is_sound),
		cmocka_unit_test(table_choices_are_the_enums),
		cmocka_unit_test(defaults_are_the_interface),
		cmocka_unit_test(values_are_checked),
		cmocka_unit_test(defaults_read_back),
		cmocka_unit_test(all_values_read_back),
		cmocka_unit_test(json_has_values_and_places),
		cmocka_unit_test(a_long_path_is_refused_when_read_back),
		cmocka_unit_test(set_overrides_and_appends),
		cmocka_unit_test(set_says_what_is_wrong),
		cmocka_unit_test(what_is_not_built_is_refused),
		cmocka_unit_test(origins_are_printable),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
