# SPDX-License-Identifier: MIT
# A test in one file needs one line in the local.mk of its folder; see CONTRIBUTING.md.
TEST_EXTENSIONS = .sh
AM_TESTS_ENVIRONMENT = \
	TMPDIR=`$(SHELL) $(srcdir)/tests/support/tmpdir.sh`; export TMPDIR; \
	builddir='$(abs_builddir)'; export builddir; \
	BUILD_CPPFLAGS='$(DEFAULT_INCLUDES) $(AM_CPPFLAGS)'; export BUILD_CPPFLAGS; \
	CC='$(CC)'; export CC; \
	LOCKCTL='$(abs_builddir)/lockctl'; export LOCKCTL; \
	BRIDGE_PROGRAM='$(abs_builddir)/lockshm-bridge'; export BRIDGE_PROGRAM; \
	MAKE='$(MAKE)'; export MAKE; \
	NM='$(NM)'; export NM; \
	LUAJIT='$(LUAJIT)'; export LUAJIT; \
	NGINX_PROGRAM='$(NGINX)'; export NGINX_PROGRAM; \
	PHP='$(PHP)'; export PHP; \
	PHPIZE='$(PHPIZE)'; export PHPIZE; \
	PHP_CONFIG='$(PHP_CONFIG)'; export PHP_CONFIG; \
	PYTHON='$(PYTHON)'; export PYTHON; \
	have_lua='$(have_lua)'; export have_lua; \
	have_php='$(have_php)'; export have_php; \
	have_python='$(have_python)'; export have_python; \
	SANITIZE_CFLAGS='$(SANITIZE_CFLAGS)'; export SANITIZE_CFLAGS;
tests_of_bench =
tests_of_bridge =
tests_of_builds =
tests_of_cli =
tests_of_environments =
tests_of_install =
tests_of_programs =
tests_of_tree =
tests_of_units =
TESTS = $(tests_of_tree) $(tests_of_bindings) $(tests_of_units) $(tests_of_bridge) $(tests_of_programs) $(tests_of_environments) $(tests_of_cli) $(tests_of_bench) $(tests_of_install)

# What suites share.  A suite sees the inside of the library, and takes of both what it uses.
tests_libtest_la_SOURCES =
tests_libtest_la_LDFLAGS =
if HAVE_BRIDGE
bridge_libraries = libbridge.la libredis.la
endif
LDADD = tests/libtest.la $(bridge_libraries) liblockshm-internal.la $(CHECK_LIBS) $(JEMALLOC_LIBS)
# For suites that stand in for malloc() themselves.
without_jemalloc = tests/libtest.la $(bridge_libraries) liblockshm-internal.la $(CHECK_LIBS)

include tests/support/local.mk
include tests/redis-support/local.mk
include tests/lock/local.mk
include tests/service/local.mk
include tests/redis/local.mk
include tests/bridge/local.mk
include tests/crash/local.mk
include tests/bridge-crash/local.mk
include tests/history/local.mk
include tests/soak/local.mk
include tests/hostile/local.mk
include tests/memory/local.mk
include tests/env/local.mk
include tests/cli/local.mk
include tests/examples/local.mk
include tests/bench/local.mk
include tests/build/local.mk
include tests/tree/local.mk
include tests/mutations/local.mk

EXTRA_DIST += $(tests_of_tree) $(tests_of_bindings) $(tests_of_cli) $(tests_of_bench) $(tests_of_install) $(tests_of_builds)
check_PROGRAMS += $(tests_of_environments) $(tests_of_programs)
if HAVE_CHECK
check_PROGRAMS += $(tests_of_units) $(tests_of_bridge)
check_LTLIBRARIES += tests/libtest.la
endif

run_script = $(AM_TESTS_ENVIRONMENT) srcdir='$(srcdir)'; export srcdir; $(SHELL) $(srcdir)

check-all: check check-dist check-sanitize check-tsan check-musl check-arm64
check-arm64:
	$(run_script)/tests/build/cross-arm64.sh
check-dist:
	$(run_script)/tests/build/build-dist.sh
check-litmus: tests/memory/litmus
	tests/memory/litmus $(or $(SECONDS),120)
