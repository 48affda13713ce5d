/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Prints the source of seccomp_bodies (launcher/box/seccomp_body.h). Run by make. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "box/seccomp.h"
#include "box/seccomp_body.h"

/* While they are made there are none. */
const struct seccomp_body seccomp_bodies[] = {{.n = 0}};

#define VARIANTS 8 /* two policies, nested-namespaces, the box's uid */

static void print(const struct seccomp_body *b, int number)
{
	printf("static const struct seccomp_rule rules_%d[] = {\n", number);
	for (size_t i = 0; i < b->n_rules; i++)
		printf("\t{%u, %u},\n", b->rules[i].nr, b->rules[i].errnum);
	printf("};\nstatic const struct sock_filter insns_%d[] = {\n", number);
	for (size_t i = 0; i < b->n; i++)
		printf("\t{0x%02x, %u, %u, 0x%08x},\n", b->insns[i].code, b->insns[i].jt, b->insns[i].jf, b->insns[i].k);
	printf("};\n\n");
}

static bool is_same(const struct seccomp_body *a, const struct seccomp_body *b)
{
	return a->strict == b->strict && a->n_rules == b->n_rules && memcmp(a->rules, b->rules, a->n_rules * sizeof(*a->rules)) == 0;
}

int main(void)
{
	struct seccomp_body made[VARIANTS];
	int n = 0;

	printf("/* Made by scripts/seccomp-bodies.c. */\n#include \"box/seccomp_body.h\"\n\n#include \"base/banned.h\"\n\n");
	for (int variant = 0; variant < VARIANTS; variant++) {
		struct profile p = {0};
		struct err e;
		bool known = false;

		p.syscalls.policy.v = variant & 1 ? SYSCALLS_STRICT : SYSCALLS_DEFAULT;
		p.syscalls.nested_namespaces.v = variant & 2;
		if (seccomp_rules(&p, variant & 4, &made[n], &e) < 0 || seccomp_body_make(&made[n]) < 0) {
			fprintf(stderr, "seccomp-bodies: a filter cannot be made\n");
			return 1;
		}
		for (int i = 0; i < n; i++)
			known = known || is_same(&made[i], &made[n]);
		if (!known)
			print(&made[n], n);
		if (known) {
			free((void *)made[n].rules);
			free((void *)made[n].insns);
		}
		n += !known;
	}
	printf("const struct seccomp_body seccomp_bodies[] = {\n");
	for (int i = 0; i < n; i++) {
		printf("\t{%d, rules_%d, %zu, insns_%d, %zu},\n", made[i].strict, i, made[i].n_rules, i, made[i].n);
		free((void *)made[i].rules);
		free((void *)made[i].insns);
	}
	printf("\t{.n = 0},\n};\n");
	return fflush(stdout) || ferror(stdout);
}
