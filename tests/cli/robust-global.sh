#!/bin/sh
# SPDX-License-Identifier: MIT
# robust-global.sh - run --robust --global: the death of a holder on another host, shown and cleared from any host
. "$(dirname "$0")/common.sh"

needs_bridge
other=$seg-other
trap 'lockctl rm "$other" 2>/dev/null; clean_up' EXIT

start redis-server --port 0 --unixsocket "$dir/redis.sock" --save '' --dir "$dir" --logfile "$dir/log"
eventually test -S "$dir/redis.sock"
for name in "$seg" "$other"; do
	expect 0 lockctl create "$name" --redis "unix://$dir/redis.sock" --redis-prefix "test:" --redis-ttl 2s \
		--redis-retain 0 --host-leases 8 --keys 64 --requests 256 --owners 32
done
is_free() { [ "$(redis-cli -s "$dir/redis.sock" exists test:key)" = 0 ]; }
dies()
{
	start "$LOCKCTL" run "$seg" key --robust --global --tag victim -- sleep 100
	eventually held key
	kill_lockctl
	eventually is_free
}
# shellcheck disable=SC2016 # expanded by the command
next() { expect 0 lockctl run "$other" key --robust --global "$@" -- sh -c 'echo "$LOCKSHM_STATUS $LOCKSHM_DAMAGE_PID"'; }

next
says stdout "OK"
dies
next
says stdout "OWNER_DIED 0"
says stderr "an earlier holder died inside: $keeper@"
says stderr "lockctl ack clears it"
expect 0 lockctl show "$other" key
says stdout "damaged: a holder died: host "
says stdout ", pid $keeper"
expect 0 lockctl show "$other" key --porcelain
grep -q "^redis-damage	.*	OWNER_DIED	$keeper	[0-9]*$" "$dir/stdout" || fail "no line redis-damage"
if command -v jq >/dev/null; then
	expect 0 lockctl show "$other" key --json
	jq -e ".redis[0].damage.status == \"OWNER_DIED\" and .redis[0].damage.pid == $keeper" <"$dir/stdout" >/dev/null ||
		fail "JSON of show"
fi
expect 0 lockctl ack "$other" key
says stdout "no damage mark"
says stdout "cleared in Redis: a holder died: host "
next
says stdout "OK"
expect 0 lockctl ack "$other" key
says stdout "no damage in Redis"
expect 0 lockctl show "$other" key
grep -q damaged "$dir/stdout" && fail "it is shown as damaged"

dies
next --acknowledge
says stdout "OWNER_DIED 0"
says stderr "(damage mark cleared)"
next
says stdout "OK"

dies
expect 0 "$bridge_program" ack "$seg" key
says stdout "cleared in Redis: a holder died"
next
says stdout "OK"
