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
	-DPROFILES_DIR='"$(datadir)/profiles"' $(DEPS_CFLAGS) $(BPF_CFLAGS) $(SYSTEMD_CFLAGS) $(CPPFLAGS)
ALL_CFLAGS = -std=gnu11 -Wall -Wextra -Wshadow -Wvla -Wmissing-prototypes -Wstrict-prototypes -Wpointer-arith \
	-Wwrite-strings -Wformat=2 $(HARDEN_CFLAGS) $(CFLAGS)
ALL_LDFLAGS = $(HARDEN_LDFLAGS) $(LDFLAGS)

SRCS = $(filter-out launcher/main.c %.bpf.c,$(sort $(wildcard launcher/*/*.c)))
OBJS = $(SRCS:%.c=$(BUILD)/%.o) $(BUILD)/seccomp_bodies.o
TEST_BINS = $(patsubst tests/unit/%.c,$(BUILD)/tests/unit/%,$(sort $(wildcard tests/unit/test_*.c)))
PROBES = $(patsubst tests/t/probes/%.c,$(BUILD)/tests/probes/%,$(sort $(wildcard tests/t/probes/*.c)))
FUZZERS = $(patsubst tests/fuzz/%.c,$(BUILD)/fuzz/%,$(sort $(wildcard tests/fuzz/fuzz_*.c)))
PROFILES = $(sort $(wildcard profiles/*.ini))
MAN1 = $(sort $(wildcard man/*.1))
MAN5 = $(sort $(wildcard man/*.5))

.DELETE_ON_ERROR:
.PHONY: all check check-unit check-box faults install uninstall dist lint clean distclean fuzz fuzzers sanitize bench coverage cross FORCE
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

# What libseccomp makes of profiles that change nothing of it (launcher/box/seccomp_body.h); of none where what is built does not run.
$(BUILD)/seccomp-bodies: scripts/seccomp-bodies.c $(filter-out $(BUILD)/seccomp_bodies.o,$(OBJS))
	$(say) LINK $@
	$(Q)$(CC) $(ALL_CPPFLAGS) $(ALL_CFLAGS) $(ALL_LDFLAGS) -o $@ $^ $(DEPS_LIBS)

$(BUILD)/seccomp_bodies.c: $(if $(filter yes,$(CROSS)),config.mk,$(BUILD)/seccomp-bodies)
	$(say) GEN $@
	$(Q)mkdir -p $(@D)
	$(Q)$(if $(filter yes,$(CROSS)),printf '%s\n' '#include "box/seccomp_body.h"' 'const struct seccomp_body seccomp_bodies[] = {{.n = 0}};',$<) >$@

$(BUILD)/seccomp_bodies.o: $(BUILD)/seccomp_bodies.c
	$(say) CC $<
	$(Q)$(CC) $(ALL_CPPFLAGS) $(ALL_CFLAGS) -c -o $@ $<

# The eBPF programs, where configure found what builds them. They need the kernel's exported headers alone.
ifeq ($(HAVE_BPF),yes)
$(BUILD)/%.bpf.o: launcher/egress/%.bpf.c launcher/egress/bpfshared.h launcher/egress/bpfflags.h launcher/egress/bpfcommon.h launcher/egress/hostshared.h config.mk Makefile
	$(say) BPF $@
	$(Q)mkdir -p $(@D)
	$(Q)$(CLANG) -target bpf -mcpu=v3 -O2 -g -ffile-prefix-map=$(CURDIR)=. -fdebug-compilation-dir=. -Wall -Werror -Ilauncher \
		$(BPF_CFLAGS) $(BPF_ARCH_CFLAGS) -c -o $@ $<

$(BUILD)/%.skel.h: $(BUILD)/%.bpf.o
	$(say) SKEL $@
	$(Q)$(BPFTOOL) gen skeleton $< name $*_bpf >$@

$(BUILD)/launcher/egress/bpf.o: $(BUILD)/egress.skel.h
$(BUILD)/launcher/egress/bpfhost.o: $(BUILD)/host.skel.h
endif

# Where Debian has asm/types.h, which clang -target bpf does not look into.
BPF_ARCH_CFLAGS = $(addprefix -isystem /usr/include/,$(sort $(shell $(CC) -print-multiarch 2>/dev/null; $(CLANG) -print-multiarch 2>/dev/null)))

# Where `make install PREFIX=` puts the profiles is compiled in, into this one file: made anew where it is another.
$(BUILD)/launcher/profile/lookup.o: $(BUILD)/prefix
$(BUILD)/prefix: FORCE
	$(Q)mkdir -p $(@D)
	$(Q)echo '$(datadir)' | cmp -s - $@ || echo '$(datadir)' >$@

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

# The program as tests/t/60-leaks.t runs it: under valgrind, and with the leak sanitizer, which needs no other code but at the link.
LEAK_BINS = $(BUILD)/tests/leaks/valgrind $(BUILD)/tests/leaks/lsan
LEAK_OBJS = tests/lib/stay.c $(BUILD)/launcher/main.o $(BUILD)/libagentbox.a
NATIVE = syscall clone fsopen fsconfig fsmount move_mount open_tree mount_setattr mount pidfd_open pidfd_send_signal seccomp_load
link_leaks = $(Q)mkdir -p $(@D) && $(CC) $(ALL_CPPFLAGS) $(ALL_CFLAGS) $(ALL_LDFLAGS) $(1) -Wl,--wrap=execv -o $@ $^ $(DEPS_LIBS)
$(BUILD)/tests/leaks/lsan: $(LEAK_OBJS)
	$(say) LINK $@
	$(call link_leaks,-fsanitize=leak)
$(BUILD)/tests/leaks/valgrind: tests/lib/native.c $(LEAK_OBJS)
	$(say) LINK $@
	$(call link_leaks,$(NATIVE:%=-Wl,--wrap=%))

# Unit tests and shell tests are programs that print TAP. check runs them in one prove, for one total.
BOX_TESTS = $(sort $(wildcard tests/t/*.t))
run_tests = $(Q)CMOCKA_MESSAGE_OUTPUT=TAP AGENTBOX='$(abspath $(BUILD)/agentbox)' BUILD='$(abspath $(BUILD))' \
	prove --exec '' $(PROVE_FLAGS)

check: all $(TEST_BINS) $(PROBES) $(LEAK_BINS)
	$(run_tests) $(TEST_BINS) $(BOX_TESTS)

# UNIT='NAME...': only these.
UNIT = $(patsubst $(BUILD)/tests/unit/test_%,%,$(TEST_BINS))
check-unit: all $(UNIT:%=$(BUILD)/tests/unit/test_%)
	$(run_tests) $(UNIT:%=$(BUILD)/tests/unit/test_%)

check-box: all $(PROBES) $(LEAK_BINS) $(BUILD)/tests/unit/test_bpf
	$(run_tests) $(BOX_TESTS)

# Every system call of a run's setup and end failing once, in each process: for some minutes. tests/t/61-faults.t says what holds.
faults: export FAULTS = all
faults: all $(PROBES)
	$(run_tests) -v tests/t/61-faults.t

lint: export LINT_CPPFLAGS = $(ALL_CPPFLAGS)
lint: $(OBJS)
	$(Q)BUILD='$(BUILD)' scripts/lint $(STEPS)

# Unit tests, and with them the parsers' tests, under ASan and UBSan. The box's own tests are for the plain build: a
# sanitizer's shadow memory and helper processes are not what the box is made for.
sanitize:
	$(Q)ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1 UBSAN_OPTIONS=print_stacktrace=1 \
	$(MAKE) BUILD=$(BUILD)-asan CFLAGS='-g -O1 -fno-omit-frame-pointer $(SANITIZE)' LDFLAGS='$(SANITIZE)' check-unit
SANITIZE = -fsanitize=address,undefined -fno-sanitize-recover=all

# Every fuzzer for FUZZ_TIME seconds, from the committed corpus. What is found new goes to the build folder, so does an
# input that fails: BUILD-fuzz/fuzz_X.found, BUILD-fuzz/fuzz_X.crash-*.
FUZZ_TIME = 10
FUZZ_RUNS = $(FUZZERS:=.run)
.PHONY: $(FUZZ_RUNS)
fuzz:
	$(Q)$(MAKE) BUILD=$(BUILD)-fuzz CC=$(if $(filter-out no,$(CLANG)),$(CLANG),clang) HARDEN_CFLAGS= HARDEN_LDFLAGS= \
		LDFLAGS= CFLAGS='-g -O1 -fno-omit-frame-pointer $(SANITIZE) -fsanitize=fuzzer-no-link' fuzzers

fuzzers: $(FUZZ_RUNS)

$(BUILD)/fuzz/%: tests/fuzz/%.c $(BUILD)/libagentbox.a
	$(say) CC $@
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CPPFLAGS) $(ALL_CFLAGS) -fsanitize=fuzzer -Wno-missing-prototypes -o $@ $< $(BUILD)/libagentbox.a $(DEPS_LIBS)

$(FUZZ_RUNS): $(BUILD)/fuzz/%.run: $(BUILD)/fuzz/%
	$(say) FUZZ '$* ($(FUZZ_TIME) s)'
	$(Q)mkdir -p $(BUILD)/$*.found
	$(Q)dict=tests/fuzz/$(patsubst fuzz_%,%,$*).dict; \
	$< -max_total_time=$(FUZZ_TIME) -timeout=10 -print_final_stats=1 -artifact_prefix=$(BUILD)/$*. \
		$$([ -f $$dict ] && echo -dict=$$dict) $(BUILD)/$*.found $(wildcard tests/fuzz/corpus/$(patsubst fuzz_%,%,$*)) \
		>$(BUILD)/$*.log 2>&1 || { tail -n 40 $(BUILD)/$*.log; exit 1; }
	$(Q)sed -n 's/^stat::\(number_of_executed_units\|new_units_added\): */    \1 /p' $(BUILD)/$*.log | sed 's/^/    $* /'

# Lines run by all tests, as text. COVERAGE=check-unit: by the unit tests alone.
COVERAGE = check
# gcc would have fork() set all counts to 0 in the child, and exec write them out first; they are shared (tests/lib/coverage.c).
COVERAGE_PLAIN = -fno-builtin-fork $(addprefix -fno-builtin-exec,l lp le v vp ve)
coverage: cov = $(MAKE) BUILD=$(BUILD)-cov CFLAGS='-g -O0 --coverage -fprofile-update=atomic -fdata-sections $(COVERAGE_PLAIN)' \
		LDFLAGS='-Wl,-T,$(abspath tests/lib/coverage.ld) $(abspath $(BUILD)-cov/coverage.o)'
coverage:
	$(Q)scripts/coverage $(BUILD)-cov clean
	$(Q)$(cov) all
	$(Q)scripts/coverage $(BUILD)-cov open
	-$(Q)$(cov) $(COVERAGE)
	$(Q)scripts/coverage $(BUILD)-cov report

# Figures beside those of other sandboxes. BENCH='--peers --json FILE ROW...' is passed on.
bench: all $(PROBES)
	$(Q)BUILD='$(BUILD)' scripts/bench $(BENCH)

# For arm64, by Debian's cross compiler; its unit tests under qemu's user emulation.
cross:
	$(Q)scripts/cross-arm64 $(BUILD)-arm64

# --- installation ---
# Where the host's AppArmor knows rules for user namespaces (Ubuntu 23.10 and later), the profile that grants them is installed
# too; it holds from the next start or `apparmor_parser -r` on.
APPARMOR_DIR = $(if $(wildcard /etc/apparmor.d/abi/4.0),/etc/apparmor.d)

install: all
	install -d $(DESTDIR)$(bindir) $(DESTDIR)$(datadir)/profiles $(DESTDIR)$(mandir)/man1 $(DESTDIR)$(mandir)/man5
	install -m 0755 $(BUILD)/agentbox $(DESTDIR)$(bindir)/agentbox
	$(if $(PROFILES),install -m 0644 $(PROFILES) $(DESTDIR)$(datadir)/profiles/)
	$(if $(MAN1),install -m 0644 $(MAN1) $(DESTDIR)$(mandir)/man1/)
	$(if $(MAN5),install -m 0644 $(MAN5) $(DESTDIR)$(mandir)/man5/)
	$(if $(APPARMOR_DIR),install -d $(DESTDIR)$(APPARMOR_DIR))
	$(if $(APPARMOR_DIR),sed 's|/usr/local/bin/agentbox|$(bindir)/agentbox|' scripts/agentbox.apparmor >$(DESTDIR)$(APPARMOR_DIR)/agentbox)

uninstall:
	rm -f $(DESTDIR)$(bindir)/agentbox
	rm -f $(addprefix $(DESTDIR)$(datadir)/profiles/,$(notdir $(PROFILES)))
	rm -f $(addprefix $(DESTDIR)$(mandir)/man1/,$(notdir $(MAN1))) $(addprefix $(DESTDIR)$(mandir)/man5/,$(notdir $(MAN5)))
	$(if $(APPARMOR_DIR),rm -f $(DESTDIR)$(APPARMOR_DIR)/agentbox)
	-rmdir $(DESTDIR)$(datadir)/profiles $(DESTDIR)$(datadir)

DISTDIR = .
# The tree of HEAD. safe.directory: the checkout may be another user's, and an archive runs nothing of it.
dist:
	git -c safe.directory='$(CURDIR)' archive --format=tar.gz --prefix=agentbox-$(VERSION)/ -o $(DISTDIR)/agentbox-$(VERSION).tar.gz HEAD

clean:
	rm -rf $(BUILD) $(BUILD)-asan $(BUILD)-fuzz $(BUILD)-cov $(BUILD)-arm64

distclean: clean
	rm -rf config.mk config.h config.h.in config.log config.status configure configure~ config.guess config.sub install-sh \
		autom4te.cache aclocal.m4
