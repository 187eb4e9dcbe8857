# SPDX-License-Identifier: MIT
# the thread of the library
liblockshm_internal_la_SOURCES += \
	%D%/attend.c \
	%D%/barrier.c \
	%D%/barrier.h \
	%D%/loop-lease.c \
	%D%/loop-many.c \
	%D%/loop-wait.c \
	%D%/loop.c \
	%D%/loop.h \
	%D%/notify.c \
	%D%/renew.c \
	%D%/service.c \
	%D%/service.h \
	%D%/tend.c \
	%D%/tend.h \
	%D%/waits.c \
	%D%/waits.h \
	$(end)
