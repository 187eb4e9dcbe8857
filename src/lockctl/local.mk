# SPDX-License-Identifier: MIT
# The tool.  It uses the real library only, like any program.
bin_PROGRAMS += lockctl
lockctl_SOURCES = \
	%D%/ack.c \
	%D%/args.c \
	%D%/bridge.c \
	%D%/child.c \
	%D%/create.c \
	%D%/lock.c \
	%D%/lockctl.h \
	%D%/ls.c \
	%D%/main.c \
	%D%/message.c \
	%D%/open.c \
	%D%/output.c \
	%D%/release.c \
	%D%/remote.c \
	%D%/rm.c \
	%D%/run.c \
	%D%/show.c \
	%D%/signals.c \
	%D%/stat.c \
	%D%/sweep.c \
	%D%/verify.c \
	$(end)
lockctl_LDADD = liblockshm.la $(JEMALLOC_LIBS)
lockctl_LDFLAGS = $(link_flags)
