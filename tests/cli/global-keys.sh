#!/bin/sh
# SPDX-License-Identifier: MIT
# global-keys.sh - create --global-keys: run, seat, once and hold of such a key are global without --global
. "$(dirname "$0")/common.sh"

needs_bridge
other=$seg-other
trap 'lockctl rm "$other" 2>/dev/null; clean_up' EXIT

expect 2 lockctl create "$seg" --global-keys 'user:'
says stderr "redis names no server"
expect 2 lockctl create "$seg" --redis redis://localhost --global-keys 'user:*'
says stderr "'*' alone is all keys"

start redis-server --port 0 --unixsocket "$dir/redis.sock" --save '' --dir "$dir" --logfile "$dir/log"
eventually test -S "$dir/redis.sock"
for name in "$seg" "$other"; do
	expect 0 lockctl create "$name" --redis "unix://$dir/redis.sock" --redis-prefix "test:" --redis-ttl 2s \
		--global-keys user:,job: --host-leases 8 --keys 64 --requests 256 --owners 32
done

# No bridge runs on either host: the requests start one.
expect 0 lockctl run "$seg" user:1 -- redis-cli -s "$dir/redis.sock" exists test:user:1
says stdout 1
expect 0 lockctl run "$seg" report -- redis-cli -s "$dir/redis.sock" exists test:report
says stdout 0
start "$LOCKCTL" run "$seg" user:1 -- sleep 100
holder=$pid
eventually held user:1
for command in "run $other user:1 -w 0 --" "seat $other user:1 -w 300ms --"; do
	# shellcheck disable=SC2086 # words
	expect 3 lockctl $command true
	says stderr "another host"
done
expect 0 lockctl once "$other" user:1 --every 1h -- touch "$dir/ran"
says stderr "another host"
[ -e "$dir/ran" ] && fail "once ran beside the other host"
exec 9>"$dir/file"
expect 3 lockctl hold "$other" user:1 -w 0 --fd 9
says stderr "another host"
exec 9>&-

# Options that go by it.
expect 0 lockctl run "$other" job:1 --redis-policy wait -- true
expect 2 lockctl run "$other" report --redis-policy wait -- true
says stderr "--redis-policy needs --global"

# The rule is shown.
expect 0 lockctl stat "$seg"
says stdout "user:,job:"
expect 0 lockctl ls "$seg"
says stdout "global for every request, by prefix: user:,job:"
expect 0 lockctl show "$seg" user:1
says stdout "global   every request"
expect 0 lockctl show "$seg" unused
grep -q "every request" "$dir/stdout" && fail "a key that no prefix has is shown as global"
if command -v jq >/dev/null; then
	expect 0 lockctl stat "$seg" --json
	jq -e '.global_keys == "user:,job:"' <"$dir/stdout" >/dev/null || fail "JSON of stat"
	expect 0 lockctl show "$seg" user:1 --json --local
	jq -e '.global == true' <"$dir/stdout" >/dev/null || fail "JSON of show"
	expect 0 lockctl ls "$seg" --json
	jq -e '.locks[0].global == true' <"$dir/stdout" >/dev/null || fail "JSON of ls"
fi
kill -TERM "$holder"
ended "$holder" 143
