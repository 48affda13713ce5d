/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * For the binaries that tests/t/60-leaks.t runs. Linked with --wrap=execv: main() starts itself again where the environment has
 * LD_ variables, and valgrind, which is in by LD_PRELOAD, would be left behind.
 *
 * With LEAK in the environment, memory is lost, to see that it would be seen.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

int __wrap_execv(const char *path, char *const argv[]);

int __wrap_execv(const char *path, char *const argv[])
{
	(void)path;
	(void)argv;
	errno = 0;
	return 0;
}

static void *volatile lost;

__attribute__((constructor)) static void leak(void)
{
	if (!getenv("LEAK"))
		return;
	for (int i = 0; i < 10; i++) {
		lost = malloc(1000);
		if (lost)
			memset(lost, 1, 1000);
	}
	lost = NULL;
}
