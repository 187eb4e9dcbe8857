# SPDX-License-Identifier: MIT
# entry points that dispatch
liblockshm_internal_la_SOURCES += \
	%D%/acquire-many.c \
	%D%/inspect.c \
	%D%/verify.c \
	$(end)
