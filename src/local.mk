# SPDX-License-Identifier: MIT
# One set of objects, two libraries: the real one exports the public functions only, the convenience library shows the
# tests everything.  The folders stand in the order of the ladder in src/README.md, lowest first.
include_HEADERS += include/lockshm.h
lib_LTLIBRARIES += liblockshm.la
noinst_LTLIBRARIES += liblockshm-internal.la
pkgconfig_DATA = lockshm.pc

liblockshm_internal_la_SOURCES =
liblockshm_internal_la_CFLAGS = $(AM_CFLAGS) -fvisibility=hidden
liblockshm_internal_la_CPPFLAGS = $(AM_CPPFLAGS)
liblockshm_internal_la_LDFLAGS =
liblockshm_internal_la_LIBADD =
include src/sys/local.mk
include src/segment/local.mk
include src/lock/local.mk
include src/hostlease/local.mk
include src/hold/local.mk
include src/global/local.mk
include src/service/local.mk
include src/api/local.mk

liblockshm_la_SOURCES =
liblockshm_la_LIBADD = liblockshm-internal.la
EXTRA_liblockshm_la_DEPENDENCIES = $(srcdir)/%D%/liblockshm.sym
# nodelete: threads that took locks run a destructor of the library when they end, also after a dlclose().
liblockshm_la_LDFLAGS = \
	$(link_flags) \
	-no-undefined \
	-version-info $(LOCKSHM_VERSION_INFO) \
	-Wl,--version-script=$(srcdir)/%D%/liblockshm.sym \
	-Wl,-z,nodelete \
	-Wl,-z,now \
	-Wl,-z,relro \
	$(end)
# A shared library with a sanitizer gets its run-time from the program.
if !SANITIZED
liblockshm_la_LDFLAGS += -Wl,-z,defs
endif
EXTRA_DIST += %D%/README.md %D%/liblockshm.sym

# A version script does not reach into a static library, where hidden functions would clash with a program's own names.
if WITH_OBJCOPY
all-local: static-library.stamp
static-library.stamp: liblockshm.la
	$(AM_V_GEN)cd .libs && rm -f lockshm-static.o && \
		$(LD) -r --whole-archive liblockshm.a -o lockshm-static.o && \
		$(OBJCOPY) --localize-hidden lockshm-static.o && \
		rm -f liblockshm.a && $(AR) cr liblockshm.a lockshm-static.o && $(RANLIB) liblockshm.a
	@echo done >$@
CLEANFILES += static-library.stamp .libs/lockshm-static.o
endif

include src/cli/local.mk
include src/lockctl/local.mk
include src/redis/local.mk
include src/bridge/local.mk
include src/daemon/local.mk
