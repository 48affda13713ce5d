/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Files: the traps of inih, all faults in one go, extends, and where a profile is looked up. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"
#include "profile/inifile.h"
#include "profile/load.h"
#include "profile/profile.h"

#include "base/banned.h"

static const char *test_get(const char *name)
{
	(void)name;
	return NULL;
}

static const struct profile_env no_env = {.home = "/nonexistent", .get = test_get};

/* The faults of these bytes, one a line. Caller frees. */
static char *faults_of(const char *bytes, size_t len, struct profile *p)
{
	struct faults faults = {0};
	struct str out = {0};
	int r;

	profile_init(p);
	r = profile_load_bytes(p, "f", bytes, len, &no_env, &faults);
	assert_int_equal(r, faults.n ? -EINVAL : 0);
	faults_text(&faults, &out);
	faults_free(&faults);
	return str_steal(&out);
}

struct file_case {
	const char *text;
	const char *faults; /* "" for none */
};

#define X10 "xxxxxxxxxx"
#define X50 X10 X10 X10 X10 X10

static const struct file_case file_cases[] = {
	{"", ""},
	{"\n# c\n; c\n#[egress]\n \t\n[egress]\n", ""},
	{"[limits]\nmemory=1G", ""},
	{"[limits]  \nmemory\t=\t1G \t\n", ""},
	/* CRLF is a line end; a CR anywhere else is not. */
	{"[limits]\r\nmemory = 1G\r\n\r\n", ""},
	{"[limits]\rmemory = 1G\n", "f:1: control character 0x0d; take it out\n"},
	{"[limits]\nmemory = 1G\r", "f:2: control character 0x0d; take it out\n"},
	{"\xef\xbb\xbf[limits]\nmemory = 1G\n",
	 "f:1: the file starts with a byte order mark; save it as UTF-8 without one\n"
	 "f:2: memory: no section stands before it; write [SECTION] above\n"},
	{"[filesystem]\nread = /a\n\tdeny = /b\n  /c\n",
	 "f:3: the line is indented; start it at the margin (a list is several lines with one key)\n"
	 "f:4: the line is indented; start it at the margin (a list is several lines with one key)\n"},
	{"  # c\n",
	 "f:1: the line is indented; start it at the margin (a list is several lines with one key)\n"},
	{"[" X50 X10 "]\nallow = *\n", "f:1: [" X50 X10 "]: the name has over 49 bytes; no section has\n"},
	/* inih would cut the name after 49 bytes, and it would then be a section. */
	{"[egress" X50 "\nallow = *\n", "f:1: a section without `]`; write [NAME]\n"},
	{"[egress] allow = *\n", "f:1: [egress]: ` allow = *` follows the section; put it on a line of its own\n"},
	{"[egress] # c\n", "f:1: [egress]: ` # c` follows the section; put it on a line of its own\n"},
	{"[egress ;]\n", "f:1: [egress ;]: no such section; did you mean [egress]?\n"},
	{"[ egress ]\n", "f:1: [ egress ]: no such section; did you mean [egress]?\n"},
	{"[]\n",
	 "f:1: []: no such section; there are profile, workspace, filesystem, environment, identity, egress, limits, "
	 "output, syscalls, commands\n"},
	/* The keys of a section that is none are nobody's, not the section's before it. */
	{"[limits]\n[egres]\nmemory = 1G\nnosuch\n[limits]\nmemory = 1G\n",
	 "f:2: [egres]: no such section; did you mean [egress]?\n"
	 "f:4: `nosuch`: neither a section nor a key; write KEY = VALUE\n"},
	{"memory = 1G\n", "f:1: memory: no section stands before it; write [SECTION] above\n"},
	{"[limits]\nmemory : 1G\n", "f:2: `memory : 1G`: neither a section nor a key; write KEY = VALUE\n"},
	{"[limits]\nmemory : x = 1G\n", "f:2: `memory : x`: no key has such a name; write KEY = VALUE\n"},
	{"[limits]\n= 1G\n", "f:2: ``: no key has such a name; write KEY = VALUE\n"},
	{"[limits]\nmemory ;x = 1G\n", "f:2: `memory ;x`: no key has such a name; write KEY = VALUE\n"},
	{"[limits]\nmemory =\n", "f:2: [limits] memory: no value; write one, or take the line out\n"},
	{"[limits]\nmemory = ;1G\n",
	 "f:2: [limits] memory: `;1G` is no size; write a whole number with K, M, G or T behind it, as 512M\n"},
	{"[limits]\nmemory = 1G ; more\n",
	 "f:2: [limits] memory: `1G ; more` is no size; write a whole number with K, M, G or T "
	 "behind it, as 512M\n"},
	{"[limits]\nmemory = 1G\n[egress]\n[limits]\nmemory = 2G\n",
	 "f:5: [limits] memory: given twice, first in line 2; take one of them out\n"},
	{"[limits]\nMemory = 1G\n", "f:2: [limits] Memory: no such key; did you mean memory?\n"},
	{"[egress]\nalow = a\n", "f:2: [egress] alow: no such key; did you mean allow?\n"},
	{"[secret token]\nfrom = x\n",
	 "f:1: [secret token]: secrets are not built into this version; take the section out\n"},
	{"[limits]\nmemory = \001\n", "f:2: control character 0x01; take it out\n"},
	{"[\002]\nmemory = 1\n", "f:1: control character 0x02; take it out\n"},
	{"[limits]\n\xff = 1\n", "f:2: byte 0xff is not UTF-8; write the file in UTF-8\n"},
	{"[profile]\nextends = \n",
	 "f:2: [profile] extends: no value; write the name of a profile, or take the line out\n"},
	{"[profile]\nextends = /nonexistent/x.ini\n",
	 "f:2: [profile] extends: cannot read the profile /nonexistent/x.ini: No such file or directory\n"},
};

