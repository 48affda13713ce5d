/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "box/workspace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "box/gitrepo.h"
#include "box/submounts.h"
#include "sys/path.h"

#include "base/banned.h"

static const struct origin built_in = {0};

#define REPO "/workspace/repo"

/* As text: where a link leads is for covers_hold. */
static void note_named(struct plan *plan, const char *path, const struct run_host *host)
{
	strv_take(&plan->named, *path == '/' ? mem_strdup(path) : path_join(host->cwd, path));
}

/*
 * A bind of a host path, resolved now; the child opens what was resolved and compares the inode.
 * A writable bind over the record of the runs, or of part of it, is refused: nothing that the box can write is evidence.
 */
static int add_bind(struct plan *plan, const char *source, const char *dest, unsigned flags, struct origin from,
		    const struct run_host *host, struct err *e)
{
	cleanup_free char *real = NULL, *normal = NULL;
	struct mount_step *s;
	struct stat st;
	int r = path_real(source, &real, e);

	if (r < 0)
		return r;
	if (stat(real, &st) < 0)
		return err_errno(e, errno, "%s", real);
	/* The new root is stacked on it while the box is made, and would be in the copy. */
	if (!real[1])
		return err_set(e, EINVAL, "/ as a whole cannot be shown in the box; name the directories, or see filesystem.root");
	normal = path_normal(dest, NULL);
	if (!normal || !normal[1])
		return err_set(e, EINVAL, "the place in the box is \"%s\"; write an absolute path below /", dest);
	if (!(flags & MOUNT_RO)) {
		if (path_is_beneath(host->state_dir, real) || path_is_beneath(real, host->state_dir))
			return err_set(e, EINVAL,
				       "%s would be writable in the box, and the record of the runs is in %s; "
				       "set AGENTBOX_STATE to a directory outside of it, or grant less",
				       real, host->state_dir);
		flags |= MOUNT_WRITABLE_HOST;
	}
	note_named(plan, source, host);
	s = plan_add(plan, MOUNT_BIND, steal_ptr(&normal), from);
	s->source = steal_ptr(&real);
	s->flags = flags | MOUNT_NODEV;
	s->dev = st.st_dev;
	s->ino = st.st_ino;
	return 0;
}

struct grant {
	char *source, *dest;
	bool optional, writable;
	struct origin from;
};

/* "[?]PATH[:DEST]" */
static struct grant grant_parse(const struct val_item *item, bool writable)
{
	struct grant g = {.writable = writable, .from = item->from};
	const char *text = item->text, *colon;

	if (*text == '?') {
		g.optional = true;
		text++;
	}
	colon = strchr(text, ':');
	g.source = colon ? mem_strndup(text, (size_t)(colon - text)) : mem_strdup(text);
	g.dest = mem_strdup(colon ? colon + 1 : text);
	return g;
}

static int grant_compare(const void *a, const void *b)
{
	const struct grant *x = a, *y = b;
	int r = strcmp(x->dest, y->dest);

	/* At the same place the writable one lies on top: both are granted. */
	return r ? r : (int)x->writable - (int)y->writable;
}

int workspace_add_grants(struct plan *plan, const struct profile *profile, const struct run_host *host, struct err *e)
{
	const struct val_list *lists[] = {&profile->filesystem.read, &profile->filesystem.write};
	size_t n = 0, count = lists[0]->n + lists[1]->n;
	cleanup_free struct grant *grants = mem_array(NULL, count, sizeof(*grants));
	int r = 0;

	for (int w = 0; w < 2; w++)
		for (size_t i = 0; i < lists[w]->n; i++)
			grants[n++] = grant_parse(&lists[w]->items[i], w == 1);
	/* A parent sorts before what lies beneath it. */
	qsort(grants, n, sizeof(*grants), grant_compare);
	for (size_t i = 0; r == 0 && i < n; i++) {
		const struct grant *g = &grants[i];
		char place[256];
		struct stat st;

		if (g->optional && stat(g->source, &st) < 0 && (errno == ENOENT || errno == ENOTDIR)) {
			note_named(plan, g->source, host);
			continue;
		}
		r = add_bind(plan, g->source, g->dest, g->writable ? 0 : MOUNT_RO, g->from, host, e);
		if (r < 0)
			err_prefix(e, "%s: [filesystem] %s", origin_text(g->from, place, sizeof(place)),
				   g->writable ? "write" : "read");
	}
	for (size_t i = 0; i < n; i++) {
		free(grants[i].source);
		free(grants[i].dest);
	}
	return r;
}

