/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The table of event types and their fields: the one place that says what a log holds. `agentbox log --types` prints
 * it, and agentbox-events(5) is compared with it by tests/unit/test_event.c. Fields may be added; what stands here
 * keeps its meaning.
 */
#include <errno.h>
#include <string.h>

#include "event/event.h"

#include "base/banned.h"

#define FIELDS(...) ((const struct event_field[]){__VA_ARGS__, {0}})

static const struct event_type_info event_types[EVENT_TYPES] = {
	[EVENT_RUN_START] = {"run.start", "a run was asked for and is being set up", FIELDS(
		{"version", "string", "version of agentbox"},
		{"profile", "string", "name of the profile"},
		{"profile_file", "string?", "file that it was read from"},
		{"profile_sha256", "string", "SHA-256 of the effective profile as `agentbox show` prints it"},
		{"argv", "array", "the command and its arguments"},
		{"cwd", "string?", "where it starts, as a path in the box; none where the run was refused before that was known"},
		{"repo", "string?", "the project, as a path on the host"},
		{"repo_commit", "string?", "the git commit that the project's HEAD names"},
		{"kernel", "string", "release of the host's kernel"},
		{"uid", "integer", "the caller's user id"},
		{"mechanisms", "object", "for each mechanism: `in_force`, and `why` where it is not"})},
	[EVENT_BOX_READY] = {"box.ready", "the box stands, and the command is about to start", FIELDS(
		{"setup_ms", "number", "from the start of agentbox until here, with fractions"},
		{"init_pid", "integer", "pid 1 of the box, as the host sees it"},
		{"namespaces", "array", "names of the namespaces of its own"})},
	[EVENT_COMMAND_EXIT] = {"command.exit", "the command ended", FIELDS(
		{"exit_code", "integer?", "where it exited"},
		{"signal", "integer?", "where a signal killed it"},
		{"core", "boolean", "whether it dumped core"},
		{"user_ms", "integer", "processor time in user mode, with its children"},
		{"system_ms", "integer", "processor time in the kernel, with its children"},
		{"max_rss", "integer", "largest resident set of one process, in bytes"})},
	[EVENT_COMMAND_REFUSED] = {"command.refused", "a program that commands.allow or commands.exec does not name", FIELDS(
		{"argv", "array", "what was to be started"},
		{"rule", "string?", "file:line of the list that refused it"},
		{"reason", "string", "why, in words"})},
	[EVENT_EGRESS_DNS] = {"egress.dns", "a name was asked for", FIELDS(
		{"name", "string", "the name, in normal form"},
		{"qtype", "string", "type of the question: A, AAAA, HTTPS, ..."},
		{"verdict", "string", "allow or deny"},
		{"rule", "string?", "file:line of the rule that decided"},
		{"reason", "string?", "why it was denied, in words"},
		{"count", "integer?", "how many equal questions within a second it stands for"})},
	[EVENT_EGRESS_CONNECT] = {"egress.connect", "a connection was tried", FIELDS(
		{"id", "integer?", "the connection's number within the run, from 1; none where it was denied before it was made"},
		{"verdict", "string", "allow or deny"},
		{"rule", "string?", "file:line of the rule that decided"},
		{"name", "string?", "the host name that was asked for"},
		{"address", "string?", "the address connected to, or asked for"},
		{"port", "integer", "the port"},
		{"protocol", "string", "tcp, udp or another"},
		{"via", "string", "gateway, proxy, socks, filter or ebpf"},
		{"pid", "integer?", "the process in the box, as the host sees it"},
		{"comm", "string?", "its name"},
		{"reason", "string?", "why it was denied or failed, in words"},
		{"count", "integer?", "how many equal ones within a second it stands for; 1 for what came about"})},
	[EVENT_EGRESS_CLOSE] = {"egress.close", "a connection ended", FIELDS(
		{"id", "integer", "the id of its egress.connect"},
		{"sent_bytes", "integer", "from the box to the other end"},
		{"received_bytes", "integer", "from the other end to the box"},
		{"duration_ms", "integer", "since it was accepted"},
		{"how", "string", "how it ended: closed, reset, limit, ..."})},
	[EVENT_EGRESS_ERROR] = {"egress.error", "the gateway or a helper of it failed; the network is closed from here on", FIELDS(
		{"process", "string", "gateway, resolver or ebpf"},
		{"exit_code", "integer?", "where it exited"},
		{"signal", "integer?", "where a signal killed it"},
		{"reason", "string", "what failed, in words"})},
	[EVENT_SYSCALL_DENIED] = {"syscall.denied", "a system call was refused by the filter", FIELDS(
		{"name", "string", "the system call"},
		{"count", "integer", "how often, up to here"})},
	[EVENT_LIMIT_WARN] = {"limit.warn", "a limit is nearly used up", FIELDS(
		{"limit", "string", "the profile key: limits.memory, limits.wall-time, ..."},
		{"value", "integer", "the limit, in bytes, milliseconds or a count"},
		{"used", "integer", "what was used, in the same unit"})},
	[EVENT_LIMIT_HIT] = {"limit.hit", "a limit was reached", FIELDS(
		{"limit", "string", "the profile key"},
		{"value", "integer", "the limit, in bytes, milliseconds or a count"},
		{"used", "integer", "what was used, in the same unit"},
		{"count", "integer?", "how often, where one event stands for several"})},
	[EVENT_OUTPUT_TRUNCATED] = {"output.truncated", "the caller or the store got less than the command wrote", FIELDS(
		{"stream", "string", "stdout or stderr"},
		{"total_bytes", "integer", "what the command wrote"},
		{"total_lines", "integer", "the same in lines"},
		{"passed_bytes", "integer", "what the caller got"},
		{"passed_lines", "integer?", "the same in lines"},
		{"stored_bytes", "integer", "what is stored"})},
	[EVENT_FS_CHANGES] = {"fs.changes", "what the run changed in its layer over the repository", FIELDS(
		{"created", "integer", "entries that were not there: files, links, directories"},
		{"modified", "integer", "entries that were there and were written, replaced or changed in mode"},
		{"deleted", "integer", "entries that are gone; a whole directory counts once"},
		{"created_paths", "array", "the first of them, relative to the repository, directories with a slash behind"},
		{"modified_paths", "array", "likewise"},
		{"deleted_paths", "array", "likewise, without the slash"},
		{"unreadable", "integer", "directories that could not be looked into"},
		{"cut", "boolean", "whether the counts or the lists are not whole"})},
	[EVENT_ARTIFACT] = {"artifact", "an entry of /workspace/artifacts at the end of the run", FIELDS(
		{"path", "string", "relative to /workspace/artifacts"},
		{"kind", "string", "file, symlink, fifo, socket, device; directory where it could not be looked into"},
		{"size", "integer?", "bytes of a file"},
		{"sha256", "string?", "of its contents; of regular files only"},
		{"reason", "string?", "why there is no digest, in words"})},
	[EVENT_RUN_END] = {"run.end", "the run is over; always the last line of a log that is whole", FIELDS(
		{"reason", "string",
		 "exited, signaled, timeout, oom, limit, cancelled, refused, setup-failed, not-executable, not-found, failed or lost"},
		{"exit_code", "integer?", "where the command exited"},
		{"signal", "integer?", "where a signal killed it"},
		{"status", "integer", "exit status of `agentbox run`"},
		{"message", "string?", "what went wrong, in words, where the command did not run or was ended for it"},
		{"wall_ms", "integer", "from the start to the end"},
		{"user_ms", "integer?", "processor time of the command and what it waited for, in user mode"},
		{"system_ms", "integer?", "the same in the kernel"},
		{"cpu_ms", "integer?", "processor time of the whole box, where a cgroup measured it"},
		{"peak_memory", "integer?", "bytes, where a cgroup measured it"},
		{"processes", "integer?", "most processes at one time, where a cgroup measured it"},
		{"egress_sent_bytes", "integer?", "over all connections"},
		{"egress_received_bytes", "integer?", "over all connections"},
		{"egress_sent_packets", "integer?", "with egress.mode = host; the bytes are those of the packets then"},
		{"egress_received_packets", "integer?", "likewise"},
		{"output", "object?", "with output.capture, of each stream: `total_bytes`, `total_lines`, `passed_bytes`, `passed_lines`, "
				      "`stored_bytes`"},
		{"artifacts", "object?", "of the listing: `listed`, `skipped`, `bytes`, `cut`"},
		{"denied", "integer", "how many events of this log say that something was refused or cut"})},
};