static void files_are_checked(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(file_cases) / sizeof(file_cases[0]); i++) {
		const struct file_case *c = &file_cases[i];
		struct profile p;
		char *got = faults_of(c->text, strlen(c->text), &p);

		assert_string_equal(got, c->faults);
		free(got);
		profile_free(&p);
	}
}

static void all_faults_at_once_and_in_order(void **state)
{
	static const char text[] = "[limits]\nmemory = x\nnosuch = 1\n bad\ngrace = 5s\ngrace = 5s\n";
	struct profile p;
	char *got = faults_of(text, strlen(text), &p);

	(void)state;
	assert_string_equal(
		got,
		"f:2: [limits] memory: `x` is no size; write a whole number with K, M, G or T behind it, as 512M\n"
		"f:3: [limits] nosuch: no such key; `agentbox show --keys` lists them\n"
		"f:4: the line is indented; start it at the margin (a list is several lines with one key)\n"
		"f:6: [limits] grace: given twice, first in line 5; take one of them out\n");
	free(got);
	profile_free(&p);
}

/* A line of `total` bytes that a reader of 199 bytes would take for "read = /x" and then "allow = *". */
static char *padded(size_t total)
{
	char *line = mem_zalloc(total + 1);

	memset(line, ' ', total);
	memcpy(line, "read = /x", strlen("read = /x"));
	memcpy(line + total - strlen("allow = *"), "allow = *", strlen("allow = *"));
	return line;
}

static void a_padded_line_smuggles_nothing(void **state)
{
	(void)state;
	for (size_t total = INIFILE_LINE_MAX - 3; total < INIFILE_LINE_MAX + 30; total++) {
		char *line = padded(total);
		char *text = mem_printf("[filesystem]\n%s\n[egress]\n#%s\n%s\n", line, line, line);
		struct profile p;
		char *got = faults_of(text, strlen(text), &p);
		char *want = mem_printf("f:2: the line has %zu bytes; 199 are the most, split or shorten it\n", total);

		assert_int_equal(p.egress.allow.n, 0);
		if (total > INIFILE_LINE_MAX) {
			assert_true(str_has_prefix(got, want));
			assert_non_null(strstr(got, "f:4: the line has "));
			assert_int_equal(p.filesystem.read.n, 0);
		} else {
			assert_int_equal(p.filesystem.read.n, 1);
			assert_int_equal(strlen(p.filesystem.read.items[0].text), total - strlen("read = "));
		}
		free(want);
		free(got);
		free(text);
		free(line);
		profile_free(&p);
	}
}

