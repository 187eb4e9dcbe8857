# SPDX-License-Identifier: MIT
# The Redis client against real servers, without a segment.
if HAVE_BRIDGE
tests_of_bridge += \
	%D%/test-client \
	%D%/test-conn-open \
	%D%/test-conn \
	%D%/test-lock \
	%D%/test-names \
	%D%/test-note \
	%D%/test-queue \
	%D%/test-quorum-five \
	%D%/test-quorum \
	%D%/test-redis-py \
	%D%/test-redlock \
	%D%/test-refusals \
	%D%/test-replies \
	%D%/test-rights \
	%D%/test-rwmutex \
	%D%/test-tls \
	%D%/test-tracking \
	%D%/test-uri \
	$(end)
endif
%C%_test_conn_LDADD = $(without_jemalloc)
%C%_test_replies_CFLAGS = $(AM_CFLAGS) $(BRIDGE_CFLAGS)
%C%_test_replies_LDADD = $(LDADD) $(BRIDGE_LIBS)
