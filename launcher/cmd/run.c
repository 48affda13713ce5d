/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* `agentbox run`: the command line, turned into what run/ and box/ take. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/num.h"
#include "base/str.h"
#include "cmd/cmd.h"
#include "cmd/commands.h"
#include "cmd/profile_arg.h"
#include "run/run.h"

#include "base/banned.h"

enum tty_choice { TTY_AUTO, TTY_YES, TTY_NO };

/* A short option for one profile key. */
struct run_short {
	const char *option, *section, *key, *value;
};

#define SHORTS_MAX 256

struct run_line {
	struct run_options options;
	const char *profile;
	struct strv sets;
	struct run_short shorts[SHORTS_MAX];
	size_t n_shorts;
	enum tty_choice tty;
	bool dry_run;
};

static const struct cmd_option run_options[] = {
	{'p', "profile", "NAME|PATH", "the profile (else $AGENTBOX_PROFILE, else default)"},
	{'s', "set", "SECTION.KEY=VALUE", "a profile key; repeatable; list keys append"},
	{0, "repo", "DIR", "the project at /workspace/repo"},
	{0, "input", "SRC[:NAME]", "read-only at /workspace/input/NAME; repeatable"},
	{0, "artifacts", "DIR", "a host directory, which must exist, for /workspace/artifacts"},
	{0, "allow", "RULE", "short for --set egress.allow=RULE; turns the gateway on where the profile has no network"},
	{0, "timeout", "DUR", "short for --set limits.wall-time=DUR"},
	{0, "memory", "SIZE", "short for --set limits.memory=SIZE"},
	{0, "ro-bind", "SRC DEST", "a host path, read-only"},
	{0, "bind", "SRC DEST", "a host path, writable"},
	{0, "tmpfs", "DEST", "an empty file system"},
	{0, "dir", "DEST", "an empty directory"},
	{0, "symlink", "TARGET DEST", "a symbolic link"},
	{0, "setenv", "NAME VALUE", "sets a variable"},
	{0, "unsetenv", "NAME", "removes a variable"},
	{0, "chdir", "DIR", "where the command starts, in the box"},
	{0, "hostname", "NAME", "short for --set identity.hostname=NAME"},
	{0, "tty", "auto|yes|no", "a terminal of the box's own (auto: when stdin and stdout are one)"},
	{0, "event-fd", "N", "every event as a JSON line"},
	{0, "status-fd", "N", "the final run.end object"},
	{0, "keep-fd", "N", "leaves descriptor N open in the box; repeatable"},
	{0, "die-with-parent", NULL, "ends the run when the caller's process ends"},
	{0, "dry-run", NULL, "prints the plan, runs nothing"},
	{'q', "quiet", NULL, "no notes, and no word of what was denied or cut"},
	{'v', "verbose", NULL, "the run's id and how it ended, too"},
	{0},
};

/* Return: whether the name is one of a short option. */
static bool take_short(struct run_line *l, const char *name, const char *value, struct err *e)
{
	static const struct run_short shorts[] = {
		{"--allow", "egress", "allow", NULL},
		{"--timeout", "limits", "wall-time", NULL},
		{"--memory", "limits", "memory", NULL},
		{"--hostname", "identity", "hostname", NULL},
	};

	for (size_t i = 0; i < sizeof(shorts) / sizeof(*shorts); i++) {
		if (!str_eq(shorts[i].option + 2, name))
			continue;
		if (l->n_shorts == SHORTS_MAX) {
			err_set(e, E2BIG, "run: over %d of --allow and the like; write a profile", SHORTS_MAX);
			return true;
		}
		l->shorts[l->n_shorts] = shorts[i];
		l->shorts[l->n_shorts++].value = value;
		return true;
	}
	return false;
}

/* On top of the profile and of --set. Who asks for a destination asks for the network that leads there, and for no more. */
static int apply_shorts(const struct run_line *l, struct profile *p, struct err *e)
{
	struct profile_env env = profile_env_get();
	int r = 0;

	for (size_t i = 0; r == 0 && i < l->n_shorts; i++) {
		const struct run_short *o = &l->shorts[i];

		r = profile_set(p, o->option, o->section, o->key, o->value, &env, e);
		if (r == 0 && str_eq(o->option, "--allow") && p->egress.mode.v == EGRESS_NONE)
			r = profile_set(p, o->option, "egress", "mode", "gateway", &env, e);
	}
	return r;
}

static void add_mount(struct run_line *l, enum request_op op, const char *source, const char *dest)
{
	struct run_request *r = &l->options.request;

	vec_reserve(&r->mounts, &r->cap_mounts, r->n_mounts, sizeof(*r->mounts));
	r->mounts[r->n_mounts++] = (struct request_mount){.op = op, .source = source, .dest = dest};
}

