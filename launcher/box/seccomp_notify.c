/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The supervisor's side of `log = yes`: refusals are read, answered with the refusal, and reported. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "box/seccomp.h"

#include "base/banned.h"

/*
 * The instructions that libseccomp and the head emit. Anything else, a jump past the end and a read outside of the data
 * end in KILL, as the kernel would not have loaded the program at all.
 */
uint32_t seccomp_eval(const struct sock_filter *insns, size_t n, const struct seccomp_data *data)
{
	uint32_t a = 0;

	for (size_t pc = 0; pc < n; pc++) {
		const struct sock_filter *f = &insns[pc];
		bool hit;

		switch (f->code) {
		case BPF_LD | BPF_W | BPF_ABS:
			if (f->k > sizeof(*data) - sizeof(a))
				return SECCOMP_RET_KILL_PROCESS;
			memcpy(&a, (const char *)data + f->k, sizeof(a));
			continue;
		case BPF_ALU | BPF_AND | BPF_K:
			a &= f->k;
			continue;
		case BPF_RET | BPF_K:
			return f->k;
		case BPF_JMP | BPF_JA:
			pc += f->k;
			continue;
		case BPF_JMP | BPF_JEQ | BPF_K:
			hit = a == f->k;
			break;
		case BPF_JMP | BPF_JGT | BPF_K:
			hit = a > f->k;
			break;
		case BPF_JMP | BPF_JGE | BPF_K:
			hit = a >= f->k;
			break;
		case BPF_JMP | BPF_JSET | BPF_K:
			hit = a & f->k;
			break;
		default:
			return SECCOMP_RET_KILL_PROCESS;
		}
		pc += hit ? f->jt : f->jf;
	}
	return SECCOMP_RET_KILL_PROCESS;
}

static int notify_errno(const struct seccomp_program *prog, const struct seccomp_data *data)
{
	uint32_t answer = seccomp_eval(prog->answers, prog->n, data);
	int errnum = (int)(answer & SECCOMP_RET_DATA);

	if ((answer & SECCOMP_RET_ACTION_FULL) != SECCOMP_RET_ERRNO || errnum == 0)
		return EPERM;
	return errnum;
}

int seccomp_notify_read(int listener, const struct seccomp_program *prog, struct seccomp_denied *out)
{
	/* The kernel may know longer structs than the header; it writes its own length (seccomp_unotify(2)). */
	union {
		struct seccomp_notif req;
		char room[1024];
	} in;
	union {
		struct seccomp_notif_resp resp;
		char room[1024];
	} answer;

	struct pollfd ready = {.fd = listener, .events = POLLIN};

	*out = (struct seccomp_denied){0};
	/* RECV waits where there is nothing, and on 6.1 even where nobody is left who could ask. */
	if (poll(&ready, 1, 0) < 0)
		return errno == EINTR ? 0 : -errno;
	if (!(ready.revents & POLLIN))
		return ready.revents ? -ENOTCONN : 0;
	memset(&in, 0, sizeof(in));
	memset(&answer, 0, sizeof(answer));
	if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &in.req) < 0)
		return errno == ENOENT || errno == EINTR ? 0 : -errno;
	answer.resp.id = in.req.id;
	answer.resp.error = -notify_errno(prog, &in.req.data);
	if (ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer.resp) < 0)
		return errno == ENOENT || errno == EINTR || errno == EINPROGRESS ? 0 : -errno;
	out->arch = in.req.data.arch;
	out->nr = in.req.data.nr;
	out->errnum = -answer.resp.error;
	out->pid = (pid_t)in.req.pid;
	return 1;
}
