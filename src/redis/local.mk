# SPDX-License-Identifier: MIT
# A Redis client for locks, for the bridge and its tests.
if HAVE_BRIDGE
noinst_LTLIBRARIES += libredis.la
endif
libredis_la_SOURCES = \
	%D%/backoff.h \
	%D%/boot-clock.h \
	%D%/client.c \
	%D%/client.h \
	%D%/conn-internal.h \
	%D%/conn-io.c \
	%D%/conn-open.c \
	%D%/conn.c \
	%D%/conn.h \
	%D%/handshake.c \
	%D%/handshake.h \
	%D%/names.c \
	%D%/names.h \
	%D%/nodes.c \
	%D%/nodes.h \
	%D%/note.c \
	%D%/note.h \
	%D%/pipeline.c \
	%D%/pipeline.h \
	%D%/quorum-fence.c \
	%D%/quorum-fence.h \
	%D%/quorum-round.c \
	%D%/quorum-round.h \
	%D%/quorum-vote.c \
	%D%/quorum.c \
	%D%/quorum.h \
	%D%/redis-error.c \
	%D%/redis-error.h \
	%D%/refusals.c \
	%D%/refusals.h \
	%D%/renew-batch.c \
	%D%/renew-batch.h \
	%D%/replicas.c \
	%D%/replicas.h \
	%D%/reply-bounds.c \
	%D%/reply-bounds.h \
	%D%/resolve.c \
	%D%/resolve.h \
	%D%/resp.c \
	%D%/resp.h \
	%D%/script.c \
	%D%/script.h \
	%D%/scripts.h \
	%D%/secrets.c \
	%D%/secrets.h \
	%D%/tls.h \
	%D%/tracking.c \
	%D%/tracking.h \
	$(end)
nodist_libredis_la_SOURCES = %D%/scripts.c
libredis_la_CFLAGS = $(AM_CFLAGS) $(BRIDGE_CFLAGS) $(TLS_CFLAGS)
if HAVE_TLS
libredis_la_SOURCES += %D%/tls.c
else
libredis_la_SOURCES += %D%/tls-none.c
endif
libredis_la_LDFLAGS =
libredis_la_LIBADD = $(BRIDGE_LIBS) $(TLS_LIBS)

# Each script gets common.lua before it becomes a string; common.lua comes first.
redis_scripts = \
	$(srcdir)/%D%/scripts/common.lua \
	$(srcdir)/%D%/scripts/acquire-s.lua \
	$(srcdir)/%D%/scripts/acquire-x.lua \
	$(srcdir)/%D%/scripts/fence.lua \
	$(srcdir)/%D%/scripts/force-release.lua \
	$(srcdir)/%D%/scripts/hosts.lua \
	$(srcdir)/%D%/scripts/inspect.lua \
	$(srcdir)/%D%/scripts/leave.lua \
	$(srcdir)/%D%/scripts/release.lua \
	$(srcdir)/%D%/scripts/renew-many.lua \
	$(srcdir)/%D%/scripts/renew.lua \
	$(srcdir)/%D%/scripts/rights.lua \
	$(end)
%D%/scripts.c: $(redis_scripts) $(srcdir)/%D%/scripts/to-c.awk
	$(AM_V_GEN)$(MKDIR_P) %D% && $(AWK) -f $(srcdir)/%D%/scripts/to-c.awk $(redis_scripts) >$@.new && mv $@.new $@
CLEANFILES += %D%/scripts.c
EXTRA_DIST += $(redis_scripts) %D%/scripts/to-c.awk