/* An open descriptor of the caller's, none of the command's standard streams. */
static int take_fd(const char *option, const char *text, int *out, struct err *e)
{
	uint64_t n;

	if (num_u64(text, 3, INT_MAX, &n) < 0)
		return err_set(e, EINVAL, "run: %s %.32s: not the number of a descriptor from 3 up", option, text);
	if (fcntl((int)n, F_GETFD) < 0)
		return err_set(e, EBADF, "run: %s %s: no such descriptor is open", option, text);
	*out = (int)n;
	return 0;
}

/* One that agentbox itself writes to. */
static int take_stream(const char *option, const char *text, int *out, struct err *e)
{
	int flags, r = take_fd(option, text, out, e);

	if (r < 0)
		return r;
	flags = fcntl(*out, F_GETFL);
	if (flags < 0 || (flags & O_PATH) || (flags & O_ACCMODE) == O_RDONLY)
		return err_set(e, EBADF, "run: %s %s: open for reading only; open it for writing: %s>FILE", option, text, text);
	return 0;
}

static int take_keep_fd(struct run_line *l, const char *text, struct err *e)
{
	struct run_request *r = &l->options.request;
	int fd = -1, ret = take_fd("--keep-fd", text, &fd, e);

	if (ret < 0)
		return ret;
	if (r->n_keep_fds == sizeof(r->keep_fds) / sizeof(*r->keep_fds))
		return err_set(e, E2BIG, "run: --keep-fd: at most %zu", r->n_keep_fds);
	r->keep_fds[r->n_keep_fds++] = fd;
	return 0;
}

/* --setenv NAME VALUE, --unsetenv NAME: as in bubblewrap each does what it says where it stands, so the later wins. */
static int take_variable(struct run_line *l, const char *option, const char *const args[2], struct err *e)
{
	struct strv *out = &l->options.request.environment;

	if (!*args[0] || strchr(args[0], '='))
		return err_set(e, EINVAL, "run: --%s: \"%.64s\" is no name of a variable", option, args[0]);
	if (args[1])
		strv_take(out, mem_printf("%s=%s", args[0], args[1]));
	else
		strv_add(out, args[0]);
	return 0;
}

static int take_tty(struct run_line *l, const char *text, struct err *e)
{
	if (str_eq(text, "auto"))
		l->tty = TTY_AUTO;
	else if (str_eq(text, "yes"))
		l->tty = TTY_YES;
	else if (str_eq(text, "no"))
		l->tty = TTY_NO;
	else
		return err_set(e, EINVAL, "run: --tty %.32s: say auto, yes or no", text);
	return 0;
}

/* Options that only put a text somewhere. */
static bool take_text(struct run_line *l, const char *name, const char *const args[2])
{
	struct run_request *r = &l->options.request;

	if (str_eq(name, "profile"))
		l->profile = args[0];
	else if (str_eq(name, "set"))
		strv_add(&l->sets, args[0]);
	else if (str_eq(name, "repo"))
		r->repo = args[0];
	else if (str_eq(name, "input"))
		strv_add(&r->inputs, args[0]);
	else if (str_eq(name, "artifacts"))
		r->artifacts = args[0];
	else if (str_eq(name, "chdir"))
		r->chdir = args[0];
	else
		return false;
	return true;
}

static bool take_mount(struct run_line *l, const char *name, const char *const args[2])
{
	if (str_eq(name, "ro-bind"))
		add_mount(l, REQUEST_RO_BIND, args[0], args[1]);
	else if (str_eq(name, "bind"))
		add_mount(l, REQUEST_BIND, args[0], args[1]);
	else if (str_eq(name, "tmpfs"))
		add_mount(l, REQUEST_TMPFS, NULL, args[0]);
	else if (str_eq(name, "dir"))
		add_mount(l, REQUEST_DIR, NULL, args[0]);
	else if (str_eq(name, "symlink"))
		add_mount(l, REQUEST_SYMLINK, args[0], args[1]);
	else
		return false;
	return true;
}

static int take_option(struct run_line *l, const char *name, const char *const args[2], struct err *e)
{
	if (take_text(l, name, args) || take_mount(l, name, args))
		return 0;
	if (take_short(l, name, args[0], e))
		return -e->code;
	if (str_eq(name, "setenv") || str_eq(name, "unsetenv"))
		return take_variable(l, name, args, e);
	if (str_eq(name, "tty"))
		return take_tty(l, args[0], e);
	if (str_eq(name, "event-fd"))
		return take_stream("--event-fd", args[0], &l->options.event_fd, e);
	if (str_eq(name, "status-fd"))
		return take_stream("--status-fd", args[0], &l->options.status_fd, e);
	if (str_eq(name, "keep-fd"))
		return take_keep_fd(l, args[0], e);
	if (str_eq(name, "die-with-parent"))
		l->options.die_with_parent = true;
	else if (str_eq(name, "dry-run"))
		l->dry_run = true;
	else if (str_eq(name, "quiet"))
		l->options.quiet = true;
	else if (str_eq(name, "verbose"))
		l->options.verbose = true;
	return 0;
}

