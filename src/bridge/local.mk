# SPDX-License-Identifier: MIT
# The bridge of a segment: election, loop, state machine of a host lease.  The program and tests take it.
if HAVE_BRIDGE
noinst_LTLIBRARIES += libbridge.la
endif
libbridge_la_SOURCES = \
	%D%/admin-internal.h \
	%D%/admin-report.c \
	%D%/admin.c \
	%D%/admin.h \
	%D%/check-internal.h \
	%D%/check-lease.c \
	%D%/check.c \
	%D%/check.h \
	%D%/client-settings.c \
	%D%/client-settings.h \
	%D%/credentials.h \
	%D%/demand.c \
	%D%/demand.h \
	%D%/flight.c \
	%D%/flight.h \
	%D%/hosts-redis.c \
	%D%/hosts.c \
	%D%/hosts.h \
	%D%/lease-held.c \
	%D%/lease-internal.h \
	%D%/lease-log.c \
	%D%/lease-note.c \
	%D%/lease-reply.c \
	%D%/lease.c \
	%D%/lease.h \
	%D%/listener.c \
	%D%/listener.h \
	%D%/log.c \
	%D%/log.h \
	%D%/serve-due.c \
	%D%/serve-internal.h \
	%D%/serve.c \
	%D%/serve.h \
	$(end)
libbridge_la_CFLAGS = $(AM_CFLAGS) -fvisibility=hidden
libbridge_la_LDFLAGS =