/* --- the repository --- */

static int find_repo(struct plan *plan, const struct run_request *req, const struct run_host *host, char **out, struct err *e)
{
	struct stat st;
	char *repo;
	int r;

	if (req->repo) {
		r = path_real(req->repo, &repo, e);
		if (r < 0)
			return err_prefix(e, "--repo");
		note_named(plan, req->repo, host);
	} else {
		r = git_find_top(host->cwd, &repo, e);
		if (r < 0)
			return r;
		if (!repo)
			repo = mem_strdup(host->cwd);
		/* A home directory holds keys, histories and tokens: not what somebody means who forgot to change directory. */
		if (str_eq(repo, "/") || (host->home && path_is_beneath(host->home, repo))) {
			err_set(e, EINVAL,
				"the repository would be %s; change to the project, or name it with --repo (or say "
				"--set workspace.repo-mode=none)",
				repo);
			free(repo);
			return -EINVAL;
		}
	}
	if (stat(repo, &st) < 0 || !S_ISDIR(st.st_mode)) {
		err_set(e, ENOTDIR, "--repo: %s is not a directory", repo);
		free(repo);
		return -ENOTDIR;
	}
	if (str_eq(repo, "/")) {
		free(repo);
		return err_set(e, EINVAL, "--repo: / cannot be the repository; name a project in it");
	}
	*out = repo;
	return 0;
}

/* Mounts below an overlay's lower directory, bound read-only: it would show the directories that they cover. */
static int add_submounts(struct plan *plan, const char *source, const char *dest, const struct run_host *host, struct err *e)
{
	cleanup_strv struct strv found = {0};
	int r = submounts_find(source, &found, e);

	for (size_t i = 0; r == 0 && i < found.n; i++) {
		cleanup_free char *at = path_join(dest, path_below(found.v[i], source));

		r = add_bind(plan, found.v[i], at, MOUNT_RO, built_in, host, e);
	}
	return r;
}

/* A directory of the host as a copy-on-write view at dest; its changes go to run_dir/NAME-layer. */
static int add_overlay(struct plan *plan, const char *source, const char *dest, const char *name, struct origin from,
		       const struct run_host *host, struct err *e)
{
	struct mount_step *s;
	struct stat st;

	if (path_is_beneath(host->state_dir, source))
		return err_set(e, EINVAL,
			       "the record of the runs (%s) lies in the repository %s, where an overlay cannot keep its changes; "
			       "set AGENTBOX_STATE to a directory outside of it",
			       host->state_dir, source);
	if (stat(source, &st) < 0)
		return err_errno(e, errno, "%s", source);
	s = plan_add(plan, MOUNT_OVERLAY, mem_strdup(dest), from);
	s->source = mem_strdup(source);
	s->flags = MOUNT_NODEV | MOUNT_VOLATILE;
	s->dev = st.st_dev;
	s->ino = st.st_ino;
	s->upper = mem_printf("%s/%s-layer", host->run_dir, name);
	s->work = mem_printf("%s/%s-work", host->run_dir, name);
	strv_add(&plan->make_dirs, s->upper);
	strv_add(&plan->make_dirs, s->work);
	return add_submounts(plan, source, dest, host, e);
}

/* One directory in the repository's mode. */
static int add_in_mode(struct plan *plan, enum repo_mode mode, const char *source, const char *dest, const char *name,
		       struct origin from, const struct run_host *host, struct err *e)
{
	if (mode == REPO_OVERLAY)
		return add_overlay(plan, source, dest, name, from, host, e);
	return add_bind(plan, source, dest, mode == REPO_READ ? MOUNT_RO : 0, from, host, e);
}

