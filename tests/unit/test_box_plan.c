/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the plan is made of, without a box: globs, git's layout, the environment, lookups in the steps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "box/env.h"
#include "box/gitconfig.h"
#include "box/gitrepo.h"
#include "box/glob.h"
#include "box/plan.h"
#include "sys/fd.h"
#include "sys/path.h"
#include "sys/tree.h"

static char root[64];

static int make_root(void **state)
{
	char *real;

	(void)state;
	snprintf(root, sizeof(root), "/tmp/agentbox-test-XXXXXX");
	if (!mkdtemp(root))
		return -1;
	real = realpath(root, NULL);
	snprintf(root, sizeof(root), "%s", real);
	free(real);
	return 0;
}

static int remove_root(void **state)
{
	struct err e;
	int fd = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = tree_remove(fd, strrchr(root, '/') + 1, &e);

	(void)state;
	close(fd);
	return r;
}

static char *at(const char *rel)
{
	static char buf[4][256];
	static int n;
	char *b = buf[n++ & 3];

	snprintf(b, 256, "%s/%s", root, rel);
	return b;
}

static void put(const char *rel, const char *text)
{
	char *path = at(rel), *slash = strrchr(path, '/');
	struct err e;
	int fd;

	*slash = '\0';
	assert_int_equal(path_make_dirs(path, 0755, &e), 0);
	*slash = '/';
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	assert_true(fd >= 0);
	assert_int_equal(fd_write_all(fd, text, strlen(text)), 0);
	close(fd);
}

static void test_glob(void **state)
{
	struct strv found = {0};
	struct err e;

	(void)state;
	put("g/a.env", "");
	put("g/x/b.env", "");
	put("g/x/y/c.env", "");
	put("g/x/y/d.txt", "");
	assert_int_equal(symlink("/etc", at("g/link")), 0);
	assert_int_equal(glob_expand(at("g"), "*.env", &found, &e), 0);
	assert_int_equal(found.n, 1);
	strv_free(&found);
	assert_int_equal(glob_expand(at("g"), "**/*.env", &found, &e), 0);
	assert_int_equal(found.n, 3); /* at any depth, the top too; nothing through the link */
	strv_free(&found);
	assert_int_equal(glob_expand(at("g"), "x/?/[cd].*", &found, &e), 0);
	assert_int_equal(found.n, 2);
	strv_free(&found);
	assert_int_equal(glob_expand(at("g"), "l*", &found, &e), 0);
	assert_int_equal(found.n, 1); /* the link itself */
	strv_free(&found);
	assert_int_equal(glob_expand(at("nowhere"), "*", &found, &e), 0);
	assert_int_equal(found.n, 0);
	char *fixed = glob_fixed_part("/a/b/c*/d");

	assert_string_equal(fixed, "/a/b");
	free(fixed);
	fixed = glob_fixed_part("/**/x");
	assert_string_equal(fixed, "/");
	free(fixed);
}

static void test_git_top(void **state)
{
	struct err e;
	char *top;

	(void)state;
	put("r/.git/HEAD", "ref: refs/heads/main\n");
	put("r/sub/deep/file", "");
	assert_int_equal(git_find_top(at("r/sub/deep"), &top, &e), 0);
	assert_string_equal(top, at("r"));
	free(top);
	put("r/.git/refs/heads/main", "0123456789012345678901234567890123456789\n");
	top = git_head_commit(at("r"));
	assert_string_equal(top, "0123456789012345678901234567890123456789");
	free(top);
	put("r/.git/HEAD", "ref: ../../etc/passwd\n");
	assert_null(git_head_commit(at("r")));
	put("r/.git/HEAD", "ref: refs/heads/../../../x\n");
	assert_null(git_head_commit(at("r")));
	put("r/.git/HEAD", "ref: refs/heads/packed\n");
	put("r/.git/packed-refs", "# pack-refs\nabcdefabcdefabcdefabcdefabcdefabcdefabcd refs/heads/packed\n");
	top = git_head_commit(at("r"));
	assert_string_equal(top, "abcdefabcdefabcdefabcdefabcdefabcdefabcd");
	free(top);
}

