# SPDX-License-Identifier: MIT
# The protocol as a program for spin: run.sh, and tests/tree/model-short.sh.
EXTRA_DIST += \
	%D%/README.md \
	%D%/close.pml \
	%D%/doorbell-loop.pml \
	%D%/doorbell-ring.pml \
	%D%/doorbell-service.pml \
	%D%/doorbell.pml \
	%D%/lease.pml \
	%D%/loss.pml \
	%D%/queue-check.pml \
	%D%/queue-moves.pml \
	%D%/queue-names.pml \
	%D%/queue-state.pml \
	%D%/queue-words.pml \
	%D%/queue.pml \
	%D%/robust-global.pml \
	%D%/run.sh \
	%D%/steps-append.pml \
	%D%/steps-help.pml \
	%D%/steps-hold.pml \
	%D%/steps-sweep.pml \
	%D%/steps-wait.pml \
	%D%/table.pml \
	%D%/tokens.pml \
	%D%/wakeups.pml \
	$(end)