static int add_repo(struct plan *plan, const struct profile *profile, const struct run_request *req, const struct run_host *host,
		    struct err *e)
{
	struct origin from = profile->workspace.repo_mode.from;
	cleanup_free char *common = NULL;
	int r;

	plan->repo_mode = (enum repo_mode)profile->workspace.repo_mode.v;
	if (plan->repo_mode == REPO_NONE) {
		plan_add(plan, MOUNT_DIR, mem_strdup(REPO), built_in)->mode = 0555;
		return 0;
	}
	r = find_repo(plan, req, host, &plan->repo, e);
	if (r == 0)
		r = add_in_mode(plan, plan->repo_mode, plan->repo, REPO, "repo", from, host, e);
	if (r < 0)
		return r;
	if (plan->repo_mode == REPO_OVERLAY)
		plan->repo_upper = mem_printf("%s/repo-layer", host->run_dir);
	/* git finds the real git directory by the absolute path that `.git` names. */
	r = git_common_dir(plan->repo, &common, e);
	if (r < 0 || !common)
		return r;
	return add_in_mode(plan, plan->repo_mode, common, common, "git", from, host, e);
}

static int add_inputs(struct plan *plan, const struct run_request *req, const struct run_host *host, struct err *e)
{
	cleanup_strv struct strv dests = {0}; /* of req->inputs, in that order */

	plan_add(plan, MOUNT_DIR, mem_strdup("/workspace/input"), built_in)->mode = 0555;
	for (size_t i = 0; i < req->inputs.n; i++) {
		const char *text = req->inputs.v[i], *colon = strrchr(text, ':');
		cleanup_free char *source = colon ? mem_strndup(text, (size_t)(colon - text)) : path_normal(text, host->cwd);
		const char *name = colon ? colon + 1 : source ? strrchr(source, '/') + 1 : "";
		cleanup_free char *dest = mem_printf("/workspace/input/%s", name);
		int r;

		if (!*name || strchr(name, '/') || str_eq(name, ".") || str_eq(name, ".."))
			return err_set(e, EINVAL, "--input %s: \"%s\" is no name; write SRC:NAME with one without slashes", text, name);
		for (size_t k = 0; k < dests.n; k++)
			if (str_eq(dests.v[k], dest))
				return err_set(e, EINVAL, "--input %.300s and --input %.300s: both would be %.300s; write SRC:NAME",
					       req->inputs.v[k], text, dest);
		strv_add(&dests, dest);
		r = add_bind(plan, source, dest, MOUNT_RO, (struct origin){.file = "--input"}, host, e);
		if (r < 0)
			return err_prefix(e, "--input");
	}
	return 0;
}

static int add_artifacts(struct plan *plan, const struct run_request *req, const struct run_host *host, struct err *e)
{
	struct mount_step *s;

	if (req->artifacts) {
		int r = add_bind(plan, req->artifacts, "/workspace/artifacts", 0, (struct origin){.file = "--artifacts"}, host, e);

		if (r == -ENOENT)
			return err_set(e, ENOENT, "--artifacts %.400s: there is no such directory; make it first: mkdir -p %.400s",
				       req->artifacts, req->artifacts);
		return r < 0 ? err_prefix(e, "--artifacts") : 0;
	}
	s = plan_add(plan, MOUNT_BIND, mem_strdup("/workspace/artifacts"), built_in);
	s->source = mem_printf("%s/artifacts", host->run_dir);
	s->flags = MOUNT_NODEV | MOUNT_WRITABLE_HOST;
	strv_add(&plan->make_dirs, s->source);
	return 0;
}

/* A file of the run's record, as far as it goes. */
static void add_log(struct plan *plan, const struct run_host *host, const char *name)
{
	struct mount_step *s = plan_add(plan, MOUNT_BIND, path_join("/workspace/logs", name), built_in);

	s->source = path_join(host->run_dir, name);
	s->flags = MOUNT_RO | MOUNT_NODEV | MOUNT_NOEXEC;
}

