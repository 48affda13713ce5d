/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "box/plan.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "base/num.h"
#include "sys/path.h"

#include "base/banned.h"

static void step_free(struct mount_step *s)
{
	free(s->dest);
	free(s->source);
	free(s->lower2);
	free(s->upper);
	free(s->work);
	free(s->data);
}

void plan_free(struct plan *p)
{
	for (size_t i = 0; i < p->n_steps; i++)
		step_free(&p->steps[i]);
	free(p->steps);
	free(p->run_id);
	free(p->task_id);
	free(p->hostname);
	free(p->name_server);
	free(p->cwd);
	free(p->repo);
	free(p->repo_upper);
	free(p->keep_fds);
	strv_free(&p->argv);
	strv_free(&p->env);
	strv_free(&p->make_dirs);
	strv_free(&p->make_commondirs);
	strv_free(&p->leftovers);
	strv_free(&p->named);
	seccomp_free(&p->seccomp);
	landlock_free(&p->landlock);
	*p = (struct plan){0};
}

struct mount_step *plan_add(struct plan *p, enum mount_op op, char *dest, struct origin from)
{
	struct mount_step *s;

	vec_reserve(&p->steps, &p->cap_steps, p->n_steps, sizeof(*p->steps));
	s = &p->steps[p->n_steps++];
	*s = (struct mount_step){.op = op, .dest = dest, .from = from};
	return s;
}

/* Does the step put a file system or a tree at its dest (not a name in what is there, not a cover of it)? */
static bool is_place(const struct mount_step *s)
{
	switch (s->op) {
	case MOUNT_BIND:
	case MOUNT_TMPFS:
	case MOUNT_TMP_DIR:
	case MOUNT_OVERLAY:
	case MOUNT_PROC:
	case MOUNT_DEVPTS:
		return true;
	default:
		return false;
	}
}

const struct mount_step *plan_at(const struct plan *p, const char *box_path)
{
	const struct mount_step *best = NULL;
	size_t best_len = 0;

	/* The last one wins among equals: it lies on top. */
	for (size_t i = 0; i < p->n_steps; i++) {
		const struct mount_step *s = &p->steps[i];
		size_t len;

		if (!is_place(s) || !path_is_beneath(box_path, s->dest))
			continue;
		len = strlen(s->dest);
		if (len < best_len)
			continue;
		best = s;
		best_len = len;
	}
	return best;
}

char *plan_follow(const struct plan *p, const char *box_path)
{
	char *path = mem_strdup(box_path);

	for (int links = 0; links < 8; links++) {
		const struct mount_step *link = NULL;
		cleanup_free char *base = NULL, *target = NULL;
		char *next;

		for (size_t i = 0; i < p->n_steps && !link; i++)
			if (p->steps[i].op == MOUNT_SYMLINK && path_is_beneath(path, p->steps[i].dest))
				link = &p->steps[i];
		if (!link)
			break;
		base = mem_strndup(link->dest, (size_t)(strrchr(link->dest, '/') - link->dest));
		target = path_normal(link->source, *base ? base : "/");
		next = path_join(target, path_below(path, link->dest));
		free(path);
		path = next;
	}
	return path;
}

const char *mount_op_name(enum mount_op op)
{
	switch (op) {
	case MOUNT_DIR:
		return "directory";
	case MOUNT_FILE:
		return "file";
	case MOUNT_SYMLINK:
		return "symlink";
	case MOUNT_BIND:
		return "bind";
	case MOUNT_TMPFS:
		return "tmpfs";
	case MOUNT_TMP_DIR:
		return "temporary";
	case MOUNT_OVERLAY:
		return "overlay";
	case MOUNT_PROC:
		return "proc";
	case MOUNT_DEVPTS:
		return "devpts";
	case MOUNT_ALIAS:
		return "alias";
	case MOUNT_SELF:
		return "hold";
	case MOUNT_MASK:
		return "deny";
	case MOUNT_PIN:
		return "protect";
	}
	return "?";
}

static void print_quoted(struct str *out, const char *text)
{
	str_add_printable(out, text, strlen(text));
}

