/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The event reader and the printer on any bytes; and any bytes through the escaping and back. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "event/event.h"

#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_all(const uint8_t *data, size_t size, bool verify)
{
	FILE *in = fmemopen((void *)data, size, "r");
	struct event_reader r;
	struct err e;
	int got;

	if (!in)
		abort();
	event_reader_init(&r, in, verify);
	do {
		struct str out = {0};
		json_t *event = NULL;

		got = event_read(&r, &event, &e);
		if (got == 1) {
			event_print(event, &out);
			/* Nothing that could move a cursor, whatever the log holds. */
			for (size_t i = 0; i < out.len; i++) {
				unsigned char c = (unsigned char)out.text[i];

				if (c < 0x20 || c == 0x7f || (c == 0xc2 && (unsigned char)out.text[i + 1] < 0xa0))
					abort();
			}
			event_is_denied(event);
			event_check(event, &e);
		}
		json_decref(event);
		str_free(&out);
	} while (got);
	event_reader_free(&r);
	fclose(in);
}

static void round_trip(const uint8_t *data, size_t size)
{
	json_t *text = event_text((const char *)data, size);
	struct str back = {0};

	if (!text)
		abort();
	event_text_bytes(json_string_value(text), &back);
	if (back.len != size || (size && memcmp(back.text, data, size) != 0))
		abort();
	str_free(&back);
	json_decref(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	round_trip(data, size);
	if (!size) /* fmemopen takes no empty buffer */
		return 0;
	read_all(data, size, false);
	read_all(data, size, true);
	return 0;
}
