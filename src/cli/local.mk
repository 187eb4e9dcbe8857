# SPDX-License-Identifier: MIT
# What the tools share.
noinst_LTLIBRARIES += libcli.la
libcli_la_SOURCES = \
	%D%/args.c \
	%D%/child.c \
	%D%/cli.h \
	%D%/descendants.c \
	%D%/keeper.c \
	%D%/message.c \
	%D%/nearest.c \
	%D%/open.c \
	%D%/output.c \
	%D%/program.c \
	%D%/signals.c \
	%D%/table.c \
	%D%/text.c \
	$(end)
libcli_la_LDFLAGS =
