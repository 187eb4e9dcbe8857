# SPDX-License-Identifier: MIT
# the file: byte layout, making, mapping and checking it, its settings for Redis, the list of open ones, forks
liblockshm_internal_la_SOURCES += \
	%D%/create.c \
	%D%/full.c \
	%D%/global-keys.c \
	%D%/global-keys.h \
	%D%/layout.h \
	%D%/map.c \
	%D%/options.c \
	%D%/options.h \
	%D%/process.c \
	%D%/process.h \
	%D%/redis-options.c \
	%D%/redis-options.h \
	%D%/redis-uri.c \
	%D%/redis-uri.h \
	%D%/registry.c \
	%D%/registry.h \
	%D%/remove.c \
	%D%/segment.h \
	%D%/words.h \
	$(end)
