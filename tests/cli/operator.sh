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
start "$LOCKCTL" run "$seg" key --robust -- sleep 100
eventually held key
token=$(field 8 holder key)
expect 1 lockctl release "$seg" key --token $((token + 1))
says stderr "lockctl: release $seg: no hold of 'key' has token $((token + 1))"
expect 1 lockctl release "$seg" other --token "$token"
held key || fail "a wrong token ended the hold"
kill -0 "$pid" || fail "the holder ended"
keeper=$(keeper "$pid")
expect 0 lockctl release "$seg" key --token "$token"
silent stderr
ended "$pid" 4
# Its command may still be running.
expect 0 lockctl ack "$seg" key
says stdout "cleared: an earlier holder overran its lease or was ended by an operator: "
says stdout "pid $keeper 'sleep', "
says stdout " ago, token $token"

# ack: no damage mark, then one, then none again.
expect 0 lockctl ack "$seg" key
equal ack "$(cat "$dir/stdout")" "no damage mark"
start "$LOCKCTL" run "$seg" key --robust --tag victim -- sleep 100
eventually held key
token=$(field 8 holder key)
kill_lockctl

# sweep frees the slot of the dead owner and leaves the damage mark for the next holder.
expect 0 lockctl sweep "$seg"
[ "$(cat "$dir/stdout")" -ge 1 ] || fail "sweep freed nothing"
expect 0 lockctl sweep "$seg"
equal swept "$(cat "$dir/stdout")" 0
expect 0 lockctl show "$seg" key --porcelain
grep -Eqx "$(echo "lock key 3 - 0 0 OWNER_DIED $keeper $keeper [0-9]+ $token victim [0-9a-f]{16}" | tr ' ' '\t')" "$dir/stdout" || fail "mark"
expect 0 lockctl show "$seg" key
says stdout "damage   an earlier holder died inside: pid $keeper 'victim', "
says stdout "lockctl ack clears the mark"
expect 0 lockctl ls "$seg"
says stdout OWNER_DIED
equal damaged "$(lockctl stat "$seg" | awk '$1 == "keys_damaged" { print $2 }')" 1

expect 0 lockctl ack "$seg" key
says stdout "cleared: an earlier holder died inside: pid $keeper 'victim', "
says stdout " ago, token $token"
expect 0 lockctl ack "$seg" key
equal ack "$(cat "$dir/stdout")" "no damage mark"
expect 0 lockctl ls "$seg" --porcelain
silent stdout

# ack takes no lock: the present holder may be the one that repairs.
damage()
{
	start "$LOCKCTL" run "$seg" "$1" --robust -- sleep 100
	eventually held "$1"
	kill_lockctl
	expect 0 lockctl sweep "$seg"
}
damaged() { lockctl stat "$seg" | awk '$1 == "keys_damaged" { print $2 }'; }
damage key
start "$LOCKCTL" run "$seg" key -- sleep 100 2>/dev/null
eventually held key
expect 0 lockctl ack "$seg" key
says stdout "cleared: an earlier holder died inside: "
held key || fail "ack ended the hold"
kill -TERM "$pid"
ended "$pid" 143

# Many at once: by prefix, by age, all.
for key in user:1 user:2 order:1 order:2 'odd 1'; do
	start "$LOCKCTL" run "$seg" "$key" --robust -- sleep 100
	eventually held "$(printf '%s' "$key" | sed 's/ /%20/')"
	kill_lockctl
done
expect 0 lockctl sweep "$seg"
equal damaged "$(damaged)" 5
expect 0 lockctl ack "$seg" --older-than 1h
equal ack "$(cat "$dir/stdout")" "cleared: 0"
expect 0 lockctl ack "$seg" --prefix user: --older-than 0
equal ack "$(cat "$dir/stdout")" "cleared: 2"
expect 0 lockctl ack "$seg" --prefix odd%20 --escaped
equal ack "$(cat "$dir/stdout")" "cleared: 1"
expect 0 lockctl ls "$seg" --porcelain
equal "marks left" "$(cut -f 2 "$dir/stdout" | sort | tr '\n' ' ')" "order:1 order:2 "
expect 0 lockctl ack "$seg" --all
equal ack "$(cat "$dir/stdout")" "cleared: 2"
equal damaged "$(damaged)" 0

# Keys given as --porcelain prints them.
start "$LOCKCTL" run "$seg" "a b" -- sleep 100
eventually held a%20b
expect 0 lockctl release "$seg" a%20b --escaped --token "$(field 8 holder a%20b)"
ended "$pid" 4
expect 0 lockctl ack "$seg" a%00b --escaped
expect 0 lockctl run "$seg" a%00b --escaped -- true
expect 0 lockctl verify "$seg"
silent stdout
