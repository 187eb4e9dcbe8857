# SPDX-License-Identifier: MIT
# what a caller may do with one lock on this host
liblockshm_internal_la_SOURCES += \
	%D%/acquire-fast.c \
	%D%/acquire-slow.c \
	%D%/acquire.h \
	%D%/barge.c \
	%D%/barge.h \
	%D%/hold-access.c \
	%D%/hold-access.h \
	%D%/hold.c \
	%D%/hold.h \
	%D%/move.c \
	%D%/prepare.c \
	%D%/prepare.h \
	%D%/upgrade.c \
	$(end)
