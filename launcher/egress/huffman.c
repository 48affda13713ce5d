/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "egress/huffman.h"

#include "base/banned.h"

#define SYMBOLS 257
#define END_MARK 256
#define SHORTEST 5
#define LONGEST 30

/* The length of each symbol's code. The code is canonical: of one length, the codes ascend with the symbols. */
static const uint8_t lengths[SYMBOLS] = {
	13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28,
	28, 28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6,
	6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
	7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, 15, 5, 6, 5, 6, 5, 6, 6,
	6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, 20, 22,
	20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23,
	22, 23, 23, 24, 22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22,
	23, 23, 20, 22, 22, 22, 23, 22, 22, 23, 26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25,
	19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22, 22,
	25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, 30,
};

/* By length: the first code, how many there are, and where their symbols start in `symbols`. */
static struct {
	uint32_t first, count, at;
} codes[LONGEST + 1];
static uint16_t symbols[SYMBOLS];
static bool made;

static void make(void)
{
	uint32_t code = 0, n = 0;

	for (unsigned len = SHORTEST; len <= LONGEST; len++) {
		code <<= 1;
		codes[len].first = code;
		codes[len].at = n;
		codes[len].count = 0;
		for (unsigned s = 0; s < SYMBOLS; s++) {
			if (lengths[s] != len)
				continue;
			symbols[n++] = (uint16_t)s;
			codes[len].count++;
			code++;
		}
	}
	made = true;
}

bool huffman_decode(const uint8_t *bytes, size_t len, char *out, size_t cap, size_t *out_len)
{
	uint32_t code = 0;
	unsigned bits = 0;

	if (!made)
		make();
	*out_len = 0;
	for (size_t i = 0; i < len * 8; i++) {
		uint16_t symbol;

		code = code << 1 | (bytes[i / 8] >> (7 - i % 8) & 1);
		bits++;
		if (bits < SHORTEST)
			continue;
		if (bits > LONGEST)
			return false;
		if (code - codes[bits].first >= codes[bits].count)
			continue;
		symbol = symbols[codes[bits].at + code - codes[bits].first];
		if (symbol == END_MARK)
			return false;
		if (*out_len < cap)
			out[*out_len] = (char)symbol;
		(*out_len)++;
		code = bits = 0;
	}
	return bits < 8 && code == (1U << bits) - 1;
}
