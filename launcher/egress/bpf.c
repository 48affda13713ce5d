/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "egress/bpf.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "config.h"

#ifdef HAVE_BPF
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/btf.h>
#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "egress/bpfload.h"

#include "base/banned.h"

/* The inode of the first user namespace (include/linux/proc_ns.h, PROC_USER_INIT_INO). */
#define FIRST_USER_NAMESPACE 0xEFFFFFFDU
/* RFC 4291, 2.5.5.2. */
#define V4_MAPPED "\0\0\0\0\0\0\0\0\0\0\xff\xff"
#define INSNS_MAX 2048

/* egress.bpf.o. */
__asm__(".pushsection .rodata.egress_bpf, \"a\"\n"
	".balign 8\n"
	"egress_bpf_object:\n"
	".incbin \"" EGRESS_BPF_OBJECT "\"\n"
	".popsection\n");
extern const char egress_bpf_object[] __attribute__((visibility("hidden")));

int sys_bpf(int command, union bpf_attr *attr)
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

int bpf_map_put(int map, const void *key, const void *value)
{
	union bpf_attr attr = {.map_fd = (uint32_t)map, .key = (uintptr_t)key, .value = (uintptr_t)value};

	return sys_bpf(BPF_MAP_UPDATE_ELEM, &attr);
}

int bpf_map_make(const char *name, enum bpf_map_type type, size_t key, size_t value, size_t entries, unsigned flags)
{
	union bpf_attr attr = {.map_type = type,
			       .key_size = (uint32_t)key,
			       .value_size = (uint32_t)value,
			       .max_entries = (uint32_t)entries,
			       .map_flags = flags};

	snprintf(attr.map_name, sizeof(attr.map_name), "%s", name);
	return sys_bpf(BPF_MAP_CREATE, &attr);
}

/* A socket's storage has to say what it holds (Documentation/bpf/map_sk_storage.rst): an int, and an array of numbers. */
int bpf_map_make_storage(size_t bytes)
{
	enum { INT = 1, NUMBER, NUMBERS };
	const struct {
		struct btf_header head;
		struct btf_type integer;
		__u32 integer_is;
		struct btf_type number;
		__u32 number_is;
		struct btf_type numbers;
		struct btf_array numbers_are;
		char names[9];
	} types = {
		.head = {.magic = BTF_MAGIC,
			 .version = BTF_VERSION,
			 .hdr_len = sizeof(struct btf_header),
			 .type_len = 3 * sizeof(struct btf_type) + 2 * sizeof(__u32) + sizeof(struct btf_array),
			 .str_off = 3 * sizeof(struct btf_type) + 2 * sizeof(__u32) + sizeof(struct btf_array),
			 .str_len = sizeof(types.names)},
		.integer = {.name_off = 1, .info = BTF_KIND_INT << 24, .size = 4},
		.integer_is = BTF_INT_SIGNED << 24 | 32,
		.number = {.name_off = 5, .info = BTF_KIND_INT << 24, .size = 8},
		.number_is = 64,
		.numbers = {.info = BTF_KIND_ARRAY << 24},
		.numbers_are = {.type = NUMBER, .index_type = INT, .nelems = (__u32)(bytes / 8)},
		.names = "\0int\0u64",
	};
	union bpf_attr load = {.btf = (uintptr_t)&types, .btf_size = offsetof(__typeof__(types), names) + sizeof(types.names)};
	union bpf_attr attr = {.map_type = BPF_MAP_TYPE_SK_STORAGE,
			       .key_size = 4,
			       .value_size = (__u32)bytes,
			       .map_flags = BPF_F_NO_PREALLOC,
			       .map_name = "owners",
			       .btf_key_type_id = INT,
			       .btf_value_type_id = NUMBERS};
	cleanup_fd int btf = sys_bpf(BPF_BTF_LOAD, &load);

	if (btf < 0)
		return btf;
	attr.btf_fd = (uint32_t)btf;
	return sys_bpf(BPF_MAP_CREATE, &attr);
}

int bpf_fill(int nodes, int ports, const struct bpf_rules *rules)
{
	uint8_t there = 1;
	int r = 0;

	for (size_t i = 0; r == 0 && i < rules->n_ports; i++)
		r = bpf_map_put(ports, &rules->ports[i], &there);
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
		r = bpf_map_put(nodes, &key, &node->value);
	}
	return r;
}

static uint32_t v4_of(const struct address *a)
{
	uint32_t word;

	memcpy(&word, a->b, 4);
	return word;
}

int bpf_map_make_constant(const void *value, size_t bytes)
{
	cleanup_fd int map = bpf_map_make("config", BPF_MAP_TYPE_ARRAY, 4, bytes, 1, BPF_F_RDONLY_PROG);
	union bpf_attr freeze = {.map_fd = (uint32_t)map};
	uint32_t zero = 0;
	int r;

	if (map < 0)
		return map;
	r = bpf_map_put(map, &zero, value);
	if (r == 0)
		r = sys_bpf(BPF_MAP_FREEZE, &freeze);
	return r < 0 ? r : steal_fd(&map);
}

