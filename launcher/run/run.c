/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "run/run.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <grp.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "box/build.h"
#include "box/child.h"
#include "run/commands.h"
#include "run/dirs.h"
#include "run/ebpf.h"
#include "run/limits.h"
#include "run/network.h"
#include "run/supervisor.h"
#include "run/sweeper.h"
#include "sys/path.h"
#include "sys/syscalls.h"

#include "base/banned.h"

static void supervisor_init(struct supervisor *s, const struct run_options *options)
{
	*s = (struct supervisor){
		.options = options,
		.profile = options->profile,
		.state = -1,
		.run_dir = -1,
		.init_pidfd = -1,
		.control = -1,
		.seccomp_listener = -1,
		.epoll = -1,
		.signals = -1,
		.parent_pidfd = -1,
		.deadline = -1,
		.terminal = {.master = -1, .out = SINK_NONE},
		.reserve = -1,
		.log.fd = -1,
		.log.copy_fd = -1,
		.cgroup.oom_fd = -1,
		.network = {.pidfd = -1, .resolver_pidfd = -1, .report = -1, .gateway_report = -1, .gateway_end = -1, .box_end = -1,
			    .names = {-1, -1}},
		.ebpf.filter = BPF_FILTER_NONE,
		.exit_code = -1,
		.signum = -1,
		.status = 125,
	};
	output_init(&s->output);
	clock_gettime(CLOCK_MONOTONIC, &s->started);
}

static void supervisor_free(struct supervisor *s)
{
	int *fds[] = {&s->state, &s->run_dir, &s->init_pidfd, &s->control, &s->seccomp_listener, &s->epoll,
		      &s->signals, &s->parent_pidfd, &s->deadline, &s->reserve};

	for (size_t i = 0; i < sizeof(fds) / sizeof(*fds); i++)
		cleanup_fd_p(fds[i]);
	output_free(&s->output);
	network_free(s);
	ebpf_free(s);
	cgroup_close(&s->cgroup);
	strv_free(&s->limits_hit);
	strv_free(&s->limits_warned);
	json_decref(s->record);
	json_decref(s->refused_calls);
	plan_free(&s->plan);
	free(s->state_path);
	free(s->run_path);
	free((void *)s->host.cwd);
	free((void *)s->host.home);
}

/* --- the caller's side of things --- */

/* Signals come through a descriptor; what the caller ignored or blocked is not inherited by our own logic. */
static int take_signals(struct supervisor *s, struct err *e)
{
	static const int passed[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH, SIGCONT, SIGTSTP, SIGALRM, SIGCHLD};
	struct sigaction standard = {.sa_handler = SIG_DFL}, ignore = {.sa_handler = SIG_IGN};
	sigset_t set;

	/* With SIGCHLD ignored the kernel reaps pid 1 and its status is lost (wait(2), NOTES; case 5). */
	sigaction(SIGCHLD, &standard, NULL);
	sigaction(SIGPIPE, &ignore, NULL);
	/* The caller's RLIMIT_FSIZE would kill us in the middle of the log: a failed write is an error like any other. */
	sigaction(SIGXFSZ, &ignore, NULL);
	/* A background job that touches the terminal's modes would be stopped in the middle of restoring them. */
	sigaction(SIGTTOU, &ignore, NULL);
	sigemptyset(&set);
	for (size_t i = 0; i < sizeof(passed) / sizeof(*passed); i++)
		sigaddset(&set, passed[i]);
	if (sigprocmask(SIG_SETMASK, &set, NULL) < 0)
		return err_errno(e, errno, "sigprocmask");
	s->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return s->signals < 0 ? err_errno(e, errno, "signalfd") : 0;
}

/* --die-with-parent means the process that started us, not the thread of it that did: a pidfd, no parent-death signal. */
static int watch_parent(struct supervisor *s, struct err *e)
{
	pid_t parent = getppid();

	if (!s->options->die_with_parent)
		return 0;
	s->parent_pidfd = pidfd_open(parent, 0);
	if (s->parent_pidfd < 0)
		return err_errno(e, errno, "--die-with-parent: the caller's process %d", parent);
	if (getppid() != parent)
		return err_set(e, ESRCH, "--die-with-parent: the caller has ended already");
	return 0;
}

static int find_caller(struct supervisor *s, struct err *e)
{
	const char *home = getenv("HOME");

	s->host.uid = getuid();
	s->host.gid = getgid();
	s->host.environ = environ;
	s->host.in_box = getenv("AGENTBOX") && str_eq(getenv("AGENTBOX"), "1");
	s->host.cwd = getcwd(NULL, 0);
	if (!s->host.cwd)
		return err_errno(e, errno, "the current directory");
	if (s->host.cwd[0] != '/')
		return err_set(e, ENOENT, "the current directory is not reachable from the root: %s", s->host.cwd);
	s->host.home = home && *home == '/' ? realpath(home, NULL) : NULL;
	return 0;
}