/* A `.git` file is believed only where the other side points back. */
static void test_git_worktree(void **state)
{
	char *common = NULL, text[300];
	struct err e = {0};

	(void)state;
	put("main/.git/HEAD", "ref: refs/heads/main\n");
	put("main/.git/objects/x", "");
	put("main/.git/refs/x", "");
	put("main/.git/worktrees/w/commondir", "../..\n");
	snprintf(text, sizeof(text), "%s/w/.git\n", root);
	put("main/.git/worktrees/w/gitdir", text);
	snprintf(text, sizeof(text), "gitdir: %s/main/.git/worktrees/w\n", root);
	put("w/.git", text);
	assert_int_equal(git_common_dir(at("w"), &common, &e), 0);
	assert_string_equal(common, at("main/.git"));
	free(common);
	put("evil/.git", text);
	assert_int_equal(git_common_dir(at("evil"), &common, &e), -EINVAL);
	assert_null(common);
	assert_non_null(strstr(e.msg, "does not point back"));
	assert_int_equal(git_common_dir(at("main"), &common, &e), 0);
	assert_null(common);
	/* A fake git directory of the attacker's own, which says that the shared one is the victim's. */
	put("evil2/fake/commondir", "../../main/.git\n");
	snprintf(text, sizeof(text), "%s/evil2/.git\n", root);
	put("evil2/fake/gitdir", text);
	snprintf(text, sizeof(text), "gitdir: %s/evil2/fake\n", root);
	put("evil2/.git", text);
	assert_int_equal(git_common_dir(at("evil2"), &common, &e), -EINVAL);
	/* All three files in the tree, which lies under a directory of the name that git uses. */
	put("home/worktrees/proj/.git", "gitdir: .\n");
	put("home/worktrees/proj/commondir", "../..\n");
	put("home/worktrees/proj/gitdir", ".git\n");
	assert_int_equal(git_common_dir(at("home/worktrees/proj"), &common, &e), -EINVAL);
	assert_null(common);
}

static void test_git_config(void **state)
{
	struct strv paths = {0};
	struct err e = {0};

	(void)state;
	put("c/.git/config", "# a comment\n[core]\n\thooksPath = tools/hooks ; here\n[Include]\n\tpath = \"../team config\"\n"
			     "[includeIf \"gitdir:~/x/\"]\n\tpath = /etc/else\n[core \"sub]\\\"x\"] FSMONITOR = a\\\nb\n"
			     "[other]\n\tpath = not/this\n[core]\n\thookspath\n");
	put("c/team config", "[core]\nfsmonitor=bin/watch\n[include]\npath=\"team config\"\n"); /* includes itself */
	assert_int_equal(gitconfig_paths(at("c/.git/config"), at("c"), &paths, &e), 0);
	assert_true(strv_has(&paths, at("c/tools/hooks")));
	assert_true(strv_has(&paths, at("c/.git/../team config")));
	assert_true(strv_has(&paths, at("c/bin/watch")));
	assert_true(strv_has(&paths, "/etc/else"));
	for (size_t i = 0; i < paths.n; i++)
		assert_null(strstr(paths.v[i], "not/this"));
	/* Behind a link: read where it leads, names relative to where it stands. */
	put("l/real/config", "[core]\n\thooksPath = linked/hooks\n[include]\n\tpath = more\n");
	put("l/.git/more", "[core]\nfsmonitor = by/more\n");
	assert_int_equal(symlink("../real/config", at("l/.git/config")), 0);
	assert_int_equal(gitconfig_paths(at("l/.git/config"), at("l"), &paths, &e), 0);
	assert_true(strv_has(&paths, at("l/linked/hooks")));
	assert_true(strv_has(&paths, at("l/by/more")));
	assert_int_equal(symlink("nowhere", at("l/.git/dangling")), 0);
	assert_int_equal(gitconfig_paths(at("l/.git/dangling"), at("l"), &paths, &e), 0);
	put("j/config", "\xef\xbb\xbf[core]\n# not joined \\\nhooksPath = a\\\nb # nor this \\\nhooksPath = \"c # d\"\n"
			"fsmonitor = TRUE\nfsmonitor = bin/fs --x\n");
	assert_int_equal(gitconfig_paths(at("j/config"), at("j"), &paths, &e), 0);
	assert_true(strv_has(&paths, at("j/ab")));
	assert_true(strv_has(&paths, at("j/c # d")));
	assert_true(strv_has(&paths, at("j/bin/fs")));
	assert_false(strv_has(&paths, at("j/TRUE")));
	put("big/config", "[core]\n");
	assert_int_equal(truncate(at("big/config"), (1 << 20) + 1), 0);
	assert_int_equal(gitconfig_paths(at("big/config"), at("big"), &paths, &e), -EFBIG);
	assert_non_null(strstr(e.msg, "big/config"));
	strv_free(&paths);
}

