# SPDX-License-Identifier: LGPL-2.1-or-later
# Hand-written; what differs from host to host is in config.mk (made by configure). `make V=1` shows the commands.

all:

ifeq ($(wildcard config.mk),)
$(error There is no config.mk: run scripts/setup, or ./autogen.sh && ./configure)
endif
include config.mk
-include config.dev.mk

PREFIX ?= $(if $(filter NONE,$(prefix)),/usr/local,$(prefix))
DESTDIR ?=
bindir = $(PREFIX)/bin
mandir = $(PREFIX)/share/man
datadir = $(PREFIX)/share/agentbox
BUILD ?= build

ifeq ($(V),1)
Q =
else
Q = @
endif
say = @printf '  %-8s %s\n'

ALL_CPPFLAGS = -Ilauncher -I. -I$(BUILD) -DHAVE_CONFIG_H -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 \
	-DPROFILES_DIR='"$(datadir)/profiles"' $(DEPS_CFLAGS) $(BPF_CFLAGS) $(CPPFLAGS)
ALL_CFLAGS = -std=gnu11 -Wall -Wextra -Wshadow -Wvla -Wmissing-prototypes -Wstrict-prototypes -Wpointer-arith \
	-Wwrite-strings -Wformat=2 $(HARDEN_CFLAGS) $(CFLAGS)
ALL_LDFLAGS = $(HARDEN_LDFLAGS) $(LDFLAGS)

SRCS = $(filter-out launcher/main.c %.bpf.c,$(sort $(wildcard launcher/*/*.c)))
OBJS = $(SRCS:%.c=$(BUILD)/%.o)
TEST_BINS = $(patsubst tests/unit/%.c,$(BUILD)/tests/unit/%,$(sort $(wildcard tests/unit/test_*.c)))
PROBES = $(patsubst tests/t/probes/%.c,$(BUILD)/tests/probes/%,$(sort $(wildcard tests/t/probes/*.c)))
FUZZERS = $(patsubst tests/fuzz/%.c,$(BUILD)/fuzz/%,$(sort $(wildcard tests/fuzz/fuzz_*.c)))
PROFILES = $(sort $(wildcard profiles/*.ini))
MAN1 = $(sort $(wildcard man/*.1))
MAN5 = $(sort $(wildcard man/*.5))

.DELETE_ON_ERROR:
.PHONY: all check check-unit check-box install uninstall dist lint clean distclean fuzz sanitize bench coverage
.SECONDARY:

all: $(BUILD)/agentbox

$(BUILD)/agentbox: $(BUILD)/launcher/main.o $(BUILD)/libagentbox.a
	$(say) LINK $@
	$(Q)$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -o $@ $^ $(DEPS_LIBS)

$(BUILD)/libagentbox.a: $(OBJS)
	$(say) AR $@
	$(Q)rm -f $@ && $(AR) rcs $@ $(OBJS)

# SHA-pinned by name only: the version is the one thing the compiler is told of.
$(BUILD)/%.o: %.c config.mk Makefile
	$(say) CC $<
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CPPFLAGS) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

-include $(OBJS:.o=.d) $(BUILD)/launcher/main.d $(TEST_BINS:=.d)

# --- tests ---
$(BUILD)/tests/unit/%: tests/unit/%.c $(BUILD)/libagentbox.a
	$(say) CC $@
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CPPFLAGS) $(CMOCKA_CFLAGS) $(ALL_CFLAGS) $(ALL_LDFLAGS) -MMD -MP -o $@ $< $(BUILD)/libagentbox.a \
		$(DEPS_LIBS) $(CMOCKA_LIBS)

# Probes are small and static, so that they run in any root.
$(BUILD)/tests/probes/%: tests/t/probes/%.c
	$(say) CC $@
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -D_GNU_SOURCE -std=gnu11 -Wall -O1 -static -o $@ $<

check: check-unit check-box

check-unit: all $(TEST_BINS)
	$(Q)CMOCKA_MESSAGE_OUTPUT=TAP prove $(PROVE_FLAGS) --exec '' $(TEST_BINS)

check-box: all $(PROBES)
	$(Q)AGENTBOX='$(abspath $(BUILD)/agentbox)' BUILD='$(abspath $(BUILD))' prove $(PROVE_FLAGS) $(sort $(wildcard tests/t/*.t))

# --- installation ---
install: all
	install -d $(DESTDIR)$(bindir) $(DESTDIR)$(datadir)/profiles $(DESTDIR)$(mandir)/man1 $(DESTDIR)$(mandir)/man5
	install -m 0755 $(BUILD)/agentbox $(DESTDIR)$(bindir)/agentbox
	$(if $(PROFILES),install -m 0644 $(PROFILES) $(DESTDIR)$(datadir)/profiles/)
	$(if $(MAN1),install -m 0644 $(MAN1) $(DESTDIR)$(mandir)/man1/)
	$(if $(MAN5),install -m 0644 $(MAN5) $(DESTDIR)$(mandir)/man5/)

uninstall:
	rm -f $(DESTDIR)$(bindir)/agentbox
	rm -f $(addprefix $(DESTDIR)$(datadir)/profiles/,$(notdir $(PROFILES)))
	rm -f $(addprefix $(DESTDIR)$(mandir)/man1/,$(notdir $(MAN1))) $(addprefix $(DESTDIR)$(mandir)/man5/,$(notdir $(MAN5)))
	-rmdir $(DESTDIR)$(datadir)/profiles $(DESTDIR)$(datadir)

dist:
	git archive --format=tar.gz --prefix=agentbox-$(VERSION)/ -o agentbox-$(VERSION).tar.gz HEAD

lint:
	$(Q)scripts/lint

clean:
	rm -rf $(BUILD)

distclean: clean
	rm -rf config.mk config.h config.h.in config.log config.status configure autom4te.cache aclocal.m4