static void use_run_path(struct supervisor *s)
{
	s->run_path = mem_printf("%s/runs/%s", s->state_path, s->id);
	s->host.run_id = s->id;
	s->host.run_dir = s->run_path;
	s->host.state_dir = s->state_path;
}

/* The state directory and a run of its own in it. */
static int make_run(struct supervisor *s, struct err *e)
{
	char *given;

	s->state = state_open(e);
	if (s->state < 0)
		return s->state;
	if (state_path(&given, e) < 0)
		return -e->code;
	s->state_path = realpath(given, NULL);
	free(given);
	if (!s->state_path)
		return err_errno(e, errno, "the state directory");
	s->run_dir = state_run_create(s->state, s->id, e);
	if (s->run_dir < 0)
		return s->run_dir;
	use_run_path(s);
	return 0;
}

/* --- the box --- */

/*
 * Groups that the caller is in would still open the host's files to the box (case 31): root leaves them for the moment of
 * the clone. Another user cannot; the README says so.
 */
static int clone_without_groups(struct clone_args *args, bool in_box, pid_t *pid, struct err *e)
{
	gid_t groups[256];
	int n = getgroups(256, groups);
	bool dropped = n > 0 && setgroups(0, NULL) == 0;

	if (n < 0 || (geteuid() == 0 && n > 0 && !dropped))
		return err_errno(e, errno, "cannot leave the caller's supplementary groups for the box");
	*pid = sys_clone3(args);
	if (*pid != 0 && dropped && setgroups((size_t)n, groups) < 0)
		return err_errno(e, errno, "cannot take the caller's supplementary groups back");
	if (*pid < 0 && in_box)
		return err_errno(e, errno, "no box can be made in this box; its profile would need syscalls.nested-namespaces = yes");
	if (*pid < 0)
		return err_errno(e, errno, "cannot make the namespaces of the box; `agentbox doctor` says what is missing");
	return 0;
}

struct box_clone {
	struct clone_args args;
	const struct child_config *config;
	bool in_box;
	pid_t pid;
	int result;
	struct err *e;
};

static void clone_box(void *arg)
{
	struct box_clone *c = arg;

	c->result = clone_without_groups(&c->args, c->in_box, &c->pid, c->e);
	if (c->result == 0 && c->pid == 0)
		child_main(c->config);
}

static int start_box(struct supervisor *s, struct err *e)
{
	struct child_config config = {
		.plan = &s->plan, .title = s->options->title, .title_len = s->options->title_len};
	struct box_clone clone = {
		.args = {.flags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP | CLONE_PIDFD,
			 .exit_signal = SIGCHLD},
		.config = &config,
		.in_box = s->host.in_box,
		.e = e,
	};
	struct clone_args *args = &clone.args;
	cleanup_fd int child_end = -1;
	int pair[2], r, groups[CGROUP_DIRS_MAX], n_groups;
	mode_t mask;

	args->pidfd = (uint64_t)(uintptr_t)&s->init_pidfd;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_errno(e, errno, "socketpair");
	s->control = pair[0];
	child_end = pair[1];
	/* A pid 1 that does not take its messages (stopped from outside) must not stop us. */
	if (fcntl(s->control, F_SETFL, O_NONBLOCK) < 0)
		return err_errno(e, errno, "fcntl");
	r = network_open(s, e);
	if (r < 0)
		return r;
	mask = umask(0);
	umask(mask);
	config.umask = mask;
	config.control = child_end;
	config.streams[STDIN_FILENO] = s->output.input;
	config.streams[STDOUT_FILENO] = s->output.v[0].box_end;
	config.streams[STDERR_FILENO] = s->output.v[s->plan.one_stream ? 0 : 1].box_end;
	config.network = s->plan.private_network ? s->network.box_end : -1;
	if (cgroup_into_fd(&s->cgroup) >= 0) {
		args->flags |= CLONE_INTO_CGROUP;
		args->cgroup = (uint64_t)cgroup_into_fd(&s->cgroup);
	}
	if (s->cgroup.twin) { /* the signal is then the twin's, SIGCHLD too (clone(2)) */
		args->flags |= CLONE_PARENT;
		args->exit_signal = 0;
	}
	n_groups = cgroup_join_fds(&s->cgroup, groups, e);
	if (n_groups < 0)
		return n_groups;
	config.cgroups = groups;
	config.n_cgroups = (size_t)n_groups;
	r = cgroup_call(&s->cgroup, clone_box, &clone, e);
	if (r == 0)
		r = clone.result;
	s->init = clone.pid;
	output_started(&s->output);
	for (int i = 0; i < n_groups; i++)
		close(groups[i]);
	if (r < 0) {
		s->init = 0;
		return r;
	}
	/* While the box is being made; it waits for the word to start. */
	r = network_start(s, e);
	if (r == 0)
		r = ebpf_attach(s, e);
	return r < 0 ? r : network_attached(s, e);
}

