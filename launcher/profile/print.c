/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "profile/inifile.h"
#include "profile/keys.h"
#include "profile/profile.h"
#include "profile/value.h"

#include "base/banned.h"

#define PLACE_MAX 4200 /* PATH_MAX and a line number; a longer one is cut */

static void print_origin(struct origin from, bool wanted, struct str *out)
{
	char place[PLACE_MAX];
	size_t len, start = 0;

	if (!wanted)
		return;
	origin_text(from, place, sizeof(place));
	len = strlen(place);
	/* Of a place that is longer than a line may be, the end says more. */
	while (len - start > INIFILE_LINE_MAX - 3 || (start && (place[start] & 0xc0) == 0x80))
		start++;
	str_addf(out, "# %s\n", place + start);
}

static void print_line(const struct key *k, const char *value, struct str *out)
{
	str_addf(out, "%s = %s\n", k->name, value);
}

static void print_list(const struct key *k, const struct val_list *l, bool with_origins, struct str *out)
{
	/* A list that starts with items of its own is said whole. */
	if (k->items) {
		print_origin(value_default_origin(), with_origins && !l->n, out);
		print_line(k, "none", out);
	}
	for (size_t i = 0; i < l->n; i++) {
		cleanup_str struct str text = {0};

		value_item_text(k, l->items[i].text, &text);
		print_origin(l->items[i].from, with_origins, out);
		print_line(k, text.text, out);
	}
}

static void print_key(const struct profile *p, const struct key *k, bool with_origins, struct str *out)
{
	cleanup_str struct str text = {0};

	if (k->type == KEY_LIST) {
		print_list(k, key_member_const(p, k), with_origins, out);
		return;
	}
	if (!value_is_there(p, k))
		return;
	value_text(p, k, &text);
	print_origin(value_origin(p, k), with_origins, out);
	print_line(k, text.text, out);
}

void profile_print(const struct profile *p, bool with_origins, struct str *out)
{
	const char *section = NULL;

	for (const struct key *k = key_table; k->section; k++) {
		cleanup_str struct str text = {0};

		if (k->offset == KEY_NO_MEMBER)
			continue;
		print_key(p, k, with_origins, &text);
		if (!text.len)
			continue;
		if (!section || !str_eq(section, k->section))
			str_addf(out, "%s[%s]\n", section ? "\n" : "", k->section);
		section = k->section;
		str_add_n(out, text.text, text.len);
	}
}

/* jansson gives NULL only where memory is out or a text is not UTF-8, and all texts here are. */
static json_t *json_made(json_t *j)
{
	if (!j)
		abort();
	return j;
}

static json_t *json_place(struct origin from)
{
	char place[PLACE_MAX];

	return json_made(json_string(origin_text(from, place, sizeof(place))));
}

static json_t *json_scalar(const struct profile *p, const struct key *k)
{
	const void *at = key_member_const(p, k);
	cleanup_str struct str text = {0};

	if (!value_is_there(p, k))
		return json_made(json_null());
	switch (k->type) {
	case KEY_SIZE: return json_made(json_integer((json_int_t)((const struct val_size *)at)->bytes));
	case KEY_DURATION: return json_made(json_integer((json_int_t)((const struct val_duration *)at)->ms));
	case KEY_COUNT: return json_made(json_integer((json_int_t)((const struct val_count *)at)->n));
	case KEY_MILLI: return json_made(json_real((double)((const struct val_milli *)at)->milli / 1000));
	case KEY_BOOL: return json_made(json_boolean(((const struct val_bool *)at)->v));
	case KEY_TEXT: return json_made(json_string(((const struct val_text *)at)->v));
	default: value_text(p, k, &text); return json_made(json_string(text.text));
	}
}

