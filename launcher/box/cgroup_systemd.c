/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "box/cgroup_systemd.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "box/cgroup_dir.h"
#include "box/cgroup_find.h"
#include "config.h"
#include "sys/fd.h"

#ifdef HAVE_SYSTEMD
#include <dlfcn.h>
#include <systemd/sd-bus.h>
#endif

#include "base/banned.h"

#define LEAF "holder"

/* --- where it is reached --- */

/* A path as a value in an address (D-Bus specification, Server Addresses). */
static void add_escaped(struct str *out, const char *path)
{
	for (const char *p = path; *p; p++) {
		if (isalnum((unsigned char)*p) || strchr("-_/.\\*", *p))
			str_add_n(out, p, 1);
		else
			str_addf(out, "%%%02x", (unsigned char)*p);
	}
}

int cgroup_systemd_address(const struct cgroup_systemd_place *place, int n, struct str *out, bool *bus)
{
	static const char *const sockets[] = {"bus", "systemd/private"};
	cleanup_free char *path = NULL;

	*bus = n < 2;
	if (n > 2)
		return -ENOENT;
	if (n == 0) {
		/* A socket, and one: other transports start programs or leave the host. */
		if (!place->session_bus || !str_has_prefix(place->session_bus, "unix:") || strchr(place->session_bus, ';'))
			return 0;
		str_add(out, place->session_bus);
		return 1;
	}
	if (place->runtime_dir && place->runtime_dir[0] == '/')
		path = mem_printf("%s/%s", place->runtime_dir, sockets[n - 1]);
	else /* what pam_systemd sets, and sudo, su and cron drop */
		path = mem_printf("/run/user/%u/%s", place->uid, sockets[n - 1]);
	if (faccessat(AT_FDCWD, path, F_OK, AT_EACCESS) < 0)
		return 0;
	str_add(out, "unix:path=");
	add_escaped(out, path);
	return 1;
}

static struct cgroup_systemd_place place_here(void)
{
	return (struct cgroup_systemd_place){.session_bus = getenv("DBUS_SESSION_BUS_ADDRESS"),
					     .runtime_dir = getenv("XDG_RUNTIME_DIR"),
					     .uid = geteuid()};
}

static bool place_has_any(const struct cgroup_systemd_place *place, struct err *e)
{
	int r = 0;

#ifndef HAVE_SYSTEMD
	err_set(e, ENOTSUP, "this agentbox was built without systemd; install libsystemd-dev and configure again");
	return false;
#endif
	for (int n = 0; r == 0; n++) {
		cleanup_str struct str address = {0};
		bool is_bus;

		r = cgroup_systemd_address(place, n, &address, &is_bus);
	}
	if (r < 0)
		err_set(e, ENOENT, "there is no socket of systemd --user (XDG_RUNTIME_DIR, DBUS_SESSION_BUS_ADDRESS)");
	return r == 1;
}

bool cgroup_systemd_possible(struct err *e)
{
	const struct cgroup_systemd_place place = place_here();

	return place_has_any(&place, e);
}

#ifdef HAVE_SYSTEMD

/* --- sd-bus, loaded when it is needed: a run that has its groups, or asks for no limit, does not pay for it --- */

#define LIBRARY "libsystemd.so.0"

static struct {
	__typeof__(sd_bus_new) *new;
	__typeof__(sd_bus_set_address) *set_address;
	__typeof__(sd_bus_set_bus_client) *set_bus_client;
	__typeof__(sd_bus_start) *start;
	__typeof__(sd_bus_get_fd) *get_fd;
	__typeof__(sd_bus_match_signal_async) *match_signal_async;
	__typeof__(sd_bus_call_method_async) *call_method_async;
	__typeof__(sd_bus_process) *process;
	__typeof__(sd_bus_wait) *wait;
	__typeof__(sd_bus_message_read) *message_read;
	__typeof__(sd_bus_message_get_error) *message_get_error;
	__typeof__(sd_bus_close_unref) *close_unref;
} lib;