static void print_step(const struct mount_step *s, struct str *out)
{
	char size[NUM_TEXT_MAX], place[512];

	str_addf(out, "  %-9s %s ", mount_op_name(s->op), s->flags & MOUNT_RO || s->op == MOUNT_PIN ? "ro" : "rw");
	print_quoted(out, s->dest);
	if (s->source) {
		str_add(out, s->op == MOUNT_SYMLINK ? " -> " : " from ");
		print_quoted(out, s->source);
	}
	if (s->lower2) {
		str_add(out, " under ");
		print_quoted(out, s->lower2);
	}
	if (s->upper) {
		str_add(out, " changes to ");
		print_quoted(out, s->upper);
	}
	if (s->op == MOUNT_TMPFS || s->op == MOUNT_TMP_DIR)
		str_addf(out, " size %s", num_size_text(s->size_bytes, size));
	if (s->from.file)
		str_addf(out, "  # %s", origin_text(s->from, place, sizeof(place)));
	str_add(out, "\n");
}

static void print_limits(const struct plan *p, struct str *out)
{
	const struct plan_limits *l = &p->limits;
	char buf[NUM_TEXT_MAX];

	str_add(out, "limits\n");
	if (l->wall_ms)
		str_addf(out, "  wall-time %s\n", num_duration_text(l->wall_ms, buf));
	if (l->memory_bytes)
		str_addf(out, "  memory %s\n", num_size_text(l->memory_bytes, buf));
	if (l->processes)
		str_addf(out, "  processes %" PRIu64 "\n", l->processes);
	if (l->cpus_milli)
		str_addf(out, "  cpus %" PRIu64 ".%03" PRIu64 "\n", l->cpus_milli / 1000, l->cpus_milli % 1000);
	if (p->rlimits.n) {
		cleanup_str struct str lines = {0};
		const char *line;

		rlimits_text(&p->rlimits, &lines);
		for (line = lines.text; line && *line; line += strcspn(line, "\n") + (line[strcspn(line, "\n")] != '\0'))
			str_addf(out, "  %.*s\n", (int)strcspn(line, "\n"), line);
	}
}

void plan_print(const struct plan *p, struct str *out)
{
	static const char *const modes[] = {"overlay", "write", "read", "none"};

	str_addf(out, "run        %s\n", p->run_id);
	str_addf(out, "identity   uid %u gid %u (host %u:%u), no capabilities, no new privileges\n", p->box_uid, p->box_gid,
		 p->host_uid, p->host_gid);
	str_addf(out, "hostname   %s\n", p->hostname);
	str_addf(out, "namespaces user mount pid ipc uts cgroup%s%s\n", p->private_network ? " net" : "",
		 p->nested_namespaces ? "; nested ones allowed" : "");
	str_addf(out, "repo       %s", modes[p->repo_mode]);
	if (p->repo) {
		str_add(out, " ");
		print_quoted(out, p->repo);
	}
	str_addf(out, "\nnetwork    %s\n",
		 p->egress == EGRESS_GATEWAY ? "through the gateway"
		 : p->private_network        ? "none but loopback"
					     : "the host's, under eBPF filters, with a name server of the run's own");
	str_addf(out, "terminal   %s\n", p->tty ? "of its own" : "none");
	str_addf(out, "output     %s\n", !p->capture ? "the caller's own streams" : p->one_stream ? "stored, as one stream" : "stored");
	str_add(out, "directory  ");
	print_quoted(out, p->cwd);
	str_add(out, "\ncommand   ");
	for (size_t i = 0; i < p->argv.n; i++) {
		str_add(out, " ");
		print_quoted(out, p->argv.v[i]);
	}
	/* Names only: a value may be a secret, and a plan is pasted into issues. */
	str_add(out, "\nvariables ");
	for (size_t i = 0; i < p->env.n; i++)
		str_addf(out, " %.*s", (int)strcspn(p->env.v[i], "="), p->env.v[i]);
	str_add(out, "\n");
	print_limits(p, out);
	str_add(out, "mounts\n");
	for (size_t i = 0; i < p->n_steps; i++)
		print_step(&p->steps[i], out);
}
