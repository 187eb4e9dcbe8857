#!/bin/sh
# SPDX-License-Identifier: MIT
# global.sh - create --redis, run --global with a bridge, and their output in show, ls and stat
. "$(dirname "$0")/common.sh"

needs_bridge
other=$seg-other
trap 'lockctl rm "$other" 2>/dev/null; clean_up' EXIT

# Wrong settings: nothing is made; the message names the wrong one, without the password.
refuses()
{
	text=$1
	shift
	expect 2 lockctl create "$seg" "$@"
	says stderr "$text"
	grep -q secret "$dir/stderr" && fail "the password is in the message"
}
refuses "password" --redis redis://me:secret@localhost
refuses "must begin with" --redis http://localhost
refuses "Redis URI 1: takes no options: password and TLS files go into files of the bridge's credentials directory" \
	--redis "rediss://localhost?tls-ca=ca.crt"
refuses "the same server" --redis redis://localhost,redis://localhost:6379/1
refuses "quorum" --redis redis://a,redis://b --redis-quorum
refuses "must be fail or wait" --redis redis://localhost --redis-policy maybe
refuses "--redis-ttl: redis_ttl is 500ms, must be 1s..1h" --redis redis://localhost --redis-ttl 500ms
refuses "redis_gap is 11s, must be 0..10s" --redis redis://localhost --redis-gap 11s
refuses "1..4096" --redis redis://localhost --host-leases 5000
refuses "--redis-wait" --redis redis://localhost --redis-wait 16
refuses "quorum" --redis redis://a,redis://b,redis://c --redis-quorum --redis-wait 1
refuses "redis names no server" --redis-policy wait
expect 1 lockctl stat "$seg"
expect 0 lockctl create "$seg"
expect 2 lockctl run "$seg" key --global -- true
says stderr "--redis"
expect 1 bridge "$seg"
says stderr "a segment without Redis"
expect 0 lockctl rm "$seg"

start redis-server --port 0 --unixsocket "$dir/redis.sock" --save '' --dir "$dir" --logfile "$dir/log"
eventually test -S "$dir/redis.sock"
for name in "$seg" "$other"; do
	expect 0 lockctl create "$name" --redis "unix://$dir/redis.sock" --redis-prefix "test:" --redis-ttl 2s \
		--redis-retain 0 --host-leases 8 --keys 64 --requests 256 --owners 32
done
redis() { redis-cli -s "$dir/redis.sock" "$@"; }
stat_of() { lockctl stat "$1" | awk -v name="$2" '$1 == name { print $2 }'; }

# A bridge that lockctl starts has nothing of its caller: no stream, descriptor, directory, session or service manager.
# The caller's streams end with the caller; a bridge that kept one would hold up the substitution for seconds.
mkdir "$dir/place" "$dir/place/secrets"
exec 7>"$dir/seven"
pid_in_text=$(cd "$dir/place" && NOTIFY_SOCKET=$dir/notify WATCHDOG_USEC=1000000 LOCKSHM_CREDENTIALS=secrets \
	"$LOCKCTL" run "$other" key --global -- sh -c '"$1" stat "$2"' sh "$LOCKCTL" "$other" 2>&1 |
	awk '$1 == "bridge_pid" { print $2 }')
exec 7>&-
[ "${pid_in_text:-0}" -gt 0 ] || fail "no bridge was started"
equal "its directory" "$(readlink "/proc/$pid_in_text/cwd")" /
for fd in 0 1 2; do
	equal "its descriptor $fd" "$(readlink "/proc/$pid_in_text/fd/$fd")" /dev/null
done
ls -l "/proc/$pid_in_text/fd" | grep -E 'pipe:|seven|/dev/pts|/dev/tty' && fail "a descriptor of the caller"
equal "its terminal" "$(cut -d' ' -f7 "/proc/$pid_in_text/stat")" 0
[ "$(cut -d' ' -f6 "/proc/$pid_in_text/stat")" != "$(cut -d' ' -f6 "/proc/$$/stat")" ] || fail "the session of the caller"
tr '\0' '\n' <"/proc/$pid_in_text/environ" | grep -E '^(NOTIFY_SOCKET|WATCHDOG)' && fail "the manager of the caller"
tr '\0' '\n' <"/proc/$pid_in_text/environ" | grep -q "^LOCKSHM_CREDENTIALS=$dir/place/secrets$" || fail "its credentials"
gone() { ! kill -0 "$pid_in_text" 2>/dev/null; }
eventually gone

