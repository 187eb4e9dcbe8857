#!/bin/sh
# SPDX-License-Identifier: MIT
#
# prefork.sh - the examples do what they say: minimal, cron-guard.sh, and the demo of the prefork server
set -eu

srcdir=${srcdir:-.}
builddir=${builddir:-.}
segment=/example-test.$$
scratch=$(mktemp -d)

find_program()
{
	for program in "$builddir/$1" "$builddir/examples/$1" "$builddir/src/$1"; do
		[ -f "$program" ] && [ -x "$program" ] && { echo "$program"; return; }
	done
	echo "no $1 in $builddir" >&2
	exit 1
}
LOCKCTL=$(find_program lockctl)
minimal=$(find_program minimal)
CRON_SEGMENT=$segment
export LOCKCTL CRON_SEGMENT

clean_up()
{
	"$LOCKCTL" rm "$segment" 2>/dev/null || :
	rm -rf "$scratch"
}
trap clean_up EXIT
trap 'exit 1' HUP INT TERM

# expect STATUS COMMAND...
expect()
{
	wanted=$1
	shift
	status=0
	"$@" >"$scratch/out" 2>&1 || status=$?
	if [ "$status" != "$wanted" ]; then
		echo "status $status instead of $wanted: $*" >&2
		cat "$scratch/out" >&2
		exit 1
	fi
}

# Wait until the lock $1 shows $2, a piece of `lockctl show --json`.
await()
{
	tries=0
	until "$LOCKCTL" show "$segment" "$1" --json 2>/dev/null | grep -q "$2"; do
		tries=$((tries + 1))
		[ $tries -lt 400 ] || { echo "$1 never showed $2" >&2; exit 1; }
		sleep 0.05
	done
}

test_minimal()
{
	expect 0 "$minimal" "$segment" </dev/null
	grep -q '^token [1-9]' "$scratch/out"
	expect 1 "$minimal" 'not/a/name' </dev/null
}

test_uses()
{
	expect 0 "$(find_program uses)" "$segment" </dev/null
	grep -q '1 rendering' "$scratch/out"
}

# One holds it until it is killed; the next one goes on.
test_minimal_killed()
{
	mkfifo "$scratch/keyboard"
	"$minimal" "$segment" <"$scratch/keyboard" &
	holder=$!
	exec 3>"$scratch/keyboard"
	await report '"mode": *"exclusive"'
	"$minimal" "$segment" </dev/null >/dev/null &
	next=$!
	await report '"ticket"'
	kill -9 "$holder"
	wait "$next"
	exec 3>&-
	! wait "$holder" 2>/dev/null
}

test_cron_guard()
{
	guard=$srcdir/examples/cron-guard.sh
	expect 0 "$guard" job true
	expect 7 "$guard" job sh -c 'exit 7'
	expect 143 "$guard" job sh -c 'kill -TERM $$'
	expect 75 "$guard" job "$guard" job true
	expect 0 "$guard" job "$guard" other-job true
	expect 0 "$guard" -c 60s resting true
	expect 75 "$guard" resting true
	expect 2 "$guard" job
	expect 2 "$guard" -x job true
}

test_minimal
test_uses
test_minimal_killed
test_cron_guard
"$srcdir/examples/quickstart-demo.sh" --short "$builddir"
