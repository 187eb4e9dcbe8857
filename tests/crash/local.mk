# SPDX-License-Identifier: MIT
# Killed and stopped at every instruction; counters under random kills.
tests_of_units += %D%/crash-step %D%/stop-loop %D%/stop-rekey %D%/stop-step %D%/test-touch
tests_of_programs += %D%/chaos-counter %D%/chaos-stopped %D%/no-syscall
tests_libtest_la_SOURCES += \
	%D%/step-arrange.c \
	%D%/step-arrange.h \
	%D%/step-crowd.c \
	%D%/step-life.c \
	%D%/step-loops.c \
	%D%/step-ops.c \
	%D%/step-path.c \
	%D%/step-scene.c \
	%D%/step-trace.c \
	%D%/step-trace.h \
	%D%/step-touch.c \
	%D%/step.c \
	%D%/step.h \
	$(end)
%C%_chaos_counter_LDADD = liblockshm.la $(JEMALLOC_LIBS)
%C%_chaos_stopped_SOURCES = %D%/chaos-stopped-actor.c %D%/chaos-stopped.c %D%/chaos-stopped.h
%C%_chaos_stopped_LDADD = liblockshm.la $(JEMALLOC_LIBS)
%C%_no_syscall_LDADD = liblockshm.la $(JEMALLOC_LIBS)
