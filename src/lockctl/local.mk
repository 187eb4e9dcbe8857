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
	%D%/key.c \
	%D%/left-out.c \
	%D%/lock-list.c \
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
# The library is in the program: a start that loads one thing less is a tenth of a short command's time.  The convenience
# library, as there is no other archive with --disable-static.
lockctl_LDADD = libcli.la liblockshm-internal.la
lockctl_LDFLAGS = $(link_flags)
