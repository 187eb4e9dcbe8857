# SPDX-License-Identifier: MIT
# What the files of the tree say of each other.
tests_of_tree += \
	%D%/abi.sh \
	%D%/doc-links.sh \
	%D%/exports.sh \
	%D%/fences.sh \
	%D%/figures.sh \
	%D%/grown.sh \
	%D%/held.sh \
	%D%/header.sh \
	%D%/layering.sh \
	%D%/layout.sh \
	%D%/man-header.sh \
	%D%/memory-model.sh \
	%D%/model-rules.sh \
	%D%/model-short.sh \
	%D%/other-machines.sh \
	%D%/prose.sh \
	%D%/words.sh \
	$(end)
EXTRA_DIST += %D%/abi.txt %D%/grown.c %D%/words.txt
