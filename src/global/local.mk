# SPDX-License-Identifier: MIT
# acquire of a cross-host key
liblockshm_internal_la_SOURCES += \
	%D%/acquire.c \
	%D%/acquire.h \
	%D%/lease-wait.c \
	%D%/lease-wait.h \
	$(end)