static int lib_open(void **handle, struct err *e)
{
	static const struct {
		const char *name;
		void *to;
	} functions[] = {
		{"sd_bus_new", &lib.new},
		{"sd_bus_set_address", &lib.set_address},
		{"sd_bus_set_bus_client", &lib.set_bus_client},
		{"sd_bus_start", &lib.start},
		{"sd_bus_get_fd", &lib.get_fd},
		{"sd_bus_match_signal_async", &lib.match_signal_async},
		{"sd_bus_call_method_async", &lib.call_method_async},
		{"sd_bus_process", &lib.process},
		{"sd_bus_wait", &lib.wait},
		{"sd_bus_message_read", &lib.message_read},
		{"sd_bus_message_get_error", &lib.message_get_error},
		{"sd_bus_close_unref", &lib.close_unref},
	};

	*handle = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	if (!*handle)
		return err_set(e, ENOTSUP, LIBRARY " cannot be loaded (%s); install libsystemd0", dlerror());
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
		void *function = dlsym(*handle, functions[i].name);

		if (!function) {
			dlclose(*handle);
			*handle = NULL;
			return err_set(e, ENOTSUP, LIBRARY " has no %s; install systemd 241 or later", functions[i].name);
		}
		memcpy(functions[i].to, &function, sizeof(function));
	}
	return 0;
}

/* --- the question --- */

#define SYSTEMD "org.freedesktop.systemd1"
#define SYSTEMD_PATH "/org/freedesktop/systemd1"
#define SYSTEMD_MANAGER "org.freedesktop.systemd1.Manager"

struct question {
	const char *unit;
	bool begun, done; /* systemd took it; there is a result */
	int result;
	struct err *e;
};

static int on_reply(sd_bus_message *m, void *userdata, sd_bus_error *unused)
{
	struct question *q = userdata;
	const sd_bus_error *error = lib.message_get_error(m);

	(void)unused;
	q->begun = !error;
	if (error && !q->done) {
		q->done = true;
		q->result = err_set(q->e, EIO, "%.200s", error->message ? error->message : error->name);
	}
	return 0;
}

static int on_job_removed(sd_bus_message *m, void *userdata, sd_bus_error *unused)
{
	struct question *q = userdata;
	const char *job, *unit, *result;
	uint32_t id;

	(void)unused;
	if (lib.message_read(m, "uoss", &id, &job, &unit, &result) < 0 || !str_eq(unit, q->unit))
		return 0;
	q->begun = q->done = true;
	if (!str_eq(result, "done"))
		q->result = err_set(q->e, EIO, "the job that makes %s ended as \"%.40s\"; journalctl --user says why", unit, result);
	return 0;
}

/* Both go out when the connection stands, in this order: the signal cannot come before it is listened to. */
static int question_send(sd_bus *bus, bool is_bus, struct question *q)
{
	cleanup_free char *text = mem_printf("agentbox: control group of %s", q->unit);
	int r = lib.match_signal_async(bus, NULL, is_bus ? SYSTEMD : NULL, SYSTEMD_PATH, SYSTEMD_MANAGER, "JobRemoved",
				       on_job_removed, NULL, q);

	if (r < 0)
		return r;
	/* Pid 0 is the sender: a number would mean another process where this one's PID namespace is not systemd's. */
	return lib.call_method_async(bus, NULL, SYSTEMD, SYSTEMD_PATH, SYSTEMD_MANAGER, "StartTransientUnit", on_reply, q,
				     "ssa(sv)a(sa(sv))", q->unit, "fail", 4, "Description", "s", text, "Delegate", "b", 1,
				     "CollectMode", "s", "inactive-or-failed", "PIDs", "au", 1, 0U, 0);
}

static uint64_t now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

