#!/bin/sh
# SPDX-License-Identifier: MIT
# run-also.sh - lockctl run under several locks: all or none, no deadlock, killed, one of them lost
. "$(dirname "$0")/common.sh"

expect 0 lockctl create "$seg"

# The command has all of them, and both are free after it.
expect 0 lockctl run "$seg" a --also b --also c -- sh -c '"$1" ls "$2" --porcelain | grep -c "^holder"; echo "$LOCKSHM_KEY"' sh "$LOCKCTL" "$seg"
equal holders "$(sed -n 1p "$dir/stdout")" 3
equal "the first key" "$(sed -n 2p "$dir/stdout")" a
expect 0 lockctl ls "$seg" --porcelain
silent stdout

# All or none: nothing is held while one is missing, nor after the time-out, and the message has all keys and the holder.
start "$LOCKCTL" run "$seg" b --tag other -- sleep 100
other=$pid
eventually held b
for wait in 0 300ms; do
	expect 3 lockctl run "$seg" a --also b -w $wait -- true
	says stderr "'a', 'b' not obtained: "
	says stderr "'other'"
done
expect 0 lockctl run "$seg" a -w 0 -- true
expect 0 lockctl run "$seg" -s a --also c -w 0 -- true

# A wait for both, which ends when the holder of one is killed.
start "$LOCKCTL" run "$seg" a --also b -w inf -- sh -c 'echo ran >"$1"' sh "$dir/ran"
both=$pid
eventually waiters b 1
kill -KILL "$other"
ended "$both" 0
[ -s "$dir/ran" ] || fail "the command did not run"

# Crosswise, again and again: the order is the library's.
for i in 1 2 3 4; do
	start sh -c 'for i in 1 2 3 4 5 6 7 8 9 10; do "$1" run "$2" "$3" --also "$4" -w 100s -- true || exit; done' sh \
		"$LOCKCTL" "$seg" $((i % 2)) $(((i + 1) % 2))
	eval "cross$i=$pid"
done
for i in 1 2 3 4; do
	eval "ended \$cross$i 0"
done

# Killed: the command ends, and both are free.
start "$LOCKCTL" run "$seg" a --also b -t 1h -- sleep 100
victim=$pid
eventually runs "$victim" sleep
command=$(command_of "$victim")
kill -KILL "$victim"
wait "$victim" 2>/dev/null
eventually gone "$command"
expect 0 lockctl run "$seg" b --also a -w 20s -- true

# One of them is lost, whichever: SIGTERM and status 4, and the message names that key.  The other is released.
cat >"$dir/command" <<'END'
trap 'exit 0' TERM
echo ready >"$1"
while :; do sleep 0.02; done
END
for lost in a b; do
	rm -f "$dir/ready"
	start "$LOCKCTL" run "$seg" a --also b -- bash "$dir/command" "$dir/ready" 2>"$dir/run-stderr"
	eventually [ -s "$dir/ready" ]
	token=$(field 8 holder $lost)
	expect 0 lockctl release "$seg" $lost --token "$token"
	ended "$pid" 4
	grep -q "'$lost' was lost, token $token: .*the command gets SIGTERM" "$dir/run-stderr" ||
		fail "message: $(cat "$dir/run-stderr")"
	equal messages "$(wc -l <"$dir/run-stderr")" 1
	expect 0 lockctl run "$seg" a --also b -w 0 -- true
done

# Both leases are renewed.
expect 0 lockctl run "$seg" a --also b -t 200ms -- sleep 1
silent stderr

# A damage mark is reported with its key, and stays until it is acknowledged.
for key in a b; do
	start "$LOCKCTL" run "$seg" $key --robust -- sleep 100
	eventually held $key
	kill -KILL "$pid"
	wait "$pid" 2>/dev/null
	expect 0 lockctl run "$seg" a --also b --robust -w 20s -- sh -c 'echo "$LOCKSHM_STATUS"'
	equal status "$(cat "$dir/stdout")" OWNER_DIED
	says stderr "'$key': "
	equal messages "$(wc -l <"$dir/stderr")" 1
	expect 0 lockctl run "$seg" a --also b --robust --acknowledge -w 20s -- true
	says stderr "damage mark cleared"
	expect 0 lockctl run "$seg" a --also b --robust -- true
	silent stderr
done

# A cooldown closes each.
expect 0 lockctl run "$seg" a --also b --cooldown 1h -- true
expect 3 lockctl run "$seg" a -w 0 -- true
expect 3 lockctl run "$seg" b -w 0 -- true

# Wrong arguments.
expect 2 lockctl run "$seg" a --also a -- true
says stderr "--also: 'a' is given twice"
expect 2 lockctl run "$seg" a --also '' -- true
says stderr "KEY is empty"
set --
for i in $(seq 64); do
	set -- "$@" --also "k$i"
done
expect 2 lockctl run "$seg" a "$@" -- true
says stderr "--also: more than 64 keys"
shift 2
expect 0 lockctl run "$seg" m "$@" -- true
expect 2 lockctl seat "$seg" a --also b -- true
expect 0 lockctl verify "$seg"
