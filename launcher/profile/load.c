/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "profile/load.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "profile/inifile.h"
#include "profile/keys.h"
#include "profile/lookup.h"
#include "profile/value.h"
#include "sys/fd.h"
#include "sys/path.h"

#include "base/banned.h"

struct loader {
	struct profile *p;
	const struct profile_env *env;
	struct faults *faults;
	struct strv chain; /* the files that are being loaded, as realpath says them, the outermost first */
};

static void load_bytes(struct loader *l, const char *file, const char *bytes, size_t len);

/* "[section] key: text" at an entry. */
static void load_fault(struct loader *l, const char *file, const struct inifile_entry *entry, const char *text)
{
	faults_add(l->faults, (struct origin){.file = file, .line = entry->line}, "[%s] %s: %s", entry->section,
		   entry->key, text);
}

void profile_init(struct profile *p)
{
	*p = (struct profile){0};
	for (const struct key *k = key_table; k->section; k++)
		value_init(p, k);
}

void profile_free(struct profile *p)
{
	for (const struct key *k = key_table; k->section; k++)
		value_free(p, k);
	strv_free(&p->files);
	strv_free(&p->missed);
	*p = (struct profile){0};
}

/* Reads and loads one file of the chain. Return: 0 (faults or none), or -errno with e where it cannot be read. */
static int load_file(struct loader *l, const char *path, struct err *e)
{
	cleanup_free char *real = NULL;
	cleanup_free char *bytes = NULL;
	size_t len = 0;
	int r;

	/* The operator's own profile may be a symlink (dotfiles, /etc/alternatives); the file that it names is read. */
	r = path_real(path, &real, NULL);
	if (r < 0)
		return err_errno(e, -r, "cannot read the profile %s", path);
	for (size_t i = 0; i < l->chain.n; i++)
		if (str_eq(l->chain.v[i], real))
			return err_set(e, ELOOP,
				       "%s is being loaded already: a circle; take this line out or name another",
				       path);
	r = fd_read_file(AT_FDCWD, real, PROFILE_FILE_MAX, &bytes, &len);
	if (r == -EINVAL)
		return err_set(e, EINVAL, "the profile %s is not a regular file; name one that is", path);
	if (r == -EFBIG)
		return err_set(e, EFBIG, "the profile %s has over %u bytes; split or shorten it", path,
			       PROFILE_FILE_MAX);
	if (r < 0)
		return err_errno(e, -r, "cannot read the profile %s", path);
	strv_take(&l->chain, steal_ptr(&real));
	strv_add(&l->p->files, path);
	load_bytes(l, l->p->files.v[l->p->files.n - 1], bytes, len);
	free(l->chain.v[--l->chain.n]);
	l->chain.v[l->chain.n] = NULL;
	return 0;
}

/* The profile that `file` extends, before the entries of `file` are applied. */
static void load_parent(struct loader *l, const char *file, const struct inifile_entry *entry, const struct key *k)
{
	cleanup_free char *name = NULL;
	cleanup_free char *path = NULL;
	struct err e = {0};
	int r = *entry->value ? 0 : err_set(&e, EINVAL, "no value; write the name of a profile, or take the line out");

	if (r == 0)
		r = k->shape->check(entry->value, l->env, &name, &e);
	if (r == 0 && l->chain.n > PROFILE_DEPTH_MAX)
		r = err_set(&e, ELOOP, "profiles extend one another more than %d deep; take one out",
			    PROFILE_DEPTH_MAX);
	if (r == 0)
		r = profile_lookup(name, file, l->env, &path, &l->p->missed, &e);
	if (r == 0)
		r = load_file(l, path, &e);
	if (r < 0)
		load_fault(l, file, entry, e.msg);
}

static void load_entry(struct loader *l, const char *file, const struct inifile_entry *entry, unsigned *seen)
{
	const struct key *k = key_find(entry->section, entry->key);
	struct origin from = {.file = file, .line = entry->line};
	struct err e = {0};

	if (!k) {
		cleanup_str struct str text = {0};

		str_add(&text, "no such key");
		key_advise_name(entry->section, entry->key, &text);
		load_fault(l, file, entry, text.text);
		return;
	}
	if (k->type != KEY_LIST) {
		unsigned *first = &seen[k - key_table];

		if (*first) {
			err_set(&e, EINVAL, "given twice, first in line %u; take one of them out", *first);
			load_fault(l, file, entry, e.msg);
			return;
		}
		*first = entry->line;
	}
	if (k->offset == KEY_NO_MEMBER)
		return;
	if (k->merge == MERGE_OWN && l->chain.n > 1) {
		/* Its faults are faults, its value says nothing about the profile that extends it. */
		if (!*entry->value)
			load_fault(l, file, entry, "no value; write one, or take the line out");
		return;
	}
	if (value_set(l->p, k, entry->value, from, l->env, &e) < 0)
		load_fault(l, file, entry, e.msg);
}

