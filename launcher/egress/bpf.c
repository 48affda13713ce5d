/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "egress/bpf.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "config.h"

#ifdef HAVE_BPF
#include <arpa/inet.h>
#include <bpf/libbpf.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "egress/bpfrules.h"

/*
 * The functions of libbpf that are used: the skeleton's calls go through this table. Its first major version has kept
 * them since 1.0.
 */
static struct {
	__typeof__(bpf_object__open_skeleton) *open_skeleton;
	__typeof__(bpf_object__load_skeleton) *load_skeleton;
	__typeof__(bpf_object__destroy_skeleton) *destroy_skeleton;
	__typeof__(bpf_map__set_max_entries) *set_max_entries;
	__typeof__(bpf_map__fd) *map_fd;
	__typeof__(bpf_program__fd) *program_fd;
	__typeof__(libbpf_set_print) *set_print;
} lib;

#define bpf_object__open_skeleton lib.open_skeleton
#define bpf_object__load_skeleton lib.load_skeleton
#define bpf_object__destroy_skeleton lib.destroy_skeleton
#include "egress.skel.h"

#include "base/banned.h"

#define LIBRARY "libbpf.so.1"
/* RFC 4291, 2.5.5.2. */
#define V4_MAPPED "\0\0\0\0\0\0\0\0\0\0\xff\xff"
/* The inode of the first user namespace (include/linux/proc_ns.h, PROC_USER_INIT_INO). */
#define FIRST_USER_NAMESPACE 0xEFFFFFFDU

static int lib_open(void **handle, struct err *e)
{
	static const struct {
		const char *name;
		void *to;
	} functions[] = {
		{"bpf_object__open_skeleton", &lib.open_skeleton}, {"bpf_object__load_skeleton", &lib.load_skeleton},
		{"bpf_object__destroy_skeleton", &lib.destroy_skeleton}, {"bpf_map__set_max_entries", &lib.set_max_entries},
		{"bpf_map__fd", &lib.map_fd}, {"bpf_program__fd", &lib.program_fd}, {"libbpf_set_print", &lib.set_print},
	};

	*handle = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	if (!*handle)
		return err_set(e, ENOTSUP, "eBPF filters: " LIBRARY " cannot be loaded (%s); install libbpf1", dlerror());
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
		void *function = dlsym(*handle, functions[i].name);

		if (!function) {
			dlclose(*handle);
			return err_set(e, ENOTSUP, "eBPF filters: " LIBRARY " has no %s; install libbpf 1.0 or later",
				       functions[i].name);
		}
		memcpy(functions[i].to, &function, sizeof(function));
	}
	lib.set_print(NULL);
	return 0;
}

static int sys_bpf(int command, union bpf_attr *attr)
{
	long r = syscall(SYS_bpf, command, attr, sizeof(*attr));

	return r < 0 ? -errno : (int)r;
}

int bpf_filter_possible(struct err *e)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {{0}};
	struct stat st;

	if (syscall(SYS_capget, &head, data) < 0)
		return err_errno(e, errno, "the process's capabilities");
	if (!(data[CAP_TO_INDEX(CAP_NET_ADMIN)].effective & CAP_TO_MASK(CAP_NET_ADMIN)) ||
	    !(data[CAP_TO_INDEX(CAP_BPF)].effective & CAP_TO_MASK(CAP_BPF)))
		return err_set(e, EPERM, "this process has not CAP_BPF and CAP_NET_ADMIN");
	/* In another user namespace they count for nothing here. */
	if (stat("/proc/self/ns/user", &st) == 0 && st.st_ino != FIRST_USER_NAMESPACE)
		return err_set(e, EPERM, "CAP_BPF and CAP_NET_ADMIN are a user namespace's and not the host's");
	return 0;
}

/* --- maps --- */

static int map_update(int map, const void *key, const void *value)
{
	union bpf_attr attr = {.map_fd = (uint32_t)map, .key = (uintptr_t)key, .value = (uintptr_t)value};

	return sys_bpf(BPF_MAP_UPDATE_ELEM, &attr);
}

static int fill_maps(const struct egress_bpf *skel, const struct bpf_rules *rules)
{
	int nodes = lib.map_fd(skel->maps.nodes), ports = lib.map_fd(skel->maps.ports);
	uint8_t there = 1;
	int r = 0;

	/* The programs do not look into them. */
	if (!rules->allows)
		return 0;
	for (size_t i = 0; r == 0 && i < rules->n_ports; i++)
		r = map_update(ports, &rules->ports[i], &there);
	for (size_t i = 0; r == 0 && i < rules->n_nodes; i++) {
		const struct bpf_rules_node *node = &rules->nodes[i];
		struct bpf_key key = {.prefix = node->prefix};

		memcpy(key.addr, node->addr, 16);
		if (node->family == 4) {
			memcpy(key.addr, V4_MAPPED, 12);
			memcpy(key.addr + 12, node->addr, 4);
			key.prefix += 96;
		} else if (node->prefix >= 96 && memcmp(node->addr, V4_MAPPED, 12) == 0) {
			/* The special range of mapped addresses: here they are IPv4's. */
			continue;
		}
		r = map_update(nodes, &key, &node->value);
	}
	return r;
}

