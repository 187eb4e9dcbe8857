# SPDX-License-Identifier: MIT
# the thread of the library
liblockshm_internal_la_SOURCES += \
	%D%/notify.c \
	%D%/renew.c \
	%D%/service.c \
	%D%/service.h \
	$(end)