static int map_make_config(const struct bpf_filter_config *config, const struct bpf_rules *rules)
{
	struct bpf_config value = {0}, *c = &value;

	c->own4 = v4_of(&config->own4);
	memcpy(c->own6, config->own6.b, 16);
	if (config->synthetic.family == 4 && config->synthetic_prefix) {
		c->synthetic = v4_of(&config->synthetic);
		c->synthetic_mask = htonl(UINT32_MAX << (32 - config->synthetic_prefix));
	}
	c->this_host = v4_of(&config->this_host);
	c->deny_host = rules->deny_host;
	c->proxy_port = config->proxy_port;
	c->capture_port = config->capture_port;
	c->rules = rules->allows;
	c->denies = rules->denies;
	return bpf_map_make_constant(c, sizeof(*c));
}

/* --- the ring: linux/bpf.h, "BPF ring buffer"; Documentation/bpf/ringbuf.rst --- */

int bpf_ring_map(struct bpf_filter *f, size_t bytes)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	void *consumer, *producer;

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

/* --- programs --- */

static const struct bpf_program programs[] = {
	{"egress_connect4", BPF_PROG_TYPE_CGROUP_SOCK_ADDR, BPF_CGROUP_INET4_CONNECT},
	{"egress_connect6", BPF_PROG_TYPE_CGROUP_SOCK_ADDR, BPF_CGROUP_INET6_CONNECT},
	{"egress_sendmsg4", BPF_PROG_TYPE_CGROUP_SOCK_ADDR, BPF_CGROUP_UDP4_SENDMSG},
	{"egress_sendmsg6", BPF_PROG_TYPE_CGROUP_SOCK_ADDR, BPF_CGROUP_UDP6_SENDMSG},
	{"egress_sock_create", BPF_PROG_TYPE_CGROUP_SOCK, BPF_CGROUP_INET_SOCK_CREATE},
	{"egress_packet", BPF_PROG_TYPE_CGROUP_SKB, BPF_CGROUP_INET_EGRESS},
};

#define PROGRAMS ((int)(sizeof(programs) / sizeof(programs[0])))

static int load_program(const void *object, const struct bpf_program *program, const struct bpf_object_map *maps, size_t n_maps)
{
	static const char license[] = "Dual BSD/GPL"; /* as in egress.bpf.c and host.bpf.c */
	struct bpf_insn insns[INSNS_MAX];
	union bpf_attr attr = {.prog_type = program->type,
			       .expected_attach_type = program->attach,
			       .insns = (uintptr_t)insns,
			       .license = (uintptr_t)license};
	int n = bpf_object_program(object, program->name, maps, n_maps, insns, INSNS_MAX);

	if (n < 0)
		return n;
	attr.insn_cnt = (uint32_t)n;
	snprintf(attr.prog_name, sizeof(attr.prog_name), "%s", program->name);
	return sys_bpf(BPF_PROG_LOAD, &attr);
}

int bpf_programs_load(struct bpf_filter *f, const void *object, const struct bpf_program *kinds, int n,
		      const struct bpf_object_map *maps, size_t n_maps)
{
	int r = 0;

	for (size_t i = 0; i < n_maps; i++)
		if (maps[i].fd < 0)
			return maps[i].fd;
	f->kinds = kinds;
	f->n_programs = n;
	for (int i = 0; r >= 0 && i < n; i++) {
		r = load_program(object, &kinds[i], maps, n_maps);
		f->programs[i] = r < 0 ? -1 : r;
	}
	return r < 0 ? r : 0;
}

static int load_all(struct bpf_filter *f, const struct bpf_filter_config *config, const struct bpf_rules *rules)
{
	cleanup_fd int nodes = bpf_map_make("nodes", BPF_MAP_TYPE_LPM_TRIE, sizeof(struct bpf_key), sizeof(struct bpf_node),
					rules->n_nodes, BPF_F_NO_PREALLOC);
	cleanup_fd int ports = bpf_map_make("ports", BPF_MAP_TYPE_LPM_TRIE, sizeof(struct bpf_key_port), 1,
					rules->n_ports ? rules->n_ports : 1, BPF_F_NO_PREALLOC);
	cleanup_fd int owners = bpf_map_make_storage(sizeof(struct bpf_owner)), constant = map_make_config(config, rules);
	struct bpf_object_map maps[6];
	int r;

	f->ring = bpf_map_make("ring", BPF_MAP_TYPE_RINGBUF, 0, 0, BPF_RING_BYTES, 0);
	f->lost = bpf_map_make("lost", BPF_MAP_TYPE_ARRAY, 4, 8, 1, 0);
	maps[0] = (struct bpf_object_map){"nodes", nodes, false};
	maps[1] = (struct bpf_object_map){"ports", ports, false};
	maps[2] = (struct bpf_object_map){"owners", owners, false};
	maps[3] = (struct bpf_object_map){"config", constant, true};
	maps[4] = (struct bpf_object_map){"ring", f->ring, false};
	maps[5] = (struct bpf_object_map){"lost", f->lost, false};
	r = bpf_programs_load(f, egress_bpf_object, programs, PROGRAMS, maps, 6);
	/* Without rules that allow something, or deny @host, the programs do not look into them. */
	return r < 0 || !(rules->allows || rules->deny_host) ? r : bpf_fill(nodes, ports, rules);
}

