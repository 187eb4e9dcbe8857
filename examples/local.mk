# SPDX-License-Identifier: MIT
# Programs that are not built to be installed; they use the real library only.
example_programs = \
	%D%/demo-client \
	%D%/event-loop \
	%D%/minimal \
	%D%/prefork \
	%D%/uses \
	$(end)
noinst_PROGRAMS += $(example_programs)

%C%_demo_client_SOURCES = \
	%D%/demo-client.c \
	%D%/demo-load.c \
	%D%/demo-util.c \
	%D%/demo.h \
	$(end)
%C%_demo_client_LDADD = liblockshm.la

%C%_event_loop_LDADD = liblockshm.la

%C%_minimal_LDADD = liblockshm.la

%C%_prefork_SOURCES = \
	%D%/prefork-cache.c \
	%D%/prefork-counter.c \
	%D%/prefork-http.c \
	%D%/prefork-routes.c \
	%D%/prefork.c \
	%D%/prefork.h \
	$(end)
%C%_prefork_LDADD = liblockshm.la

%C%_uses_LDADD = liblockshm.la

EXTRA_DIST += \
	%D%/cron-guard.sh \
	%D%/quickstart-demo.sh \
	%D%/two-hosts.sh \
	$(end)

# To be read where the library is installed.
nobase_dist_doc_DATA += \
	%D%/cron-guard.sh \
	%D%/event-loop.c \
	%D%/minimal.c \
	%D%/prefork-cache.c \
	%D%/prefork-counter.c \
	%D%/prefork-http.c \
	%D%/prefork-routes.c \
	%D%/prefork.c \
	%D%/prefork.h \
	%D%/uses.c \
	$(end)
