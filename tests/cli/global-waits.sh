#!/bin/sh
# SPDX-License-Identifier: MIT
# global-waits.sh - a request that waits for another host is shown as waiting, for which host and for how long
. "$(dirname "$0")/common.sh"

needs_bridge
export LOCKSHM_HOST_NAME= # the id alone; names are in hosts.sh
other=$seg-other
trap 'lockctl rm "$other" 2>/dev/null; clean_up' EXIT

start redis-server --port 0 --unixsocket "$dir/redis.sock" --save '' --dir "$dir" --logfile "$dir/log"
eventually test -S "$dir/redis.sock"
for name in "$seg" "$other"; do
	expect 0 lockctl create "$name" --redis "unix://$dir/redis.sock" --redis-ttl 10s --host-leases 8 --keys 64 \
		--requests 256 --owners 32
	start "$bridge_program" "$name"
done
redis() { redis-cli -s "$dir/redis.sock" "$@"; }
rows() { lockctl show "$other" "$1" --local --porcelain | awk -v type="$2" '$1 == type' | wc -l; }
shows() { [ "$(rows "$1" holder)" -eq "$2" ] && [ "$(rows "$1" waiter)" -eq "$3" ]; }
says_why() { lockctl show "$other" "$1" --local | grep -qF -- "$2"; }

# A writer of the other host, and one queued behind it there.
start "$LOCKCTL" run "$seg" key --global -- sleep 100
holder=$pid
eventually held key
start "$LOCKCTL" run "$other" key --global -w inf --tag first -- sleep 100
first=$pid
eventually shows key 0 1
start "$LOCKCTL" run "$other" key --global -w inf --tag second -- true
second=$pid
eventually shows key 0 2
host=$(redis get lk:key | cut -c 1-16)
[ ${#host} -eq 16 ] || fail "the host in Redis: '$host'"
eventually says_why key "another host holds it: $host"
expect 0 lockctl show "$other" key --local
says stdout "mode     free"
says stdout "holders  0"
says stdout "waiters  2, in the order they will be granted, behind another host holds it: $host"
grep -Eq '^ +[0-9]+ \(first\) .* host lease' "$dir/stdout" || fail "the first request does not wait for the host lease"
grep -E '^ +[0-9]+ \(second\) .* host lease' "$dir/stdout" && fail "the second request waits for the host lease"
expect 0 lockctl ls "$other"
grep -Eq '^key +- +0 +2 ' "$dir/stdout" || fail "the row of ls"
expect 0 lockctl ls "$other" --waiting
grep -Eq "waits +[0-9]+ \\(first\\) .*another host holds it: $host" "$dir/stdout" || fail "the first in ls --waiting"
grep -Eq "waits +[0-9]+ \\(second\\) .*waiters ahead: 1" "$dir/stdout" || fail "the second in ls --waiting"
if command -v jq >/dev/null; then
	expect 0 lockctl show "$other" key --local --json
	jq -e --arg host "$host" '.mode == null and .holders == [] and [.waiters[].waits_for_host] == [true, false] and
		(.waiters[0] | .tag == "first" and has("waiting_ms") and has("ticket")) and
		.lease.state == "acquiring" and .lease.why == "another host holds it: " + $host' \
		<"$dir/stdout" >/dev/null || fail "JSON of show"
fi
expect 0 lockctl verify "$other"
# A time-out names the host as well.
expect 3 lockctl run "$other" key --global -w 0 -- true

# As soon as it holds under the lease it is a holder.
kill -TERM "$holder"
ended "$holder" "$(by_signal TERM)"
eventually shows key 1 1
expect 0 lockctl show "$other" key --local
says stdout "holders  1"
grep -q 'another host' "$dir/stdout" && fail "it waits for another host"
kill -TERM "$first"
ended "$first" "$(by_signal TERM)"
ended "$second" 0

# Another program has it: it is not called a host.
redis set lk:foreign thief >/dev/null
start "$LOCKCTL" run "$other" foreign --global -w inf -- true
last=$pid
eventually shows foreign 0 1
eventually says_why foreign "another program holds it in Redis"
redis del lk:foreign >/dev/null
ended "$last" 0
