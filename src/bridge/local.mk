# SPDX-License-Identifier: MIT
# The bridge: election, loop, state machine of a host lease; or what says that there is none.
liblockshm_internal_la_SOURCES += %D%/standby.h
if HAVE_BRIDGE
liblockshm_internal_la_SOURCES += \
	%D%/admin.c \
	%D%/demand.c \
	%D%/demand.h \
	%D%/fork.c \
	%D%/fork.h \
	%D%/lease-held.c \
	%D%/lease-internal.h \
	%D%/lease-reply.c \
	%D%/lease.c \
	%D%/lease.h \
	%D%/serve.c \
	%D%/standby.c \
	$(end)
else
liblockshm_internal_la_SOURCES += %D%/none.c
endif