static void a_long_section_takes_its_keys_along(void **state)
{
	char *text = mem_printf("[egress]\n[%0*d]\nallow = *\n", 300, 0);
	struct profile p;
	char *got = faults_of(text, strlen(text), &p);

	(void)state;
	assert_string_equal(got, "f:2: the line has 302 bytes; 199 are the most, split or shorten it\n");
	assert_int_equal(p.egress.allow.n, 0);
	free(got);
	free(text);
	profile_free(&p);
}

static void a_nul_byte_ends_nothing(void **state)
{
	static const char text[] = "[filesystem]\ndeny = /a\0/b\nread = /c\n";
	struct profile p;
	char *got = faults_of(text, sizeof(text) - 1, &p);

	(void)state;
	assert_string_equal(got, "f:2: the line holds a NUL byte; write the file as plain text\n");
	assert_int_equal(p.filesystem.deny.n, 0);
	assert_int_equal(p.filesystem.read.n, 1);
	assert_int_equal(p.filesystem.read.items[0].from.line, 3);
	free(got);
	profile_free(&p);
}

static void values_are_whole(void **state)
{
	static const char text[] = "[environment]\nset = A=x ;y #z = [w]\nset = B=;\n[filesystem]\nread = /a ;b\n";
	struct profile p;
	char *got = faults_of(text, strlen(text), &p);

	(void)state;
	assert_string_equal(got, "");
	assert_string_equal(p.environment.set.items[0].text, "A=x ;y #z = [w]");
	assert_string_equal(p.environment.set.items[1].text, "B=;");
	assert_string_equal(p.filesystem.read.items[0].text, "/a ;b");
	free(got);
	profile_free(&p);
}

static void lists_grow_and_none_empties(void **state)
{
	static const char text[] =
		"[workspace]\nprotect = none\nprotect = a\n[filesystem]\nread = /a\nread = none\nread = /b\n";
	struct profile p;
	char *got = faults_of(text, strlen(text), &p);

	(void)state;
	assert_string_equal(got, "");
	assert_int_equal(p.workspace.protect.n, 1);
	assert_string_equal(p.workspace.protect.items[0].text, "a");
	assert_int_equal(p.filesystem.read.n, 1);
	assert_string_equal(p.filesystem.read.items[0].text, "/b");
	free(got);
	profile_free(&p);
}

/* --- on disk --- */

static char *test_dir;

static int make_dir(void **state)
{
	char *name = mem_strdup("/tmp/test_profile.XXXXXX");

	(void)state;
	assert_non_null(mkdtemp(name));
	test_dir = name;
	return 0;
}

static int remove_dir(void **state)
{
	static const char *const dirs[] = {"one", "two", "cfg/agentbox/profiles", "cfg/agentbox", "cfg", ""};

	(void)state;
	for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++) {
		static const char *const files[] = {"a.ini",  "b.ini",	"base.ini", "link.ini", "fifo.ini",
						    "c0.ini", "c1.ini", "c2.ini",   "c3.ini",	"c4.ini",
						    "c5.ini", "c6.ini", "c7.ini",   "c8.ini",	"c9.ini"};

		for (size_t j = 0; j < sizeof(files) / sizeof(files[0]); j++) {
			char *path = mem_printf("%s/%s/%s", test_dir, dirs[i], files[j]);

			unlink(path);
			free(path);
		}
		char *dir = mem_printf("%s/%s", test_dir, dirs[i]);

		rmdir(dir);
		free(dir);
	}
	free(test_dir);
	return 0;
}

static void put_dir(const char *name)
{
	char *path = mem_printf("%s/%s", test_dir, name);

	assert_int_equal(mkdir(path, 0700), 0);
	free(path);
}

static void put(const char *name, const char *text)
{
	char *path = mem_printf("%s/%s", test_dir, name);
	FILE *f = fopen(path, "we");

	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
	free(path);
}

/*
 * Loads NAME (without a "/": by name) with AGENTBOX_PROFILES = one:two and cfg as the caller's configuration.
 * Return: what went wrong ("" where nothing did), with the directory's name left out. Caller frees.
 */
