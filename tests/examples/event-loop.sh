#!/bin/sh
# SPDX-License-Identifier: MIT
#
# event-loop.sh - single flight on event loops: real processes, each page computed once, nothing fails, no thread waits
set -eu

builddir=${builddir:-.}
segment=/event-loop-test.$$
out=$(mktemp)

find_program()
{
	for program in "$builddir/$1" "$builddir/examples/$1" "$builddir/src/$1"; do
		[ -f "$program" ] && [ -x "$program" ] && { echo "$program"; return; }
	done
	echo "no $1 in $builddir" >&2
	exit 1
}
LOCKCTL=$(find_program lockctl)
example=$(find_program event-loop)

server=
clean_up()
{
	[ -z "$server" ] || kill -KILL "$server" 2>/dev/null || :
	"$LOCKCTL" rm "$segment" 2>/dev/null || :
	rm -f "$out"
}
trap clean_up EXIT
trap 'exit 1' HUP INT TERM

bad()
{
	echo "$*" >&2
	cat "$out" >&2
	exit 1
}

# run ARGUMENT...: the example proves itself
run()
{
	"$example" -n "$segment" "$@" >"$out" 2>&1 || bad "status $?: $*"
	grep -qx 'each page was computed once' "$out" || bad "no proof: $*"
}

# says LINE: an expression for one whole line of the last run
says()
{
	grep -qx "$1" "$out" || bad "no '$1'"
}

# All connections of a page but one wait for it, in one process and in four.
run -r 1 -c 200 -k 4
says '200 requests of 200 connections in each of 1 processes, 0 killed'
says '4 replies at once .*, 196 after a wait on the loop, 0 failed'
says '4 computations of 4 pages, 0 of them beside another one, 0 cut off by a death'

run -p 4 -c 100 -k 3
says '4000 requests of 100 connections in each of 4 processes, 0 killed'
says '3 computations of 3 pages, 0 of them beside another one, 0 cut off by a death'

# Pages expire: computed again, never beside each other.
run -p 2 -c 50 -k 2 -r 200 -m 2 -e 5
says '.* 0 of them beside another one, 0 cut off by a death'

# The process that computes the pages is killed half-way: the others compute them, those cut off once more.
run -p 3 -c 50 -k 3 -x
says '.* in each of 3 processes, 1 killed'
says '3 computations of 3 pages, 0 of them beside another one, [1-3] cut off by a death'

# No thread waits: one of the program and one of the library, however many requests wait.
"$example" -n "$segment" -c 300 -k 1 -r 1 -m 10000 >"$out" 2>&1 &
server=$!
tries=0
waiting=$(printf 'exclusive\t1\t299\t')
until "$LOCKCTL" ls "$segment" --porcelain 2>/dev/null | grep -q "^lock.*/page/0.*$waiting"; do
	tries=$((tries + 1))
	[ $tries -lt 400 ] || bad "299 requests never waited: $("$LOCKCTL" ls "$segment")"
	sleep 0.05
done
worker=$(tr -d ' ' <"/proc/$server/task/$server/children")
threads=$(sed -n 's/^Threads:[[:space:]]*//p' "/proc/$worker/status")
[ "$threads" = 2 ] || bad "$threads threads while 299 requests wait"
