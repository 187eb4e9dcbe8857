# SPDX-License-Identifier: MIT
# entry points that dispatch
liblockshm_internal_la_SOURCES += \
	%D%/acquire-many.c \
	%D%/acquire.c \
	%D%/acquire.h \
	%D%/inspect.c \
	%D%/lifecycle.c \
	%D%/lock-object.c \
	%D%/marks.c \
	%D%/move.c \
	%D%/stat.c \
	%D%/sweep.c \
	%D%/verify.c \
	$(end)