static char *load_result(const char *name, struct profile *p)
{
	char *search = mem_printf("%s/one::%s/two", test_dir, test_dir);
	char *config = mem_printf("%s/cfg", test_dir);
	struct profile_env env = {.search = search, .config_home = config, .home = "/nonexistent", .get = test_get};
	struct faults faults = {0};
	struct str out = {0}, plain = {0};
	struct err e = {0};
	int r;

	profile_init(p);
	r = profile_load(p, name, &env, &faults, &e);
	assert_int_equal(r == 0, faults.n == 0 && e.code == 0);
	faults_text(&faults, &out);
	if (r < 0 && !faults.n)
		str_add(&out, e.msg);
	for (const char *c = out.text ? out.text : ""; *c;) {
		if (str_has_prefix(c, test_dir)) {
			c += strlen(test_dir);
			continue;
		}
		str_add_n(&plain, c++, 1);
	}
	faults_free(&faults);
	str_free(&out);
	free(search);
	free(config);
	return str_steal(&plain);
}

static char *load_file_result(const char *name, struct profile *p)
{
	char *path = mem_printf("%s/%s", test_dir, name);
	char *got = load_result(path, p);

	free(path);
	return got;
}

static void assert_result(const char *name, const char *want)
{
	struct profile p;
	char *got = strchr(name, '/') ? load_file_result(name, &p) : load_result(name, &p);

	assert_string_equal(got, want);
	free(got);
	profile_free(&p);
}

static void lookup_has_an_order(void **state)
{
	struct profile p;
	char *got;

	(void)state;
	put_dir("one");
	put_dir("two");
	put_dir("cfg");
	put_dir("cfg/agentbox");
	put_dir("cfg/agentbox/profiles");
	put("cfg/agentbox/profiles/a.ini", "[profile]\nname = config\n");
	got = load_result("a", &p);
	assert_string_equal(got, "");
	assert_string_equal(p.profile.name.v, "config");
	profile_free(&p);
	free(got);
	put("two/a.ini", "[profile]\nname = two\n");
	got = load_result("a", &p);
	assert_string_equal(p.profile.name.v, "two");
	profile_free(&p);
	free(got);
	put("one/a.ini", "[profile]\nname = one\n");
	got = load_result("a", &p);
	assert_string_equal(p.profile.name.v, "one");
	assert_int_equal(p.files.n, 1);
	assert_true(p.profile.name.from.file == p.files.v[0]);
	profile_free(&p);
	free(got);
	assert_result("aa", "aa: no such profile; did you mean a?");
	assert_result("", "the profile's name is empty; name one, or a file with a / in it");
	assert_result("one/nosuch.ini", "cannot read the profile /one/nosuch.ini: No such file or directory");
	assert_result("one/", "cannot read the profile /one/: Is a directory");
}

static void extends_starts_beside_the_file(void **state)
{
	struct profile p;
	char *got;

	(void)state;
	put("two/base.ini", "[profile]\nname = b2\ndescription = d\n[limits]\nmemory = 2M\n");
	put("one/base.ini", "[profile]\nname = b1\n[limits]\nmemory = 1M\n");
	put("two/b.ini", "[limits]\ngrace = 1s\n[profile]\nextends = base\n[filesystem]\nread = /b\n");
	got = load_result("b", &p);
	assert_string_equal(got, "");
	/* two/base, although one/ comes first in the path list; and its name is not b's. */
	assert_int_equal(p.limits.memory.bytes, 2 << 20);
	assert_null(p.profile.name.v);
	assert_null(p.profile.description.v);
	assert_int_equal(p.files.n, 2);
	assert_true(str_has_suffix(p.files.v[0], "/two/b.ini"));
	profile_free(&p);
	free(got);
	/* The child's word holds, wherever `extends` stands; lists grow, the parent's first. */
	put("one/base.ini", "[filesystem]\nread = /a\ndeny = /d\n[limits]\nmemory = 1M\n");
	put("one/b.ini",
	    "[limits]\nmemory = 3M\n[filesystem]\nread = /b\ndeny = none\n[profile]\nextends = ./base.ini\n");
	got = load_file_result("one/b.ini", &p);
	assert_string_equal(got, "");
	assert_int_equal(p.limits.memory.bytes, 3 << 20);
	assert_int_equal(p.filesystem.read.n, 2);
	assert_string_equal(p.filesystem.read.items[0].text, "/a");
	assert_int_equal(p.filesystem.deny.n, 0);
	profile_free(&p);
	free(got);
}

