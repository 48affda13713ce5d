/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "egress/bpf.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "config.h"

#ifdef HAVE_BPF
#include <arpa/inet.h>
#include <linux/bpf.h>
#include <linux/capability.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "egress/bpfload.h"
#include "egress.skel.h" /* by bpftool */

#include "base/banned.h"

/* The inode of the first user namespace (include/linux/proc_ns.h, PROC_USER_INIT_INO). */
#define FIRST_USER_NAMESPACE 0xEFFFFFFDU
/* RFC 4291, 2.5.5.2. */
#define V4_MAPPED "\0\0\0\0\0\0\0\0\0\0\xff\xff"

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

int bpf_fill(int nodes, int ports, const struct bpf_rules *rules)
{
	uint8_t there = 1;
	int r = 0;

	for (size_t i = 0; r == 0 && i < rules->n_ports; i++)
		r = bpf_map_update_elem(ports, &rules->ports[i], &there, BPF_ANY);
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
		r = bpf_map_update_elem(nodes, &key, &node->value, BPF_ANY);
	}
	return r;
}

static uint32_t v4_of(const struct address *a)
{
	uint32_t word;

	memcpy(&word, a->b, 4);
	return word;
}

/* What .rodata holds is constant to the verifier, and a map's size is fixed when it is made: before the load. */
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
	c->this_host = v4_of(&config->this_host);
	c->deny_host = rules->deny_host;
	c->proxy_port = config->proxy_port;
	c->capture_port = config->capture_port;
	c->rules = rules->allows;
	c->denies = rules->denies;
	r = bpf_map__set_max_entries(skel->maps.ports, rules->n_ports ? (uint32_t)rules->n_ports : 1);
	return r == 0 ? bpf_map__set_max_entries(skel->maps.nodes, (uint32_t)rules->n_nodes) : r;
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

	return f->lost >= 0 && bpf_map_lookup_elem(f->lost, &zero, &count) == 0 ? count : 0;
}

/* --- programs --- */

static void destroy(void *object)
{
	egress_bpf__destroy(object);
}

static int load(struct bpf_filter *f, const struct bpf_filter_config *config, const struct bpf_rules *rules)
{
	struct egress_bpf *skel = egress_bpf__open();
	int r;

	if (!skel)
		return -errno;
	f->object = skel;
	f->destroy = destroy;
	f->skeleton = skel->skeleton;
	r = configure(skel, config, rules);
	if (r == 0)
		r = egress_bpf__load(skel);
	if (r < 0)
		return r;
	f->ring = bpf_map__fd(skel->maps.ring);
	f->lost = bpf_map__fd(skel->maps.lost);
	r = bpf_ring_map(f, BPF_RING_BYTES);
	/* Without rules that allow something, or deny @host, the programs do not look into them. */
	if (r < 0 || !(rules->allows || rules->deny_host))
		return r;
	return bpf_fill(bpf_map__fd(skel->maps.nodes), bpf_map__fd(skel->maps.ports), rules);
}

int bpf_filter_load(struct bpf_filter *f, const struct bpf_filter_config *config, struct err *e)
{
	struct bpf_filter new = BPF_FILTER_NONE;
	struct bpf_rules rules;
	int r = bpf_rules_compile(config->policy, config->any_address, &rules, e);

	libbpf_set_print(NULL);
	if (r == 0) {
		r = load(&new, config, &rules);
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

/*
 * Closing a link takes the program off the group and off every socket of it, also one that lives on elsewhere. What is
 * attached without one goes when the last of both is gone (kernel/bpf/cgroup.c, cgroup_bpf_release).
 */
static bool attach(const struct bpf_prog_skeleton *p, int cgroup, bool lasting)
{
	if (lasting)
		return bpf_prog_attach(bpf_program__fd(*p->prog), cgroup, bpf_program__expected_attach_type(*p->prog),
				       BPF_F_ALLOW_MULTI) == 0;
	*p->link = bpf_program__attach_cgroup(*p->prog, cgroup);
	return *p->link;
}

int bpf_filter_attach(struct bpf_filter *f, int cgroup, struct err *e)
{
	for (int i = 0; i < f->skeleton->prog_cnt; i++)
		if (!attach(&f->skeleton->progs[i], cgroup, f->lasting))
			return err_errno(e, errno, "eBPF filters: they cannot be attached to the run's control group");
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

	if (f->consumer)
		munmap(f->consumer, page);
	if (f->producer)
		munmap(f->producer, page + 2 * f->ring_bytes);
	if (f->destroy)
		f->destroy(f->object); /* and its links, and maps */
	*f = BPF_FILTER_NONE;
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
