# SPDX-License-Identifier: MIT
# the machine: atomics, clocks, futexes, hashing, /proc, threads, error texts, sizes of structs
liblockshm_internal_la_SOURCES += \
	%D%/atomic.h \
	%D%/clock.c \
	%D%/clock.h \
	%D%/compiler.h \
	%D%/descriptor.c \
	%D%/descriptor.h \
	%D%/error.c \
	%D%/error.h \
	%D%/futex.c \
	%D%/futex.h \
	%D%/hash.c \
	%D%/hash.h \
	%D%/min.h \
	%D%/proc-fs.c \
	%D%/proc-fs.h \
	%D%/sized.c \
	%D%/sized.h \
	%D%/thread.h \
	%D%/timers.c \
	%D%/timers.h \
	%D%/vdso.c \
	%D%/vdso.h \
	$(end)
