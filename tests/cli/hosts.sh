#!/bin/sh
# SPDX-License-Identifier: MIT
# hosts.sh - hosts have names in messages, logs and lists; other settings on another host are logged, and found by --check
#
# Two segments play two hosts.  A host with other settings is an entry in Redis as its bridge would store it.
. "$(dirname "$0")/common.sh"

needs_bridge
here=$seg there=$seg-2
trap '"$LOCKCTL" rm "$there" >/dev/null 2>&1; clean_up' EXIT
start redis-server --port 0 --unixsocket "$dir/redis.sock" --save '' --dir "$dir" --logfile "$dir/log"
eventually test -S "$dir/redis.sock"
redis() { redis-cli -s "$dir/redis.sock" "$@"; }
server=unix://$dir/redis.sock

for name in "$here" "$there"; do
	expect 0 lockctl create "$name" --redis "$server" --redis-prefix test: --redis-ttl 2s --host-leases 8 --keys 64 \
		--requests 256 --owners 32
done
listed() { redis zrange "$1" 0 -1 | grep -q "$2"; }
logged() { grep -qF -- "$2" "$dir/$1"; }

# Wrong usage.
expect 2 bridge --host-name "$(printf %65s x)" "$here"
says stderr "at most 64 bytes"

# Each host has one entry in each list.
start "$bridge_program" --host-name web-1 "$here" 2>"$dir/here.log"
one=$pid
eventually listed test:lockshm:hosts name=web-1
LOCKSHM_HOST_NAME=$(printf 'web 2\033[1m') start "$bridge_program" "$there" 2>"$dir/there.log"
eventually listed test:lockshm:hosts name=web%202%1B
eventually listed lockshm:hosts name=web%202%1B
eventually listed lockshm:hosts name=web-1
equal "entries" "$(redis zcard test:lockshm:hosts)" 2
listed test:lockshm:hosts "^[0-9a-f]\{16\} name=web-1 segment=$here prefix=test: ttl=2000 servers=$server\$" ||
	fail "the entry: $(redis zrange test:lockshm:hosts 0 -1)"
[ "$(redis pttl test:lockshm:hosts)" -gt 80000000 ] || fail "the list has no end"

# A message that a key was not obtained names the host that has it, in its bytes that are safe for a terminal.
id=$(redis zrange test:lockshm:hosts 0 -1 | sed -n 's/ name=web-1 .*//p')
start "$LOCKCTL" run "$here" key --global -t none -- sleep 100
holder=$pid
eventually held key
expect 3 lockctl run "$there" key --global -w 1s -- true
says stderr "another host holds it: web-1 ($id)"
expect 3 lockctl run "$there" key --global -w 0 -- true
says stderr "another host holds it: web-1 ($id)"

# A host that was not there at the last look is named soon.
start "$LOCKCTL" run "$there" other --global -t none -- sleep 100
named()
{
	lockctl run "$here" other --global -w 0 -- true 2>"$dir/stderr"
	grep -qF "another host holds it: web%202%1B[1m (" "$dir/stderr"
}
eventually named

# So do the lists.  They wait for a second at most.
shows() { "$@" >"$dir/stdout" 2>"$dir/stderr" && grep -qF -- "$text" "$dir/stdout"; }
for text in "web-1 $id " "web-1 $id (this host)"; do
	[ "$text" = "web-1 $id " ] && name=$there || name=$here
	eventually shows bridge show "$name" key
	eventually shows lockctl show "$name" key
done
text='"host_name": "web-1"'
eventually shows bridge show --json "$there" key
eventually shows lockctl show --json "$there" key
text="$(printf '\tweb-1')"
eventually shows lockctl show --porcelain "$there" key
eventually shows bridge show --porcelain "$there" key
equal "the last column" "$(awk -F '\t' '$1 == "redis-holder" { print $8 }' "$dir/stdout")" web-1

# The log names the host that took a lease.
redis eval "redis.call('HSET', '{test:key}:f', 'token', ARGV[1]); redis.call('SET', 'test:key', ARGV[1], 'PX', 9999)" 0 \
	"$(redis zrange test:lockshm:hosts 0 -1 | sed -n 's/ name=web%.*//p')0123456789abcdef" >/dev/null
eventually logged here.log "another holder has it in Redis, with the value"
logged here.log ", host web%202%1B[1m" || fail "the log names no host"
ended "$holder" 4
redis del test:key >/dev/null

