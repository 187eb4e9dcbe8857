#!/bin/sh
# SPDX-License-Identifier: MIT
#
# two-hosts.sh - two segments play hosts, one real redis-server is between them
#
# Each "host" has a bridge, the one process of it that communicates with Redis, and three workers that add to one file,
# each addition under the same global key.  Half way the bridge of host A is killed, and started again, as a service
# manager does.  No addition is lost, and Redis got far less than one command for each.
#
# Usage: two-hosts.sh [build directory]
set -u

build=${1:-build}
lockctl=$build/lockctl
bridge=$build/lockshm-bridge
command -v redis-server >/dev/null || { echo "skipped: redis-server is not installed"; exit 77; }
for program in "$lockctl" "$bridge"; do
	[ -x "$program" ] || { echo "no $program: build first" >&2; exit 1; }
done

dir=$(mktemp -d) || exit 1
host_a=two-hosts-a-$$ host_b=two-hosts-b-$$
rounds=20
redis='' bridge_a='' bridge_b='' workers=''

# The workers' waits end with the segments, so these go before the wait.
clean_up()
{
	trap '' HUP INT TERM
	for pid in $workers $bridge_a $bridge_b; do
		kill "$pid" 2>/dev/null
	done
	"$lockctl" rm "$host_a" 2>/dev/null
	"$lockctl" rm "$host_b" 2>/dev/null
	[ -z "$redis" ] || kill "$redis" 2>/dev/null
	wait
	# A command of a killed worker may write for a moment more.
	until rm -rf "$dir" 2>/dev/null; do
		sleep 0.05
	done
}
# Not every sh runs the trap of EXIT when a signal ends it.
trap clean_up EXIT
trap 'exit 1' HUP INT TERM

# until_true COMMAND...: polls, at most 10 s
until_true()
{
	tries=0
	until "$@" >/dev/null 2>&1; do
		tries=$((tries + 1))
		[ $tries -lt 500 ] || { echo "did not happen: $*" >&2; exit 1; }
		sleep 0.02
	done
}

counter() { "$lockctl" stat "$1" | awk -v name="bridge_$2" '$1 == name { print $2 }'; }
bridge_is() { [ "$(counter "$1" pid)" = "$2" ]; }

redis-server --port 0 --unixsocket "$dir/redis.sock" --save '' --dir "$dir" --logfile "$dir/log" &
redis=$!
until_true test -S "$dir/redis.sock"

echo "Two hosts, one redis-server:"
for host in "$host_a" "$host_b"; do
	"$lockctl" create "$host" --redis "unix://$dir/redis.sock" --keys 64 --requests 512 --owners 64 --redis-ttl 2s || exit 1
done
"$bridge" "$host_a" 2>>"$dir/bridges" &
bridge_a=$!
"$bridge" "$host_b" 2>>"$dir/bridges" &
bridge_b=$!
until_true bridge_is "$host_a" $bridge_a
until_true bridge_is "$host_b" $bridge_b
echo "  host A: its bridge is process $bridge_a; host B: process $bridge_b"

echo 0 >"$dir/count"
# A lost update would be one that was read before and written after another one.
add='n=$(cat "$0"); echo $((n + 1)) >"$0"'
worker()
{
	for i in $(seq $rounds); do
		"$lockctl" run "$1" shared-counter --global -w 60s -- sh -c "$add" "$dir/count" || exit 1
	done
}
for host in "$host_a" "$host_a" "$host_a" "$host_b" "$host_b" "$host_b"; do
	worker "$host" &
	workers="$workers $!"
done

half_way() { [ "$(cat "$dir/count")" -ge $((3 * rounds)) ]; }
until_true half_way
kill -KILL $bridge_a
"$bridge" "$host_a" 2>>"$dir/bridges" &
bridge_a=$!
echo "  half way: the bridge of host A was killed; process $bridge_a goes on with its leases"
until_true bridge_is "$host_a" $bridge_a

for pid in $workers; do
	wait "$pid" || { echo "a worker failed" >&2; exit 1; }
done
workers=''
count=$(cat "$dir/count")
echo "  $count additions by 6 workers; host A took the lock in Redis $(counter "$host_a" acquired) times for $(counter "$host_a" grants) holds," \
	"host B $(counter "$host_b" acquired) times for $(counter "$host_b" grants)"
[ "$count" = $((6 * rounds)) ] || { echo "$((6 * rounds - count)) additions were lost" >&2; exit 1; }
[ "$(counter "$host_a" lost)" = 0 ] && [ "$(counter "$host_b" lost)" = 0 ] || { echo "a lease was lost" >&2; exit 1; }
echo "  none was lost, and no lease either"
