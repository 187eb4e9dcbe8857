# SPDX-License-Identifier: MIT
# what a caller may do with one lock on this host
liblockshm_internal_la_SOURCES += \
	%D%/acquire-check.c \
	%D%/acquire-fast.c \
	%D%/acquire-fast.h \
	%D%/acquire-slow.c \
	%D%/acquire.h \
	%D%/barge.c \
	%D%/barge.h \
	%D%/end-hold.c \
	%D%/hold-access.c \
	%D%/hold-access.h \
	%D%/hold.c \
	%D%/hold.h \
	%D%/lock-object.c \
	%D%/lock-object.h \
	%D%/key-order.c \
	%D%/key-order.h \
	%D%/move.c \
	%D%/move.h \
	%D%/renewal.c \
	%D%/renewal.h \
	%D%/upgrade.c \
	$(end)
