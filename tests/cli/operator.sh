#!/bin/sh
# SPDX-License-Identifier: MIT
# operator.sh - release, ack, sweep: what each does and refuses
. "$(dirname "$0")/common.sh"

for command in "release key --token 1" "ack key" sweep verify ls "show key" stat; do
	set -- $command
	name=$1
	shift
	expect 1 lockctl "$name" "$seg" "$@"
	says stderr "lockctl: $name $seg: "
done
expect 0 lockctl create "$seg"

# Nothing of Redis where there is none.
expect 0 lockctl show "$seg" key
grep -q redis "$dir/stdout" && fail "Redis is shown in a segment without"
expect 2 lockctl release "$seg" key --remote value

# release: exactly that hold of that key.
start "$LOCKCTL" run "$seg" key -- sleep 100
eventually held key
token=$(field 8 holder key)
expect 1 lockctl release "$seg" key --token $((token + 1))
says stderr "lockctl: release $seg: no hold of 'key' has token $((token + 1))"
expect 1 lockctl release "$seg" other --token "$token"
held key || fail "a wrong token ended the hold"
kill -0 "$pid" || fail "the holder ended"
expect 0 lockctl release "$seg" key --token "$token"
silent stderr
ended "$pid" 4
# Its command may still be running.
expect 0 lockctl ack "$seg" key
says stdout "cleared: an earlier holder overran its lease or was ended by an operator: "
says stdout "pid $pid (sleep), exclusive, token $token"

# ack: no damage mark, then one, then none again.
expect 0 lockctl ack "$seg" key
equal ack "$(cat "$dir/stdout")" "no damage mark"
start "$LOCKCTL" run "$seg" key --tag victim -- sleep 100
eventually held key
token=$(field 8 holder key)
kill -KILL "$pid"
wait "$pid" 2>/dev/null

# sweep frees the slot of the dead owner and leaves the damage mark for the next holder.
expect 0 lockctl sweep "$seg"
[ "$(cat "$dir/stdout")" -ge 1 ] || fail "sweep freed nothing"
expect 0 lockctl sweep "$seg"
equal swept "$(cat "$dir/stdout")" 0
expect 0 lockctl show "$seg" key --porcelain
says stdout "$(echo "lock key 3 - 0 0 OWNER_DIED $pid $pid exclusive $token victim" | tr ' ' '\t')"
expect 0 lockctl show "$seg" key
says stdout "damage   an earlier holder died inside: pid $pid (victim), exclusive, token $token"
expect 0 lockctl ls "$seg"
says stdout OWNER_DIED
equal damaged "$(lockctl stat "$seg" | awk '$1 == "locks_damaged" { print $2 }')" 1

expect 0 lockctl ack "$seg" key
says stdout "cleared: an earlier holder died inside: pid $pid (victim), exclusive, token $token"
expect 0 lockctl ack "$seg" key
equal ack "$(cat "$dir/stdout")" "no damage mark"
expect 0 lockctl ls "$seg" --porcelain
silent stdout

# ack waits for the holder, at most as long as -w allows.
start "$LOCKCTL" run "$seg" key -s -- sleep 100
eventually held key
expect 3 lockctl ack "$seg" key -w 0
silent stdout
expect 3 lockctl ack "$seg" key --wait 50ms
kill -TERM "$pid"
ended "$pid" 143

# Keys given as --porcelain prints them.
start "$LOCKCTL" run "$seg" "a b" -- sleep 100
eventually held a%20b
expect 0 lockctl release "$seg" a%20b --escaped --token "$(field 8 holder a%20b)"
ended "$pid" 4
expect 0 lockctl ack "$seg" a%00b --escaped
expect 0 lockctl run "$seg" a%00b --escaped -- true
expect 0 lockctl verify "$seg"
silent stdout
