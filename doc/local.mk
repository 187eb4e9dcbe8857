# SPDX-License-Identifier: MIT
dist_man_MANS = \
	%D%/man/lockctl.1 \
	%D%/man/lockshm-bridge.8 \
	%D%/man/lockshm.7 \
	$(end)
nobase_dist_doc_DATA += \
	%D%/README.md \
	%D%/comparison.md \
	%D%/cross-host.md \
	%D%/decisions/01-the-queue-is-the-lock.md \
	%D%/decisions/02-generation-of-41-bits.md \
	%D%/decisions/03-deadline-is-set-once.md \
	%D%/decisions/04-a-claim-is-a-request.md \
	%D%/decisions/05-life-words.md \
	%D%/decisions/06-keyed-hash-and-cache.md \
	%D%/decisions/07-tokens-below-2-53.md \
	%D%/decisions/08-damaged-locks-stay.md \
	%D%/decisions/09-sleeping-on-the-request-word.md \
	%D%/decisions/10-solo-path.md \
	%D%/decisions/11-bridge-in-the-segment.md \
	%D%/decisions/13-barging.md \
	%D%/decisions/16-tls.md \
	%D%/decisions/17-checked-holds.md \
	%D%/decisions/18-folders-as-floors.md \
	%D%/decisions/19-damage-by-opt-in.md \
	%D%/decisions/20-lock-objects.md \
	%D%/decisions/21-event-loop.md \
	%D%/decisions/22-bindings.md \
	%D%/decisions/23-bridge-is-a-program.md \
	%D%/decisions/24-one-mode-for-each-lease.md \
	%D%/decisions/25-cohorts-and-gaps.md \
	%D%/decisions/26-commands-under-way.md \
	%D%/decisions/27-a-note-in-redis.md \
	%D%/decisions/28-goals-that-are-missed.md \
	%D%/decisions/29-a-keeper-beside-the-command.md \
	%D%/decisions/30-options-by-name.md \
	%D%/guarantees.md \
	%D%/internals/cross-host-crash-points.md \
	%D%/internals/local-locks.md \
	%D%/internals/memory-model.md \
	%D%/internals/performance-notes.md \
	%D%/internals/redis-protocol.md \
	%D%/internals/shm-format.md \
	%D%/migrating.md \
	%D%/operations.md \
	%D%/performance.md \
	%D%/performance/contended.svg \
	%D%/performance/handoff.svg \
	%D%/performance/readers.svg \
	%D%/performance/recovery.svg \
	%D%/performance/solo.svg \
	%D%/performance/tables.md \
	%D%/performance/waits.svg \
	%D%/picture.svg \
	%D%/reliability.md \
	$(end)

# Section 3: a page for each function, from the header's comments.
man3_sources = \
	%D%/header-to-man.awk \
	%D%/man/examples/lockshm_acknowledge.c \
	%D%/man/examples/lockshm_acknowledge_of.c \
	%D%/man/examples/lockshm_acquire.c \
	%D%/man/examples/lockshm_acquire_many.c \
	%D%/man/examples/lockshm_bridge_stat.c \
	%D%/man/examples/lockshm_cancel.c \
	%D%/man/examples/lockshm_create.c \
	%D%/man/examples/lockshm_list_open.c \
	%D%/man/examples/lockshm_lock.c \
	%D%/man/examples/lockshm_loop_acquire.c \
	%D%/man/examples/lockshm_loop_cancel.c \
	%D%/man/examples/lockshm_loop_next.c \
	%D%/man/examples/lockshm_loop_open.c \
	%D%/man/examples/lockshm_notify.c \
	%D%/man/examples/lockshm_release.c \
	%D%/man/examples/lockshm_strerror.c \
	%D%/man/examples/lockshm_upgrade.c \
	$(end)
EXTRA_DIST += $(man3_sources)
noinst_DATA += man3.stamp
CLEANFILES += man3.stamp %D%/man3/*.3
man3.stamp: $(man3_sources) %D%/man/lockshm.7 include/lockshm.h
	$(AM_V_GEN)$(MKDIR_P) %D%/man3 && rm -f %D%/man3/*.3 && $(AWK) -v out=%D%/man3 \
		-v examples=$(srcdir)/%D%/man/examples -f $(srcdir)/%D%/header-to-man.awk \
		$(srcdir)/%D%/man/lockshm.7 $(srcdir)/include/lockshm.h && touch $@
install-data-local: man3.stamp
	$(MKDIR_P) "$(DESTDIR)$(mandir)/man3"
	$(INSTALL_DATA) %D%/man3/*.3 "$(DESTDIR)$(mandir)/man3"
uninstall-local: man3.stamp
	for page in %D%/man3/*.3; do rm -f "$(DESTDIR)$(mandir)/man3/$${page##*/}"; done
