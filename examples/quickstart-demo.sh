#!/bin/sh
# SPDX-License-Identifier: MIT
#
# quickstart-demo.sh - real workers share locks, and continue when one is killed
#
#   quickstart-demo.sh [--short] BUILD-DIRECTORY
#
# Starts the prefork example, drives it with demo-client, and checks what it shows: the exit status is 0 only if every
# check held.  Leaves nothing behind.
set -eu

hold_ms=1000 kills=50 load_ms=4000
if [ "${1:-}" = --short ]; then
	hold_ms=300 kills=5 load_ms=1000
	shift
fi
[ $# = 1 ] || { echo "usage: quickstart-demo.sh [--short] BUILD-DIRECTORY" >&2; exit 2; }

build=$1
segment=/lockshm-demo.$$
seed=${SEED:-$$}
master=
passed=no

find_program()
{
	for program in "$build/$1" "$build/examples/$1" "$build/src/$1"; do
		[ -f "$program" ] && [ -x "$program" ] && { echo "$program"; return; }
	done
	echo "quickstart-demo: there is no $1 in $build: build it first" >&2
	exit 1
}
lockctl=$(find_program lockctl)
client=$(find_program demo-client)
prefork=$(find_program prefork)
scratch=$(mktemp -d)

clean_up()
{
	[ -z "$master" ] || { kill "$master" && wait "$master"; } 2>/dev/null || :
	"$lockctl" rm "$segment" 2>/dev/null || :
	rm -rf "$scratch"
	[ $passed = yes ] || echo "quickstart-demo: a check FAILED" >&2
}
trap clean_up EXIT
trap 'exit 1' HUP INT TERM

title()
{
	printf '\n%s\n' "$*"
}

# Show the command, then what it prints.
show()
{
	printf '   $ lockctl %s\n' "$*"
	"$lockctl" "$@" >"$scratch/shown"
	sed 's/^/   | /' "$scratch/shown"
}

started=$(date +%s)
"$prefork" -n "$segment" -w 4 >"$scratch/out" 2>"$scratch/log" &
master=$!
tries=0
until grep -qs '^prefork: http' "$scratch/out"; do
	tries=$((tries + 1))
	if [ $tries -gt 200 ] || ! kill -0 "$master" 2>/dev/null; then
		cat "$scratch/log" >&2
		exit 1
	fi
	sleep 0.05
done
port=$(sed -n 's|.*127\.0\.0\.1:\([0-9]*\).*|\1|p' "$scratch/out")

title "A web server with 4 worker processes that share locks through the segment $segment:"
sed 's/^/   /' "$scratch/out"

title "1. One lock per page: 40 clients want the same page at once, which takes the backend 50 ms."
"$client" herd "$port" /page/welcome 40 200 1
echo "   The same again, now that it is in the cache; then a page that does not exist; then one the backend fails on:"
"$client" herd "$port" /page/welcome 40 200 0
"$client" herd "$port" /page/no-such-page 40 404 1
"$client" herd "$port" /page/broken-page 5 502 5

title "2. Looking inside: one worker holds the lock hold/report for $hold_ms ms, two more wait for it in a queue."
"$client" get "$port" "/hold/report/$hold_ms?monthly" >"$scratch/first" &
first=$!
"$client" await "$segment" hold/report 1 0
"$client" get "$port" "/hold/report/1?second" >"$scratch/second" &
second=$!
"$client" await "$segment" hold/report 1 1
"$client" get "$port" "/hold/report/1?third" >"$scratch/third" &
third=$!
"$client" await "$segment" hold/report 1 2
show ls "$segment"
show show "$segment" hold/report
wait "$first"
wait "$second"
wait "$third"
echo "   They were served in the order in which they came, each with a larger token:"
cat "$scratch/first" "$scratch/second" "$scratch/third" | tee "$scratch/served"
sort -c -n -u "$scratch/served"
sed 's/.*token \([0-9]*\).*/\1/' "$scratch/served" | sort -c -n -u

title "3. A worker is killed with SIGKILL while it holds a lock with 30 s of lease left, and another one waits for it."
"$client" handover "$port" "$segment" "$master" "$kills"

title "4. A worker is killed in the middle of an update: the next one repairs it from a journal and continues."
"$client" get "$port" /count
"$client" die "$port" "/count?die"
"$client" get "$port" /count
"$client" get "$port" /read

title "5. Eight clients count and read as fast as they can while random workers are killed."
"$client" load "$port" "$master" "$load_ms" 8 "$seed"
echo "   The master has replaced $(grep -c 'takes its place' "$scratch/log") workers."

title "6. What is left in the segment after all that:"
show stat "$segment"
"$lockctl" verify "$segment" >"$scratch/verify" || { cat "$scratch/verify"; exit 1; }
echo '   $ lockctl verify: every invariant holds'

passed=yes
title "All checks passed, in $(($(date +%s) - started)) s."
