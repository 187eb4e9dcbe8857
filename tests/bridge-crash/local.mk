# SPDX-License-Identifier: MIT
# The bridge killed and stopped at every write and send; chaos between two hosts.
if HAVE_BRIDGE
tests_of_bridge += %D%/chaos %D%/claim %D%/step
endif
%C%_chaos_SOURCES = \
	%D%/chaos-faults.c \
	%D%/chaos-starved.c \
	%D%/chaos-worker.c \
	%D%/chaos.c \
	%D%/chaos.h \
	$(end)
%C%_chaos_LDADD = tests/libhistory.la $(LDADD)
%C%_step_SOURCES = \
	%D%/step-ops.c \
	%D%/step-round.c \
	%D%/step-victim.c \
	%D%/step.c \
	%D%/step.h \
	$(end)
# Everything it sends is a place where it may be killed.
%C%_step_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=send
