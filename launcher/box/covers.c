/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "box/covers.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "box/gitrepo.h"
#include "box/glob.h"
#include "box/sockets.h"
#include "box/submounts.h"
#include "sys/path.h"

#include "base/banned.h"

/* What host directory lies where in the box. */
struct place {
	size_t step;        /* index in the plan: steps move when the vector grows */
	char *dest, *root;  /* in the box; on the host: the root of what is shown */
	bool writable_host; /* the command writes to the host's own files here */
	bool overlay;       /* or to a layer over them */
	struct strv missing; /* names relative to root that must not come into being */
	struct strv missing_common; /* the same for a git directory's `commondir`, see protect_git_dir */
};

struct covers {
	struct plan *plan;
	const struct run_host *host;
	struct place *places;
	size_t n_places, cap_places;
	struct mount_step *pending; /* the covers, sorted and added at the end */
	size_t n_pending, cap_pending;
};

#define LINKS_MAX 8

static void places_collect(struct covers *c)
{
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
		};
	}
}

static void pend(struct covers *c, enum mount_op op, const char *dest, struct origin from)
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
		pend(c, MOUNT_SELF, dest, from);
	}
}

static void cover(struct covers *c, const struct place *p, const char *rel, enum mount_op op, struct origin from)
{
	cleanup_free char *dest = path_join(p->dest, rel);

	if (p->writable_host)
		hold_parents(c, p, rel, from);
	pend(c, op, dest, from);
}

static int cover_in_place(struct covers *c, struct place *p, const char *rel, enum mount_op op, struct origin from, int links,
			  struct err *e);

/* A symbolic link on the way: it is covered itself, and what it leads to is covered if it lies in the same place. */
static int cover_link(struct covers *c, struct place *p, const char *link_rel, const char *rest, enum mount_op op,
		      struct origin from, int links, struct err *e)
{
	cleanup_free char *link = path_join(p->root, link_rel), *base = NULL, *normal = NULL, *full = NULL;
	char target[PATH_MAX];
	ssize_t n = readlink(link, target, sizeof(target) - 1);

	if (n < 0)
		return err_errno(e, errno, "%s", link);
	target[n] = '\0';
	if (links == LINKS_MAX)
		return err_set(e, ELOOP, "%s: over %d symbolic links lead on from here", link, LINKS_MAX);
	if (p->writable_host || p->overlay)
		cover(c, p, link_rel, op == MOUNT_MASK ? MOUNT_MASK : MOUNT_PIN, from);
	base = mem_strndup(link, (size_t)(strrchr(link, '/') - link));
	normal = path_normal(target, *base ? base : "/");
	if (!normal)
		return 0;
	full = path_join(normal, rest);
	if (!path_is_beneath(full, p->root) || str_eq(full, p->root))
		return 0;
	return cover_in_place(c, p, path_below(full, p->root), op, from, links + 1, e);
}

/* rel: relative to the place's root, normal. */
static int cover_in_place(struct covers *c, struct place *p, const char *rel, enum mount_op op, struct origin from, int links,
			  struct err *e)
{
	cleanup_free char *path = mem_strdup(rel);

	if (!*rel) { /* the whole place */
		pend(c, op, p->dest, from);
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
				cover(c, p, rel, op, from);
				return 0;
			}
			if (errno == ENOENT || errno == ENOTDIR)
				return 0; /* cannot come into being where nothing can be written */
			return err_errno(e, errno, "%s", full);
		}
		if (S_ISLNK(st.st_mode))
			return cover_link(c, p, path, slash ? slash + 1 : "", op, from, links, e);
		if (!slash) {
			cover(c, p, path, op, from);
			return 0;
		}
		if (!S_ISDIR(st.st_mode))
			return 0;
		*slash = '/';
		end = slash;
	}
	return 0;
}

/* A host path in every place that shows it, where no later mount hides it. Return: how many show it, or -errno. */
static int cover_shown(struct covers *c, const char *path, enum mount_op op, struct origin from, struct err *e)
{
	int shown = 0;

	for (size_t i = 0; i < c->n_places; i++) {
		struct place *p = &c->places[i];
		cleanup_free char *box_path = NULL;
		int r;

		if (!path_is_beneath(path, p->root))
			continue;
		box_path = path_join(p->dest, path_below(path, p->root));
		if (plan_at(c->plan, box_path) != &c->plan->steps[p->step])
			continue;
		r = cover_in_place(c, p, path_below(path, p->root), op, from, 0, e);
		if (r < 0)
			return r;
		shown++;
	}
	return shown;
}

