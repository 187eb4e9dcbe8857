# SPDX-License-Identifier: MIT
# Everything at once.
tests_of_programs += %D%/soak %D%/threads-as-processes
check_PROGRAMS += %D%/soak-worker
%C%_soak_SOURCES = \
	%D%/soak-config.c \
	%D%/soak-driver.c \
	%D%/soak-driver.h \
	%D%/soak-look.c \
	%D%/soak.c \
	%D%/soak.h \
	$(end)
%C%_soak_LDADD = tests/libhistory.la liblockshm.la $(JEMALLOC_LIBS)
%C%_soak_worker_SOURCES = \
	%D%/soak-acquire.c \
	%D%/soak-config.c \
	%D%/soak-loop.c \
	%D%/soak-ops.c \
	%D%/soak-ops.h \
	%D%/soak-worker.c \
	$(end)
%C%_soak_worker_LDADD = tests/libhistory.la liblockshm.la $(JEMALLOC_LIBS)
%C%_threads_as_processes_SOURCES = \
	%D%/threads-as-processes.c \
	%D%/threads-as-processes.h \
	%D%/threads-crowd.c \
	%D%/threads-ops.c \
	$(end)
%C%_threads_as_processes_LDADD = liblockshm.la
