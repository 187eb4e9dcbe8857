# SPDX-License-Identifier: MIT
# Other users, namespaces, limits, filters, and crowds; most need root.
tests_of_environments += \
	%D%/any-limit \
	%D%/chroot \
	%D%/crowd \
	%D%/keys \
	%D%/limits \
	%D%/marks \
	%D%/mass-kill \
	%D%/pid-namespace \
	%D%/removed \
	%D%/seccomp \
	%D%/small-shm \
	%D%/time-namespace \
	%D%/truncated \
	%D%/users \
	$(end)
check_LTLIBRARIES += tests/libenv.la
tests_libenv_la_SOURCES = \
	%D%/env.c \
	%D%/env.h \
	%D%/subject-life.c \
	%D%/subject-life.h \
	%D%/subject.c \
	%D%/subject.h \
	$(end)
tests_libenv_la_LDFLAGS =
env_libs = tests/libenv.la liblockshm.la
%C%_any_limit_LDADD = $(env_libs)
%C%_chroot_LDADD = $(env_libs)
%C%_crowd_LDADD = $(env_libs)
%C%_keys_LDADD = $(env_libs)
%C%_limits_LDADD = $(env_libs)
%C%_marks_LDADD = $(env_libs)
%C%_mass_kill_LDADD = $(env_libs)
%C%_pid_namespace_LDADD = $(env_libs)
%C%_removed_LDADD = $(env_libs)
%C%_seccomp_LDADD = $(env_libs)
%C%_small_shm_LDADD = $(env_libs)
%C%_time_namespace_LDADD = $(env_libs)
%C%_truncated_LDADD = $(env_libs)
%C%_users_LDADD = $(env_libs)