const struct event_type_info *event_type_info(enum event_type type)
{
	return &event_types[type];
}

enum event_type event_type_find(const char *name)
{
	enum event_type t = 0;

	while (t < EVENT_TYPES && !str_eq(event_types[t].name, name))
		t++;
	return t;
}

static bool field_is(const json_t *value, const char *type)
{
	switch (type[0]) {
	case 's':
		return json_is_string(value);
	case 'i':
		return json_is_integer(value);
	case 'n':
		return json_is_number(value);
	case 'b':
		return json_is_boolean(value);
	case 'a':
		return json_is_array(value);
	default:
		return json_is_object(value);
	}
}

int event_check(const json_t *event, struct err *e)
{
	const char *name = json_string_value(json_object_get(event, "type"));
	enum event_type type = name ? event_type_find(name) : EVENT_TYPES;

	if (!name)
		return err_set(e, EBADMSG, "no type");
	if (type == EVENT_TYPES)
		return 0;
	for (const struct event_field *f = event_types[type].fields; f->name; f++) {
		const json_t *value = json_object_get(event, f->name);

		if (str_has_suffix(f->type, "?") && (!value || json_is_null(value)))
			continue;
		if (!value)
			return err_set(e, EBADMSG, "%s: no field %s", event_types[type].name, f->name);
		if (!field_is(value, f->type))
			return err_set(e, EBADMSG, "%s: %s is not of type %s", event_types[type].name, f->name, f->type);
	}
	return 0;
}
