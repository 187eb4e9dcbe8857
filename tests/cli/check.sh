#!/bin/sh
# SPDX-License-Identifier: MIT
# check.sh - lockshm-bridge --check: one line for each thing, what to do, exit statuses; nothing changes
. "$(dirname "$0")/common.sh"

needs_bridge
line() { grep -qE -- "^$1 +$2" "$dir/stdout" || fail "no line '$1 $2'"; }
no_line() { ! grep -qE -- "^$1 " "$dir/stdout" || fail "a line of $1"; }
make_segment()
{
	lockctl rm "$seg" >/dev/null 2>&1
	expect 0 lockctl create "$seg" --redis-prefix test: --redis-ttl 2s --host-leases 8 --keys 64 --requests 256 \
		--owners 32 "$@"
}
mkdir "$dir/secrets" "$dir/empty"
chmod 755 "$dir"
server=unix://$dir/redis.sock

# Wrong usage.
expect 2 bridge --check
expect 2 bridge --check "$seg" -- true
says stderr "--check serves nothing"
expect 2 bridge --check --while-used "$seg"
expect 2 bridge --check "a b"
expect 2 bridge --check --credentials "$dir/nothing" "$seg"
silent stdout

# The segment.
expect 1 bridge --check "$seg"
line FAIL "segment: there is none of this name: lockctl create $seg --redis URI makes it"
silent stderr
expect 0 lockctl create "$seg"
expect 1 bridge --check "$seg"
line FAIL "segment: is without Redis: lockctl rm $seg, then lockctl create $seg --redis URI"

# A server out of reach.
make_segment --redis "$server"
expect 1 bridge --check "$seg"
line ok 'segment: prefix "test:", ttl 2.0* s'
line note "bridge: none runs now"
line ok "credentials: none: there is no /etc/lockshm/$seg"
line FAIL "$server: .*No such file.*; does it run"

# All is well.  Neither the segment nor the server changes.
start redis-server --port 0 --unixsocket "$dir/redis.sock" --save '' --dir "$dir" --logfile "$dir/log"
eventually test -S "$dir/redis.sock"
redis() { redis-cli -s "$dir/redis.sock" "$@"; }
sum() { md5sum <"/dev/shm/$seg"; }
before=$(sum)
expect 0 bridge --check "$seg"
no_line FAIL
line ok "$server: Redis [0-9.]+, connected in"
line ok "$server: the login has all rights"
line ok "$server: a lease was acquired, renewed and released in"
equal "the segment" "$(sum)" "$before"
equal "keys in Redis" "$(redis dbsize)" 0
start "$bridge_program" "$seg" 2>"$dir/bridge.log"
eventually grep -q leads "$dir/bridge.log"
expect 0 bridge --check "$seg"
line ok "bridge: pid $pid leads"

# The server may evict locks.
redis config set maxmemory-policy allkeys-lru >/dev/null
expect 1 bridge --check "$seg"
line FAIL "$server: evicts keys, so locks, when it is full \(maxmemory-policy allkeys-lru, .*CONFIG SET maxmemory-policy noeviction"
redis config set maxmemory-policy noeviction >/dev/null

# It replies, and refuses: with its words and what to do.  What it refuses later is a note.
refuses() { # SETTING VALUE RESET WORDS REMEDY
	equal "$1" "$(redis config set "$1" "$2")" OK
	expect 1 bridge --check "$seg"
	line FAIL "$server: a lease cannot be acquired: $4.*; $5"
	equal "$1" "$(redis config set "$1" "$3")" OK
	expect 0 bridge --check "$seg"
	line ok "$server: a lease was acquired"
}
refuses maxmemory 1 0 "OOM " "remove data, or CONFIG SET maxmemory"
refuses min-replicas-to-write 1 0 "NOREPLICAS " "start its replicas"
equal maxmemory "$(redis config set maxmemory 100mb)" OK
expect 0 bridge --check "$seg"
no_line note.*memory
used=$(redis info memory | sed -n 's/^used_memory:\([0-9]*\).*/\1/p')
equal maxmemory "$(redis config set maxmemory $((used + used / 20)))" OK
expect 0 bridge --check "$seg"
line note "$server: its memory is full, or nearly \(used_memory [0-9]+, maxmemory [0-9]+\)"
equal maxmemory "$(redis config set maxmemory 0)" OK

# A script of another program runs.
redis config set busy-reply-threshold 1 >/dev/null
redis eval 'while true do end' 0 >/dev/null 2>&1 &
eventually sh -c "redis-cli -s '$dir/redis.sock' ping | grep -q BUSY"
expect 1 bridge --check "$seg"
line FAIL "$server: .*BUSY.*; a script of another program runs: SCRIPT KILL"
redis script kill >/dev/null

# A save that failed: not even root writes over a directory.
mkdir "$dir/dump.rdb"
redis config set save '3600 1' >/dev/null
redis bgsave >/dev/null
eventually sh -c "redis-cli -s '$dir/redis.sock' info persistence | grep -q bgsave_status:err"
expect 1 bridge --check "$seg"
line FAIL "$server: .*MISCONF .*; mend its disk"
redis config set stop-writes-on-bgsave-error no >/dev/null
expect 0 bridge --check "$seg"
line note "$server: its last save failed \(rdb_last_bgsave_status:err\)"
rmdir "$dir/dump.rdb"
redis config set save '' >/dev/null
redis bgsave >/dev/null
eventually sh -c "redis-cli -s '$dir/redis.sock' info persistence | grep -q bgsave_status:ok"
expect 0 bridge --check "$seg"
no_line note.*save
equal "locks in Redis" "$(redis keys '*' | grep . | grep -v 'lockshm:hosts$')" ""

