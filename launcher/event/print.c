/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Events for people: one line each. What is not a known type, or has odd fields, is printed as name=value all the
 * same.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "event/event.h"

#include "base/banned.h"

static const char *field_text(const json_t *event, const char *name)
{
	return json_string_value(json_object_get(event, name));
}

static void print_text(struct str *out, const char *utf8)
{
	cleanup_str struct str bytes = {0};

	event_text_bytes(utf8, &bytes);
	if (bytes.len)
		str_add_printable(out, bytes.text, bytes.len);
}

static void print_value(struct str *out, const json_t *value)
{
	char *dump;

	if (json_is_string(value)) {
		print_text(out, json_string_value(value));
		return;
	}
	dump = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
	if (dump)
		print_text(out, dump);
	free(dump);
}

/* " name=value" unless it is absent or null. */
static void print_pair(struct str *out, const json_t *event, const char *name)
{
	const json_t *value = json_object_get(event, name);

	if (!value || json_is_null(value))
		return;
	str_add(out, " ");
	str_add_printable(out, name, strlen(name));
	str_add(out, "=");
	print_value(out, value);
}

static void print_words(struct str *out, const json_t *array)
{
	const json_t *word;
	size_t i;

	json_array_foreach(array, i, word) {
		str_add(out, " ");
		print_value(out, word);
	}
}

/* Appends `before` and the field's text, where there is one. */
static void print_after(struct str *out, const char *before, const json_t *event, const char *name)
{
	const char *text = field_text(event, name);

	if (!text)
		return;
	str_add(out, before);
	print_text(out, text);
}

static void print_ending(struct str *out, const json_t *event)
{
	const json_t *signal = json_object_get(event, "signal");

	print_pair(out, event, "exit_code");
	if (json_is_integer(signal)) {
		json_int_t n = json_integer_value(signal);
		const char *name = n > 0 && n < 65 ? sigabbrev_np((int)n) : NULL;

		str_addf(out, " signal=%" JSON_INTEGER_FORMAT "%s%s%s", n, name ? " (SIG" : "", name ? name : "", name ? ")" : "");
	}
}

static void print_run_start(struct str *out, const json_t *event)
{
	print_after(out, " profile ", event, "profile");
	str_add(out, ":");
	print_words(out, json_object_get(event, "argv"));
}

static void print_command_exit(struct str *out, const json_t *event)
{
	print_ending(out, event);
	print_pair(out, event, "user_ms");
	print_pair(out, event, "system_ms");
	print_pair(out, event, "max_rss");
}

static void print_command_refused(struct str *out, const json_t *event)
{
	print_words(out, json_object_get(event, "argv"));
	print_after(out, ": ", event, "reason");
	print_after(out, " by ", event, "rule");
}

static void print_dns(struct str *out, const json_t *event)
{
	print_after(out, " ", event, "verdict");
	print_after(out, " ", event, "name");
	print_after(out, " ", event, "qtype");
	print_after(out, " by ", event, "rule");
	print_after(out, ": ", event, "reason");
}

static void print_connect(struct str *out, const json_t *event)
{
	const json_t *port = json_object_get(event, "port");

	print_after(out, " ", event, "verdict");
	print_after(out, " ", event, field_text(event, "name") ? "name" : "address");
	if (json_is_integer(port))
		str_addf(out, ":%" JSON_INTEGER_FORMAT, json_integer_value(port));
	if (field_text(event, "name"))
		print_after(out, " at ", event, "address");
	print_after(out, " ", event, "protocol");
	print_after(out, " via ", event, "via");
	print_after(out, " by ", event, "rule");
	print_pair(out, event, "id");
	print_pair(out, event, "pid");
	print_pair(out, event, "comm");
	print_after(out, ": ", event, "reason");
}

static void print_artifact(struct str *out, const json_t *event)
{
	print_after(out, " ", event, "path");
	if (field_text(event, "kind") && !str_eq(field_text(event, "kind"), "file"))
		print_after(out, " ", event, "kind");
	print_pair(out, event, "size");
	print_pair(out, event, "sha256");
	print_after(out, ": ", event, "reason");
}

