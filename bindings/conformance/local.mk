# SPDX-License-Identifier: MIT
# One table of cases for all languages, and what runs it.
check_PROGRAMS += %D%/agent
%C%_agent_LDADD = liblockshm.la

EXTRA_DIST += \
	%D%/README.md \
	%D%/cases/bounds.txt \
	%D%/cases/deaths.txt \
	%D%/cases/global.txt \
	%D%/cases/holds.txt \
	%D%/cases/leases.txt \
	%D%/cases/order.txt \
	%D%/cases/recipes.txt \
	%D%/cases/stops.txt \
	%D%/cases/texts.txt \
	%D%/conduct.py \
	%D%/words.py \
	%D%/words.txt \
	$(end)
