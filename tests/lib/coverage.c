/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * For coverage builds. gcov writes its counts at exit(), which pid 1 of a box, the gateway and the resolver do not come to; and
 * from another root, under Landlock and a filter they could write no file. So the counters (coverage.ld puts them on pages
 * of their own) are memory that all processes of a run share, and the supervisor writes what all of them counted.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

extern char coverage_start[], coverage_end[];

void coverage_share(void);

__attribute__((constructor(101), no_profile_instrument_function)) void coverage_share(void)
{
	size_t len = (size_t)((uintptr_t)coverage_end - (uintptr_t)coverage_start);

	/* Nothing was counted yet: all are 0. */
	if (len && mmap(coverage_start, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED) {
		perror("coverage: mmap");
		abort();
	}
}
