/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "box/covers.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "box/submounts.h"
#include "sys/path.h"

#include "base/banned.h"

#define LINKS_MAX 40 /* the kernel's own (path_resolution(7)) */

static bool is_directory(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

void covers_begin(struct covers *c, struct plan *plan, const struct run_host *host)
{
	*c = (struct covers){.plan = plan, .host = host};
	for (size_t i = 0; i < c->plan->n_steps; i++) {
		const struct mount_step *s = &c->plan->steps[i];
		struct place *p;

		if (s->op != MOUNT_BIND && s->op != MOUNT_OVERLAY)
			continue;
		vec_reserve(&c->places, &c->cap_places, c->n_places, sizeof(*c->places));
		p = &c->places[c->n_places++];
		*p = (struct place){
			.step = i,
			.dest = mem_strdup(s->dest),
			.root = mem_strdup(s->source),
			.writable_host = s->flags & MOUNT_WRITABLE_HOST,
			.overlay = s->op == MOUNT_OVERLAY,
			.granted = s->from.file && s->flags & MOUNT_RO && is_directory(s->source),
		};
	}
}

void covers_pend(struct covers *c, enum mount_op op, const char *dest, struct origin from)
{
	struct mount_step *s;

	vec_reserve(&c->pending, &c->cap_pending, c->n_pending, sizeof(*c->pending));
	s = &c->pending[c->n_pending++];
	*s = (struct mount_step){.op = op, .dest = mem_strdup(dest), .from = from};
}

/* Every directory between the place's root and the path is bound onto itself. */
static void hold_parents(struct covers *c, const struct place *p, const char *rel, struct origin from)
{
	cleanup_free char *path = mem_strdup(rel);

	for (char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
		cleanup_free char *dest = NULL;

		*slash = '\0';
		dest = path_join(p->dest, path);
		*slash = '/';
		covers_pend(c, MOUNT_SELF, dest, from);
	}
}

void covers_at(struct covers *c, struct place *p, const char *rel, enum mount_op op, struct origin from)
{
	cleanup_free char *dest = path_join(p->dest, rel);

	p->has_covers = true;
	if (p->writable_host)
		hold_parents(c, p, rel, from);
	covers_pend(c, op, dest, from);
}

static int cover_shown_from(struct covers *c, const char *path, enum mount_op op, struct origin from, int links, struct err *e);

/* Is a host path what lies in the box where this place has it, with no later mount over it? */
static bool shows(const struct covers *c, const struct place *p, const char *path)
{
	cleanup_free char *box_path = NULL;

	if (!path_is_beneath(path, p->root) || (c->writable_only && !p->writable_host))
		return false;
	box_path = path_join(p->dest, path_below(path, p->root));
	return plan_at(c->plan, box_path) == &c->plan->steps[p->step];
}

/* The link itself, where the command could make it lead elsewhere. */
static void hold_link(struct covers *c, const char *link, struct origin from)
{
	for (size_t i = 0; i < c->n_places; i++) {
		struct place *p = &c->places[i];

		if ((p->writable_host || p->overlay) && shows(c, p, link) && !str_eq(link, p->root))
			covers_at(c, p, path_below(link, p->root), MOUNT_PIN, from);
	}
}

/* Holds the link, and puts what it says before the rest of the way. at: its directory; "/" where it says an absolute path. */
static int take_link(struct covers *c, const char *link, struct origin from, char *at, char **todo, struct err *e)
{
	char target[PATH_MAX], *way;
	ssize_t n = readlink(link, target, sizeof(target) - 1);

	if (n < 0)
		return err_errno(e, errno, "%s", link);
	target[n] = '\0';
	hold_link(c, link, from);
	way = path_join(target, *todo);
	free(*todo);
	*todo = way;
	if (*target == '/')
		at[1] = '\0';
	return 0;
}

/* The first name of the way, which is taken from it; "" for a slash. Caller frees. */
static char *next_name(char **todo)
{
	size_t n = strcspn(*todo, "/");
	char *name = mem_strndup(*todo, n), *rest = mem_strdup(*todo + n + strspn(*todo + n, "/"));

	free(*todo);
	*todo = rest;
	return name;
}

/*
 * way: a relative path, from the directory `base`, which is real; as the kernel follows it, link by link, each of which is
 * held. What it leads to is covered wherever that is shown.
 */
static int follow(struct covers *c, const char *base, const char *way, enum mount_op op, struct origin from, int links, struct err *e)
{
	cleanup_free char *at = mem_strdup(base), *todo = mem_strdup(way);

	while (*todo) {
		cleanup_free char *name = next_name(&todo), *next = path_join(at, name);
		struct stat st;
		int errnum = lstat(next, &st) < 0 ? errno : 0;

		if (!*name || str_eq(name, "."))
			continue;
		if (str_eq(name, "..")) {
			char *slash = strrchr(at, '/');

			/* The way goes through it: another directory in its place would have another parent. */
			if (cover_shown_from(c, at, MOUNT_SELF, from, links, e) < 0)
				return -e->code;
			slash[slash == at ? 1 : 0] = '\0';
		} else if (errnum == ENOENT) {
			cleanup_free char *whole = path_join(next, todo);

			if (strstr(todo, "..") && cover_shown_from(c, next, MOUNT_SELF, from, links, e) < 0)
				return -e->code;
			free(at);
			at = path_normal(whole, NULL); /* beyond what exists ".." is text too */
			break;
		} else if (errnum == ENOTDIR) { /* a file in the way, which may not be taken out of it */
			op = MOUNT_PIN;
			break;
		} else if (errnum) {
			return path_unseen(next, errnum, e);
		} else if (!S_ISLNK(st.st_mode)) {
			free(at);
			at = steal_ptr(&next);
		} else if (links++ == LINKS_MAX) {
			return 0; /* a loop leads nowhere */
		} else if (take_link(c, next, from, at, &todo, e) < 0) {
			return -e->code;
		}
	}
	/* Not the project as a whole, nor what holds it: that would be no protection but a read-only project. */
	if (op == MOUNT_PIN && c->plan->repo && path_is_beneath(c->plan->repo, at))
		return 0;
	return cover_shown_from(c, at, op, from, links, e) < 0 ? -e->code : 0;
}

/* A symbolic link on the way: it is covered itself, and what it leads to wherever that is shown. */
static int cover_link(struct covers *c, struct place *p, const char *link_rel, const char *rest, enum mount_op op,
		      struct origin from, int links, struct err *e)
{
	cleanup_free char *link = path_join(p->root, link_rel), *base = mem_strndup(link, (size_t)(strrchr(link, '/') - link));
	cleanup_free char *whole = path_join(strrchr(link, '/') + 1, rest);

	if (p->writable_host || p->overlay)
		covers_at(c, p, link_rel, op, from);
	return follow(c, *base ? base : "/", whole, op, from, links, e);
}

/* rel: relative to the place's root, normal. */
static int cover_in_place(struct covers *c, struct place *p, const char *rel, enum mount_op op, struct origin from, int links,
			  struct err *e)
{
	cleanup_free char *path = mem_strdup(rel);

	if (!*rel) { /* the whole place, which nobody in the box can move */
		if (op != MOUNT_SELF)
			covers_pend(c, op, p->dest, from);
		return 0;
	}
	for (char *end = path; end; end = *end ? end + 1 : NULL) {
		cleanup_free char *full = NULL;
		struct stat st;
		char *slash = strchr(end, '/');

		if (slash)
			*slash = '\0';
		full = path_join(p->root, path);
		if (lstat(full, &st) < 0) {
			if (errno == ENOENT && (p->writable_host || p->overlay)) {
				strv_add(&p->missing, rel);
				/* What leads there and exists is merged with the skeleton: it cannot be renamed. */
				covers_at(c, p, rel, op, from);
				return 0;
			}
			if (errno == ENOENT)
				return 0; /* cannot come into being where nothing can be written */
			return err_errno(e, errno, "%s", full);
		}
		if (S_ISCHR(st.st_mode) && st.st_rdev == 0)
			return err_set(e, EINVAL, "%s is an overlay's whiteout (a character device 0:0), which cannot be covered; remove it",
				       full);
		if (S_ISLNK(st.st_mode))
			return cover_link(c, p, path, slash ? slash + 1 : "", op, from, links, e);
		if (!slash) {
			covers_at(c, p, path, op, from);
			return 0;
		}
		if (!S_ISDIR(st.st_mode)) { /* a file in the way, which may not be taken out of it */
			if (p->writable_host || p->overlay)
				covers_at(c, p, path, MOUNT_PIN, from);
			return 0;
		}
		*slash = '/';
		end = slash;
	}
	return 0;
}

/* links: how many symbolic links led here. */
static int cover_shown_from(struct covers *c, const char *path, enum mount_op op, struct origin from, int links, struct err *e)
{
	int shown = 0;

	for (size_t i = 0; i < c->n_places; i++) {
		struct place *p = &c->places[i];
		int r;

		if (!shows(c, p, path))
			continue;
		r = cover_in_place(c, p, path_below(path, p->root), op, from, links, e);
		if (r < 0)
			return r;
		shown++;
	}
	return shown;
}

int covers_shown(struct covers *c, const char *path, enum mount_op op, struct origin from, struct err *e)
{
	return cover_shown_from(c, path, op, from, 0, e);
}

int covers_hold(struct covers *c, const char *path, enum mount_op op, struct err *e)
{
	int r;

	c->writable_only = true;
	r = follow(c, "/", path, op, (struct origin){0}, 0, e);
	c->writable_only = false;
	return r;
}

int covers_host_path(struct covers *c, const char *path, enum mount_op op, struct origin from, struct err *e)
{
	int r = covers_shown(c, path, op, from, e);

	return r < 0 ? r : 0;
}

/* --- missing names --- */

/* Order of paths in which a directory comes right before all that lies beneath it: '/' sorts before any other byte. */
static int path_compare(const char *a, const char *b)
{
	while (*a && *a == *b)
		a++, b++;
	if (*a == *b)
		return 0;
	if (!*a || !*b)
		return *a ? 1 : -1;
	if (*a == '/' || *b == '/')
		return *a == '/' ? -1 : 1;
	return (unsigned char)*a - (unsigned char)*b;
}

static int text_compare(const void *a, const void *b)
{
	return path_compare(*(char *const *)a, *(char *const *)b);
}

/* Every directory from beneath `root` to `end` in the path. */
static void add_dirs_to(struct strv *dirs, const char *path, size_t root, size_t end)
{
	for (size_t n = root + 1; n <= end; n++)
		if (path[n] == '/' || path[n] == '\0')
			strv_take(dirs, mem_strndup(path, n));
}

/* The skeleton's directories, every one once, parents first. */
static void make_skeleton(struct plan *plan, const char *skeleton, const struct place *p)
{
	cleanup_strv struct strv dirs = {0};
	size_t root = strlen(skeleton);

	strv_add(&dirs, skeleton);
	for (size_t i = 0; i < p->missing.n; i++) {
		cleanup_free char *path = path_join(skeleton, p->missing.v[i]);

		add_dirs_to(&dirs, path, root, strlen(path));
	}
	for (size_t i = 0; i < p->missing_common.n; i++) {
		char *path = path_join(skeleton, p->missing_common.v[i]);

		add_dirs_to(&dirs, path, root, (size_t)(strrchr(path, '/') - path));
		strv_take(&plan->make_commondirs, path);
	}
	qsort(dirs.v, dirs.n, sizeof(*dirs.v), text_compare);
	for (size_t i = 0; i < dirs.n; i++)
		if (!i || !str_eq(dirs.v[i], dirs.v[i - 1]))
			strv_add(&plan->make_dirs, dirs.v[i]);
}

/* overlayfs wants its work directory on the upper's mount: in the run's directory, or else beside the upper. */
static int choose_work_dir(struct covers *c, const char *upper, size_t n, char **work, struct err *e)
{
	cleanup_free char *parent = mem_strdup(upper);
	char *slash = strrchr(parent, '/');

	if (submounts_same(upper, c->host->state_dir) == 1) {
		*work = mem_printf("%s/work-%zu", c->host->run_dir, n);
		strv_add(&c->plan->make_dirs, *work);
		return 0;
	}
	slash[slash == parent ? 1 : 0] = '\0';
	if (submounts_same(upper, parent) == 1 && access(parent, W_OK) == 0) {
		*work = mem_printf("%s/.agentbox-%s-%zu", str_eq(parent, "/") ? "" : parent, c->plan->run_id, n);
		strv_add(&c->plan->make_dirs, *work);
		strv_add(&c->plan->leftovers, *work);
		return 0;
	}
	return err_set(e, EXDEV,
		       "%s is to be written to, and names in it that are not there yet are to stay so, which needs a directory on "
		       "the same mount; set AGENTBOX_STATE to a directory on it, create the names, or use repo-mode = overlay",
		       upper);
}

static int convert_place(struct covers *c, size_t n, struct err *e)
{
	struct place *p = &c->places[n];
	struct mount_step *s = &c->plan->steps[p->step];
	cleanup_free char *skeleton = mem_printf("%s/skeleton-%zu", c->host->run_dir, n);
	cleanup_strv struct strv below = {0};
	int r = 0;

	make_skeleton(c->plan, skeleton, p);
	if (p->overlay) {
		s->lower2 = steal_ptr(&skeleton);
		return 0;
	}
	if (p->writable_host)
		r = choose_work_dir(c, p->root, n, &s->work, e);
	if (r == 0)
		r = submounts_find(p->root, &below, e);
	if (r < 0)
		return r;
	s->op = MOUNT_OVERLAY;
	if (p->writable_host) {
		s->upper = s->source;
		s->source = steal_ptr(&skeleton);
		s->dev = 0;
		s->ino = 0;
	} else {
		s->lower2 = steal_ptr(&skeleton); /* an overlay without upper has two lowers at least */
	}
	/* What is mounted in the directory on the host is shown as before. Added last: `s` may move. */
	for (size_t i = 0; i < below.n; i++) {
		cleanup_free char *dest = path_join(p->dest, path_below(below.v[i], p->root));
		struct mount_step *b;

		if (plan_at(c->plan, dest) != &c->plan->steps[p->step])
			continue;
		b = plan_add(c->plan, MOUNT_BIND, steal_ptr(&dest), (struct origin){0});
		b->source = mem_strdup(below.v[i]);
		b->flags = MOUNT_NODEV | (p->writable_host ? MOUNT_WRITABLE_HOST : MOUNT_RO);
	}
	return 0;
}

static int pending_compare(const void *a, const void *b)
{
	const struct mount_step *x = a, *y = b;
	int r = path_compare(x->dest, y->dest);

	if (r)
		return r;
	return (int)x->op - (int)y->op;
}

/*
 * What is denied needs no other cover, nor does what lies beneath it: nothing there can be reached. (Of one place the mask comes
 * before the pin: enum mount_op.)
 */
static void flush_pending(struct covers *c)
{
	const char *denied = NULL, *last = NULL;
	enum mount_op last_op = MOUNT_DIR;

	if (c->n_pending)
		qsort(c->pending, c->n_pending, sizeof(*c->pending), pending_compare);
	for (size_t i = 0; i < c->n_pending; i++) {
		struct mount_step *s = &c->pending[i];
		bool again = last && str_eq(last, s->dest) && last_op == s->op;
		bool hidden = denied && path_is_beneath(s->dest, denied);

		if (again || hidden) {
			free(s->dest);
			continue;
		}
		*plan_add(c->plan, s->op, s->dest, s->from) = *s;
		last = s->dest;
		last_op = s->op;
		if (s->op == MOUNT_MASK)
			denied = s->dest;
	}
	c->n_pending = 0;
}

void covers_free(struct covers *c)
{
	for (size_t i = 0; i < c->n_places; i++) {
		free(c->places[i].dest);
		free(c->places[i].root);
		strv_free(&c->places[i].missing);
		strv_free(&c->places[i].missing_common);
	}
	for (size_t i = 0; i < c->n_pending; i++)
		free(c->pending[i].dest);
	free(c->places);
	free(c->pending);
}

/*
 * Two reasons beside missing names. A mount over a name of the host's is gone when the host renames another file onto that
 * name (fs/namei.c, detach_mounts): an editor that saves a denied file would open it to the box; the names of an overlay are
 * its own. And a read-only bind lets connect(2) through to the sockets in it, also to those that are bound later; an
 * overlay's inodes are not the bound ones (net/unix/af_unix.c, unix_find_bsd).
 */
static bool needs_overlay(const struct covers *c, const struct place *p)
{
	if (p->missing.n || p->missing_common.n)
		return true;
	/*
	 * In a box within a box the outer one's mounts are locked, and the kernel makes no overlay over a tree with such (fs/
	 * namespace.c, clone_private_mount). Its own covers hold there, and its sockets are its own.
	 */
	return !c->host->in_box && (p->has_covers || p->granted) && !p->overlay;
}

/*
 * The kernel keeps a mount point from being renamed in the mount namespaces that have the mount only: in one of its own the
 * box could move what is covered away, or make what is missing.
 */
static int check_nested(const struct covers *c, struct err *e)
{
	for (size_t i = 0; c->plan->nested_namespaces && i < c->n_places; i++) {
		const struct place *p = &c->places[i];

		if (p->writable_host && (p->has_covers || p->missing.n || p->missing_common.n))
			return err_set(e, EINVAL,
				       "%s is to be written to, and names in it are protected, denied or given to runs, which does not "
				       "hold where the command makes namespaces of its own; use workspace.repo-mode = overlay, or "
				       "syscalls.nested-namespaces = no",
				       p->root);
	}
	return 0;
}

int covers_finish(struct covers *c, struct err *e)
{
	int r = check_nested(c, e);

	for (size_t i = 0; r == 0 && i < c->n_places; i++)
		if (needs_overlay(c, &c->places[i]))
			r = convert_place(c, i, e);
	if (r == 0)
		flush_pending(c);
	return r;
}
