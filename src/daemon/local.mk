# SPDX-License-Identifier: MIT
# The program lockshm-bridge.  It sees the inside of the library, so it has a copy of its own: a library of another format
# on the same machine refuses the segment, and so does this program.
if HAVE_BRIDGE
bin_PROGRAMS += lockshm-bridge
endif
lockshm_bridge_SOURCES = \
	%D%/ack.c \
	%D%/check.c \
	%D%/credentials.c \
	%D%/daemon.h \
	%D%/key-command.c \
	%D%/main.c \
	%D%/release.c \
	%D%/segments.c \
	%D%/serve.c \
	%D%/show.c \
	%D%/supervisor.c \
	$(end)
lockshm_bridge_LDADD = libcli.la libbridge.la libredis.la liblockshm-internal.la
lockshm_bridge_LDFLAGS = $(link_flags)

# A service manager has a PATH of its own, so the unit names the program where it is installed.
unit = %D%/lockshm-bridge@.service
if HAVE_BRIDGE
if WITH_SYSTEMD_UNIT
systemdunit_DATA = $(unit)
endif
endif
$(unit): $(srcdir)/$(unit).in Makefile
	$(AM_V_GEN)$(MKDIR_P) %D% && sed 's|[@]bindir@|$(subst %,%%,$(bindir))|' $(srcdir)/$(unit).in >$@.new && mv $@.new $@
CLEANFILES += $(unit)
EXTRA_DIST += $(unit).in
