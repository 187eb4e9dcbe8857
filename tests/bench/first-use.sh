#!/bin/sh
# SPDX-License-Identifier: MIT
#
# first-use.sh - the benchmark of first locks runs, and has a row for each language that is there; times do not count
set -u
LC_ALL=C
export LC_ALL

top=$(cd "${srcdir:-.}" && pwd)
build=${builddir:-.}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
problems=0

problem()
{
	problems=$((problems + 1))
	echo "$*"
}

"$top/perf/first-use" 1 >"$work/tables" 2>"$work/remarks" || problem "first-use fails"
cat "$work/remarks"

# expect LANGUAGE ROW: unless it is said to be left out
expect()
{
	grep -q "^left out: $1" "$work/remarks" ||
		grep -qE "^\| $2 \| [0-9.e+]+ [mu]s \| [0-9.]+ x \|\$" "$work/tables" || problem "no row: $2"
}
expect "flock " "flock FILE true"
expect "flock " "lockctl run SEGMENT KEY -- true"
expect "flock " "lockctl run -s SEGMENT KEY -- true"
expect - "lockshm, renewed"
expect - "of a process with two"
expect - "of a child, after its parent's"
expect Lua lockshm
grep -q '^left out: Lua' "$work/remarks" || expect nginx "resty.lockshm"
expect Python "import lockshm"
expect Python "of a forked worker, after its parent's"
expect PHP "flock\(\)"
expect "[Pp][Hh][Pp]" "renewed, first"

# What fails has no time.  turns_of LINE
turns_of()
{
	printf '%b\n' "$1" | "$build/perf/turns" 1 >"$work/out" 2>"$work/errors"
}
turns_of 'group\tname\tprints\techo\t7'
grep -q '^| name | 7 us | 1.00 x |$' "$work/out" || problem "a printed figure: $(cat "$work/out")"
for wrong in 'group\tname\twall\tfalse' 'group\tname\twall\t/nonexistent' 'group\tname\tprints\ttrue' 'group\tname\twall' \
	'group\tname\tsoon\ttrue' 'group\tname\twall*0\ttrue' 'group'; do
	turns_of "$wrong" && problem "no failure of $wrong"
	grep -q '^turns: ' "$work/errors" || problem "no message for $wrong"
done
"$build/perf/turns" 0 </dev/null 2>/dev/null && problem "no round is no mistake"

[ $problems = 0 ] || { cat "$work/tables"; exit 1; }
echo "$(grep -c ' x |$' "$work/tables") rows"
