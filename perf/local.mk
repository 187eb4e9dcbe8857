# SPDX-License-Identifier: MIT
# One program: a generic body for each scenario, a small adapter for each lock.  Its quick run and the count of
# instructions are tests; figures come from `make bench` and `make bench-full`.
check_PROGRAMS += %D%/bare-pair %D%/bare-process-pair %D%/callgrind-pair %D%/first-lock %D%/lockshm-bench %D%/turns
%C%_bare_pair_LDADD = liblockshm.la
%C%_bare_process_pair_LDADD = liblockshm.la
%C%_callgrind_pair_LDADD = liblockshm.la
%C%_first_lock_LDADD = liblockshm.la
%C%_turns_LDADD =
%C%_lockshm_bench_CPPFLAGS = $(AM_CPPFLAGS) $(BENCH_CPPFLAGS) -DBENCH_SOURCES='"$(abs_srcdir)/perf"'
%C%_lockshm_bench_LDADD = liblockshm.la $(BENCH_LIBS) $(JEMALLOC_LIBS) -lm
%C%_lockshm_bench_SOURCES = \
	%D%/adapter-file.c \
	%D%/adapter-fifo-barge.c \
	%D%/adapter-fifo-rw.c \
	%D%/adapter-floor.c \
	%D%/adapter-list.c \
	%D%/adapter-lockshm.c \
	%D%/adapter-posix-sem.c \
	%D%/adapter-pthread-mutex.c \
	%D%/adapter-pthread-rwlock.c \
	%D%/adapter-resty-lock.c \
	%D%/adapter-sysv-sem.c \
	%D%/adapters.c \
	%D%/bench-bridge.c \
	%D%/bench-bridge.h \
	%D%/bench-goals.c \
	%D%/bench-growth.c \
	%D%/bench-loop.h \
	%D%/bench-machine.c \
	%D%/bench-other.c \
	%D%/bench-process.c \
	%D%/bench-redis.c \
	%D%/bench-relay.c \
	%D%/bench-result.c \
	%D%/bench-server.c \
	%D%/bench-side.h \
	%D%/bench-stat.c \
	%D%/bench.h \
	%D%/lockshm-bench.c \
	%D%/scenario-attach.c \
	%D%/scenario-bridge-contest.c \
	%D%/scenario-bridge-hosts.c \
	%D%/scenario-bridge-own.c \
	%D%/scenario-bridge-pollers.c \
	%D%/scenario-bridge-renew.c \
	%D%/scenario-bridge-solo.c \
	%D%/scenario-contended.c \
	%D%/scenario-dead.c \
	%D%/scenario-handoff.c \
	%D%/scenario-lease.c \
	%D%/scenario-loop-crowd.c \
	%D%/scenario-loop.c \
	%D%/scenario-memory.c \
	%D%/scenario-readers.c \
	%D%/scenario-recovery.c \
	%D%/scenario-scale.c \
	%D%/scenario-solo.c \
	$(end)
if HAVE_APR
%C%_lockshm_bench_SOURCES += %D%/adapter-apr-global.c
endif
if HAVE_BDB
%C%_lockshm_bench_SOURCES += %D%/adapter-bdb.c
endif
if HAVE_CK
%C%_lockshm_bench_SOURCES += %D%/adapter-ck.c
endif
if HAVE_HIREDIS
%C%_lockshm_bench_SOURCES += %D%/adapter-redis.c
endif
if HAVE_LIBPQ
%C%_lockshm_bench_SOURCES += %D%/adapter-postgres.c
endif
if HAVE_TDB
%C%_lockshm_bench_SOURCES += %D%/adapter-tdb-mutex.c
endif
# In a library of its own, so that it takes the C++ compiler only where this is built.
if HAVE_BOOST
check_LTLIBRARIES += %D%/libboost-sharable.la
%C%_libboost_sharable_la_CXXFLAGS = -Wall -Wextra
%C%_libboost_sharable_la_LDFLAGS =
%C%_libboost_sharable_la_SOURCES = %D%/adapter-boost-sharable.cc
%C%_lockshm_bench_LDADD += %D%/libboost-sharable.la -lstdc++
endif

bench bench-full: lockctl %D%/bare-pair %D%/bare-process-pair %D%/callgrind-pair %D%/lockshm-bench
	@BENCH_COMMIT=`cd $(srcdir) && git rev-parse --short HEAD 2>/dev/null || echo unknown`; export BENCH_COMMIT; \
	%D%/lockshm-bench $(if $(filter bench-full,$@),--full) $(BENCH_FLAGS) || exit 1; \
	echo; %D%/bare-pair || exit 1; \
	echo; $(SHELL) $(srcdir)/perf/compare-bare %D% || exit 1; \
	echo; %D%/bare-process-pair || exit 1; \
	echo; $(SHELL) $(srcdir)/perf/callgrind.sh %D%/callgrind-pair || [ $$? = 77 ]
# The first lock of a shell, a script, a worker: `make bench-first ROUNDS=41`.
bench-first: all %D%/first-lock %D%/turns
	@$(run_script)/perf/first-use $(ROUNDS)
.PHONY: bench bench-first bench-full
EXTRA_DIST += \
	%D%/README.md \
	%D%/callgrind.sh \
	%D%/compare-bare \
	%D%/first-use \
	%D%/other-redis-py.py \
	%D%/other-redlock.js \
	%D%/plot \
	%D%/tables \
	$(end)