/* Who listens there could tell us nothing but lies; it is asked only where it is the caller's own, or root's. */
static int check_peer(sd_bus *bus)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);
	int fd = lib.get_fd(bus);

	if (fd < 0)
		return fd;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0)
		return -errno;
	return peer.uid == geteuid() || peer.uid == 0 ? 0 : -EPERM;
}

static int question_ask(const char *address, bool is_bus, struct question *q, uint64_t end_us)
{
	sd_bus *bus = NULL;
	int r = lib.new(&bus);

	if (r >= 0)
		r = lib.set_address(bus, address);
	if (r >= 0)
		r = lib.set_bus_client(bus, is_bus);
	if (r >= 0)
		r = lib.start(bus); /* connects; all that is said is said in process */
	if (r >= 0)
		r = check_peer(bus);
	if (r >= 0)
		r = question_send(bus, is_bus, q);
	while (r >= 0 && !q->done) {
		uint64_t now = now_us();

		r = now < end_us ? lib.process(bus, NULL) : -ETIMEDOUT;
		if (r == 0 && !q->done)
			r = lib.wait(bus, end_us - now);
	}
	lib.close_unref(bus);
	if (q->done)
		return q->result;
	return err_errno(q->e, -r, "systemd --user at %.100s", address);
}

int cgroup_systemd_ask(const struct cgroup_systemd_place *place, const char *unit, unsigned timeout_ms, struct err *e)
{
	uint64_t end_us = now_us() + timeout_ms * UINT64_C(1000);
	struct question q = {.unit = unit, .e = e};
	void *handle = NULL;
	int r, more = 0;

	if (!place_has_any(place, e))
		return -e->code;
	r = lib_open(&handle, e);
	for (int n = 0; handle && more >= 0; n++) {
		cleanup_str struct str address = {0};
		bool is_bus;

		more = cgroup_systemd_address(place, n, &address, &is_bus);
		if (more <= 0)
			continue;
		q.done = false;
		q.result = 0;
		r = question_ask(address.text, is_bus, &q, end_us);
		if (r == 0 || q.begun || r == -ETIMEDOUT)
			break;
	}
	if (handle)
		dlclose(handle);
	return r;
}

#else

int cgroup_systemd_ask(const struct cgroup_systemd_place *place, const char *unit, unsigned timeout_ms, struct err *e)
{
	(void)unit;
	(void)timeout_ms;
	place_has_any(place, e);
	return -ENOTSUP;
}

#endif

/* --- the answer: where this process is now --- */

static int leaf_join(const char *scope)
{
	cleanup_free char *leaf = mem_printf("%s/" LEAF, scope), *procs = mem_printf("%s/cgroup.procs", leaf);

	if (mkdir(leaf, 0755) < 0)
		return -errno;
	return fd_write_file(AT_FDCWD, procs, "0");
}

char *cgroup_systemd_scope(const char *run_id, unsigned timeout_ms, struct err *e)
{
	const struct cgroup_systemd_place place = place_here();
	cleanup_free char *unit = mem_printf(CGROUP_PREFIX "%s.scope", run_id), *scope = NULL;
	struct cgroup_trees trees = {0};
	int r = cgroup_systemd_ask(&place, unit, timeout_ms, e);

	if (r >= 0)
		r = cgroup_find(&trees, e);
	if (r < 0)
		return NULL;
	scope = steal_ptr(&trees.own[TREE_V2]);
	cgroup_trees_free(&trees);
	/* By what the kernel says, not by what systemd does. */
	if (!scope || !str_has_suffix(scope, unit) || scope[strlen(scope) - strlen(unit) - 1] != '/') {
		err_set(e, EIO, "systemd made %s, and this process is in %.100s", unit, scope ? scope : "a group that it cannot see");
		return NULL;
	}
	r = leaf_join(scope);
	if (r < 0) {
		err_errno(e, -r, "%s/" LEAF, scope);
		return NULL;
	}
	return steal_ptr(&scope);
}