static int cover_host_path(struct covers *c, const char *path, enum mount_op op, struct origin from, struct err *e)
{
	int r = cover_shown(c, path, op, from, e);

	return r < 0 ? r : 0;
}

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
	int shown = cover_shown(c, path, MOUNT_MASK, from, e), r = shown < 0 ? shown : 0;

	if (r == 0 && of_box && !str_eq(of_box, path))
		r = cover_host_path(c, of_box, MOUNT_MASK, from, e);
	real = realpath(of_box ? of_box : path, NULL);
	if (r == 0 && real && !str_eq(real, path) && (!of_box || !str_eq(real, of_box)))
		r = shown = cover_shown(c, real, MOUNT_MASK, from, e);
	/* Where a host path is meant that the box shows elsewhere, the same path in the box is another. */
	if (r < 0 || of_box || shown > 0)
		return r < 0 ? r : 0;
	/* A file system of the box's own: what is not there yet is made, so that it can be covered. */
	if (at && (at->op == MOUNT_TMPFS || at->op == MOUNT_TMP_DIR) && !str_eq(at->dest, path)) {
		struct mount_step *s;

		pend(c, MOUNT_DIR, path, from);
		s = &c->pending[c->n_pending - 1];
		s->mode = 0;
	}
	pend(c, MOUNT_MASK, path, from);
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
	return cover_host_path(c, c->host->state_dir, MOUNT_MASK, (struct origin){0}, e);
}

/* Is anything of the host shown but what every box has? Then there may be sockets in it. */
static bool has_grants(const struct covers *c)
{
	for (size_t i = 0; i < c->n_places; i++) {
		const struct place *p = &c->places[i];

		if (!p->overlay && c->plan->steps[p->step].from.file)
			return true;
	}
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
		if (real && lstat(real, &st) == 0 && S_ISSOCK(st.st_mode))
			r = cover_host_path(c, real, MOUNT_MASK, (struct origin){0}, e);
	}
	return r;
}

/* --- protect --- */

/*
 * gitrepository-layout(5): a file `commondir` in a git directory sends git to another directory for its configuration and
 * hooks. Where it is missing, an empty directory in its place would stop git; a file that names the directory itself does not.
 */
static int protect_commondir(struct covers *c, const char *git_dir, struct err *e)
{
	cleanup_free char *path = path_join(git_dir, "commondir");
	struct stat st;

	if (lstat(path, &st) == 0)
		return cover_host_path(c, path, MOUNT_PIN, (struct origin){0}, e);
	for (size_t i = 0; i < c->n_places; i++) {
		struct place *p = &c->places[i];
		cleanup_free char *box_path = NULL;

		if (!path_is_beneath(path, p->root) || !p->writable_host)
			continue;
		box_path = path_join(p->dest, path_below(path, p->root));
		if (plan_at(c->plan, box_path) != &c->plan->steps[p->step])
			continue;
		strv_add(&p->missing_common, path_below(path, p->root));
		cover(c, p, path_below(path, p->root), MOUNT_PIN, (struct origin){0});
	}
	return 0;
}

/* The linked work trees of a git directory: each says in `commondir` where its configuration is. */
static int protect_worktrees(struct covers *c, const char *git_dir, struct err *e)
{
	cleanup_free char *path = path_join(git_dir, "worktrees");
	cleanup_dir DIR *dir = opendir(path);
	struct dirent *d;

	if (!dir)
		return errno == ENOENT || errno == ENOTDIR ? 0 : err_errno(e, errno, "%s", path);
	while ((d = readdir(dir))) {
		cleanup_free char *common = mem_printf("%s/%s/commondir", path, d->d_name);
		cleanup_free char *config = mem_printf("%s/%s/config.worktree", path, d->d_name);
		int r;

		if (d->d_name[0] == '.')
			continue;
		r = cover_host_path(c, common, MOUNT_PIN, (struct origin){0}, e);
		if (r == 0)
			r = cover_host_path(c, config, MOUNT_PIN, (struct origin){0}, e);
		if (r < 0)
			return r;
	}
	return 0;
}

/* What runs code on the host from a git directory. */
static int protect_git_dir(struct covers *c, const char *git_dir, struct err *e)
{
	static const char *const names[] = {"hooks", "config", "config.worktree", NULL};
	int r = protect_commondir(c, git_dir, e);

	for (const char *const *n = names; r == 0 && *n; n++) {
		cleanup_free char *path = path_join(git_dir, *n);

		r = cover_host_path(c, path, MOUNT_PIN, (struct origin){0}, e);
	}
	return r == 0 ? protect_worktrees(c, git_dir, e) : r;
}

