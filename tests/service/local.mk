# SPDX-License-Identifier: MIT
# The library's own thread: event loops.  One line a suite.
tests_of_units += \
	%D%/test-closed-descriptors \
	%D%/test-first-use \
	%D%/test-loop \
	%D%/test-loop-badargs \
	%D%/test-loop-cancel \
	%D%/test-loop-crowd \
	%D%/test-loop-death \
	%D%/test-loop-descriptor \
	%D%/test-loop-lease \
	%D%/test-loop-life \
	%D%/test-loop-line \
	%D%/test-loop-loss \
	%D%/test-loop-many \
	%D%/test-loop-race \
	%D%/test-renewal \
	$(end)
