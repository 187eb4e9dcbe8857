# SPDX-License-Identifier: MIT
# Local locks.  One line a suite.
tests_of_units += \
	%D%/test-acquire \
	%D%/test-badargs \
	%D%/test-barging \
	%D%/test-blocker \
	%D%/test-calls \
	%D%/test-cancel \
	%D%/test-capacity \
	%D%/test-codes \
	%D%/test-cooldown \
	%D%/test-deadlock \
	%D%/test-death \
	%D%/test-destructors \
	%D%/test-fifo \
	%D%/test-fork \
	%D%/test-full \
	%D%/test-growth \
	%D%/test-growth-keys \
	%D%/test-growth-processes \
	%D%/test-handover \
	%D%/test-host-program \
	%D%/test-inspect \
	%D%/test-jump \
	%D%/test-lease \
	%D%/test-life-word \
	%D%/test-lock-object \
	%D%/test-lock-object-trampled \
	%D%/test-lock-object-users \
	%D%/test-many \
	%D%/test-max-hold \
	%D%/test-no-memory \
	%D%/test-notify \
	%D%/test-one-handle \
	%D%/test-one-handle-threads \
	%D%/test-options \
	%D%/test-other-locks \
	%D%/test-process-holds \
	%D%/test-process-holds-close \
	%D%/test-robust \
	%D%/test-run \
	%D%/test-segment-calls \
	%D%/test-segment-open \
	%D%/test-segment \
	%D%/test-shared \
	%D%/test-sizes \
	%D%/test-sweep \
	%D%/test-threads \
	%D%/test-timeout \
	%D%/test-tokens \
	%D%/test-trampled \
	%D%/test-unreported-death \
	%D%/test-upgrade \
	%D%/test-verify \
	$(end)
# Where mmap() fails, jemalloc crashes.
%C%_test_calls_LDADD = $(without_jemalloc)
%C%_test_no_memory_LDADD = $(without_jemalloc)
%C%_test_segment_calls_LDADD = $(without_jemalloc)
# Their own copies of the files that walk.  They define _GNU_SOURCE themselves, too late.
that_walk = \
	src/hold/acquire-fast.c \
	src/hold/acquire-slow.c \
	src/hold/hold.c \
	src/lock/blocker.c \
	src/lock/chunks.c \
	src/lock/deadline.c \
	src/lock/owner.c \
	src/lock/participant.c \
	src/lock/queue-advance.c \
	src/lock/queue.c \
	src/lock/request.c \
	src/lock/snapshot.c \
	src/lock/sweep.c \
	src/lock/table.c \
	src/lock/table-insert.c \
	src/lock/wait.c \
	tests/support/looks.h \
	$(end)
%C%_test_growth_CPPFLAGS = $(AM_CPPFLAGS) -D_GNU_SOURCE= -include support/looks.h
%C%_test_growth_SOURCES = %D%/test-growth.c $(that_walk)
%C%_test_growth_keys_CPPFLAGS = $(%C%_test_growth_CPPFLAGS)
%C%_test_growth_keys_SOURCES = %D%/test-growth-keys.c $(that_walk)
%C%_test_growth_processes_CPPFLAGS = $(%C%_test_growth_CPPFLAGS)
%C%_test_growth_processes_SOURCES = %D%/test-growth-processes.c $(that_walk)
EXTRA_DIST += %D%/crowd.h %D%/growth.h %D%/other-thread.h %D%/traceability.md