static void print_changes(struct str *out, const json_t *event)
{
	static const struct {
		const char *count, *paths, *mark;
	} lists[] = {{"created", "created_paths", " +"}, {"modified", "modified_paths", " ~"}, {"deleted", "deleted_paths", " -"}};
	enum { SHOWN = 5 };

	for (size_t i = 0; i < sizeof(lists) / sizeof(*lists); i++)
		print_pair(out, event, lists[i].count);
	if (json_is_true(json_object_get(event, "cut")))
		str_add(out, " (cut)");
	for (size_t i = 0; i < sizeof(lists) / sizeof(*lists); i++) {
		const json_t *paths = json_object_get(event, lists[i].paths);
		size_t n = json_array_size(paths);

		for (size_t j = 0; j < n && j < SHOWN; j++) {
			str_add(out, lists[i].mark);
			print_value(out, json_array_get(paths, j));
		}
		if (n > SHOWN)
			str_addf(out, "%s... %zu more", lists[i].mark, n - SHOWN);
	}
}

static void print_run_end(struct str *out, const json_t *event)
{
	print_after(out, " ", event, "reason");
	print_ending(out, event);
	print_pair(out, event, "status");
	print_pair(out, event, "wall_ms");
	print_pair(out, event, "denied");
	print_after(out, ": ", event, "message");
}

static void print_all(struct str *out, const json_t *event)
{
	static const char *const frame[] = {"v", "seq", "time", "run", "task", "type", "prev", NULL};
	const json_t *value;
	const char *name;

	json_object_foreach((json_t *)event, name, value) {
		size_t i = 0;

		while (frame[i] && !str_eq(frame[i], name))
			i++;
		if (!frame[i])
			print_pair(out, event, name);
	}
}

static void (*const printers[EVENT_TYPES])(struct str *, const json_t *) = {
	[EVENT_RUN_START] = print_run_start,
	[EVENT_COMMAND_EXIT] = print_command_exit,
	[EVENT_COMMAND_REFUSED] = print_command_refused,
	[EVENT_EGRESS_DNS] = print_dns,
	[EVENT_EGRESS_CONNECT] = print_connect,
	[EVENT_FS_CHANGES] = print_changes,
	[EVENT_ARTIFACT] = print_artifact,
	[EVENT_RUN_END] = print_run_end,
};

void event_print(const json_t *event, struct str *out)
{
	const char *time = field_text(event, "time"), *type = field_text(event, "type");
	enum event_type t = type ? event_type_find(type) : EVENT_TYPES;

	/* "2026-11-29T12:00:00.123456789Z": from the hour to the millisecond. */
	if (time && strlen(time) > 23)
		str_add_printable(out, time + 11, 12);
	else
		str_add(out, "--:--:--.---");
	str_add(out, " ");
	print_text(out, type ? type : "?");
	if (t < EVENT_TYPES && printers[t])
		printers[t](out, event);
	else
		print_all(out, event);
}

/* Only the word `allow` is allowed: whatever else a verdict says counts as denied. */
static bool verdict_is_denied(const json_t *event)
{
	const char *verdict = field_text(event, "verdict");

	return !verdict || !str_eq(verdict, "allow");
}

bool event_is_denied(const json_t *event)
{
	const char *type = field_text(event, "type");
	const char *reason;

	switch (type ? event_type_find(type) : EVENT_TYPES) {
	case EVENT_EGRESS_DNS:
	case EVENT_EGRESS_CONNECT:
		return verdict_is_denied(event);
	case EVENT_COMMAND_REFUSED:
	case EVENT_EGRESS_ERROR:
	case EVENT_SYSCALL_DENIED:
	case EVENT_LIMIT_HIT:
	case EVENT_OUTPUT_TRUNCATED:
		return true;
	case EVENT_RUN_END:
		reason = field_text(event, "reason");
		return reason && str_eq(reason, "refused");
	default:
		return false;
	}
}

void event_propose(const json_t *event, struct str *out)
{
	const char *type = json_string_value(json_object_get(event, "type"));
	const char *name = json_string_value(json_object_get(event, "name"));
	const char *address = json_string_value(json_object_get(event, "address"));
	const char *verdict = json_string_value(json_object_get(event, "verdict"));
	json_int_t port = json_integer_value(json_object_get(event, "port"));
	bool dns = type && str_eq(type, "egress.dns"), connect = type && str_eq(type, "egress.connect");
	cleanup_str struct str host = {0};

	if ((!dns && !connect) || !verdict || !str_eq(verdict, "deny") || json_is_string(json_object_get(event, "rule")))
		return;
	if (name)
		str_add_printable(&host, name, strlen(name));
	else if (address && strchr(address, ':'))
		str_addf(&host, "[%s]", address);
	else if (address)
		str_add(&host, address);
	if (!host.len)
		return;
	if (connect && port != 80 && port != 443)
		str_addf(&host, ":%" JSON_INTEGER_FORMAT, port);
	str_addf(out, "\n  to allow it: [egress] allow = %s", host.text);
}
