/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The bytes of a profile as sections, keys and values, by inih behind a reader that closes its traps. What a key means
 * is not known here; which sections there are is.
 */
#ifndef AGENTBOX_PROFILE_INIFILE_H
#define AGENTBOX_PROFILE_INIFILE_H

#include <stddef.h>

#include "profile/profile.h"

/*
 * inih's INI_MAX_LINE is 200 with the NUL, and its MAX_SECTION 50: what is longer it splits or cuts without a word. A
 * line is counted without its LF or CRLF.
 */
#define INIFILE_LINE_MAX 199
#define INIFILE_SECTION_MAX 49

struct inifile_entry {
	char *section, *key, *value; /* owned; value: trimmed, may be "" */
	unsigned line;
};

struct inifile {
	struct inifile_entry *v;
	size_t n, cap;
};

/*
 * bytes: the whole file. file: for the origins of faults; must live as long as those.
 * Every line that is no entry, comment, blank line or known section adds a fault; the entries of a section that is not
 * known are left out.
 */
void inifile_read(const char *bytes, size_t len, const char *file, struct inifile *out, struct faults *faults);
void inifile_free(struct inifile *f);

#endif
