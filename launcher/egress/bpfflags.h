/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* For the programs alone: conditions as numbers, so that the verifier has one way to look at. egress.bpf.c says what for. */
#ifndef AGENTBOX_EGRESS_BPFFLAGS_H
#define AGENTBOX_EGRESS_BPFFLAGS_H

#include <linux/types.h>

#include <bpf/bpf_helpers.h>

typedef __u64 flag;

/* Without the asm clang makes branches of them. */
static __always_inline flag is_zero(__u64 x)
{
	__u64 negative = -x;

	asm("" : "+r"(negative));
	return (x | negative) >> 63 ^ 1;
}

static __always_inline flag is_zero32(__u32 x)
{
	__u64 wide = x;
	flag sign;

	asm("" : "+r"(wide));
	sign = (wide - 1) >> 63;
	asm("" : "+r"(sign));
	return sign;
}

static __always_inline flag not(flag f)
{
	return f ^ 1;
}

/* 0, but the verifier does not know: what follows is then looked at once for both families, and not again for IPv4's 0. */
static __always_inline __u64 unknown_zero(__u64 any)
{
	__u64 same = any;

	asm("" : "+r"(same));
	return any - same;
}

/*
 * What a program returns: a constant. What it was computed from would have to be known to the verifier, back to the
 * beginning (Documentation/bpf/verifier.rst, "Precision"), and no two ways could be one.
 */
static __always_inline int verdict(flag may)
{
	if (may) {
		asm volatile("");
		return 1;
	}
	return 0;
}

#endif