static void load_bytes(struct loader *l, const char *file, const char *bytes, size_t len)
{
	const struct key *extends = key_find("profile", "extends");
	cleanup_free unsigned *seen = mem_zalloc(key_count * sizeof(*seen));
	struct inifile ini = {0};

	inifile_read(bytes, len, file, &ini, l->faults);
	for (size_t i = 0; i < ini.n; i++) {
		if (key_find(ini.v[i].section, ini.v[i].key) != extends)
			continue;
		load_parent(l, file, &ini.v[i], extends);
		break;
	}
	for (size_t i = 0; i < ini.n; i++)
		load_entry(l, file, &ini.v[i], seen);
	inifile_free(&ini);
}

struct fault_place {
	struct fault fault;
	size_t file, seq;
};

static int fault_compare(const void *va, const void *vb)
{
	const struct fault_place *a = va, *b = vb;

	if (a->file != b->file)
		return a->file < b->file ? -1 : 1;
	if (a->fault.from.line != b->fault.from.line)
		return a->fault.from.line < b->fault.from.line ? -1 : 1;
	return a->seq < b->seq ? -1 : a->seq > b->seq;
}

/* The faults from `first` on, which came stage by stage, in the order of files and lines. */
static void load_sort_faults(const struct profile *p, struct faults *f, size_t first)
{
	size_t n = f->n - first;
	cleanup_free struct fault_place *places = mem_array(NULL, n, sizeof(*places));

	for (size_t i = 0; i < n; i++) {
		size_t file = 0;

		while (file < p->files.n && p->files.v[file] != f->v[first + i].from.file)
			file++;
		places[i] = (struct fault_place){.fault = f->v[first + i], .file = file, .seq = i};
	}
	qsort(places, n, sizeof(*places), fault_compare);
	for (size_t i = 0; i < n; i++)
		f->v[first + i] = places[i].fault;
}

int profile_load(struct profile *p, const char *name, const struct profile_env *env, struct faults *faults,
		 struct err *e)
{
	struct loader l = {.p = p, .env = env, .faults = faults};
	size_t first = faults->n;
	cleanup_free char *path = NULL;
	int r;

	r = profile_lookup(name, NULL, env, &path, &p->missed, e);
	if (r == 0)
		r = load_file(&l, path, e);
	strv_free(&l.chain);
	if (r < 0)
		return r;
	load_sort_faults(p, faults, first);
	if (faults->n > first)
		return err_set(e, EINVAL, "the profile %s has %zu fault%s; mend %s first", path, faults->n - first,
			       faults->n - first == 1 ? "" : "s", faults->n - first == 1 ? "it" : "them");
	return 0;
}

int profile_load_bytes(struct profile *p, const char *file, const char *bytes, size_t len,
		       const struct profile_env *env, struct faults *faults)
{
	struct loader l = {.p = p, .env = env, .faults = faults};
	size_t first = faults->n;

	strv_add(&l.chain, file);
	strv_add(&p->files, file);
	load_bytes(&l, p->files.v[p->files.n - 1], bytes, len);
	strv_free(&l.chain);
	load_sort_faults(p, faults, first);
	return faults->n > first ? -EINVAL : 0;
}

int profile_set(struct profile *p, const char *what, const char *section, const char *key, const char *value,
		const struct profile_env *env, struct err *e)
{
	const struct key *k = key_find(section, key);
	struct origin from = {.file = what, .line = 0};
	cleanup_str struct str text = {0};
	int r;

	if (!k) {
		bool known = key_section_known(section);

		str_add_printable(&text, known ? key : section, strlen(known ? key : section));
		str_add(&text, known ? ": no such key" : "]: no such section");
		if (known)
			key_advise_name(section, key, &text);
		else
			key_advise_section(section, &text);
		return known ? err_set(e, EINVAL, "%s: [%s] %s", what, section, text.text)
			     : err_set(e, EINVAL, "%s: [%s", what, text.text);
	}
	if (k->offset == KEY_NO_MEMBER)
		return err_set(e, EINVAL, "%s: [%s] %s: stands in files only; name that profile with --profile", what,
			       section, key);
	r = value_set(p, k, value, from, env, e);
	if (r < 0)
		return err_prefix(e, "%s: [%s] %s", what, section, key);
	return 0;
}

int profile_set_text(struct profile *p, const char *what, const char *assignment, const struct profile_env *env,
		     struct err *e)
{
	const char *equals = strchr(assignment, '=');
	const char *dot = strchr(assignment, '.');
	cleanup_free char *section = NULL;
	cleanup_free char *key = NULL;
	cleanup_str struct str shown = {0};

	if (!equals || !dot || dot > equals || dot == assignment || equals == dot + 1) {
		str_add_printable(&shown, assignment, strnlen(assignment, 200));
		return err_set(e, EINVAL, "%s: `%s` sets nothing; write SECTION.KEY=VALUE, as limits.memory=1G", what,
			       shown.text ? shown.text : "");
	}
	section = mem_strndup(assignment, (size_t)(dot - assignment));
	key = mem_strndup(dot + 1, (size_t)(equals - dot - 1));
	return profile_set(p, what, section, key, equals + 1, env, e);
}