# A service is the bridge of the one host, a bridge that lockctl run starts that of the other one.
start "$bridge_program" "$seg"
service=$pid
bridge_is() { [ "$(stat_of "$seg" bridge_pid)" = "$1" ]; }
eventually bridge_is "$service"

start "$LOCKCTL" run "$seg" key --global -- sleep 100
holder=$pid
eventually held key
lease_held() { lockctl show "$seg" key | grep -q '^lease    held, exclusive, good for'; }
eventually lease_held
equal "the bridge" "$(stat_of "$seg" bridge_pid)" "$service"
equal "leases held" "$(stat_of "$seg" bridge_host_leases_held)" 1
expect 3 lockctl run "$other" key --global -w 0 -- true
says stderr "another host"
expect 3 lockctl run "$other" key --global -w 300ms -- true
expect 0 lockctl run "$other" key -w 0 -- true # without --global it is another lock

if command -v jq >/dev/null; then
	expect 0 lockctl show "$seg" key --json
	jq -e '.lease.state == "held" and .lease.mode == "exclusive" and .lease.local_grants == 1 and .lease.remaining_ms > 0 and
		(.lease.value | length) == 32 and .holders[0].token > 0' <"$dir/stdout" >/dev/null || fail "JSON of show"
	[ "$(redis get test:key)" = "$(jq -r .lease.value <"$dir/stdout")" ] || fail "the value in Redis"
	expect 0 lockctl ls "$seg" --json
	jq -e '[.locks[] | select(.key == "key") | .lease.state] == ["held"]' <"$dir/stdout" >/dev/null || fail "JSON of ls"
	expect 0 lockctl stat "$seg" --json
	jq -e '.bridge_policy == "fail" and .bridge_ttl_ms == 2000 and .bridge_prefix == "test:" and .bridge_host_leases == 8' \
		<"$dir/stdout" >/dev/null || fail "JSON of stat"
fi
expect 0 lockctl stat "$seg" --openmetrics
says stdout 'lockshm_bridge_host_leases_held{segment="/'
expect 0 lockctl verify "$seg"

# The state in Redis, as each host sees it.
expect 0 lockctl show "$other" key
says stdout "redis    unix://$dir/redis.sock: exclusive"
grep -Eq "^  [!-~]+ [0-9a-f]{16} +exclusive +[0-9.]+ m?s +[0-9a-f]{32}\$" "$dir/stdout" || fail "the holder in Redis"
value=$(redis get test:key)
expect 0 lockctl show "$seg" key
says stdout "(this host)"
says stdout "$value"
expect 0 lockctl show "$seg" key --porcelain
tab=$(printf '\t')
grep -Eq "^redis-holder${tab}unix://$dir/redis.sock${tab}[0-9a-f]{16}${tab}1${tab}exclusive${tab}[0-9]+${tab}$value${tab}[!-~]+\$" \
	"$dir/stdout" || fail "porcelain of Redis"
grep -Eq "^redis${tab}unix://$dir/redis.sock${tab}exclusive${tab}1${tab}0${tab}[0-9]+${tab}-\$" "$dir/stdout" ||
	fail "porcelain of the server"
expect 0 lockctl show "$seg" key --local --porcelain
grep -q '^redis' "$dir/stdout" && fail "--local queried Redis"
expect 0 lockctl show "$seg" "$(printf '%0700d' 1)" # too long to be global
grep -q '^redis' "$dir/stdout" && fail "a long key is in Redis"
if command -v jq >/dev/null; then
	expect 0 lockctl show "$other" key --json
	jq -e --arg value "$value" '.redis | length == 1 and .[0].error == null and .[0].state == "exclusive" and
		.[0].name == "test:key" and .[0].mark == null and .[0].waiters == [] and .[0].next_token > 0 and
		(.[0].holders[0] | .value == $value and .this_host == false and .mode == "exclusive" and
		.expires_in_ms > 0 and (.host | length) == 16)' <"$dir/stdout" >/dev/null || fail "JSON of Redis"
	expect 0 lockctl show "$other" key --local --json
	jq -e 'has("redis") | not' <"$dir/stdout" >/dev/null || fail "JSON with --local"
fi

# Once in a period, and one seat, of all hosts.
expect 0 lockctl once "$seg" period --global --every 1h -- true
expect 9 lockctl once "$other" period --global --every 1h -E 9 -- true
says stderr "'period' skipped: "
start "$LOCKCTL" seat "$seg" seat --global -- sleep 100
seat=$pid
eventually held seat
expect 9 lockctl seat "$other" seat --global -w 100ms -E 9 -- true
says stderr "'seat': waits: "
kill -TERM "$seat"
ended "$seat" 143
expect 0 lockctl seat "$other" seat --global -w 20s -- true