int bpf_filter_load(struct bpf_filter *f, const struct bpf_filter_config *config, struct err *e)
{
	struct bpf_filter new = BPF_FILTER_NONE;
	struct bpf_rules rules;
	int r = bpf_rules_compile(config->policy, config->any_address, &rules, e);

	if (r == 0) {
		r = load_all(&new, config, &rules);
		if (r == 0)
			r = bpf_ring_map(&new, BPF_RING_BYTES);
		if (r < 0)
			err_errno(e, -r, "eBPF filters: the kernel does not load the programs");
	}
	bpf_rules_free(&rules);
	if (r < 0)
		bpf_filter_close(&new);
	else
		*f = new;
	return r;
}

int bpf_filter_attach(struct bpf_filter *f, int cgroup, struct err *e)
{
	for (int i = 0; i < f->n_programs; i++) {
		union bpf_attr attr = {.link_create = {.prog_fd = (uint32_t)f->programs[i],
						       .target_fd = (uint32_t)cgroup,
						       .attach_type = f->kinds[i].attach}};
		int r = sys_bpf(BPF_LINK_CREATE, &attr); /* O_CLOEXEC, as every descriptor of bpf(2) */

		if (r < 0)
			return err_errno(e, -r, "eBPF filters: they cannot be attached to the run's control group");
		f->links[i] = r;
		cleanup_fd_p(&f->programs[i]);
	}
	return 0;
}

int bpf_filter_try(struct err *e)
{
	/* Addresses that are nobody's (RFC 5737): with rules of both kinds the verifier looks at all there is. */
	struct val_item allow = {.text = (char *)"192.0.2.1:443"}, deny = {.text = (char *)"192.0.2.0/24:80"};
	struct profile p = {.egress = {.allow = {.items = &allow, .n = 1}, .deny = {.items = &deny, .n = 1}}};
	struct bpf_filter f = BPF_FILTER_NONE;
	struct bpf_filter_config config = {0};
	struct policy *policy = NULL;
	int r = policy_new(&p, &policy, e);

	if (r < 0)
		return r;
	config.policy = policy;
	r = bpf_filter_load(&f, &config, e);
	policy_free(policy);
	bpf_filter_close(&f);
	return r;
}

void bpf_filter_close(struct bpf_filter *f)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	for (int i = 0; i < BPF_FILTER_PROGRAMS; i++) {
		cleanup_fd_p(&f->links[i]);
		cleanup_fd_p(&f->programs[i]);
	}
	if (f->consumer)
		munmap(f->consumer, page);
	if (f->producer)
		munmap(f->producer, page + 2 * f->ring_bytes);
	f->consumer = f->producer = NULL;
	cleanup_fd_p(&f->ring);
	cleanup_fd_p(&f->lost);
	cleanup_fd_p(&f->given);
	cleanup_fd_p(&f->own);
	cleanup_fd_p(&f->ports);
	cleanup_fd_p(&f->usage);
}

#else /* !HAVE_BPF */

#include "base/banned.h"

static int not_built(struct err *e)
{
	return err_set(e, ENOTSUP, "this agentbox was built without eBPF (clang and libbpf-dev were not there)");
}

int bpf_filter_possible(struct err *e)
{
	return not_built(e);
}

int bpf_filter_try(struct err *e)
{
	return not_built(e);
}

int bpf_filter_load(struct bpf_filter *f, const struct bpf_filter_config *config, struct err *e)
{
	(void)f;
	(void)config;
	return not_built(e);
}

int bpf_host_load(struct bpf_filter *f, const struct bpf_host_config *config, struct err *e)
{
	(void)f;
	(void)config;
	return not_built(e);
}

int bpf_host_try(struct err *e)
{
	return not_built(e);
}

bool bpf_host_usage(const struct bpf_filter *f, struct host_usage *out)
{
	(void)f;
	(void)out;
	return false;
}

bool bpf_host_is_own(const struct bpf_filter *f, const struct address *a)
{
	(void)f;
	(void)a;
	return false;
}

int bpf_host_close(const struct bpf_filter *f)
{
	(void)f;
	return 0;
}

int bpf_filter_attach(struct bpf_filter *f, int cgroup, struct err *e)
{
	(void)f;
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
