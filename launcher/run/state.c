/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "run/state.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "sys/fd.h"
#include "sys/path.h"
#include "sys/tree.h"

#include "base/banned.h"

#define OPEN_DIR (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
#define RUN_JSON_MAX (64 << 20)

static const char *state_env(const char *name)
{
	const char *value = getenv(name);

	return value && *value ? value : NULL;
}

int state_path(char **out, struct err *e)
{
	const char *own = state_env("AGENTBOX_STATE"), *xdg = state_env("XDG_STATE_HOME"), *home = state_env("HOME");

	if (own) {
		cleanup_free char *cwd = *own == '/' ? NULL : realpath(".", NULL);

		*out = path_normal(own, cwd);
		return *out ? 0 : err_set(e, ENOENT, "AGENTBOX_STATE=%.200s: no current directory to start from; give an absolute path", own);
	}
	if (xdg && *xdg == '/') { /* The XDG base directory specification: a relative one is to be ignored. */
		cleanup_free char *base = path_normal(xdg, NULL);

		*out = path_join(base, "agentbox");
		return 0;
	}
	if (!home || *home != '/') {
		const struct passwd *pw = getpwuid(geteuid());

		home = pw && pw->pw_dir && *pw->pw_dir == '/' ? pw->pw_dir : NULL;
	}
	if (!home)
		return err_set(e, ENOENT, "there is no home directory for the state; set AGENTBOX_STATE to a directory of your own");
	*out = path_join(home, ".local/state/agentbox");
	return 0;
}

int state_open(struct err *e)
{
	cleanup_free char *path = NULL;
	cleanup_fd int fd = -1;
	struct stat st;
	int r = state_path(&path, e);

	if (r < 0)
		return r;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT) {
		r = path_make_dirs(path, 0700, e);
		if (r < 0)
			return err_prefix(e, "the state directory (set AGENTBOX_STATE for another)");
		fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	}
	if (fd < 0)
		return err_errno(e, errno, "cannot open the state directory %s (set AGENTBOX_STATE for another)", path);
	if (fstat(fd, &st) < 0)
		return err_errno(e, errno, "%s", path);
	if (st.st_uid != geteuid())
		return err_set(e, EPERM, "the state directory %s belongs to uid %u, and you are uid %u; "
			       "set AGENTBOX_STATE to a directory of your own", path, st.st_uid, geteuid());
	if (st.st_mode & 077)
		return err_set(e, EPERM, "the state directory %s is open to others (mode %04o); run: chmod 700 %s", path,
			       st.st_mode & 07777, path);
	return steal_fd(&fd);
}

/* WHAT in the state directory, which is named, as it may be a default that nobody has heard of. Return: -errnum. */
static int state_fail(struct err *e, int errnum, const char *what)
{
	cleanup_free char *path = NULL;
	struct err ignored = {0};

	if (state_path(&path, &ignored) < 0)
		return err_errno(e, errnum, "%s in the state directory", what);
	return err_set(e, errnum, "%s in the state directory %.300s: %s; set AGENTBOX_STATE for another", what, path,
		       strerrordesc_np(errnum));
}

/* runs/, made where it is missing. */
static int state_runs(int state, struct err *e)
{
	int fd;

	if (mkdirat(state, "runs", 0700) < 0 && errno != EEXIST)
		return state_fail(e, errno, "cannot create runs/");
	fd = openat(state, "runs", OPEN_DIR);
	return fd < 0 ? state_fail(e, errno, "cannot open runs/") : fd;
}

static bool state_is_id(const char *name)
{
	size_t n = strspn(name, "0123456789abcdefghijklmnopqrstuvwxyz-");

	return n && n < STATE_ID_MAX && !name[n];
}

static int state_id_make(char *id)
{
	unsigned char random[2];
	struct timespec now;
	char hex[5];
	struct tm tm;
	size_t n;

	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		return -EIO;
	str_hex(random, sizeof(random), hex);
	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &tm);
	n = strftime(id, STATE_ID_MAX, "%Y%m%d-%H%M%S", &tm);
	snprintf(id + n, STATE_ID_MAX - n, "-%06ld-%s", now.tv_nsec / 1000, hex);
	return 0;
}

