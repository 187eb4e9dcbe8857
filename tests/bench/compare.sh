#!/bin/sh
# SPDX-License-Identifier: MIT
#
# compare.sh - perf/compare-bare finds a figure of the benchmark and of the bare loop for each of its rows; times do not
# count
set -u

build=${builddir:-.}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

BENCH_EFFORT=--quick "${srcdir:-.}/perf/compare-bare" "$build/perf" 2 2 >"$work/table" || { cat "$work/table"; exit 1; }
rows=$(grep -cE '^[a-z-]+ (exclusive|shared) +[0-9.]+ +[0-9.]+ +-?[0-9.]+ % +-?[0-9.]+ %  (agrees|DIFFERS)' "$work/table")
cat "$work/table"
[ "$rows" = 6 ] || { echo "$rows rows, not 6"; exit 1; }
