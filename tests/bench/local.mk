# SPDX-License-Identifier: MIT
# The benchmark runs, and what does not depend on the machine stays within its bounds.
tests_of_bench += \
	%D%/callgrind.sh \
	%D%/compare.sh \
	%D%/first-use.sh \
	%D%/quick.sh \
	$(end)