static void test_git_nested(void **state)
{
	struct git_nested nested = {0};
	struct err e;

	(void)state;
	put("n/.git/HEAD", "");
	put("n/vendor/lib/.git/HEAD", "");
	put("n/sub/.git", "gitdir: ../.git/modules/sub\n");
	put("n/.git/modules/sub/HEAD", "");
	put("n/.git/modules/sub/objects/x", "");
	put("n/.git/modules/sub/refs/x", "");
	put("n/.git/objects/.git/HEAD", ""); /* no work tree: it lies in the git directory */
	assert_int_equal(git_find_nested(at("n"), &nested, &e), 0);
	assert_int_equal(nested.trees.n, 2);
	assert_true(strv_has(&nested.trees, "vendor/lib"));
	assert_true(strv_has(&nested.trees, "sub"));
	assert_int_equal(nested.git_dirs.n, 1);
	assert_string_equal(nested.git_dirs.v[0], ".git/modules/sub");
	strv_free(&nested.trees);
	strv_free(&nested.git_dirs);
}

static void test_loader_variables(void **state)
{
	static const char *const loader[] = {"LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "GCONV_PATH", "GLIBC_TUNABLES", NULL};
	static const char *const fine[] = {"PATH", "LANG", "LDFLAGS", "XLD_PRELOAD", "", NULL};

	(void)state;
	for (const char *const *n = loader; *n; n++)
		assert_true(env_is_loader(*n, strlen(*n)));
	for (const char *const *n = fine; *n; n++)
		assert_false(env_is_loader(*n, strlen(*n)));
}

static void test_plan_lookups(void **state)
{
	struct plan plan = {0};
	const struct mount_step *usr;
	char *path;

	(void)state;
	plan_add(&plan, MOUNT_BIND, mem_strdup("/usr"), (struct origin){0})->source = mem_strdup("/usr");
	plan_add(&plan, MOUNT_SYMLINK, mem_strdup("/bin"), (struct origin){0})->source = mem_strdup("usr/bin");
	plan_add(&plan, MOUNT_SYMLINK, mem_strdup("/loop"), (struct origin){0})->source = mem_strdup("/loop/x");
	plan_add(&plan, MOUNT_TMPFS, mem_strdup("/usr/local"), (struct origin){0});
	plan_add(&plan, MOUNT_MASK, mem_strdup("/usr/local/x"), (struct origin){0});
	usr = plan_at(&plan, "/usr/bin/sh");
	assert_ptr_equal(usr, &plan.steps[0]);
	assert_ptr_equal(plan_at(&plan, "/usr/local/x"), &plan.steps[3]); /* a cover is no place */
	assert_null(plan_at(&plan, "/usrx"));
	path = plan_follow(&plan, "/bin/sh");
	assert_string_equal(path, "/usr/bin/sh");
	free(path);
	path = plan_follow(&plan, "/loop"); /* ends */
	assert_non_null(path);
	free(path);
	plan_free(&plan);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_glob),       cmocka_unit_test(test_git_top),          cmocka_unit_test(test_git_worktree),
		cmocka_unit_test(test_git_config),
		cmocka_unit_test(test_git_nested), cmocka_unit_test(test_loader_variables), cmocka_unit_test(test_plan_lookups),
	};

	return cmocka_run_group_tests_name("box_plan", tests, make_root, remove_root);
}
