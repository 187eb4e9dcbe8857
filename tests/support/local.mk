# SPDX-License-Identifier: MIT
# Fixture and scripted processes, used by every suite.
tests_libtest_la_SOURCES += \
	%D%/acknowledge.h \
	%D%/agent.c \
	%D%/agent.h \
	%D%/asan.h \
	%D%/calls.c \
	%D%/calls.h \
	%D%/fixture.c \
	%D%/fixture.h \
	%D%/inside.h \
	%D%/looks.h \
	%D%/loops.c \
	%D%/loops.h \
	%D%/objects.h \
	%D%/operations-internal.h \
	%D%/operations-look.c \
	%D%/operations-loops.c \
	%D%/operations-steps.c \
	%D%/operations.c \
	%D%/operations.h \
	%D%/rows.h \
	%D%/stalls.c \
	%D%/stalls.h \
	%D%/trample.c \
	%D%/trample.h \
	$(end)
# Loaded into a Redis server, which knows nothing of sanitizers.
if HAVE_CHECK
if HAVE_BRIDGE
check_LTLIBRARIES += tests/libclockshift.la
endif
endif
tests_libclockshift_la_SOURCES = %D%/clock-shift.c
tests_libclockshift_la_CFLAGS =
tests_libclockshift_la_LDFLAGS = -module -avoid-version -shared -rpath $(abs_builddir)/tests
EXTRA_DIST += %D%/count.sh %D%/tmpdir.sh %D%/tsan.supp