/* --- the outcome --- */

static void judge(struct supervisor *s)
{
	int status = s->exited.wait_status;

	if (s->command_ended && WIFEXITED(status)) {
		s->exit_code = WEXITSTATUS(status);
		s->reason = REASON_EXITED;
		s->status = s->exit_code;
	} else if (s->command_ended) {
		s->signum = WTERMSIG(status);
		s->reason = limits_reason(s, s->signum) ?: REASON_SIGNALED;
		s->status = 128 + s->signum;
	} else if (s->command_started) {
		/* Pid 1 was killed with everything in the box: by us, by the kernel for memory, or by somebody outside. */
		s->signum = SIGKILL;
		s->reason = limits_reason(s, SIGKILL) ?: REASON_SIGNALED;
		s->status = 128 + SIGKILL;
	} else if (s->reason == REASON_NOT_FOUND) {
		s->status = 127;
	} else if (s->reason == REASON_NOT_EXECUTABLE) {
		s->status = 126;
	} else if (s->reason == REASON_NONE && s->pending == REASON_NONE) {
		s->reason = REASON_SETUP_FAILED;
		if (s->network.failed_early)
			network_failure_text(s, &s->error);
		else
			err_set(&s->error, ECHILD, "the box's first process was killed before the command was started");
	}
	if (s->pending == REASON_NONE || s->reason == REASON_NOT_FOUND || s->reason == REASON_NOT_EXECUTABLE)
		return;
	s->reason = s->pending;
	if (s->pending == REASON_TIMEOUT)
		s->status = 124;
}

/*
 * We cannot go on, for the most part as an event could not be written: what was to be recorded may not go on unseen, so the
 * box was killed. Where the command had ended before, how is known.
 */
static void judge_failure(struct supervisor *s)
{
	int status = s->exited.wait_status;

	if (s->reason != REASON_NONE)
		return;
	s->reason = s->command_started ? REASON_FAILED : REASON_SETUP_FAILED;
	if (!s->command_started)
		return;
	if (s->command_ended && WIFEXITED(status))
		s->exit_code = WEXITSTATUS(status);
	else
		s->signum = s->command_ended ? WTERMSIG(status) : SIGKILL;
	err_prefix(&s->error, "the command was ended");
}

#define SYNC_FROM_MS 1000

static void conclude(struct supervisor *s)
{
	struct err ignored; /* a log that cannot be written is said by finish() */

	network_finish(s, &ignored);
	ebpf_finish(s, &ignored);
	limits_sample(s, &ignored);
	judge(s);
	limits_final(s, &ignored);
}

/* The record may not be written by halves: what fails there is said, and makes a run that would have been 0 fail. */
static void finish(struct supervisor *s)
{
	struct err e = {0};

	dirs_use_reserve(s->reserve, s->error.code == ENOSPC || s->error.code == EDQUOT);
	if (s->logging && record_end(s, &e) < 0) {
		sink_say("agentbox: the record of run %s is not whole: %s\n", s->id, e.msg);
		if (s->status == 0)
			s->status = 125;
	}
	loop_reap_init(s);
	if (limits_remove(s, &e) < 0)
		sink_say("agentbox: %s; `agentbox prune` tries again\n", e.msg);
	sweeper_end(s);
	if (s->run_dir >= 0 && dirs_remove(s, &e) < 0)
		sink_say("agentbox: %s; `agentbox prune` tries again\n", e.msg);
	/*
	 * Every process may die at any time and the record is whole; this is for the machine. A disk's flush costs what some runs
	 * take in all: short ones leave it to the kernel's own writing back, within seconds.
	 */
	if (now_ms() - start_ms(s) >= SYNC_FROM_MS && event_log_sync(&s->log, &e) < 0)
		sink_say("agentbox: the record of run %s may not be on the disk: %s\n", s->id, e.msg);
	if (event_log_close(&s->log, &e) < 0) {
		sink_say("agentbox: the record of run %s may not be on the disk: %s\n", s->id, e.msg);
		if (s->status == 0)
			s->status = 125;
	}
}

static void summarise(const struct supervisor *s)
{
	cleanup_str struct str what = {0};
	uint64_t named = s->network.denied + s->limits_hit.n;

	if (s->options->quiet)
		return;
	network_summary(s, &what);
	limits_summary(s, &what);
	named += output_summary(&s->output, &what);
	if (s->denied_count > named)
		str_addf(&what, "%s%llu %sdenied or cut", what.len ? "; " : "", (unsigned long long)(s->denied_count - named),
			 what.len ? "more " : "");
	if (what.len)
		sink_say("agentbox: %s; agentbox log %s --denied\n", what.text, s->id);
	if (s->options->verbose)
		sink_say("agentbox: run %s: %s; agentbox log %s\n", s->id, reason_name(s->reason), s->id);
}

