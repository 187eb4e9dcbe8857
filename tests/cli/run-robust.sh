#!/bin/sh
# SPDX-License-Identifier: MIT
# run-robust.sh - run --robust: what the command learns of a dead holder; a plain run leaves the mark to others
. "$(dirname "$0")/common.sh"

# lock_environment OPTION...: what the command gets, in $dir/stdout
lock_environment()
{
	expect 0 env LOCKSHM_DAMAGE_PID=of-an-outer-run LOCKSHM_TOKEN=x "$LOCKCTL" run "$seg" key -w 5s "$@" -- env
	grep '^LOCKSHM_' "$dir/stdout" | sort >"$dir/environment"
	mv "$dir/environment" "$dir/stdout"
	mark=$(lockctl show "$seg" key --porcelain | awk -F '\t' '$1 == "lock" { print $7 }')
}
lines() { equal lines "$(wc -l <"$dir/stdout" | tr -d ' ')" "$1"; }
die()
{
	start "$LOCKCTL" run "$seg" key --tag victim "$@" -- sleep 100 2>/dev/null
	eventually held key
	token=$(field 8 holder key)
	kill_lockctl
	victim=$keeper
}

expect 0 lockctl create "$seg"
lock_environment
silent stderr
lines 4
says stdout "LOCKSHM_SEGMENT=/$seg"
says stdout "LOCKSHM_KEY=key"
says stdout "LOCKSHM_STATUS=OK"
grep -qE '^LOCKSHM_TOKEN=[1-9][0-9]*$' "$dir/stdout" || fail "no token"
expect 0 lockctl run "$seg" key -c 'echo "$LOCKSHM_TOKEN"'
first=$(cat "$dir/stdout")
expect 0 lockctl run "$seg" key -c 'echo "$LOCKSHM_TOKEN"'
[ "$(cat "$dir/stdout")" -gt "$first" ] || fail "tokens do not rise"
expect 0 lockctl run "$seg" a%00b --escaped -- printenv LOCKSHM_KEY
equal "escaped key" "$(cat "$dir/stdout")" "a%00b"
expect 0 lockctl run "/$seg" key -- printenv LOCKSHM_SEGMENT
equal segment "$(cat "$dir/stdout")" "/$seg"

# Not robust: a death is no news.
die
lock_environment
silent stderr
says stdout LOCKSHM_STATUS=OK

# Robust: each robust run gets the status until one acknowledges; the status of the command counts, as always.
die --robust
lock_environment --robust
lines 5
says stdout LOCKSHM_STATUS=OWNER_DIED
says stdout "LOCKSHM_DAMAGE_PID=$victim"
says stderr "lockctl: run $seg: 'key': an earlier holder died inside: pid $victim 'victim', "
says stderr "token $token; what the lock protects may be torn (the damage mark stays: lockctl ack clears it)"
equal mark "$mark" OWNER_DIED
expect 5 lockctl run "$seg" key --robust -- sh -c '[ "$LOCKSHM_STATUS" = OK ] || exit 5'
# A plain run learns of it by the message only, and does not clear it.
lock_environment
lines 4
says stdout LOCKSHM_STATUS=OK
says stderr "an earlier holder died inside: pid $victim 'victim'"
equal mark "$mark" OWNER_DIED
lock_environment --robust --acknowledge
says stdout LOCKSHM_STATUS=OWNER_DIED
says stdout "LOCKSHM_DAMAGE_PID=$victim"
says stderr "(damage mark cleared)"
equal mark "$mark" -
lock_environment --robust
says stdout LOCKSHM_STATUS=OK
lines 4
silent stderr

# The key is robust by now: a plain holder leaves a mark, too; what the message advises clears it.
die
lock_environment --robust
says stdout LOCKSHM_STATUS=OWNER_DIED
says stderr "lockctl ack clears it"
expect 0 lockctl ack "$seg" key
says stdout "cleared: an earlier holder died inside: pid $victim 'victim', "
lock_environment --robust
says stdout LOCKSHM_STATUS=OK

# Ended by an operator.
start "$LOCKCTL" run "$seg" key --robust -- sleep 100 2>/dev/null
eventually held key
keeper=$(keeper "$pid")
expect 0 lockctl release "$seg" key --token "$(field 8 holder key)"
ended "$pid" 4
lock_environment --robust --acknowledge
says stdout LOCKSHM_STATUS=TOOK_OVER_EXPIRED
says stdout "LOCKSHM_DAMAGE_PID=$keeper"

expect 2 lockctl run "$seg" key --acknowledge -- true
expect 0 lockctl verify "$seg"
