# SPDX-License-Identifier: MIT
# The tool.  It uses the real library only, like any program.
bin_PROGRAMS += lockctl
lockctl_SOURCES = \
	%D%/ack.c \
	%D%/blocker.c \
	%D%/bridge.c \
	%D%/circles.c \
	%D%/create.c \
	%D%/guard-args.c \
	%D%/guard.c \
	%D%/hold.c \
	%D%/left-out.c \
	%D%/lock.c \
	%D%/lockctl.h \
	%D%/ls.c \
	%D%/main.c \
	%D%/once.c \
	%D%/release.c \
	%D%/rm.c \
	%D%/run.c \
	%D%/seat.c \
	%D%/show.c \
	%D%/stat.c \
	%D%/sweep.c \
	%D%/verify.c \
	$(end)
# The C library's malloc: jemalloc 5.3 ends a process that has too little memory by a segmentation fault.
lockctl_LDADD = libcli.la liblockshm.la
lockctl_LDFLAGS = $(link_flags)
# Root runs it, so it looks for the library where the loader looks and nowhere else: libtool takes $(libdir) for such a
# place, or it would add an rpath to a private one.  (-no-fast-install would leave one to .libs in what is installed.)
# Linked again when the flags have changed.
lockctl_LINK = \
	LT_SYS_LIBRARY_PATH='$(libdir):' $(LIBTOOL) $(AM_V_lt) --tag=CC $(AM_LIBTOOLFLAGS) $(LIBTOOLFLAGS) --mode=link \
	$(CCLD) $(AM_CFLAGS) $(CFLAGS) $(lockctl_LDFLAGS) $(LDFLAGS) -o $@
EXTRA_lockctl_DEPENDENCIES = Makefile
