# SPDX-License-Identifier: MIT
# The log, its checker, and the tests of the checker.
tests_of_units += \
	%D%/test-history-global \
	%D%/test-history-loops \
	%D%/test-history-order \
	%D%/test-history-outcomes \
	%D%/test-history-reports \
	%D%/test-history \
	$(end)
check_LTLIBRARIES += tests/libhistory.la
tests_libhistory_la_SOURCES = \
	%D%/check.c \
	%D%/check.h \
	%D%/damage.c \
	%D%/global-damage.c \
	%D%/global-holds.c \
	%D%/global-internal.h \
	%D%/global.c \
	%D%/global.h \
	%D%/history.c \
	%D%/history.h \
	%D%/holds.c \
	%D%/lives.c \
	%D%/loops.c \
	%D%/model.c \
	%D%/model.h \
	%D%/order.c \
	%D%/outcomes.c \
	%D%/print.c \
	%D%/waits.c \
	$(end)
tests_libhistory_la_LDFLAGS =
%C%_test_history_global_SOURCES = %D%/test-history-global.c %D%/builder.c %D%/builder.h
%C%_test_history_global_LDADD = tests/libhistory.la $(LDADD)
%C%_test_history_loops_SOURCES = %D%/test-history-loops.c %D%/builder.c %D%/builder.h
%C%_test_history_loops_LDADD = tests/libhistory.la $(LDADD)
%C%_test_history_order_SOURCES = %D%/test-history-order.c %D%/builder.c %D%/builder.h
%C%_test_history_order_LDADD = tests/libhistory.la $(LDADD)
%C%_test_history_outcomes_SOURCES = %D%/test-history-outcomes.c %D%/builder.c %D%/builder.h
%C%_test_history_outcomes_LDADD = tests/libhistory.la $(LDADD)
%C%_test_history_reports_SOURCES = %D%/test-history-reports.c %D%/builder.c %D%/builder.h
%C%_test_history_reports_LDADD = tests/libhistory.la $(LDADD)
%C%_test_history_SOURCES = %D%/test-history.c %D%/builder.c %D%/builder.h
%C%_test_history_LDADD = tests/libhistory.la $(LDADD)
