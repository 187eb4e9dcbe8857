# SPDX-License-Identifier: MIT
# Scripts that build the tree anew are not in TESTS: make check-all, or one by one.
tests_of_install += %D%/install.sh
tests_of_builds += \
	%D%/build-dist.sh \
	%D%/build-sanitize.sh \
	%D%/build-tsan.sh \
	%D%/cross-arm64.sh \
	%D%/cross-musl.sh \
	$(end)
check_PROGRAMS += %D%/libc-peer
%C%_libc_peer_LDADD = liblockshm.la
EXTRA_DIST += %D%/build-common.sh