static uint32_t v4_of(const struct address *a)
{
	uint32_t word;

	memcpy(&word, a->b, 4);
	return word;
}

static int configure(struct egress_bpf *skel, const struct bpf_filter_config *config, const struct bpf_rules *rules)
{
	struct bpf_config *c = (struct bpf_config *)&skel->rodata->config;
	int r;

	c->own4 = v4_of(&config->own4);
	memcpy(c->own6, config->own6.b, 16);
	if (config->synthetic.family == 4 && config->synthetic_prefix) {
		c->synthetic = v4_of(&config->synthetic);
		c->synthetic_mask = htonl(UINT32_MAX << (32 - config->synthetic_prefix));
	}
	c->proxy_port = config->proxy_port;
	c->capture_port = config->capture_port;
	c->rules = rules->allows;
	c->denies = rules->denies;
	r = lib.set_max_entries(skel->maps.ports, rules->n_ports ? (uint32_t)rules->n_ports : 1);
	return r == 0 ? lib.set_max_entries(skel->maps.nodes, (uint32_t)rules->n_nodes) : r;
}

/* --- the ring: linux/bpf.h, "BPF ring buffer"; Documentation/bpf/ringbuf.rst --- */

static int ring_map(struct bpf_filter *f, const struct egress_bpf *skel, size_t bytes)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	void *consumer, *producer;

	f->ring = fcntl(lib.map_fd(skel->maps.ring), F_DUPFD_CLOEXEC, 3);
	f->lost = fcntl(lib.map_fd(skel->maps.lost), F_DUPFD_CLOEXEC, 3);
	if (f->ring < 0 || f->lost < 0)
		return -errno;
	f->ring_bytes = bytes;
	consumer = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, f->ring, 0);
	if (consumer == MAP_FAILED)
		return -errno;
	f->consumer = consumer;
	/* The data lie there twice, one behind the other, so that a record at the end is whole. */
	producer = mmap(NULL, page + 2 * bytes, PROT_READ, MAP_SHARED, f->ring, (off_t)page);
	if (producer == MAP_FAILED)
		return -errno;
	f->producer = producer;
	return 0;
}

/* A mapped address as IPv4. */
static void normalise(struct bpf_record *r)
{
	if (r->family != 6 || memcmp(r->addr, V4_MAPPED, 12) != 0)
		return;
	r->family = 4;
	memcpy(r->addr, r->addr + 12, 4);
	memset(r->addr + 4, 0, 12);
}

bool bpf_filter_next(struct bpf_filter *f, struct bpf_record *out)
{
	const uint8_t *data;
	unsigned long at, end;
	bool taken = false;

	if (!f->producer)
		return false;
	data = (const uint8_t *)f->producer + sysconf(_SC_PAGESIZE);
	at = *(unsigned long *)f->consumer; /* written by us alone */
	end = __atomic_load_n((unsigned long *)f->producer, __ATOMIC_ACQUIRE);
	while (at < end && !taken) {
		const uint8_t *record = data + (at & (f->ring_bytes - 1));
		uint32_t head = __atomic_load_n((const uint32_t *)record, __ATOMIC_ACQUIRE), len;

		if (head & BPF_RINGBUF_BUSY_BIT)
			return false; /* it is just being written */
		len = head & ~(BPF_RINGBUF_BUSY_BIT | BPF_RINGBUF_DISCARD_BIT);
		if (!(head & BPF_RINGBUF_DISCARD_BIT) && len == sizeof(*out)) {
			memcpy(out, record + BPF_RINGBUF_HDR_SZ, sizeof(*out));
			normalise(out);
			taken = true;
		}
		at += (len + BPF_RINGBUF_HDR_SZ + 7) & ~7UL;
		__atomic_store_n((unsigned long *)f->consumer, at, __ATOMIC_RELEASE);
	}
	return taken;
}

uint64_t bpf_filter_lost(const struct bpf_filter *f)
{
	uint32_t zero = 0;
	uint64_t count = 0;
	union bpf_attr attr = {.map_fd = (uint32_t)f->lost, .key = (uintptr_t)&zero, .value = (uintptr_t)&count};

	return f->lost >= 0 && sys_bpf(BPF_MAP_LOOKUP_ELEM, &attr) == 0 ? count : 0;
}

/* --- attaching --- */

