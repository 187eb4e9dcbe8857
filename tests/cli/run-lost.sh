#!/bin/sh
# SPDX-License-Identifier: MIT
# run-lost.sh - a lock that is lost while the command runs: SIGTERM, a message, exit 4
. "$(dirname "$0")/common.sh"

expect 0 lockctl create "$seg"

cat >"$dir/command" <<'END'
trap 'echo TERM >>"$1"; exit 0' TERM
echo ready >>"$1"
while :; do sleep 0.02; done
END
line_is() { [ "$(tail -n 1 "$1" 2>/dev/null)" = "$2" ]; }

# An operator ends the hold, a lease and a strict one.  The status of the command does not count.
for ttl in 30s none; do
	rm -f "$dir/log"
	start "$LOCKCTL" run "$seg" "$ttl" -t $ttl -- bash "$dir/command" "$dir/log" 2>"$dir/run-stderr"
	eventually line_is "$dir/log" ready
	token=$(field 8 holder $ttl)
	expect 0 lockctl release "$seg" $ttl --token "$token"
	silent stdout
	ended "$pid" 4
	line_is "$dir/log" TERM || fail "the command did not get SIGTERM"
	grep -q "lockctl: run $seg: '$ttl' was lost, token $token: .*the command gets SIGTERM" "$dir/run-stderr" ||
		fail "message: $(cat "$dir/run-stderr")"
	equal messages "$(wc -l <"$dir/run-stderr")" 1
	expect 1 lockctl release "$seg" $ttl --token "$token"
	says stderr "no hold of '$ttl' has token $token"
done

# A stopped command is continued, so that SIGTERM can end it.
start "$LOCKCTL" run "$seg" key -- sleep 100 2>/dev/null
eventually held key
eventually runs "$pid" sleep
command=$(command_of "$pid")
kill -STOP "$command"
eventually state_is "$command" T
expect 0 lockctl release "$seg" key --token "$(field 8 holder key)"
ended "$pid" 4

# The next request is granted while the loser is still being stopped.
start "$LOCKCTL" run "$seg" key -- bash -c 'trap "" TERM
	echo ready >"$1"
	until [ -e "$2" ]; do sleep 0.02; done
	exit 33' sh "$dir/first" "$dir/go" 2>/dev/null
first=$pid
eventually [ -s "$dir/first" ]
start "$LOCKCTL" run "$seg" key -w inf -- true
eventually waiters key 1
expect 0 lockctl release "$seg" key --token "$(field 8 holder key)"
ended "$pid" 0
kill -0 "$first" || fail "lockctl left its command"
touch "$dir/go"
ended "$first" 4

# Its keeper is stopped for longer than the lease: the next request is granted, and the command gets SIGTERM after SIGCONT.
# lockctl itself may be stopped for as long as it likes.
start "$LOCKCTL" run "$seg" key -t 200ms -- bash "$dir/command" "$dir/third" 2>"$dir/run-stderr"
eventually line_is "$dir/third" ready
kill -STOP "$pid"
eventually state_is "$pid" T
expect 3 lockctl run "$seg" key -w 1s -- true
line_is "$dir/third" ready || fail "the command got SIGTERM although the lock is held"
kill -CONT "$pid"
keeper=$(keeper "$pid")
# More than once: lockctl relays the SIGCONT above.
stop() { kill -STOP "$1" && state_is "$1" T; }
eventually stop "$keeper"
expect 0 lockctl run "$seg" key -w 20s -- true
silent stderr
line_is "$dir/third" ready || fail "the command got SIGTERM too early"
kill -CONT "$keeper"
ended "$pid" 4
line_is "$dir/third" TERM || fail "the command did not get SIGTERM"

# Stopped for longer than its lease, without waiters: still held.
start "$LOCKCTL" run "$seg" key -t 200ms -- sh -c 'until [ -e "$1" ]; do sleep 0.02; done; exit 12' sh "$dir/end"
eventually held key
keeper=$(keeper "$pid")
kill -STOP "$keeper"
overdue() { [ "$(field 10 holder key)" -lt 0 ]; }
eventually overdue
kill -CONT "$keeper"
in_time() { [ "$(field 10 holder key)" -gt 0 ]; }
eventually in_time
touch "$dir/end"
ended "$pid" 12

# Renewed for so long and no longer; then the waiter gets it, and the command gets SIGTERM.
start "$LOCKCTL" run "$seg" bounded -t 200ms --max-hold 500ms -- bash "$dir/command" "$dir/fourth" 2>"$dir/run-stderr"
eventually line_is "$dir/fourth" ready
expect 0 lockctl run "$seg" bounded -w 20s -- true
ended "$pid" 4
line_is "$dir/fourth" TERM || fail "the command did not get SIGTERM"
expect 2 lockctl run "$seg" bounded --max-hold 0 -- true
says stderr "--max-hold: '0' is too short"
expect 2 lockctl run "$seg" bounded --max-hold 1s -t none -- true
says stderr "--max-hold needs a lease"

# Lost at the very end of the command: exit 4 all the same.
start "$LOCKCTL" run "$seg" key -t 200ms -- sh -c 'until [ -e "$1" ]; do sleep 0.02; done; exit 0' sh "$dir/over" \
	2>"$dir/run-stderr"
eventually held key
keeper=$(keeper "$pid")
kill -STOP "$keeper"
eventually state_is "$keeper" T
expect 0 lockctl run "$seg" key -w 20s -- true
command=$(command_of "$pid")
touch "$dir/over"
eventually state_is "$command" Z
kill -CONT "$keeper"
ended "$pid" 4
grep -q "'key' was lost, token" "$dir/run-stderr" || fail "message: $(cat "$dir/run-stderr")"
expect 0 lockctl verify "$seg"