/* Where the command can write too, it could write events of its own making. */
static int check_streams(const struct run_line *l, struct err *e)
{
	const struct run_request *r = &l->options.request;
	const struct {
		const char *option;
		int fd;
	} streams[] = {{"--event-fd", l->options.event_fd}, {"--status-fd", l->options.status_fd}};

	for (size_t i = 0; i < 2; i++) {
		for (size_t k = 0; k < r->n_keep_fds; k++)
			if (r->keep_fds[k] == streams[i].fd)
				return err_set(e, EINVAL, "run: %s %d is left open to the command by --keep-fd, which could write there too",
					       streams[i].option, streams[i].fd);
	}
	return 0;
}

static int parse_line(struct run_line *l, int argc, char **argv, struct err *e)
{
	struct cmd_parsed parsed;
	int i = 1;

	while (cmd_next_option(&cmd_run, argc, argv, &i, &parsed, e)) {
		int r = take_option(l, parsed.option->name, parsed.args, e);

		if (r < 0)
			return r;
	}
	if (e->code)
		return -e->code;
	if (check_streams(l, e) < 0)
		return -e->code;
	if (i == argc)
		return err_set(e, EINVAL, "run: no command; write `agentbox run [options] -- COMMAND`");
	l->options.request.argv = argv + i;
	l->options.request.tty = l->tty == TTY_YES || (l->tty == TTY_AUTO && isatty(0) && isatty(1));
	if (l->tty == TTY_YES && !isatty(0))
		return err_set(e, ENOTTY, "run: --tty yes: standard input is not a terminal");
	return 0;
}

/*
 * The strings of argv and environ lie behind each other on the stack (fs/binfmt_elf.c, create_elf_tables): where they end
 * is where the last of them does.
 */
static void find_title(struct run_options *o, char **argv)
{
	/* argv here begins with the subcommand; what comes before it is the program's own name. */
	char *end = program_invocation_name + strlen(program_invocation_name) + 1;

	for (char **a = argv; *a; a++)
		if (*a == end)
			end = *a + strlen(*a) + 1;
	for (char **v = environ; *v; v++)
		if (*v == end)
			end = *v + strlen(*v) + 1;
	o->title = program_invocation_name;
	o->title_len = (size_t)(end - program_invocation_name);
}

static int print_plan(const struct plan *plan, void *arg, struct err *e)
{
	cleanup_str struct str text = {0};

	(void)arg;
	(void)e;
	plan_print(plan, &text);
	fputs(text.text, stdout);
	return 0;
}

static int dry_run(const struct run_options *options)
{
	struct err e = {0};

	if (run_with_plan(options, print_plan, NULL, &e) < 0)
		return cmd_fail(STATUS_REFUSED, &e);
	return cmd_finish(STATUS_OK);
}

static int check_conflicts(const struct profile *p, bool quiet)
{
	cleanup_str struct str text = {0};
	struct faults faults = {0}, notes = {0};
	int r = profile_check_conflicts(p, &faults, quiet ? NULL : &notes);

	for (size_t i = 0; i < notes.n; i++) {
		char place[256];

		fprintf(stderr, "agentbox: note: %s: %s\n", origin_text(notes.v[i].from, place, sizeof(place)), notes.v[i].text);
	}
	faults_text(&faults, &text);
	faults_free(&faults);
	faults_free(&notes);
	if (text.len)
		fputs(text.text, stderr);
	return r < 0 ? cmd_fail_text(STATUS_REFUSED, "run: the profile sets what does not hold with the rest of it") : STATUS_OK;
}

static int run_main(int argc, char **argv)
{
	struct run_line l = {.options = {.event_fd = -1, .status_fd = -1}};
	struct profile profile;
	struct err e = {0};
	int status;

	find_title(&l.options, argv);
	profile_init(&profile);
	if (parse_line(&l, argc, argv, &e) < 0)
		status = cmd_fail(STATUS_REFUSED, &e);
	else
		status = profile_arg_load(&profile, l.profile, &l.sets);
	if (status == STATUS_OK && apply_shorts(&l, &profile, &e) < 0)
		status = cmd_fail(STATUS_REFUSED, &e);
	if (status == STATUS_OK && profile_supported(&profile, &e) < 0)
		status = cmd_fail(STATUS_REFUSED, &e);
	if (status == STATUS_OK)
		status = check_conflicts(&profile, l.options.quiet);
	if (status == STATUS_OK) {
		l.options.profile = &profile;
		l.options.profile_name = profile.profile.name.v ? profile.profile.name.v : profile_name(l.profile);
		status = l.dry_run ? dry_run(&l.options) : run_command(&l.options);
	}
	profile_free(&profile);
	strv_free(&l.sets);
	strv_free(&l.options.request.inputs);
	strv_free(&l.options.request.environment);
	free(l.options.request.mounts);
	return status;
}

const struct cmd cmd_run = {
	.name = "run",
	.synopsis = "[options] [--] COMMAND [ARG...]",
	.text = "run COMMAND in a box",
	.options = run_options,
	.run = run_main,
};