# Another prefix, other servers, another lease time: only of a segment of this name, and of another machine.
now() { redis time | awk 'NR == 1 { print $1 "000" }'; }
entry() { redis zadd "$1" "$(($(now) - ${3:-0}))" "$2" >/dev/null; }
entry test:lockshm:hosts "00000000000000f0 name=same segment=$here prefix=test: ttl=2000 servers=$server"
entry test:lockshm:hosts "00000000000000f1 name=web-1 segment=$here prefix=test: ttl=3000 servers=$server"
entry test:lockshm:hosts "00000000000000f2 name=old segment=$here prefix=test: ttl=3000 servers=$server" 300000
entry test:lockshm:hosts "00000000000000f3 name=elsewhere segment=$here-x prefix=test: ttl=3000 servers=$server"
entry test:lockshm:hosts "00000000000000f7 name=spelled segment=$here prefix=test: ttl=2000 servers=redis://this-one"
entry test:lockshm:hosts "short name=$here segment=$here ttl=3"
entry test:lockshm:hosts "no entry at all"
expect 0 bridge --check --host-name web-1 "$here"
says stdout "hosts: none with other settings"
entry test:lockshm:hosts "00000000000000f8 name=wide segment=$here prefix=test: ttl=2000 global=* servers=$server"
expect 1 bridge --check --host-name web-1 "$here"
says stdout "FAIL  host wide: has the global keys \"*\", this one \"\""
entry test:lockshm:hosts "00000000000000f4 name=slow segment=$here prefix=test: ttl=3000 servers=$server"
expect 1 bridge --check --host-name web-1 "$here"
says stdout "FAIL  host slow: has a lease time of 3000 ms, this one 2000 ms"
entry test:lockshm:hosts "00000000000000f9 name=both segment=$here prefix=test: ttl=3000 global=* servers=$server"
expect 1 bridge --check --host-name web-1 "$here"
says stdout "FAIL  host both: has a lease time of 3000 ms, this one 2000 ms"
says stdout "FAIL  host both: has the global keys \"*\", this one \"\""
entry test:lockshm:hosts "00000000000000f5 name=far segment=$here prefix=test: ttl=2000 servers=redis://far,$server"
entry lockshm:hosts "00000000000000f6 name=apart segment=$here prefix=lk: ttl=2000 servers=$server"
before=$(redis zcard test:lockshm:hosts)
expect 1 bridge --check --host-name web-1 "$here"
says stdout "FAIL  host far: has the servers redis://far,$server, this one $server"
says stdout 'FAIL  host apart: has the prefix "lk:", this one "test:"'
equal "entries after --check" "$(redis zcard test:lockshm:hosts)" "$before"
kill -TERM "$one"
ended "$one" 0
start "$bridge_program" --host-name web-1 "$here" 2>"$dir/here.log"
one=$pid
eventually logged here.log "host slow (00000000000000f4) has a lease time of 3000 ms, this one 2000 ms"
eventually logged here.log "host wide (00000000000000f8) has the global keys \"*\", this one \"\": a key of one list"
eventually logged here.log "host both (00000000000000f9) has a lease time of"
eventually logged here.log "host both (00000000000000f9) has the global keys"
eventually logged here.log "host far (00000000000000f5) has the servers redis://far,$server"
eventually logged here.log 'host apart (00000000000000f6) has the prefix "lk:", this one "test:"'
for name in same web-1 old elsewhere spelled; do
	logged here.log "host $name (" && fail "host $name is logged"
done
kill -TERM "$one"
ended "$one" 0

# With an empty name a host takes no part.
redis del lockshm:hosts test:lockshm:hosts >/dev/null
start "$bridge_program" --host-name "" "$here" 2>"$dir/here.log"
one=$pid
eventually logged here.log leads
expect 0 lockctl run "$here" key --global -w 20s -- true
listed test:lockshm:hosts "segment=$here " && fail "a host without a name is in the list"
kill -TERM "$one"
ended "$one" 0

# Foreign data under the names stays as it is, and keys work.
redis del lockshm:hosts test:lockshm:hosts >/dev/null
redis set test:lockshm:hosts mine >/dev/null
redis set lockshm:hosts mine >/dev/null
start "$bridge_program" "$here" 2>"$dir/here.log"
eventually logged here.log leads
expect 0 lockctl run "$here" key --global -w 20s -- true
expect 3 lockctl run "$here" lockshm:hosts --global -w 0 -- true
expect 0 bridge --check "$here"
says stdout "note  hosts: their settings cannot be read"
equal "foreign data" "$(redis get test:lockshm:hosts)" mine