int state_run_create(int state, char *id, struct err *e)
{
	cleanup_fd int runs = state_runs(state, e);

	if (runs < 0)
		return runs;
	for (int tries = 0; tries < 16; tries++) {
		cleanup_fd int fd = -1;
		struct stat st;

		if (state_id_make(id) < 0)
			return err_set(e, EIO, "no random bytes from the kernel for the run's id");
		if (mkdirat(runs, id, 0700) < 0) {
			if (errno == EEXIST)
				continue;
			return state_fail(e, errno, "cannot create the run's directory");
		}
		fd = openat(runs, id, OPEN_DIR);
		if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &st) == 0 && st.st_nlink)
			return steal_fd(&fd);
		/* A `prune` or `ps` that came between has the lock, or has removed it for a lost one: then another is made. */
		if (fd < 0 && errno != ENOENT)
			return state_fail(e, errno, "cannot open the run's directory");
		unlinkat(runs, id, AT_REMOVEDIR);
	}
	return err_set(e, EEXIST, "no free id for the run");
}

#define NEW_RUN_MS 10000

/*
 * A run is made and then locked: one of the last seconds that has neither a lock nor a file is on its way between the two,
 * which takes microseconds, and is nobody's to list.
 */
static bool state_is_unborn(int runs, const char *id)
{
	struct timespec now;
	cleanup_fd int fd = -1;
	int64_t made_ms, now_ms;

	clock_gettime(CLOCK_REALTIME, &now);
	now_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
	if (state_id_time_ms(id, &made_ms) < 0 || now_ms - made_ms > NEW_RUN_MS)
		return false;
	fd = openat(runs, id, OPEN_DIR);
	return fd >= 0 && !state_run_is_live(fd) && faccessat(fd, "events.jsonl", F_OK, AT_SYMLINK_NOFOLLOW) < 0;
}

static int state_compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

int state_run_list(int state, struct strv *ids, struct err *e)
{
	cleanup_fd int fd = state_runs(state, e);
	cleanup_dir DIR *dir = NULL;
	const struct dirent *d;
	size_t first = ids->n;

	if (fd < 0)
		return fd;
	dir = fdopendir(fd);
	if (!dir)
		return state_fail(e, errno, "cannot read runs/");
	steal_fd(&fd);
	while (errno = 0, (d = readdir(dir)))
		if (state_is_id(d->d_name) && (d->d_type == DT_DIR || d->d_type == DT_UNKNOWN) &&
		    !state_is_unborn(dirfd(dir), d->d_name))
			strv_add(ids, d->d_name);
	if (errno)
		return state_fail(e, errno, "cannot read runs/");
	if (ids->n > first)
		qsort(ids->v + first, ids->n - first, sizeof(*ids->v), state_compare);
	return 0;
}

int state_run_find(int state, const char *word, char *id, struct err *e)
{
	cleanup_strv struct strv ids = {0};
	size_t n = 0, found = 0;
	char names[5 * (STATE_ID_MAX + 2)] = "";
	int r = state_run_list(state, &ids, e);

	if (r < 0)
		return r;
	if (!ids.n)
		return err_set(e, ENOENT, "there are no runs yet; `agentbox run` makes one");
	if (str_eq(word, "last"))
		return snprintf(id, STATE_ID_MAX, "%s", ids.v[ids.n - 1]), 0;
	if (!*word)
		return err_set(e, EINVAL, "an empty word names no run; `agentbox ps --all` lists them");
	for (size_t i = 0; i < ids.n; i++) {
		if (!str_has_prefix(ids.v[i], word))
			continue;
		found = i;
		if (str_eq(ids.v[i], word)) {
			n = 1;
			break;
		}
		if (n++ < 5)
			snprintf(names + strlen(names), sizeof(names) - strlen(names), "%s%s", *names ? ", " : "", ids.v[i]);
	}
	if (!n)
		return err_set(e, ENOENT, "no such run: %.64s; `agentbox ps --all` lists them", word);
	if (n > 1)
		return err_set(e, ENOTUNIQ, "%.64s is the start of %zu runs: %s%s; write more of the id", word, n, names,
			       n > 5 ? ", ..." : "");
	snprintf(id, STATE_ID_MAX, "%s", ids.v[found]);
	return 0;
}