static void faults_of_all_files_come_together(void **state)
{
	(void)state;
	put("one/base.ini", "[limits]\nmemory = x\n");
	put("one/b.ini", "[limits]\nmemory = y\n[profile]\nextends = base\nname = \n");
	assert_result(
		"one/b.ini",
		"/one/b.ini:2: [limits] memory: `y` is no size; write a whole number with K, M, G or T behind it, as 512M\n"
		"/one/b.ini:5: [profile] name: no value; write one, or take the line out\n"
		"/one/base.ini:2: [limits] memory: `x` is no size; write a whole number with K, M, G or T behind it, as "
		"512M\n");
	put("one/b.ini", "[profile]\nextends = bas\n");
	assert_result("one/b.ini", "/one/b.ini:2: [profile] extends: bas: no such profile; did you mean base?\n");
}

static void a_circle_is_an_error(void **state)
{
	char *from = mem_printf("%s/one/a.ini", test_dir), *to = mem_printf("%s/one/link.ini", test_dir);

	(void)state;
	put("one/a.ini", "[profile]\nextends = b\n");
	put("one/b.ini", "[profile]\nextends = a\n");
	assert_result("one/a.ini",
		      "/one/b.ini:2: [profile] extends: /one/a.ini is being loaded already: a circle; take this line "
		      "out or name another\n");
	put("one/b.ini", "[profile]\nextends = b\n");
	assert_result("one/b.ini",
		      "/one/b.ini:2: [profile] extends: /one/b.ini is being loaded already: a circle; take this line "
		      "out or name another\n");
	/* By another name it is the same file. */
	assert_int_equal(symlink(from, to), 0);
	put("one/b.ini", "[profile]\nextends = link\n");
	assert_result(
		"one/a.ini",
		"/one/b.ini:2: [profile] extends: /one/link.ini is being loaded already: a circle; take this line "
		"out or name another\n");
	free(from);
	free(to);
}

static void depth_is_bounded(void **state)
{
	(void)state;
	for (int i = 0; i < 9; i++) {
		char *name = mem_printf("one/c%d.ini", i);
		char *text = mem_printf("[profile]\nextends = c%d\n", i + 1);

		put(name, text);
		free(name);
		free(text);
	}
	put("one/c9.ini", "[limits]\ngrace = 1s\n");
	assert_result("one/c1.ini", "");
	assert_result("one/c0.ini",
		      "/one/c8.ini:2: [profile] extends: profiles extend one another more than 8 deep; take one "
		      "out\n");
}

static void what_is_no_file_is_not_waited_for(void **state)
{
	char *path = mem_printf("%s/one/fifo.ini", test_dir);

	(void)state;
	assert_int_equal(mkfifo(path, 0600), 0);
	alarm(10);
	assert_result("one/fifo.ini", "the profile /one/fifo.ini is not a regular file; name one that is");
	alarm(0);
	free(path);
}

static void a_huge_file_is_refused(void **state)
{
	char *path = mem_printf("%s/one/b.ini", test_dir);

	(void)state;
	put("one/b.ini", "");
	assert_int_equal(truncate(path, PROFILE_FILE_MAX + 1), 0);
	assert_result("one/b.ini", "the profile /one/b.ini has over 4194304 bytes; split or shorten it");
	free(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(files_are_checked),
		cmocka_unit_test(all_faults_at_once_and_in_order),
		cmocka_unit_test(a_padded_line_smuggles_nothing),
		cmocka_unit_test(a_long_section_takes_its_keys_along),
		cmocka_unit_test(a_nul_byte_ends_nothing),
		cmocka_unit_test(values_are_whole),
		cmocka_unit_test(lists_grow_and_none_empties),
		cmocka_unit_test(lookup_has_an_order),
		cmocka_unit_test(extends_starts_beside_the_file),
		cmocka_unit_test(faults_of_all_files_come_together),
		cmocka_unit_test(a_circle_is_an_error),
		cmocka_unit_test(depth_is_bounded),
		cmocka_unit_test(what_is_no_file_is_not_waited_for),
		cmocka_unit_test(a_huge_file_is_refused),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
