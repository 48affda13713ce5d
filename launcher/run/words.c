/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The words for what failed in the child, which can only send numbers. */
#include <errno.h>
#include <string.h>

#include "base/str.h"
#include "box/mounts.h"
#include "box/netns.h"
#include "run/supervisor.h"

#include "base/banned.h"

const char *reason_name(enum run_reason reason)
{
	static const char *const names[] = {
		[REASON_NONE] = "none",
		[REASON_EXITED] = "exited",
		[REASON_SIGNALED] = "signaled",
		[REASON_TIMEOUT] = "timeout",
		[REASON_OOM] = "oom",
		[REASON_LIMIT] = "limit",
		[REASON_CANCELLED] = "cancelled",
		[REASON_REFUSED] = "refused",
		[REASON_SETUP_FAILED] = "setup-failed",
		[REASON_NOT_EXECUTABLE] = "not-executable",
		[REASON_NOT_FOUND] = "not-found",
		[REASON_FAILED] = "failed",
		[REASON_LOST] = "lost",
	};

	return names[reason];
}

static const char *advice_for_mount(const struct mount_step *s, const struct box_msg *msg)
{
	switch (msg->errnum) {
	case ESTALE:
		return "it was replaced while the box was being made; start again when nothing else writes there";
	case EROFS:
		return "the place does not exist, and making it would leave something on the host; make it first, or choose a place "
		       "below /workspace/scratch or one that exists";
	case ELOOP:
		return "a symbolic link leads there, and none is followed; name the real place";
	case ENOENT:
		return msg->object == MOUNTS_SOURCE ? "it was there a moment ago; start again" : "name a place that exists";
	case EINVAL:
		if (s->op == MOUNT_OVERLAY)
			return "the file system of the state directory or of the repository cannot hold an overlay (one overlay on "
			       "another cannot); set AGENTBOX_STATE to a directory on a disk or a tmpfs, or use "
			       "--set workspace.repo-mode=write";
		return "the kernel refuses this mount here; `agentbox doctor` says what is missing";
	case EPERM:
		if (s->op == MOUNT_PROC)
			return "a fresh /proc is refused where the outer one is partly hidden (in Docker: "
			       "--security-opt systempaths=unconfined); within a box, its profile needs "
			       "syscalls.nested-namespaces = yes";
		return "the kernel refuses this mount here; `agentbox doctor` says what is missing";
	default:
		return "`agentbox doctor` says what is missing on this host";
	}
}

static void words_mount(struct supervisor *s, const struct box_msg *msg)
{
	char place[256];
	const struct mount_step *step;
	const char *object;

	if (msg->step < 0 || (size_t)msg->step >= s->plan.n_steps) {
		err_errno(&s->error, msg->errnum, "cannot make the root of the box");
		return;
	}
	step = &s->plan.steps[msg->step];
	object = msg->object == MOUNTS_SOURCE && step->source ? step->source : step->dest;
	err_errno(&s->error, msg->errnum, "cannot set up %s (%s, %s)", object, mount_op_name(step->op),
		  step->from.file ? origin_text(step->from, place, sizeof(place)) : "built-in");
	if (msg->errnum == ESTALE)
		err_set(&s->error, ESTALE, "cannot set up %s: not the object that was there at the start", object);
	size_t len = strlen(s->error.msg);

	snprintf(s->error.msg + len, sizeof(s->error.msg) - len, "; %s", advice_for_mount(step, msg));
}

void words_box_failed(struct supervisor *s, const struct box_msg *msg)
{
	static const struct {
		const char *what, *advice;
	} phases[] = {
		[PHASE_PARENT] = {"cannot bind the box to its supervisor", "start again"},
		[PHASE_IDS] = {"cannot map the user and group in the new user namespace",
			       "`agentbox doctor` says whether this host allows it to you (AppArmor, sysctl)"},
		[PHASE_HOSTNAME] = {"cannot set the host name", "use one of at most 64 letters, digits and dashes"},
		[PHASE_NETWORK] = {"cannot set up the box's network", "`agentbox doctor` says what is missing"},
		[PHASE_ENTER] = {"cannot change to the box's root",
				 "the caller's root must be a mount point, not a chroot or an initramfs"},
		[PHASE_TERMINAL] = {"cannot make the box's terminal", "use --tty no"},
		[PHASE_DIRECTORY] = {"cannot start in the directory", "name one with --chdir that the box has"},
		[PHASE_RLIMITS] = {"cannot set the resource limits", "compare [limits] with `ulimit -Ha`"},
		[PHASE_CAPS] = {"cannot drop the capabilities", "the command was not started"},
		[PHASE_LANDLOCK] = {"cannot apply Landlock", "`agentbox doctor` says what is missing"},
		[PHASE_SECCOMP] = {"cannot load the filter of system calls", "`agentbox doctor` says what is missing"},
		[PHASE_REPORT] = {"cannot report to the supervisor", "start again"},
		[PHASE_SESSION] = {"the command cannot have a session of its own", "start again"},
		[PHASE_START] = {"cannot start a process in the box", "limits.processes may be too low"},
	};

	if (msg->phase == PHASE_MOUNTS) {
		words_mount(s, msg);
		return;
	}
	if (msg->phase == PHASE_NETWORK && msg->step > 0) {
		struct netns_failure failure = {.step = msg->step, .object = msg->object};

		netns_failure_text(&failure, msg->errnum, &s->error);
		return;
	}
	if (msg->phase < 1 || msg->phase >= sizeof(phases) / sizeof(*phases) || !phases[msg->phase].what) {
		err_set(&s->error, EPROTO, "the box reported a failure that makes no sense (phase %u)", msg->phase);
		return;
	}
	err_errno(&s->error, msg->errnum, "%s%s%s", phases[msg->phase].what, msg->phase == PHASE_DIRECTORY ? " " : "",
		  msg->phase == PHASE_DIRECTORY ? s->plan.cwd : "");
	size_t len = strlen(s->error.msg);

	snprintf(s->error.msg + len, sizeof(s->error.msg) - len, "; %s", phases[msg->phase].advice);
}

void words_not_executed(struct supervisor *s, int errnum)
{
	const char *command = s->plan.argv.v[0], *path = NULL;

	for (size_t i = 0; i < s->plan.env.n; i++)
		if (str_has_prefix(s->plan.env.v[i], "PATH="))
			path = s->plan.env.v[i] + strlen("PATH=");
	/* ENOENT is the interpreter's, too, which execve(2) does not tell apart. */
	if (errnum == ENOENT && strchr(command, '/'))
		err_set(&s->error, errnum, "%.256s: not there in the box, or its interpreter is not; "
			"filesystem.read or --ro-bind shows a file of the host", command);
	else if (errnum == ENOENT && path)
		err_set(&s->error, errnum, "%.256s: not in the box's PATH (%.512s), or its interpreter is not there", command, path);
	else
		err_errno(&s->error, errnum, "%s", command);
}
