/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "profile/value.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "base/num.h"

#include "base/banned.h"

#define SHOWN "%.200s"

struct origin value_default_origin(void)
{
	return (struct origin){.file = "default", .line = 0};
}

const char *key_type_name(enum key_type type)
{
	static const char *const names[] = {
		[KEY_TEXT] = "text",	 [KEY_SIZE] = "size",	  [KEY_DURATION] = "duration", [KEY_COUNT] = "count",
		[KEY_MILLI] = "decimal", [KEY_CHOICE] = "choice", [KEY_BOOL] = "boolean",      [KEY_LIST] = "list",
	};

	return names[type];
}

/* The numbers' one shape: which reader, and what to write. */
static int value_read_number(const struct key *k, const char *text, uint64_t *n, struct err *e)
{
	cleanup_str struct str range = {0};
	const char *want = "";
	int r = -EINVAL;

	switch (k->type) {
	case KEY_SIZE:
		r = num_size(text, n);
		want = "size; write a whole number with K, M, G or T behind it, as 512M";
		break;
	case KEY_DURATION:
		r = num_duration(text, n);
		want = "duration; write a whole number with ms, s, m, h or d behind it, as 30s";
		break;
	case KEY_MILLI:
		r = num_milli(text, n);
		want = "number; write digits with at most three places, as 1.5";
		break;
	default:
		r = num_u64(text, 0, UINT64_MAX, n);
		want = "number; write digits alone";
		break;
	}
	if (r == -EINVAL)
		return err_set(e, EINVAL, "`" SHOWN "` is no %s", text, want);
	if (r == 0 && ((*n >= k->min && *n <= k->max) || (*n == 0 && k->zero)))
		return 0;
	value_range_text(k, &range);
	return err_set(e, EINVAL, "`" SHOWN "` is out of range; write %s", text, range.text);
}

static int value_read_choice(const struct key *k, const char *text, int *v, struct err *e)
{
	cleanup_str struct str range = {0};
	const char *near;

	for (int i = 0; k->choices[i]; i++) {
		if (str_eq(k->choices[i], text)) {
			*v = i;
			return 0;
		}
	}
	near = str_nearest(text, k->choices);
	if (near)
		return err_set(e, EINVAL, "`" SHOWN "` is no choice; did you mean %s?", text, near);
	value_range_text(k, &range);
	return err_set(e, EINVAL, "`" SHOWN "` is no choice; write one of %s", text, range.text);
}

static int value_read_text(const struct key *k, const char *text, const struct profile_env *env, char **out,
			   struct err *e)
{
	if (k->shape)
		return k->shape->check(text, env, out, e);
	*out = mem_strdup(text);
	return 0;
}

static void value_list_empty(struct val_list *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->items[i].text);
	l->n = 0;
}

static void value_list_take(struct val_list *l, char *text, struct origin from)
{
	vec_reserve(&l->items, &l->cap, l->n, sizeof(*l->items));
	l->items[l->n++] = (struct val_item){.text = text, .from = from};
}

static int value_set_list(struct val_list *l, const struct key *k, const char *text, struct origin from,
			  const struct profile_env *env, struct err *e)
{
	char *item;
	int r;

	if (str_eq(text, "none")) {
		value_list_empty(l);
		return 0;
	}
	r = value_read_text(k, text, env, &item, e);
	if (r == 0)
		value_list_take(l, item, from);
	return r;
}

/* The part of every scalar that is the same. */
struct value_mark {
	bool *set;
	struct origin *from;
};

static struct value_mark value_mark(struct profile *p, const struct key *k)
{
	void *at = key_member(p, k);

#define MARK(ctype) ((struct value_mark){&((ctype *)at)->set, &((ctype *)at)->from})
	switch (k->type) {
	case KEY_TEXT: return MARK(struct val_text);
	case KEY_SIZE: return MARK(struct val_size);
	case KEY_DURATION: return MARK(struct val_duration);
	case KEY_COUNT: return MARK(struct val_count);
	case KEY_MILLI: return MARK(struct val_milli);
	case KEY_CHOICE: return MARK(struct val_choice);
	case KEY_BOOL: return MARK(struct val_bool);
	case KEY_LIST: break;
	}
#undef MARK
	abort(); /* a list has an origin an item */
}

