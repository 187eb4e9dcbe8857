# SPDX-License-Identifier: MIT
# one word for each cross-host key: what this host has in Redis
liblockshm_internal_la_SOURCES += \
	%D%/host-lease.c \
	%D%/host-lease.h \
	%D%/host-note.c \
	%D%/host-note.h \
	%D%/leader.c \
	%D%/leader.h \
	$(end)
