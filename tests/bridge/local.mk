# SPDX-License-Identifier: MIT
# Cross-host keys: several segments play hosts around real servers.
if HAVE_BRIDGE
tests_of_bridge += \
	%D%/test-global-ack \
	%D%/test-global-admin \
	%D%/test-global-barging \
	%D%/test-global-batched-wakeups \
	%D%/test-global-bridge \
	%D%/test-global-clock \
	%D%/test-global-cohort \
	%D%/test-global-cluster \
	%D%/test-global-foreign \
	%D%/test-global-keys \
	%D%/test-global-lease-stolen \
	%D%/test-global-liar \
	%D%/test-global-log \
	%D%/test-global-loop \
	%D%/test-global-many-hosts \
	%D%/test-global-modes \
	%D%/test-global-names \
	%D%/test-global-network-faults \
	%D%/test-global-note \
	%D%/test-global-notify \
	%D%/test-global-pipeline \
	%D%/test-global-policy \
	%D%/test-global-process \
	%D%/test-global-quorum \
	%D%/test-global-record \
	%D%/test-global-refusals \
	%D%/test-global-renewals \
	%D%/test-global-replicas \
	%D%/test-global-robust \
	%D%/test-global-settings \
	%D%/test-global-stale-bridge \
	%D%/test-global-stale-position \
	%D%/test-global-stale-pass \
	%D%/test-global-superseded \
	%D%/test-global-tls \
	%D%/test-global-tries \
	%D%/test-global-unreachable \
	%D%/test-global \
	$(end)
endif
%C%_test_global_lease_stolen_LDADD = $(without_jemalloc)
%C%_test_global_note_LDADD = $(without_jemalloc)
%C%_test_global_stale_bridge_LDADD = $(without_jemalloc)
EXTRA_DIST += %D%/traceability.md
