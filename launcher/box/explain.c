/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "box/explain.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "sys/path.h"

#include "base/banned.h"

/* The deepest cover at or above the path; of two at one place, the last. op: MOUNT_MASK or MOUNT_PIN. */
static const struct mount_step *cover_of(const struct plan *p, const char *path, enum mount_op op)
{
	const struct mount_step *best = NULL;

	for (size_t i = 0; i < p->n_steps; i++)
		if (p->steps[i].op == op && path_is_beneath(path, p->steps[i].dest))
			best = &p->steps[i];
	return best;
}

static int say(struct str *text, bool allowed, const char *path, const char *what, const struct mount_step *by)
{
	char place[512];

	str_add(text, allowed ? "allowed: " : "denied: ");
	str_add_printable(text, path, strlen(path));
	str_addf(text, ": %s", what);
	if (by)
		str_addf(text, " (%s)", by->from.file ? origin_text(by->from, place, sizeof(place)) : "built-in");
	str_add(text, "\n");
	return allowed;
}

/* A host path that the box shows elsewhere; NULL: it does not. Caller frees. */
static char *shown_at(const struct plan *p, const char *host_path)
{
	for (size_t i = p->n_steps; i-- > 0;) {
		const struct mount_step *s = &p->steps[i];

		if ((s->op == MOUNT_BIND || s->op == MOUNT_OVERLAY) && s->source[1] && path_is_beneath(host_path, s->source))
			return path_join(s->dest, path_below(host_path, s->source));
		/* A protected directory: the overlay's upper is the host's own. */
		if (s->op == MOUNT_OVERLAY && s->flags & MOUNT_WRITABLE_HOST && path_is_beneath(host_path, s->upper))
			return path_join(s->dest, path_below(host_path, s->upper));
	}
	return NULL;
}

static bool is_made(const struct plan *p, const char *path)
{
	for (size_t i = 0; i < p->n_steps; i++)
		if (path_is_beneath(p->steps[i].dest, path))
			return true;
	return false;
}

static int explain_place(const struct plan *p, enum explain_access access, const char *path, struct str *text)
{
	const struct mount_step *at = plan_at(p, path);
	cleanup_free char *host = NULL;
	struct stat st;

	if (!at)
		return say(text, access != EXPLAIN_WRITE && is_made(p, path), path,
			   is_made(p, path) ? "of the box's own root, which is read-only" : "not in the box", NULL);
	if (at->op == MOUNT_BIND || (at->op == MOUNT_OVERLAY && !(at->flags & MOUNT_WRITABLE_HOST))) {
		host = path_join(at->source, path_below(path, at->dest));
		if (access != EXPLAIN_WRITE && lstat(host, &st) < 0)
			return say(text, false, path, "not there on the host", at);
	}
	if (access == EXPLAIN_WRITE && at->flags & MOUNT_RO)
		return say(text, false, path, "read-only", at);
	if (access == EXPLAIN_EXEC && (at->flags & MOUNT_NOEXEC || at->op == MOUNT_PROC || at->op == MOUNT_DEVPTS))
		return say(text, false, path, "nothing can be executed there", at);
	if (access == EXPLAIN_EXEC && p->landlock.exec_listed) {
		for (size_t i = 0; i < p->landlock.exec.n; i++)
			if (path_is_beneath(path, p->landlock.exec.v[i]))
				return say(text, true, path, "listed in commands.exec", NULL);
		return say(text, false, path, "not listed in commands.exec", NULL);
	}
	return say(text, true, path, mount_op_name(at->op), at);
}

int plan_explain(const struct plan *p, enum explain_access access, const char *path, struct str *text)
{
	cleanup_free char *box_path = plan_follow(p, path);
	const struct mount_step *cover;

	if (!plan_at(p, box_path) && !is_made(p, box_path)) {
		char *shown = shown_at(p, path);

		if (shown) {
			free(box_path);
			box_path = shown;
		}
	}
	cover = cover_of(p, box_path, MOUNT_MASK);
	if (cover)
		return say(text, false, box_path, "denied", cover);
	cover = cover_of(p, box_path, MOUNT_PIN);
	if (cover && access == EXPLAIN_WRITE)
		return say(text, false, box_path, "protected", cover);
	return explain_place(p, access, box_path, text);
}