int workspace_add(struct plan *plan, const struct profile *profile, const struct run_request *req, const struct run_host *host,
		  struct err *e)
{
	struct mount_step *s;
	int r;

	plan_add(plan, MOUNT_DIR, mem_strdup("/workspace"), built_in)->mode = 0755;
	s = plan_add(plan, MOUNT_TMPFS, mem_strdup("/workspace/scratch"), profile->workspace.scratch_size.from);
	s->size_bytes = profile->workspace.scratch_size.bytes;
	s->mode = 0700;
	s->flags = MOUNT_NODEV;
	plan_add(plan, MOUNT_DIR, mem_strdup("/workspace/scratch/home"), built_in)->mode = 0700;
	plan_add(plan, MOUNT_DIR, mem_strdup("/workspace/scratch/tmp"), built_in)->mode = 0700;
	plan_add(plan, MOUNT_DIR, mem_strdup("/workspace/logs"), built_in)->mode = 0555;
	add_log(plan, host, "events.jsonl");
	if (plan->capture)
		add_log(plan, host, "stdout");
	if (plan->capture && !plan->one_stream)
		add_log(plan, host, "stderr");
	r = add_inputs(plan, req, host, e);
	if (r == 0)
		r = add_artifacts(plan, req, host, e);
	if (r == 0)
		r = add_repo(plan, profile, req, host, e);
	return r;
}

int workspace_add_mirror(struct plan *plan, const struct profile *profile, struct err *e)
{
	const struct mount_step *at;

	if (!profile->workspace.mirror.v || !plan->repo)
		return 0;
	at = plan_at(plan, plan->repo);
	if (at && at->op != MOUNT_TMP_DIR && at->op != MOUNT_TMPFS)
		return err_set(e, EINVAL, "workspace.mirror: %s lies in what the box has at %s; set it to no", plan->repo, at->dest);
	plan_add(plan, MOUNT_ALIAS, mem_strdup(plan->repo), profile->workspace.mirror.from)->source = mem_strdup(REPO);
	return 0;
}

int workspace_add_requests(struct plan *plan, const struct run_request *req, const struct run_host *host, struct err *e)
{
	static const char *const names[] = {"--ro-bind", "--bind", "--tmpfs", "--dir", "--symlink"};

	for (size_t i = 0; i < req->n_mounts; i++) {
		const struct request_mount *m = &req->mounts[i];
		struct origin from = {.file = names[m->op]};
		cleanup_free char *dest = path_normal(m->dest, NULL);
		struct mount_step *s;
		int r = 0;

		if (!dest || !dest[1])
			return err_set(e, EINVAL, "%s: the place in the box is \"%s\"; write an absolute path below /", from.file,
				       m->dest);
		switch (m->op) {
		case REQUEST_RO_BIND:
		case REQUEST_BIND:
			r = add_bind(plan, m->source, dest, m->op == REQUEST_RO_BIND ? MOUNT_RO : 0, from, host, e);
			if (r < 0)
				return err_prefix(e, "%s", from.file);
			break;
		case REQUEST_TMPFS:
			s = plan_add(plan, MOUNT_TMPFS, steal_ptr(&dest), from);
			s->size_bytes = 256 << 20;
			s->mode = 0755;
			s->flags = MOUNT_NODEV;
			break;
		case REQUEST_DIR:
			plan_add(plan, MOUNT_DIR, steal_ptr(&dest), from)->mode = 0755;
			break;
		case REQUEST_SYMLINK:
			plan_add(plan, MOUNT_SYMLINK, steal_ptr(&dest), from)->source = mem_strdup(m->source);
			break;
		}
	}
	return 0;
}

char *workspace_start_dir(const struct plan *plan, const struct profile *profile, const struct run_host *host)
{
	if (!plan->repo)
		return mem_strdup("/workspace/scratch");
	return path_join(profile->workspace.mirror.v ? plan->repo : REPO,
			 path_is_beneath(host->cwd, plan->repo) ? path_below(host->cwd, plan->repo) : "");
}
