# SPDX-License-Identifier: MIT
# the lock manager: table, queue, records, owners, deaths, sleeping, deadlock
liblockshm_internal_la_SOURCES += \
	%D%/blocker.c \
	%D%/blocker.h \
	%D%/cancel.c \
	%D%/chunks.c \
	%D%/chunks.h \
	%D%/damage-details.c \
	%D%/damage-details.h \
	%D%/damage.c \
	%D%/damage.h \
	%D%/deadline.c \
	%D%/deadline.h \
	%D%/deadlock.c \
	%D%/deadlock.h \
	%D%/doorbell.c \
	%D%/doorbell.h \
	%D%/guest.c \
	%D%/guest.h \
	%D%/life.c \
	%D%/life.h \
	%D%/owner.c \
	%D%/owner.h \
	%D%/participant.c \
	%D%/participant.h \
	%D%/queue-advance.c \
	%D%/queue.c \
	%D%/queue.h \
	%D%/request.c \
	%D%/request.h \
	%D%/snapshot.c \
	%D%/snapshot.h \
	%D%/sweep.c \
	%D%/sweep.h \
	%D%/table-insert.c \
	%D%/table-probe.h \
	%D%/table.c \
	%D%/table.h \
	%D%/tend.c \
	%D%/tend.h \
	%D%/thread-end.c \
	%D%/thread-end.h \
	%D%/wait.c \
	%D%/wait.h \
	$(end)
