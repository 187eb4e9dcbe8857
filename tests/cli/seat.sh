#!/bin/sh
# SPDX-License-Identifier: MIT
# seat.sh - one of many processes runs the command; whichever way it ends, the next one does
. "$(dirname "$0")/common.sh"

seated() { [ "$(field 5 holder seat)" = "$(keeper "$1")" ]; }

expect 0 lockctl create "$seg"
set --
for i in 1 2 3 4 5; do
	# sleep 100, or the end that the next line of the file asks for
	start "$LOCKCTL" seat "$seg" seat --tag "worker $i" -- sh -c 'echo "$$" >>"$0"; exec sleep 100' "$dir/ran" 2>"$dir/log$i"
	set -- "$@" "$pid"
	if [ "$i" -eq 1 ]; then eventually held seat; else eventually waiters seat $((i - 1)); fi
done
ran() { [ "$(wc -l <"$dir/ran")" -eq "$1" ]; }
eventually ran 1
seated "$1" || fail "the first one has no seat"
equal "end of the lease" "$(field 10 holder seat)" -
# Those that wait report it, with the present holder; the first has nothing to report.
[ ! -s "$dir/log1" ] || fail "the first one reports something: $(cat "$dir/log1")"
grep -q "^lockctl: seat $seg: 'seat': waits: held exclusive by pid $(keeper "$1") ([^ ]*) 'worker 1' for " "$dir/log2" || fail "log of the second"

# lockctl is killed, its command is killed, the command is asked to end, an operator ends the hold.
kill -KILL "$1"
wait "$1" 2>/dev/null
eventually seated "$2"
eventually ran 2
grep -q "'seat': taken after a wait" "$dir/log2" || fail "the second does not report its seat"
eventually runs "$2" sleep
kill -KILL "$(command_of "$2")"
ended "$2" 137
eventually seated "$3"
eventually ran 3
kill -TERM "$3"
ended "$3" 143
eventually seated "$4"
eventually ran 4
expect 0 lockctl release "$seg" seat --token "$(field 8 holder seat)"
ended "$4" 4
eventually seated "$5"
eventually ran 5
kill -TERM "$5"
ended "$5" 143

# A command that fails, or ends well, leaves the seat as well.
expect 3 lockctl seat "$seg" seat -- sh -c 'exit 3'
expect 0 lockctl seat "$seg" seat -- true
silent stderr

# A bound for the wait, and its exit status.
start "$LOCKCTL" seat "$seg" seat -- sleep 100
eventually held seat
expect 3 lockctl seat "$seg" seat -w 0 -- true
expect 75 lockctl seat "$seg" seat -w 50ms -E 75 -- true
says stderr "'seat' not obtained: "
# A signal ends the wait.
start "$LOCKCTL" seat "$seg" seat -- true
waiter=$pid
eventually waiters seat 1
kill -TERM "$waiter"
ended "$waiter" 143
equal waiters "$(field 6 lock seat)" 0
expect 0 lockctl verify "$seg"
