# SPDX-License-Identifier: MIT
# The examples from outside.
tests_of_cli += \
	%D%/event-loop.sh \
	%D%/prefork.sh \
	%D%/two-hosts-stopped.sh \
	%D%/two-hosts.sh \
	%D%/uses.sh \
	$(end)
