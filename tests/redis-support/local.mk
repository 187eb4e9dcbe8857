# SPDX-License-Identifier: MIT
# Real servers, a proxy that spoils connections, segments that play hosts.
if HAVE_BRIDGE
tests_libtest_la_SOURCES += \
	%D%/await.c \
	%D%/client.c \
	%D%/foreign.c \
	%D%/foreign.h \
	%D%/hosts.c \
	%D%/hosts.h \
	%D%/liar.c \
	%D%/liar.h \
	%D%/logins.c \
	%D%/majority.c \
	%D%/majority.h \
	%D%/peer.c \
	%D%/peer.h \
	%D%/program.c \
	%D%/proxy.c \
	%D%/redis.h \
	%D%/rights.c \
	%D%/server.c \
	%D%/sockets.c \
	%D%/sockets.h \
	%D%/tls-files.c \
	$(end)
endif
EXTRA_DIST += %D%/foreign-redis-py.py %D%/foreign-redlock.js