# A lease that replicas must have.
make_segment --redis "$server" --redis-wait 1
expect 1 bridge --check "$seg"
line FAIL "$server: has 0 replicas, and the segment wants 1"
line FAIL "$server: only 0 of 1 replicas had a lease"

# Two addresses of one server.
ln -s redis.sock "$dir/again.sock"
make_segment --redis-quorum --redis "$server,unix://$dir/again.sock,unix://$dir/none.sock"
expect 1 bridge --check "$seg"
line FAIL "unix://$dir/again.sock: is the same server as $server: they have one vote together"
make_segment --redis "$server"

# Login and rights: the smallest ACL of operations.md has all of them, and each that is missing is named.
acl=$(sed -n 's/^    ACL SETUSER web / /p' "$top_dir/doc/operations.md" | tr -d '\n' |
	sed 's/~lk:/~test:/; s/~{lk:/~{test:/; s/>PASSWORD/>pw/')
case $acl in *"+client|tracking"*) ;; *) fail "the ACL of operations.md: $acl" ;; esac
equal "users" "$(redis acl setuser admin on '>admin' '~*' '&*' +@all)" OK
redis() { redis-cli -s "$dir/redis.sock" --user admin --pass admin "$@" 2>/dev/null; }
redis acl setuser default off >/dev/null
equal "the lines of operations.md, pasted" \
	"$(sed -n '/^    ACL SETUSER web/,/^$/s/^  *//p' "$top_dir/doc/operations.md" | redis | sort -u)" OK
set -f
# shellcheck disable=SC2086 # words
grant() { equal "acl setuser" "$(redis acl setuser web reset $acl "$@")" OK; }
grant
echo web >"$dir/secrets/user"
echo pw >"$dir/secrets/password"
chmod 640 "$dir/secrets/password"
checks() { expect "$1" bridge --check --credentials "$dir/secrets" "$seg"; }
expect 1 bridge --check --credentials "$dir/empty" "$seg"
line ok "credentials: $server: no password"
line FAIL "$server: .*NOAUTH.*mend the credentials"
checks 0
line ok "credentials: $server: user web, password in $dir/secrets/password"
line ok "$server: the login has all rights"
no_line FAIL
for right in $(echo "$acl" | tr ' ' '\n' | sed -n 's/^+//p'); do
	case $right in
	auth | select | wait) continue ;; # AUTH cannot be forbidden; the others are for options
	client* | mget | publish | script* | subscribe) status=0 word=note ;;
	*) status=1 word=FAIL ;;
	esac
	grant "-$right"
	checks $status
	line $word "$server: .*(\+$right( |$)|$(echo "$right" | tr a-z A-Z)|'$right')"
done
grant resetkeys '~{test:*'
checks 1
line FAIL "$server: the login may not use the names of locks: ACL SETUSER \.\.\. ~test:\*$"
grant resetkeys '~test:*'
checks 1
line FAIL "$server: the login may not use the names of locks: ACL SETUSER \.\.\. ~{test:\*$"
grant resetchannels '&__redis__:invalidate'
checks 0
line note "$server: .*\+subscribe &lockshm:\*"
grant resetkeys '~test:*' '~{test:*'
checks 0
line note "hosts: one with another prefix is not seen: ACL SETUSER \.\.\. ~lockshm:hosts"
grant
equal "locks in Redis" "$(redis keys '*' | grep . | grep -v 'lockshm:hosts$')" ""

chmod 644 "$dir/secrets/password"
checks 1
line FAIL "credentials: .*without rights for others"
chmod 640 "$dir/secrets/password"
echo wrong >"$dir/secrets/password"
checks 1
line FAIL "$server: .*WRONGPASS"

# One server of several.
kill -TERM "$pid"
make_segment --redis "$server,unix://$dir/other.sock"
echo pw >"$dir/secrets/password"
checks 1
line ok "$server: Redis"
line FAIL "unix://$dir/other.sock: "

# TLS: the certificate is verified as by the bridge.
command -v openssl >/dev/null && "$bridge_program" --version >/dev/null || exit 0
certificate()
{
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj "/CN=$1" \
		-addext "subjectAltName=DNS:$1,IP:127.0.0.1" -keyout "$dir/key.pem" -out "$dir/cert.pem" 2>/dev/null
}
certificate other || exit 0
port=$(shuf -i 20000-30000 -n 1)
start redis-server --port 0 --tls-port "$port" --tls-cert-file "$dir/cert.pem" --tls-key-file "$dir/key.pem" \
	--tls-auth-clients no --bind 127.0.0.1 --save '' --dir "$dir" --logfile "$dir/log-tls"
eventually grep -qE 'Ready to accept|Failed|BUG|FATAL' "$dir/log-tls"
grep -q 'Ready to accept' "$dir/log-tls" || exit 0 # built without TLS, or the port is in use
server=rediss://127.0.0.1:$port
rm "$dir/secrets/user" "$dir/secrets/password"
make_segment --redis "$server"
checks 1
grep -q "without TLS" "$dir/stdout" && exit 0
line FAIL "$server: .*certificate"
cp "$dir/cert.pem" "$dir/secrets/ca.pem"
checks 0
line ok "$server: Redis [0-9.]+, connected and verified in"
echo wrong.example >"$dir/secrets/tls-name"
checks 1
line FAIL "$server: .*(name|match)"