# Seeds the bugs of tests/mutations one by one: is each caught?
check-mutations:
	$(run_script)/tests/mutations/run.sh $(or $(MUTATIONS),all)
check-musl:
	$(run_script)/tests/build/cross-musl.sh
check-sanitize:
	$(run_script)/tests/build/build-sanitize.sh
check-tsan:
	$(run_script)/tests/build/build-tsan.sh $(SECONDS)
check-model:
	$(run_script)/model/run.sh $(MODEL)
# Every operation, killed and stopped at all points that are not alike; a stop waits most of the time.
in_parts = { s=0; pids=; for i in 0 1 2 3; do PART=$$i/4 $(1) & pids="$$pids $$!"; done; \
	for pid in $$pids; do wait $$pid || s=1; done; [ $$s = 0 ]; }
check-crash: all $(check_LTLIBRARIES) $(step_suites) tests/hostile/test-hostile
	$(call in_parts,tests/crash/crash-step all)
	$(call in_parts,tests/crash/stop-step all)
	$(call in_parts,tests/crash/crash-step pairs)
	$(call in_parts,tests/crash/crash-step races)
	tests/crash/stop-loop all
	tests/hostile/test-hostile all
# At every point, alike or not: many hours.
check-crash-every: all $(check_LTLIBRARIES) $(step_suites)
	$(call in_parts,tests/crash/crash-step every)
	$(call in_parts,tests/crash/stop-step every)
	tests/crash/stop-loop every
	tests/crash/stop-rekey every
step_suites = tests/crash/crash-step tests/crash/stop-loop tests/crash/stop-rekey tests/crash/stop-step
# Every write of a bridge to the segment, and everything it sends, in two processes at once: half an hour.
check-bridge-step: all $(check_LTLIBRARIES) tests/bridge-crash/step
	PART=1/2 tests/bridge-crash/step all & other=$$!; PART=0/2 tests/bridge-crash/step all; s=$$?; wait $$other && exit $$s
# Everything that can happen between two hosts and Redis, at random.
check-global: all $(check_LTLIBRARIES) tests/bridge-crash/chaos
	tests/bridge-crash/chaos $(or $(SECONDS),120) $(or $(SEED),0)
# 64 hosts around one server.
check-many-hosts: all $(check_LTLIBRARIES) tests/bridge/test-global-many-hosts
	SECONDS=$(or $(SECONDS),60) BRIDGE_PROGRAM='$(abs_builddir)/lockshm-bridge' tests/bridge/test-global-many-hosts
check-soak: all $(check_LTLIBRARIES) tests/soak/soak tests/soak/soak-worker
	tests/soak/soak $(or $(SECONDS),60) $(or $(SEED),0)
# Also in make check, with smaller numbers.
check-env: all tests/env/crowd tests/env/keys tests/env/marks tests/env/mass-kill tests/hostile/scribble
	tests/env/crowd 1000 || [ $$? = 77 ]
	tests/env/keys 1000000 || [ $$? = 77 ]
	tests/env/mass-kill 100
	tests/env/marks 100000
	LOCKCTL='$(abs_builddir)/lockctl' tests/hostile/scribble $(or $(SECONDS),60)
fuzz:
	$(run_script)/tests/hostile/fuzz.sh $(or $(SECONDS),60)
# Random and damaged replies of Redis: a million in a minute.
fuzz-replies: tests/redis/test-replies
	ROUNDS=$(or $(ROUNDS),1000000) FIRST=$(or $(SEED),0) tests/redis/test-replies
.PHONY: check-all check-arm64 check-bridge-step check-crash check-crash-every check-dist check-env check-global check-litmus check-many-hosts check-model check-musl check-mutations check-sanitize check-soak check-tsan fuzz fuzz-replies

clean-local:
	rm -rf bindings/lua/lua-test-* bindings/php/build bindings/php/build.lock bindings/python/built
	rm -rf check-address check-arm64 check-fuzz check-in-tree check-musl check-mutations check-refused check-thread soak-*.history chaos-global-*.history chaos-stopped-*.segment
CLEANFILES += check-dist.have check-dist.missing
