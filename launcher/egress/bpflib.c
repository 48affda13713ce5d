/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "egress/bpflib.h"

#ifdef HAVE_BPF
#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/banned.h"

#define LIBRARY "libbpf.so.1"

struct bpf_library bpf_library;

int bpf_library_open(struct err *e)
{
#define FUNCTION(name) {#name, &bpf_library.name},
	static const struct {
		const char *name;
		void *to;
	} functions[] = {BPF_LIBRARY_FUNCTIONS(FUNCTION)};
#undef FUNCTION
	static bool done;
	void *handle;

	if (done)
		return 0;
	handle = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	if (!handle)
		return err_set(e, ENOTSUP, "eBPF filters: " LIBRARY " cannot be loaded (%s); install libbpf1", dlerror());
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
		void *function = dlsym(handle, functions[i].name);

		if (!function) {
			dlclose(handle);
			return err_set(e, ENOTSUP, "eBPF filters: " LIBRARY " has no %s; install libbpf 1.0 or later",
				       functions[i].name);
		}
		memcpy(functions[i].to, &function, sizeof(function));
	}
	bpf_library.libbpf_set_print(NULL);
	done = true;
	return 0;
}

#else

#include "base/banned.h"

#endif