static json_t *json_key(const struct profile *p, const struct key *k)
{
	json_t *value, *from;

	if (k->type == KEY_LIST) {
		const struct val_list *l = key_member_const(p, k);

		value = json_made(json_array());
		from = json_made(json_array());
		for (size_t i = 0; i < l->n; i++) {
			json_array_append_new(value, json_made(json_string(l->items[i].text)));
			json_array_append_new(from, json_place(l->items[i].from));
		}
	} else {
		value = json_scalar(p, k);
		from = json_place(value_origin(p, k));
	}
	return json_made(json_pack("{s:o, s:o}", "value", value, "from", from));
}

void profile_print_json(const struct profile *p, struct str *out)
{
	json_t *root = json_made(json_object());
	cleanup_free char *text = NULL;

	for (const struct key *k = key_table; k->section; k++) {
		json_t *section = json_object_get(root, k->section);

		if (k->offset == KEY_NO_MEMBER)
			continue;
		if (!section) {
			section = json_made(json_object());
			json_object_set_new(root, k->section, section);
		}
		json_object_set_new(section, k->name, json_key(p, k));
	}
	text = json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(12));
	json_decref(root);
	if (!text)
		abort();
	str_add(out, text);
	str_add(out, "\n");
}

static void print_key_default(const struct key *k, struct str *out)
{
	if (k->type != KEY_LIST || !k->items) {
		str_add(out, k->initial ? k->initial : "-");
		return;
	}
	for (const struct key_item *i = k->items; i->text; i++)
		str_addf(out, "%s%s", i == k->items ? "" : " ", i->text);
}

/* "yes", "no", or the choices that are built where not all are. */
static void print_key_built(const struct key *k, struct str *out)
{
	cleanup_str struct str some = {0};
	bool all = k->built;

	for (size_t i = 0; k->built && k->type == KEY_CHOICE && k->choices[i]; i++) {
		if (k->built_choices & 1U << i)
			str_addf(&some, "%s%s", some.len ? "|" : "", k->choices[i]);
		else
			all = false;
	}
	if (all)
		str_add(out, "yes");
	else
		str_add(out, some.len ? some.text : "no");
}

void profile_print_keys(struct str *out)
{
	static const char *const merges[] = {
		[MERGE_OVERRIDE] = "override",
		[MERGE_APPEND] = "append",
		[MERGE_OWN] = "own",
	};

	str_add(out, "section\tkey\ttype\tvalues\tdefault\tmerge\tbuilt\ttext\n");
	for (const struct key *k = key_table; k->section; k++) {
		str_addf(out, "%s\t%s\t%s\t", k->section, k->name, key_type_name(k->type));
		value_range_text(k, out);
		str_add(out, "\t");
		print_key_default(k, out);
		str_addf(out, "\t%s\t", merges[k->merge]);
		print_key_built(k, out);
		str_addf(out, "\t%s", k->text);
		for (const struct key_item *i = k->items; i && i->text; i++)
			str_addf(out, "%s%s (%s)", i == k->items ? "; it starts with " : ", ", i->text, i->why);
		str_add(out, "\n");
	}
}

/* Where the list or the value came from, for the refusal. */
static int print_unsupported(const struct profile *p, const struct key *k, struct err *e)
{
	cleanup_str struct str text = {0};
	char place[256];

	if (k->type != KEY_LIST)
		value_text(p, k, &text);
	return err_set(e, ENOTSUP,
		       "%s: [%s] %s%s%s: not built into this version; take it out, or use a version that has it",
		       origin_text(value_origin(p, k), place, sizeof(place)), k->section, k->name,
		       text.len ? " = " : "", text.len ? text.text : "");
}

int profile_supported(const struct profile *p, struct err *e)
{
	for (const struct key *k = key_table; k->section; k++) {
		if (k->offset == KEY_NO_MEMBER)
			continue;
		if (!k->built && !value_is_default(p, k))
			return print_unsupported(p, k, e);
		if (k->built && k->type == KEY_CHOICE) {
			const struct val_choice *c = key_member_const(p, k);

			if (!(k->built_choices & 1U << c->v))
				return print_unsupported(p, k, e);
		}
	}
	return 0;
}