# A signal ends the service; the next one goes on with the lease.
kill -TERM "$service"
ended "$service" 0
equal "the bridge" "$(stat_of "$seg" bridge_pid)" 0
start "$bridge_program" "$seg"
eventually bridge_is "$pid"

# The other host gets the lock as soon as the command has ended.
start "$LOCKCTL" run "$other" key --global -w 20s -- true
next=$pid
eventually lockctl show "$other" key
kill -TERM "$holder"
ended "$holder" "$(by_signal TERM)"
ended "$next" 0

# Taken away in Redis: the command gets SIGTERM, and the exit status is 4.
start "$LOCKCTL" run "$seg" key --global -- sleep 100
holder=$pid
eventually lease_held
redis flushall >/dev/null
ended "$holder" 4

# The command's token is that of show, and of release.
start "$LOCKCTL" run "$seg" key --global -- sh -c 'echo "$LOCKSHM_TOKEN" >"$0"; exec sleep 100' "$dir/token"
holder=$pid
eventually test -s "$dir/token"
token=$(cat "$dir/token")
expect 0 lockctl show "$seg" key
grep -Eq "^  $(keeper "$holder") \(.*\) +exclusive +$token " "$dir/stdout" || fail "show lacks the command's token, $token"
expect 1 lockctl release "$seg" key --token $((token + 1))
expect 0 lockctl release "$seg" key --token "$token"
ended "$holder" 4

# An operator takes it away, from exactly that holder.
start "$LOCKCTL" run "$seg" key --global -- sleep 100
holder=$pid
eventually lease_held
expect 2 lockctl release "$other" key --remote "$value" --token 1
expect 2 lockctl release "$other" key --remote ""
expect 1 lockctl release "$other" key --remote "$value"
says stderr "not that value any more"
value=$(redis get test:key)
says stderr "$value"
expect 0 lockctl release "$other" key --remote "$value"
ended "$holder" 4
redis set test:key 'a thief' >/dev/null
expect 0 lockctl show "$seg" key
says stdout "another program"
expect 0 lockctl release "$seg" key --escaped --remote a%20thief
equal "what is left" "$(redis exists test:key)" 0
redis hset test:key a b >/dev/null
expect 0 lockctl show "$seg" key
says stdout "data of type hash, not a lock"
expect 1 lockctl release "$seg" key --remote b
says stderr "not a lock"
equal "what is left" "$(redis hget test:key a)" b
redis del test:key >/dev/null

# Redis out of reach: by policy.
redis shutdown nosave >/dev/null 2>&1
expect 1 lockctl run "$seg" key --global -- true
says stderr "cannot connect"
expect 0 lockctl show "$seg" key
says stdout "redis    unix://$dir/redis.sock: cannot connect"
silent stderr
if command -v jq >/dev/null; then
	expect 0 lockctl show "$seg" key --json
	jq -e '.redis[0] | .error != null and (has("state") | not)' <"$dir/stdout" >/dev/null || fail "JSON without Redis"
fi
expect 0 lockctl run "$seg" key --global --redis-policy local-only -- true
says stderr "this host only"
expect 3 lockctl run "$seg" key --global --redis-policy wait -w 300ms -- true
expect 0 lockctl show "$seg" key
grep -qE "; last try, [0-9.]+ m?s ago: unix://$dir/redis.sock: cannot connect" "$dir/stdout" || fail "no reason with its time"
if command -v jq >/dev/null; then
	expect 0 lockctl show "$seg" key --json
	jq -e '.lease.why != null and .lease.why_age_ms >= 0' <"$dir/stdout" >/dev/null || fail "JSON of the reason"
fi

# A reason ends with the next lease.
start redis-server --port 0 --unixsocket "$dir/redis.sock" --save '' --dir "$dir" --logfile "$dir/log"
server=$pid
expect 0 lockctl run "$seg" key --global --redis-policy wait -w 20s -- true
given_back() { lockctl show "$seg" key --local | grep -q '^lease    none'; }
eventually given_back
expect 0 lockctl show "$seg" key --local
grep -q 'cannot connect' "$dir/stdout" && fail "a reason from before the last lease"
kill -KILL "$server"
expect 2 lockctl run "$seg" key --redis-policy wait -- true
says stderr "--redis-policy needs --global"
expect 0 lockctl rm "$other"
expect 2 lockctl create "$other" --redis "unix://$dir/redis.sock" --redis-policy local-only
says stderr "redis_policy is local-only, must be fail or wait"
expect 0 lockctl run "$seg" local -- true
