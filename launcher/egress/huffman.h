/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The static Huffman code of HTTP/2 header fields (RFC 7541 5.2 and Appendix B). */
#ifndef AGENTBOX_EGRESS_HUFFMAN_H
#define AGENTBOX_EGRESS_HUFFMAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * out: the first cap bytes of the text, not terminated. *out_len: the whole text's length.
 * Return: false for what no encoder makes: the end mark within, padding that is not ones or longer than 7 bits.
 */
bool huffman_decode(const uint8_t *bytes, size_t len, char *out, size_t cap, size_t *out_len);

#endif
