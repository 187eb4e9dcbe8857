# SPDX-License-Identifier: MIT
# The bridge: election, loop, state machine of a host lease.  standby.c is there without Redis, too.
liblockshm_internal_la_SOURCES += %D%/standby.c %D%/standby.h
if HAVE_BRIDGE
liblockshm_internal_la_SOURCES += \
	%D%/admin-internal.h \
	%D%/admin-report.c \
	%D%/admin.c \
	%D%/demand.c \
	%D%/demand.h \
	%D%/lease-held.c \
	%D%/lease-internal.h \
	%D%/lease-reply.c \
	%D%/lease.c \
	%D%/lease.h \
	%D%/listener.c \
	%D%/listener.h \
	%D%/serve.c \
	$(end)
endif
