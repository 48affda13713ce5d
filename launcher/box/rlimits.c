/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "box/rlimits.h"

#include <errno.h>
#include <unistd.h>

#include "base/banned.h"

/*
 * soft, hard: what is wanted. A hard limit above the caller's cannot be had: raising it needs CAP_SYS_RESOURCE in the first
 * user namespace, which the child does not have, whoever the caller is.
 */
static void rlimits_add(struct rlimit_plan *plan, int resource, const char *key, rlim_t soft, rlim_t hard)
{
	struct rlimit_item *item = &plan->v[plan->n];
	struct rlimit own;

	if (plan->n == RLIMITS_MAX)
		return;
	*item = (struct rlimit_item){.resource = resource, .key = key, .soft = soft, .hard = hard, .asked = soft};
	if (getrlimit(resource, &own) == 0 && own.rlim_max < hard) {
		item->hard = own.rlim_max;
		item->clamped = own.rlim_max < soft;
		if (item->clamped)
			item->soft = own.rlim_max;
	}
	plan->n++;
}

void rlimits_build(const struct profile *p, struct rlimit_plan *out)
{
	*out = (struct rlimit_plan){0};
	if (p->limits.cpu_time.ms) {
		rlim_t seconds = (rlim_t)((p->limits.cpu_time.ms + 999) / 1000);

		rlimits_add(out, RLIMIT_CPU, "cpu-time", seconds, seconds + 1);
	}
	if (p->limits.open_files.n)
		rlimits_add(out, RLIMIT_NOFILE, "open-files", p->limits.open_files.n, p->limits.open_files.n);
	if (p->limits.file_size.bytes)
		rlimits_add(out, RLIMIT_FSIZE, "file-size", p->limits.file_size.bytes, p->limits.file_size.bytes);
	/* One more than the command may have: pid 1 of the box. */
	if (p->limits.processes.n)
		rlimits_add(out, RLIMIT_NPROC, "processes", p->limits.processes.n + 1, p->limits.processes.n + 1);
	/*
	 * None is 1, not 0: with a core_pattern that starts with "|" the size is not looked at, and the host's crash handler, often
	 * root, is fed the memory of the box. 1 is the value at which the kernel does not start it (fs/coredump.c). It is too
	 * little for a core file.
	 */
	rlimits_add(out, RLIMIT_CORE, "core-size", p->limits.core_size.bytes ?: 1, p->limits.core_size.bytes ?: 1);
	if (!p->limits.core_size.bytes)
		out->v[out->n - 1].clamped = false; /* 0 instead of 1 is no less than was asked */
}

int rlimits_apply(const struct rlimit_plan *plan)
{
	for (size_t i = 0; i < plan->n; i++) {
		struct rlimit limit = {.rlim_cur = plan->v[i].soft, .rlim_max = plan->v[i].hard};

		if (setrlimit((__rlimit_resource_t)plan->v[i].resource, &limit) < 0)
			return -errno;
	}
	return 0;
}

void rlimits_text(const struct rlimit_plan *plan, struct str *out)
{
	for (size_t i = 0; i < plan->n; i++) {
		const struct rlimit_item *item = &plan->v[i];

		str_addf(out, "%s %llu", item->key, (unsigned long long)item->soft);
		if (item->clamped)
			str_addf(out, " (asked %llu; the caller's own limit is lower)", (unsigned long long)item->asked);
		str_add(out, "\n");
	}
}

bool rlimits_bind_processes(void)
{
	return getuid() != 0;
}
