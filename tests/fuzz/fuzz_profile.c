/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Any bytes as a profile: they are refused with faults, or they print to a profile that reads back to the same.
 * Run with -dict=tests/fuzz/profile.dict, which scripts/fuzz-dict makes from the key table.
 */
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "profile/inifile.h"
#include "profile/load.h"
#include "profile/profile.h"

#include "base/banned.h"

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t len);

static const char *fuzz_get(const char *name)
{
	return str_eq(name, "HOME") ? "/home/me" : str_eq(name, "X") ? "/x$y" : NULL;
}

static const struct profile_env fuzz_env = {.home = "/home/me", .config_home = "/nonexistent", .get = fuzz_get};

static void fuzz_check(int is_true)
{
	if (!is_true)
		abort();
}

static int fuzz_has_long_line(const char *text)
{
	for (const char *c = text; *c;) {
		size_t n = strcspn(c, "\n");

		if (n > INIFILE_LINE_MAX)
			return 1;
		c += n + (c[n] == '\n');
	}
	return 0;
}

/* Return: a profile without faults was printed to out. */
static int fuzz_load(const char *bytes, size_t len, int with_origins, struct str *out)
{
	struct faults faults = {0};
	struct str text = {0};
	struct profile p;
	struct err e;
	int ok;

	profile_init(&p);
	ok = profile_load_bytes(&p, "/nonexistent/f.ini", bytes, len, &fuzz_env, &faults) == 0;
	fuzz_check(ok == (faults.n == 0));
	faults_text(&faults, &text);
	if (ok) {
		profile_print(&p, with_origins, out);
		profile_print_json(&p, &text);
		profile_supported(&p, &e);
	}
	str_free(&text);
	faults_free(&faults);
	profile_free(&p);
	return ok;
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t len)
{
	struct str first = {0}, second = {0}, third = {0};

	if (fuzz_load((const char *)bytes, len, 0, &first) && !fuzz_has_long_line(first.text)) {
		fuzz_check(fuzz_load(first.text, first.len, 1, &second));
		fuzz_check(fuzz_load(second.text, second.len, 0, &third));
		fuzz_check(str_eq(first.text, third.text));
	}
	str_free(&first);
	str_free(&second);
	str_free(&third);
	return 0;
}