static uint64_t *value_number(struct profile *p, const struct key *k)
{
	void *at = key_member(p, k);

	switch (k->type) {
	case KEY_SIZE: return &((struct val_size *)at)->bytes;
	case KEY_DURATION: return &((struct val_duration *)at)->ms;
	case KEY_COUNT: return &((struct val_count *)at)->n;
	case KEY_MILLI: return &((struct val_milli *)at)->milli;
	default: abort(); /* not a number: a fault of the caller */
	}
}

static int value_set_scalar(struct profile *p, const struct key *k, const char *text, const struct profile_env *env,
			    struct err *e)
{
	void *at = key_member(p, k);
	char *copy;
	uint64_t n;
	int r;

	switch (k->type) {
	case KEY_TEXT:
		r = value_read_text(k, text, env, &copy, e);
		if (r < 0)
			return r;
		free(((struct val_text *)at)->v);
		((struct val_text *)at)->v = copy;
		return 0;
	case KEY_CHOICE: return value_read_choice(k, text, &((struct val_choice *)at)->v, e);
	case KEY_BOOL:
		if (!str_eq(text, "yes") && !str_eq(text, "no"))
			return err_set(e, EINVAL, "`" SHOWN "` is neither; write yes or no", text);
		((struct val_bool *)at)->v = str_eq(text, "yes");
		return 0;
	default:
		r = value_read_number(k, text, &n, e);
		if (r == 0)
			*value_number(p, k) = n;
		return r;
	}
}

int value_set(struct profile *p, const struct key *k, const char *text, struct origin from,
	      const struct profile_env *env, struct err *e)
{
	cleanup_free char *trimmed = NULL;
	struct value_mark mark;
	size_t len;
	int r;

	text += strspn(text, " \t");
	len = strlen(text);
	while (len && strchr(" \t", text[len - 1]))
		len--;
	if (!len)
		return err_set(e, EINVAL, "no value; %s",
			       k->type == KEY_LIST ? "write one, or none to empty the list"
						   : "write one, or take the line out");
	r = shape_bytes(text, len, e);
	if (r < 0)
		return r;
	trimmed = mem_strndup(text, len);
	if (k->type == KEY_LIST)
		return value_set_list(key_member(p, k), k, trimmed, from, env, e);
	r = value_set_scalar(p, k, trimmed, env, e);
	if (r < 0)
		return r;
	mark = value_mark(p, k);
	*mark.set = true;
	*mark.from = from;
	return 0;
}

void value_init(struct profile *p, const struct key *k)
{
	static const struct profile_env no_env;

	if (k->offset == KEY_NO_MEMBER)
		return;
	if (k->type == KEY_LIST) {
		for (const struct key_item *i = k->items; i && i->text; i++)
			value_list_take(key_member(p, k), mem_strdup(i->text), value_default_origin());
		return;
	}
	/* A default that is not in its own language is a fault of the table. */
	if (k->initial && value_set_scalar(p, k, k->initial, &no_env, NULL) < 0)
		abort();
	*value_mark(p, k).from = value_default_origin();
}

void value_free(struct profile *p, const struct key *k)
{
	if (k->offset == KEY_NO_MEMBER)
		return;
	if (k->type == KEY_TEXT) {
		free(((struct val_text *)key_member(p, k))->v);
	} else if (k->type == KEY_LIST) {
		struct val_list *l = key_member(p, k);

		value_list_empty(l);
		free(l->items);
	}
}

