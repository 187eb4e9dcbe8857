# SPDX-License-Identifier: MIT
# lockctl and lockshm-bridge from outside.
tests_of_cli += \
	%D%/bridge-of-another-user.sh \
	%D%/bridge-systemd.sh \
	%D%/bridge.sh \
	%D%/check.sh \
	%D%/completion.sh \
	%D%/create.sh \
	%D%/damaged.sh \
	%D%/flock.sh \
	%D%/global-keys.sh \
	%D%/global-refused.sh \
	%D%/global-waits.sh \
	%D%/global.sh \
	%D%/help.sh \
	%D%/hold.sh \
	%D%/hostile.sh \
	%D%/hosts.sh \
	%D%/json.sh \
	%D%/limits.sh \
	%D%/long-keys.sh \
	%D%/ls.sh \
	%D%/man.sh \
	%D%/messages.sh \
	%D%/once.sh \
	%D%/operator.sh \
	%D%/owner.sh \
	%D%/rm-mounted.sh \
	%D%/robust-global.sh \
	%D%/run-also.sh \
	%D%/run-descendants.sh \
	%D%/run-fifo.sh \
	%D%/run-killed.sh \
	%D%/run-lost.sh \
	%D%/run-robust.sh \
	%D%/run-signals.sh \
	%D%/run-steps.sh \
	%D%/run-terminal.sh \
	%D%/run.sh \
	%D%/seat.sh \
	%D%/stat.sh \
	%D%/text.sh \
	%D%/usage.sh \
	$(end)
check_PROGRAMS += \
	%D%/json-valid \
	%D%/killed-at-step \
	$(end)
%C%_json_valid_LDADD =
%C%_killed_at_step_LDADD = liblockshm.la
EXTRA_DIST += %D%/common.sh
