#!/bin/sh
# SPDX-License-Identifier: MIT
#
# callgrind.sh [--check] PROGRAM - what an uncontended acquire and release cost on any machine, counted by valgrind
#
# PROGRAM is callgrind-pair.  Columns: instructions; locked instructions (callgrind's bus events); cache lines, which are
# the misses of a simulated cache that is just large enough for what every operation touches.  "hot" is one key again
# and again, "cold" random ones of 20,000: there the lines are those that come from far away.  Exclusive, shared,
# exclusive without an end; exclusive with a report, on a loop, and both; and the same by a lock object.  What the functions call is included, warming up is not.  valgrind hides the vdso, so the clock is read by a system call and counts too little.  Times come from
# lockshm-bench; these figures do not depend on the machine, but on the compiler.
#
# With --check the status is 1 if a figure is above its bound, which is what gcc 12 with -O2 made for x86_64 and a tenth.
# Whoever lowers a figure lowers the bound; whoever raises one says in the commit what it buys.

set -eu
LC_ALL=C
export LC_ALL

# case  function  instructions  locked  lines
bounds='
ex-hot       acquire 300 1 0.5
ex-hot       release 132 1 0.5
sh-hot       acquire 300 1 0.5
sh-hot       release 132 1 0.5
strict-hot   acquire 300 1 0.5
strict-hot   release 107 1 0.5
report-ex-hot     acquire 342 1 0.5
loop-ex-hot       loop_acquire 325 1 0.5
loop-report-ex-hot loop_acquire 363 1 0.5
object-ex-hot     lock   192 1 0.5
object-ex-hot     unlock 131 1 0.5
object-sh-hot     lock   192 1 0.5
object-sh-hot     unlock 131 1 0.5
object-strict-hot lock   190 1 0.5
object-strict-hot unlock 100 1 0.5
ex-cold      acquire 480 1 2.5
ex-cold      release 132 1 0.5
'
pairs=2000
cold_keys=20000

check=
[ "${1:-}" != --check ] || { check=yes; shift; }
program=${1:?usage: callgrind.sh [--check] PATH/callgrind-pair}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

command -v valgrind >/dev/null || {
	echo "skipped: valgrind is not installed"
	exit 77
}

# count CASE FUNCTION: prints "instructions locked lines" of one operation
count() {
	keys=1
	[ "${1##*-}" = hot ] || keys=$cold_keys
	valgrind --tool=callgrind --collect-bus=yes --cache-sim=yes --I1=32768,8,64 --D1=16384,8,64 --LL=65536,16,64 \
		--toggle-collect="measured_$2" --callgrind-out-file="$out/callgrind" \
		"$program" "${1%-*}" "$keys" "$pairs" >"$out/log" 2>&1 || {
		cat "$out/log" >&2
		exit 1
	}
	awk -v n="$pairs" '
		$1 == "events:" { for (i = 2; i <= NF; i++) column[$i] = i }
		$1 == "totals:" || $1 == "summary:" {
			ir = $column["Ir"]; ge = $column["Ge"]; lines = $column["DLmr"] + $column["DLmw"]
		}
		END { printf "%.1f %.2f %.2f\n", ir / n, ge / n, lines / n }' "$out/callgrind"
}

printf '# callgrind | %s\n' "$(valgrind --version)"
printf '%-18s %-12s %13s %7s %7s   %s\n' '#' operation instructions locked lines bounds
echo "$bounds" >"$out/bounds"
while read -r which function instructions locked lines; do
	[ -n "$which" ] || continue
	figures=$(count "$which" "$function") || exit 1
	echo "$which $function $figures $instructions $locked $lines" |
		awk '{
			over = $3 > $6 || $4 > $7 || $5 > $8
			printf "%-18s %-12s %13.1f %7.2f %7.2f   %s %s %s%s\n", $1, $2, $3, $4, $5, $6, $7, $8, over ? "  ABOVE" : ""
		}'
done <"$out/bounds" >"$out/table"
cat "$out/table"
! { [ -n "$check" ] && grep -q ABOVE "$out/table"; }