/* The accessors above only read here. */
static struct profile *value_unconst(const struct profile *p)
{
	return (struct profile *)(uintptr_t)p;
}

bool value_is_there(const struct profile *p, const struct key *k)
{
	if (k->type == KEY_LIST)
		return ((const struct val_list *)key_member_const(p, k))->n > 0;
	return k->initial || *value_mark(value_unconst(p), k).set;
}

struct origin value_origin(const struct profile *p, const struct key *k)
{
	if (k->type == KEY_LIST) {
		const struct val_list *l = key_member_const(p, k);

		return l->n ? l->items[l->n - 1].from : value_default_origin();
	}
	return *value_mark(value_unconst(p), k).from;
}

static bool value_list_is_default(const struct val_list *l, const struct key *k)
{
	size_t n = 0;

	for (const struct key_item *i = k->items; i && i->text; i++, n++)
		if (n >= l->n || !str_eq(l->items[n].text, i->text))
			return false;
	return n == l->n;
}

bool value_is_default(const struct profile *p, const struct key *k)
{
	cleanup_str struct str now = {0};

	if (k->type == KEY_LIST)
		return value_list_is_default(key_member_const(p, k), k);
	if (!value_is_there(p, k))
		return true;
	if (!k->initial) {
		const uint64_t *n = value_number(value_unconst(p), k);

		/* Said or not said, there is no limit. */
		return n && !*n && k->zero;
	}
	value_text(p, k, &now);
	return str_eq(now.text, k->initial);
}

void value_number_text(enum key_type type, uint64_t n, struct str *out)
{
	char buf[NUM_TEXT_MAX];

	switch (type) {
	case KEY_SIZE: str_add(out, num_size_text(n, buf)); return;
	case KEY_DURATION: str_add(out, num_duration_text(n, buf)); return;
	case KEY_MILLI:
		str_addf(out, "%" PRIu64, n / 1000);
		if (n % 1000) {
			str_addf(out, ".%03" PRIu64, n % 1000);
			while (out->text[out->len - 1] == '0')
				out->text[--out->len] = '\0';
		}
		return;
	default: str_addf(out, "%" PRIu64, n);
	}
}

void value_item_text(const struct key *k, const char *item, struct str *out)
{
	/* Only a path relative to the project can look like one of these; "./" keeps it one. */
	if (k->shape && k->shape->relative && (str_eq(item, "none") || strchr("~$", item[0])))
		str_add(out, "./");
	if (k->shape && k->shape->expands)
		shape_unexpand(item, out);
	else
		str_add(out, item);
}

void value_text(const struct profile *p, const struct key *k, struct str *out)
{
	const void *at = key_member_const(p, k);

	switch (k->type) {
	case KEY_TEXT: value_item_text(k, ((const struct val_text *)at)->v, out); return;
	case KEY_CHOICE: str_add(out, k->choices[((const struct val_choice *)at)->v]); return;
	case KEY_BOOL: str_add(out, ((const struct val_bool *)at)->v ? "yes" : "no"); return;
	case KEY_LIST: return;
	default: value_number_text(k->type, *value_number(value_unconst(p), k), out);
	}
}

void value_range_text(const struct key *k, struct str *out)
{
	switch (k->type) {
	case KEY_CHOICE:
		for (size_t i = 0; k->choices[i]; i++)
			str_addf(out, "%s%s", i ? "|" : "", k->choices[i]);
		return;
	case KEY_BOOL: str_add(out, "yes|no"); return;
	case KEY_TEXT:
	case KEY_LIST: str_add(out, k->shape ? k->shape->what : "text"); return;
	default:
		value_number_text(k->type, k->min, out);
		if (k->max == INT64_MAX) {
			str_add(out, " or more");
		} else {
			str_add(out, " to ");
			value_number_text(k->type, k->max, out);
		}
		if (k->zero)
			str_addf(out, k->min ? ", or 0 (%s)" : " (0: %s)", k->zero);
	}
}