static void report_error(const struct supervisor *s)
{
	cleanup_str struct str text = {0};

	if (!s->error.msg[0])
		return;
	str_add_printable(&text, s->error.msg, strlen(s->error.msg));
	sink_say("agentbox: %s\n", text.text);
}

/* Everything up to the running box. On failure s->reason says which kind. */
static int prepare(struct supervisor *s, struct err *e)
{
	int r = take_signals(s, e);

	if (r == 0)
		r = watch_parent(s, e);
	if (r == 0)
		r = find_caller(s, e);
	if (r == 0)
		r = make_run(s, e);
	s->reason = REASON_REFUSED;
	if (r == 0)
		r = commands_check(s->profile, s->options->request.argv, e);
	s->command_refused = r < 0;
	if (r == 0)
		r = ebpf_plan(s, e);
	if (r == 0)
		r = network_names(s, e);
	if (r == 0)
		r = plan_build(&s->plan, s->profile, &s->options->request, &s->host, e);
	if (r == 0)
		r = network_plan(s, e);
	if (r < 0)
		return r;
	r = dirs_make(s, e);
	if (r < 0)
		return r;
	event_log_init(&s->log, r, s->id, s->plan.task_id);
	s->reserve = dirs_reserve(s->state);
	s->log.copy_fd = s->options->event_fd;
	s->logging = true;
	r = output_prepare(s, e);
	/* What prune must know of is in the record before it can be left behind. */
	if (r == 0)
		r = limits_prepare(s, e);
	if (r == 0)
		limits_warn(s);
	if (r == 0)
		r = ebpf_check_group(s, e);
	if (r == 0 && s->cgroup.n)
		r = record_running(s, e);
	if (r == 0)
		s->reason = REASON_SETUP_FAILED;
	return r;
}

/* The box was made, but something failed before its loop began. */
static void abandon_box(struct supervisor *s)
{
	if (s->init_pidfd < 0)
		return;
	pidfd_send_signal(s->init_pidfd, SIGKILL, NULL, 0);
	loop_reap_init(s);
}

/* A run that was refused has a record too, if there is a place for it. */
static void record_refusal(struct supervisor *s)
{
	int fd;

	if (s->run_dir < 0)
		return;
	if (s->logging) {
		/* run.json may be there already, for prune. */
		if (!s->log.seq)
			record_start(s, &(struct err){0});
		return;
	}
	fd = openat(s->run_dir, "events.jsonl", O_WRONLY | O_APPEND | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return;
	event_log_init(&s->log, fd, s->id, NULL);
	s->log.copy_fd = s->options->event_fd;
	s->logging = record_start(s, &(struct err){0}) == 0;
	if (s->logging && s->command_refused)
		record_command_refused(s, s->profile->commands.allow.items[0].from);
}

int run_command(const struct run_options *options)
{
	struct supervisor s;
	int r;

	supervisor_init(&s, options);
	r = prepare(&s, &s.error);
	if (r == 0)
		r = start_box(&s, &s.error);
	/* The record exists before the command runs: that waits for our word. */
	if (r == 0)
		r = record_start(&s, &s.error);
	if (r == 0)
		r = loop_start_command(&s, &s.error);
	if (r == 0) {
		s.reason = REASON_NONE;
		r = loop_run(&s, &s.error);
	} else {
		abandon_box(&s);
		output_free(&s.output); /* where descriptors were lacking, the record needs them more */
		record_refusal(&s);
	}
	if (r == 0)
		conclude(&s);
	else
		judge_failure(&s);
	finish(&s);
	report_error(&s);
	summarise(&s);
	r = s.status;
	supervisor_free(&s);
	return r;
}

int run_with_plan(const struct run_options *options, int (*use)(const struct plan *plan, void *arg, struct err *e), void *arg,
		  struct err *e)
{
	struct supervisor s;
	char *given = NULL;
	int r;

	supervisor_init(&s, options);
	r = find_caller(&s, e);
	if (r == 0 && options->request.argv)
		r = commands_check(s.profile, options->request.argv, e);
	if (r == 0)
		r = state_path(&given, e);
	if (r == 0) {
		/* It may not be there yet; then its text is all there is. */
		s.state_path = realpath(given, NULL);
		if (!s.state_path)
			s.state_path = mem_strdup(given);
		snprintf(s.id, sizeof(s.id), "RUN");
		use_run_path(&s);
		r = plan_build(&s.plan, s.profile, &options->request, &s.host, e);
	}
	if (r == 0)
		r = use(&s.plan, arg, e);
	free(given);
	supervisor_free(&s);
	return r;
}
