# SPDX-License-Identifier: MIT
# entry points that dispatch
liblockshm_internal_la_SOURCES += \
	%D%/acknowledge.c \
	%D%/acquire-many.c \
	%D%/acquire.c \
	%D%/acquire.h \
	%D%/explain.c \
	%D%/lifecycle.c \
	%D%/list-keys.c \
	%D%/list.c \
	%D%/list.h \
	%D%/lock-object.c \
	%D%/move.c \
	%D%/stat.c \
	%D%/sweep.c \
	%D%/verify.c \
	$(end)
