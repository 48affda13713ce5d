/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "box/deny.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "box/glob.h"
#include "box/sockets.h"
#include "sys/path.h"

#include "base/banned.h"

/* The host's path of what the box has at a path; NULL where that is nothing of the host's. Caller frees. */
static char *host_path_of(const struct covers *c, const char *box_path)
{
	cleanup_free char *path = plan_follow(c->plan, box_path);
	const struct mount_step *s = plan_at(c->plan, path);

	if (!s || (s->op != MOUNT_BIND && s->op != MOUNT_OVERLAY))
		return NULL;
	return path_join(s->source, path_below(path, s->dest));
}

/*
 * One path that `deny` names. It may be meant as the box's path or as the host's, and may lead through links: all of these
 * are denied.
 */
static int deny_path(struct covers *c, const char *path, struct origin from, struct err *e)
{
	cleanup_free char *of_box = host_path_of(c, path), *real = NULL;
	const struct mount_step *at = plan_at(c->plan, path);
	int shown = covers_shown(c, path, MOUNT_MASK, from, e), r = shown < 0 ? shown : 0;

	if (r == 0 && of_box && !str_eq(of_box, path))
		r = covers_host_path(c, of_box, MOUNT_MASK, from, e);
	real = realpath(of_box ? of_box : path, NULL);
	if (r == 0 && real && !str_eq(real, path) && (!of_box || !str_eq(real, of_box)))
		r = shown = covers_shown(c, real, MOUNT_MASK, from, e);
	/* Where a host path is meant that the box shows elsewhere, the same path in the box is another. */
	if (r < 0 || of_box || shown > 0)
		return r < 0 ? r : 0;
	/* A file system of the box's own: what is not there yet is made, so that it can be covered. */
	if (at && (at->op == MOUNT_TMPFS || at->op == MOUNT_TMP_DIR) && !str_eq(at->dest, path)) {
		struct mount_step *s;

		covers_pend(c, MOUNT_DIR, path, from);
		s = &c->pending[c->n_pending - 1];
		s->mode = 0;
	}
	covers_pend(c, MOUNT_MASK, path, from);
	c->pending[c->n_pending - 1].flags = MOUNT_OPTIONAL;
	return 0;
}

static int deny_glob(struct covers *c, const char *pattern, struct origin from, struct err *e)
{
	cleanup_free char *fixed = glob_fixed_part(pattern), *of_box = host_path_of(c, fixed);
	const char *rest = path_below(pattern, fixed);
	cleanup_strv struct strv found = {0};
	int r = glob_expand(fixed, rest, &found, e);

	if (r == 0 && of_box && !str_eq(of_box, fixed))
		r = glob_expand(of_box, rest, &found, e);
	for (size_t i = 0; r == 0 && i < found.n; i++)
		r = deny_path(c, found.v[i], from, e);
	return r;
}

static int add_denied(struct covers *c, const struct profile *profile, struct err *e)
{
	for (size_t i = 0; i < profile->filesystem.deny.n; i++) {
		const struct val_item *item = &profile->filesystem.deny.items[i];
		cleanup_free char *path = NULL;
		char place[256];
		int r;

		if (*item->text != '/' && !c->plan->repo)
			continue; /* relative to a repository that is not there */
		path = path_normal(item->text, c->plan->repo);
		r = glob_is_pattern(path) ? deny_glob(c, path, item->from, e) : deny_path(c, path, item->from, e);
		if (r < 0)
			return err_prefix(e, "%s: [filesystem] deny", origin_text(item->from, place, sizeof(place)));
	}
	/* The record of all runs is no business of the command's. */
	return covers_host_path(c, c->host->state_dir, MOUNT_MASK, (struct origin){0}, e);
}

/* Is anything of the host bound plainly but what every box has? Then there may be sockets in it. */
static bool has_grants(const struct covers *c)
{
	for (size_t i = 0; i < c->n_places; i++) {
		const struct place *p = &c->places[i];

		if (!p->overlay && !p->granted && c->plan->steps[p->step].from.file)
			return true;
	}
	return false;
}

/* Who grants just the socket, to be written to, means it. */
static bool is_granted_itself(const struct covers *c, const char *path)
{
	for (size_t i = 0; i < c->n_places; i++)
		if (c->places[i].writable_host && str_eq(c->places[i].root, path))
			return true;
	return false;
}

static int add_sockets(struct covers *c, struct err *e)
{
	cleanup_strv struct strv found = {0};
	int r;

	if (!has_grants(c))
		return 0;
	r = sockets_find(&found, e);
	for (size_t i = 0; r == 0 && i < found.n; i++) {
		cleanup_free char *real = realpath(found.v[i], NULL);
		struct stat st;

		/* One that was removed, or lies in another mount namespace, is not where its name says. */
		if (real && lstat(real, &st) == 0 && S_ISSOCK(st.st_mode) && !is_granted_itself(c, real))
			r = covers_host_path(c, real, MOUNT_MASK, (struct origin){0}, e);
	}
	return r;
}

int deny_add(struct covers *c, const struct profile *profile, struct err *e)
{
	int r = add_denied(c, profile, e);

	return r < 0 ? r : add_sockets(c, e);
}