static int attach_all(struct bpf_filter *f, const struct egress_bpf *skel, int cgroup)
{
	const struct {
		const struct bpf_program *program;
		enum bpf_attach_type type;
	} programs[BPF_FILTER_PROGRAMS] = {
		{skel->progs.egress_connect4, BPF_CGROUP_INET4_CONNECT},
		{skel->progs.egress_connect6, BPF_CGROUP_INET6_CONNECT},
		{skel->progs.egress_sendmsg4, BPF_CGROUP_UDP4_SENDMSG},
		{skel->progs.egress_sendmsg6, BPF_CGROUP_UDP6_SENDMSG},
		{skel->progs.egress_sock_create, BPF_CGROUP_INET_SOCK_CREATE},
		{skel->progs.egress_packet, BPF_CGROUP_INET_EGRESS},
	};

	for (int i = 0; i < BPF_FILTER_PROGRAMS; i++) {
		union bpf_attr attr = {.link_create = {.prog_fd = (uint32_t)lib.program_fd(programs[i].program),
						       .target_fd = (uint32_t)cgroup,
						       .attach_type = programs[i].type}};

		f->links[i] = sys_bpf(BPF_LINK_CREATE, &attr); /* O_CLOEXEC, as every descriptor of bpf(2) */
		if (f->links[i] < 0) {
			int r = f->links[i];

			f->links[i] = -1;
			return r;
		}
	}
	return 0;
}

/* cgroup -1: not attached. */
static int load(struct bpf_filter *f, const struct bpf_filter_config *config, const struct bpf_rules *rules, int cgroup,
		struct err *e)
{
	struct egress_bpf *skel = egress_bpf__open();
	int r;

	if (!skel)
		return err_errno(e, errno, "eBPF filters: libbpf does not take the programs");
	r = configure(skel, config, rules);
	if (r == 0)
		r = egress_bpf__load(skel);
	if (r < 0) {
		err_errno(e, -r, "eBPF filters: the kernel does not load the programs");
	} else {
		r = fill_maps(skel, rules);
		if (r == 0)
			r = ring_map(f, skel, skel->rodata->ring_bytes);
		if (r == 0 && cgroup >= 0)
			r = attach_all(f, skel, cgroup);
		if (r < 0)
			err_errno(e, -r, "eBPF filters: they cannot be attached to the run's control group");
	}
	egress_bpf__destroy(skel);
	return r;
}

int bpf_filter_try(struct err *e)
{
	struct bpf_rules_node everywhere[] = {{.family = 4}, {.family = 6}};
	const struct bpf_rules rules = {.nodes = everywhere, .n_nodes = 2, .allows = true, .denies = true};
	const struct bpf_filter_config config = {.proxy_port = 0};
	struct bpf_filter f = BPF_FILTER_NONE;
	void *handle;
	int r = lib_open(&handle, e);

	if (r < 0)
		return r;
	r = load(&f, &config, &rules, -1, e);
	dlclose(handle);
	bpf_filter_close(&f);
	return r;
}

int bpf_filter_attach(struct bpf_filter *f, const struct bpf_filter_config *config, int cgroup, struct err *e)
{
	struct bpf_filter new = BPF_FILTER_NONE;
	struct bpf_rules rules;
	void *handle = NULL;
	int r;

	r = bpf_rules_compile(config->policy, config->any_address, &rules, e);
	if (r == 0)
		r = lib_open(&handle, e);
	if (r == 0)
		r = load(&new, config, &rules, cgroup, e);
	if (handle)
		dlclose(handle);
	bpf_rules_free(&rules);
	if (r < 0)
		bpf_filter_close(&new);
	else
		*f = new;
	return r;
}

void bpf_filter_close(struct bpf_filter *f)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	for (int i = 0; i < BPF_FILTER_PROGRAMS; i++)
		cleanup_fd_p(&f->links[i]);
	if (f->consumer)
		munmap(f->consumer, page);
	if (f->producer)
		munmap(f->producer, page + 2 * f->ring_bytes);
	f->consumer = f->producer = NULL;
	cleanup_fd_p(&f->ring);
	cleanup_fd_p(&f->lost);
}

#else /* !HAVE_BPF */

#include "base/banned.h"

static int not_built(struct err *e)
{
	return err_set(e, ENOTSUP, "this agentbox was built without eBPF (libbpf-dev, clang and bpftool were not there)");
}

int bpf_filter_possible(struct err *e)
{
	return not_built(e);
}

int bpf_filter_try(struct err *e)
{
	return not_built(e);
}

int bpf_filter_attach(struct bpf_filter *f, const struct bpf_filter_config *config, int cgroup, struct err *e)
{
	(void)f;
	(void)config;
	(void)cgroup;
	return not_built(e);
}

bool bpf_filter_next(struct bpf_filter *f, struct bpf_record *out)
{
	(void)f;
	(void)out;
	return false;
}

uint64_t bpf_filter_lost(const struct bpf_filter *f)
{
	(void)f;
	return 0;
}

void bpf_filter_close(struct bpf_filter *f)
{
	(void)f;
}

#endif