static int protect_tree(struct covers *c, const struct profile *profile, const char *repo, const char *tree, struct err *e)
{
	cleanup_free char *dot_git = mem_printf("%s%s%s/.git", repo, *tree ? "/" : "", tree);
	struct stat st;
	int r = 0;

	/* A link to the git directory elsewhere is itself what must not be replaced. */
	if (lstat(dot_git, &st) == 0)
		r = S_ISDIR(st.st_mode) ? protect_git_dir(c, dot_git, e) : cover_host_path(c, dot_git, MOUNT_PIN, (struct origin){0}, e);
	for (size_t i = 0; r == 0 && i < profile->workspace.protect.n; i++) {
		const struct val_item *item = &profile->workspace.protect.items[i];
		cleanup_free char *path = mem_printf("%s%s%s/%s", repo, *tree ? "/" : "", tree, item->text);

		r = cover_host_path(c, path, MOUNT_PIN, item->from, e);
	}
	return r;
}

static int add_protected(struct covers *c, const struct profile *profile, struct err *e)
{
	struct git_nested nested = {0};
	cleanup_free char *common = NULL;
	int r;

	if (!c->plan->repo)
		return 0;
	/* A linked work tree's repository is shared with others: held in every mode. */
	r = git_common_dir(c->plan->repo, &common, e);
	if (r == 0 && common)
		r = protect_git_dir(c, common, e);
	if (r < 0 || c->plan->repo_mode != REPO_WRITE)
		return r;
	r = protect_tree(c, profile, c->plan->repo, "", e);
	if (r == 0)
		r = git_find_nested(c->plan->repo, &nested, e);
	for (size_t i = 0; r == 0 && i < nested.trees.n; i++)
		r = protect_tree(c, profile, c->plan->repo, nested.trees.v[i], e);
	for (size_t i = 0; r == 0 && i < nested.git_dirs.n; i++) {
		cleanup_free char *path = path_join(c->plan->repo, nested.git_dirs.v[i]);

		r = protect_git_dir(c, path, e);
	}
	strv_free(&nested.trees);
	strv_free(&nested.git_dirs);
	return r;
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
	int r;

	make_skeleton(c->plan, skeleton, p);
	if (p->overlay) {
		s->lower2 = steal_ptr(&skeleton);
		return 0;
	}
	r = choose_work_dir(c, p->root, n, &s->work, e);
	if (r < 0)
		return r;
	r = submounts_find(p->root, &below, e);
	if (r < 0)
		return r;
	s->op = MOUNT_OVERLAY;
	s->upper = s->source;
	s->source = steal_ptr(&skeleton);
	s->dev = 0;
	s->ino = 0;
	/* What is mounted in the directory on the host is shown as before. Added last: `s` may move. */
	for (size_t i = 0; i < below.n; i++) {
		cleanup_free char *dest = path_join(p->dest, path_below(below.v[i], p->root));
		struct mount_step *b;

		if (plan_at(c->plan, dest) != &c->plan->steps[p->step])
			continue;
		b = plan_add(c->plan, MOUNT_BIND, steal_ptr(&dest), (struct origin){0});
		b->source = mem_strdup(below.v[i]);
		b->flags = MOUNT_NODEV | MOUNT_WRITABLE_HOST;
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

/* A denied directory hides what lies beneath it: nothing there can be reached, so nothing there is covered. */
static void flush_pending(struct covers *c)
{
	const char *denied = NULL, *last = NULL;
	enum mount_op last_op = MOUNT_DIR;

	qsort(c->pending, c->n_pending, sizeof(*c->pending), pending_compare);
	for (size_t i = 0; i < c->n_pending; i++) {
		struct mount_step *s = &c->pending[i];
		bool again = last && str_eq(last, s->dest) && last_op == s->op;
		bool hidden = denied && path_is_beneath(s->dest, denied) && !str_eq(s->dest, denied);

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

static void covers_free(struct covers *c)
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

int covers_add(struct plan *plan, const struct profile *profile, const struct run_host *host, struct err *e)
{
	struct covers c = {.plan = plan, .host = host};
	int r;

	places_collect(&c);
	r = add_denied(&c, profile, e);
	if (r == 0)
		r = add_sockets(&c, e);
	if (r == 0)
		r = add_protected(&c, profile, e);
	for (size_t i = 0; r == 0 && i < c.n_places; i++)
		if (c.places[i].missing.n || c.places[i].missing_common.n)
			r = convert_place(&c, i, e);
	if (r == 0)
		flush_pending(&c);
	covers_free(&c);
	return r;
}
