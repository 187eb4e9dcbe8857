#!/bin/sh
# SPDX-License-Identifier: MIT
#
# quick.sh - the benchmark runs, every lock in it excludes, and its output has the right form; times do not count
#
#   1. --quick with every lock there is on this machine: status 0, which it is not if an update was lost under a lock
#   2. the same with "none", which is no lock, fails
#   3. --json: one object a line with the fields, scenarios, modes and metrics of perf/README.md; min <= median <= max
#   4. every lock that was not skipped has run the scenario that checks exclusion
#   5. the human-readable table, the exponents of --growth, and wrong names
set -u
LC_ALL=C
export LC_ALL

bench=${builddir:-.}/perf/lockshm-bench
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
problems=0

problem()
{
	problems=$((problems + 1))
	echo "$*"
}

# ---------------------------------------------------------------- 1. all exclude
if ! "$bench" --quick --json >"$work/json" 2>"$work/remarks"; then
	cat "$work/remarks"
	exit 1
fi
cat "$work/remarks"

# ---------------------------------------------------------------- 2. "none" does not
# Two processes meet inside within the first milliseconds; on a busy machine perhaps later.
tries=0
until "$bench" --quick --lock none --scenario contended >"$work/none" 2>&1; [ $? = 1 ]; do
	tries=$((tries + 1))
	[ $tries -lt 50 ] || { problem "a lock that is none was not found out"; break; }
done
grep -q 'none does not exclude' "$work/none" || problem "no word about the lock that is none: $(cat "$work/none")"

# ---------------------------------------------------------------- 3. objects
number='-?[0-9]+(\.[0-9]+)?(e[+-][0-9]+)?'
field='"[a-z0-9_/-]+"'
object="^\\{\"scenario\":$field,\"lock\":$field,\"mode\":\"(exclusive|shared)\",\"procs\":[1-9][0-9]*,"
object="$object\"metric\":\"(ns|ops_per_s|jain|us_p50|us_p99|us_p999|us_max|bytes|commands|share|us_call)\",\"unit\":$field,"
object="$object(\"min\":null,\"median\":null,\"max\":null|\"min\":$number,\"median\":$number,\"max\":$number)\\}\$"
grep -vE "$object" "$work/json" >"$work/odd" && problem "not as it should be: $(head -n 3 "$work/odd")"
{
	echo '['
	paste -sd, "$work/json"
	echo ']'
} | "${builddir:-.}/tests/cli/json-valid" || problem "--json prints no JSON"
sed -n 's/.*"min":\([^,]*\),"median":\([^,]*\),"max":\([^}]*\)}/\1 \2 \3/p' "$work/json" |
	awk '$1 != "null" && ($1 + 0 > $2 + 0 || $2 + 0 > $3 + 0) { print }' >"$work/odd"
[ ! -s "$work/odd" ] || problem "not in order: $(head -n 3 "$work/odd")"
for scenario in solo contended mixed-95-5 mixed-50-50 recovery lease-expiry memory attach scale-procs wake-readers \
	readers-newest readers-oldest readers-churn spread-newest spread-oldest spread-churn try-readers reading held-many \
	live-open fresh-open dead-open fresh-open-large dead-open-large dead-waiters; do
	grep -q "\"scenario\":\"$scenario\",\"lock\":\"lockshm\"" "$work/json" || problem "no $scenario of lockshm"
done

# The row of a program in C: all that has a row of lockshm, but memory, where it would be the same.
sed -n 's/.*"scenario":"\([a-z0-9-]*\)","lock":"lockshm".*/\1/p' "$work/json" | sort -u |
	grep -vE '^(bridge|loop)-|^memory$' >"$work/scenarios"
while read -r scenario; do
	grep -q "\"scenario\":\"$scenario\",\"lock\":\"lockshm-object\"" "$work/json" || problem "no $scenario of lockshm-object"
done <"$work/scenarios"

for scenario in solo solo-tcp own-200us own-1ms own-three pass rival peers handover foreign renew; do
	grep -q '^# skipped: the bridge: ' "$work/remarks" && break
	grep -q "\"scenario\":\"bridge-$scenario\",\"lock\":\"lockshm\"" "$work/json" || problem "no bridge-$scenario"
done

# ---------------------------------------------------------------- 4. all of them
# "none" takes part only when it is asked for; resty-lock lives inside a server.
"$bench" --help >"$work/help" || problem "--help fails"
sed -n '/^locks:/,$p' "$work/help" | sed -e 1d -e 's/ (not built in)//g' | tr ' ' '\n' |
	grep -vx -e '' -e none -e resty-lock -e lockshm-strict >"$work/locks"
[ "$(wc -l <"$work/locks")" -ge 22 ] || problem "only $(wc -l <"$work/locks") locks"
while read -r lock; do
	grep -q "^# skipped: $lock: " "$work/remarks" && continue
	grep -q "\"scenario\":\"contended\",\"lock\":\"$lock\".*\"ops_per_s\"" "$work/json" ||
		problem "$lock was neither skipped nor seen to exclude"
done <"$work/locks"

# ---------------------------------------------------------------- 5. table
"$bench" --quick --lock lockshm,cas --scenario 'solo*' >"$work/table" || problem "the table fails"
grep -q '^# lockshm-bench | .* CPUs | Linux .* commit ' "$work/table" || problem "the table has no header"
grep -q '^lockshm  *[0-9.]* .* 1\.00 ' "$work/table" || problem "the table has no row of lockshm"
grep -q '^== goals' "$work/table" || problem "the table has no goals"
# Of a run in pieces: what one piece lacks comes from the other.
"$bench" --quick --lock lockshm --scenario solo --save "$work/pieces" >/dev/null || problem "--save fails"
"$bench" --quick --lock lockshm --scenario readers-newest --save "$work/piece" >/dev/null || problem "--save fails"
cat "$work/piece" >>"$work/pieces"
"$bench" --goals "$work/pieces" >"$work/goals" || problem "--goals fails"
grep -qE '^a reader beside a reader +ns +[0-9.]+ x  solo ' "$work/goals" || problem "--goals lacks: $(cat "$work/goals")"
"$bench" --goals "$work/work" 2>/dev/null && problem "--goals of no file is no mistake"
"$bench" --goals "$work/goals" >/dev/null 2>&1 && problem "--goals of another file is no mistake"
"$bench" --quick --growth --scenario 'readers-newest' >"$work/growth" || problem "--growth fails"
grep -qE '^readers: the newest .* lockshm-object +-?[0-9.]+ +-?[0-9.]+ +1: [0-9.]+ 10: [0-9.]+$' "$work/growth" ||
	problem "--growth has no exponent: $(tail -n 3 "$work/growth")"
for wrong in '--growth --scenario solo' '--lock nosuch' '--scenario nosuch' '--rounds 0' '--nosuch' 'nosuch'; do
	# shellcheck disable=SC2086
	"$bench" $wrong >"$work/wrong" 2>&1
	[ $? = 2 ] || problem "$wrong is no mistake"
done

[ $problems = 0 ] || exit 1
echo "$(wc -l <"$work/json") objects, $(wc -l <"$work/locks") locks, $(grep -c '^# skipped' "$work/remarks") skipped"
