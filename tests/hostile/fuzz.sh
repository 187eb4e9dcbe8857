#!/bin/sh
# SPDX-License-Identifier: MIT
#
# fuzz.sh [SECONDS] - hostile segments made by libFuzzer, under ASan and UBSan; make fuzz SECONDS=N
#
# Starts from tests/hostile/corpus/ and from what earlier runs found in the build directory.  A program that ends the process, or
# takes longer than 20 s, is kept there, is shown as text, and ends the run with status 1.
# shellcheck source=tests/build/build-common.sh
. "$(dirname "$0")/../build/build-common.sh"

seconds=${1:-60}
need clang clang-14
work=$builddir/check-fuzz
mkdir -p "$work/seeds" "$work/found" "$work/bad" && cd "$work" || exit 1
printf 'int LLVMFuzzerTestOneInput(const unsigned char *d, unsigned long n) { return d && n > 9 && 0; }\n' >probe.c
clang -fsanitize=fuzzer,address,undefined -o probe probe.c >probe.log 2>&1 ||
	skip "clang has no libFuzzer (package libclang-rt-14-dev)"
configure_in "$work" CC=clang CFLAGS="-O1 -g -fsanitize=fuzzer-no-link" --disable-static --enable-asan --enable-ubsan
"$MAKE" -j"$jobs" tests/hostile/fuzz-segment tests/hostile/fuzz-replay || die "clang with libFuzzer"
srcdir=$srcdir ./tests/hostile/fuzz-replay --encode seeds || die "the corpus"

./tests/hostile/fuzz-segment -max_total_time="$seconds" -timeout=20 -max_len=1025 -verbosity=0 -print_final_stats=1 \
	-artifact_prefix="$work/bad/" found seeds >fuzz.log 2>&1
status=$?
sed -n 's/^stat::number_of_executed_units: */programs run: /p' fuzz.log
[ $status -eq 0 ] && exit 0
for file in bad/*; do
	[ -f "$file" ] || continue
	echo "== $work/$file"
	./tests/hostile/fuzz-replay --print "$file"
done
tail -40 fuzz.log
die "libFuzzer ended with $status"