int state_run_open(int state, const char *id, struct err *e)
{
	char path[STATE_ID_MAX + 8];
	int fd;

	if (!state_is_id(id))
		return err_set(e, EINVAL, "not a run's id");
	snprintf(path, sizeof(path), "runs/%s", id);
	fd = openat(state, path, OPEN_DIR);
	return fd < 0 ? err_errno(e, errno, "cannot open the directory of run %s", id) : fd;
}

/* A descriptor of its own, as a lock belongs to the open file description (flock(2)). */
static int state_lock(int rundir, int operation)
{
	cleanup_fd int fd = openat(rundir, ".", OPEN_DIR);

	if (fd < 0 || flock(fd, operation | LOCK_NB) < 0)
		return -errno;
	return steal_fd(&fd);
}

bool state_run_is_live(int rundir)
{
	int fd = state_lock(rundir, LOCK_SH);

	if (fd >= 0)
		close(fd);
	return fd == -EWOULDBLOCK;
}

int state_run_lock(int rundir)
{
	return state_lock(rundir, LOCK_EX);
}

int state_run_write(int rundir, const json_t *run, struct err *e)
{
	char *text = json_dumps(run, JSON_INDENT(2));
	int r;

	if (!text)
		return err_set(e, EINVAL, "run.json: cannot be written as JSON");
	r = fd_replace_file(rundir, "run.json", text, strlen(text), 0600);
	free(text);
	return r < 0 ? err_errno(e, -r, "cannot write run.json in the run's directory") : 0;
}

int state_run_read(int rundir, json_t **out, struct err *e)
{
	cleanup_free char *text = NULL;
	json_error_t why;
	json_t *run;
	size_t len;
	int r = fd_read_file(rundir, "run.json", RUN_JSON_MAX, &text, &len);

	if (r < 0)
		return err_errno(e, -r, "cannot read run.json");
	run = json_loadb(text, len, JSON_REJECT_DUPLICATES, &why);
	if (!json_is_object(run)) {
		json_decref(run);
		return err_set(e, EBADMSG, "run.json: line %d: not a JSON object", why.line > 0 ? why.line : 1);
	}
	*out = run;
	return 0;
}

const char *state_run_status(const json_t *run, bool live)
{
	const char *said = json_string_value(json_object_get(run, "state"));

	if (said && str_eq(said, "ended"))
		return "ended";
	return live ? "running" : "lost";
}

int state_run_remove(int state, const char *id, struct err *e)
{
	cleanup_fd int runs = state_runs(state, e);

	if (runs < 0)
		return runs;
	if (!state_is_id(id))
		return err_set(e, EINVAL, "not a run's id");
	return tree_remove(runs, id, e);
}

static int time_from_tm(const char *text, const char *format, const char **rest, int64_t *out_ms)
{
	struct tm tm = {0};
	const char *end = strptime(text, format, &tm);

	if (!end)
		return -EINVAL;
	*rest = end;
	*out_ms = (int64_t)timegm(&tm) * 1000;
	return 0;
}

int state_time_ms(const char *rfc3339, int64_t *out_ms)
{
	const char *rest;
	int64_t ms;
	int scale = 100;

	if (time_from_tm(rfc3339, "%Y-%m-%dT%H:%M:%S", &rest, &ms) < 0)
		return -EINVAL;
	if (*rest == '.')
		for (rest++; *rest >= '0' && *rest <= '9'; rest++, scale /= 10)
			ms += (*rest - '0') * scale;
	if (!str_eq(rest, "Z"))
		return -EINVAL;
	*out_ms = ms;
	return 0;
}

int state_id_time_ms(const char *id, int64_t *out_ms)
{
	const char *rest;

	return time_from_tm(id, "%Y%m%d-%H%M%S", &rest, out_ms);
}
