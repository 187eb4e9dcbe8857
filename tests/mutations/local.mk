# SPDX-License-Identifier: MIT
# Seeded bugs: here only whether each of them still applies.
tests_of_tree += %D%/run.sh
EXTRA_DIST += $(wildcard $(srcdir)/%D%/*.patch)
