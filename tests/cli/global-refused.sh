#!/bin/sh
# SPDX-License-Identifier: MIT
# global-refused.sh - messages of lockctl run --global for unusable servers and keys: the cause, and the server
. "$(dirname "$0")/common.sh"

needs_bridge

printf 'right\n' >"$dir/right"
printf 'wrong\n' >"$dir/wrong"
chmod 600 "$dir/right" "$dir/wrong"
start redis-server --port 0 --unixsocket "$dir/redis.sock" --save '' --dir "$dir" --logfile "$dir/log" --databases 4 \
	--requirepass right
start redis-server --port 0 --unixsocket "$dir/cluster.sock" --save '' --dir "$dir" --logfile "$dir/cluster.log" \
	--cluster-enabled yes --cluster-config-file "$dir/nodes.conf"
eventually test -S "$dir/redis.sock"
eventually test -S "$dir/cluster.sock"
redis() { redis-cli -s "$dir/redis.sock" -a right --no-auth-warning "$@"; }
cluster() { redis-cli -s "$dir/cluster.sock" "$@"; }

# refused URI KEY TEXT [OTHER]: nothing is run, and the message has the text, and the server or the other one.
refused()
{
	expect 0 lockctl create "$seg" --redis "$1" --redis-prefix own: --locks 64 --requests 256 --owners 32
	expect 1 lockctl run "$seg" "$2" --global -w 5s -- touch "$dir/ran"
	says stderr "$3"
	says stderr "${4:-$dir/}"
	grep -q "right\|wrong" "$dir/stderr" && fail "a password, or where it is, in the message"
	[ -e "$dir/ran" ] && fail "the command was run"
	expect 0 lockctl rm "$seg"
}

refused "unix://$dir/nobody.sock" key "cannot connect"
refused "unix://$dir/redis.sock" key "NOAUTH"
refused "unix://$dir/redis.sock?password-file=$dir/wrong" key "password"
refused "unix://$dir/redis.sock?password-file=$dir/right&db=9" key "DB index"
server="unix://$dir/redis.sock?password-file=$dir/right"
redis acl setuser worker on '>right' '~*' '&*' +@all -evalsha -eval >/dev/null
refused "unix://worker@$dir/redis.sock?password-file=$dir/right" key "NOPERM"

# Data of other programs stays unchanged.
redis rpush own:key a b >/dev/null
refused "$server" key "not a lock"
equal "what is left" "$(redis lrange own:key 0 -1 | tr '\n' ' ')" "a b "
equal "keys in Redis" "$(redis dbsize)" 1
redis del own:key >/dev/null

# A replica is refused.
redis replicaof 127.0.0.1 1 >/dev/null
refused "$server" key "replica"
redis replicaof no one >/dev/null

# Names that a cluster would split over several nodes.
cluster cluster addslotsrange 0 16383 >/dev/null
cluster_is_up() { cluster cluster info | grep -q cluster_state:ok; }
eventually cluster_is_up
refused "unix://$dir/cluster.sock" "a}b{c" "braces" "own:a}b{c"
equal "keys in Redis" "$(cluster dbsize)" 0
expect 0 lockctl create "$seg" --redis "unix://$dir/cluster.sock" --locks 64 --requests 256 --owners 32
expect 0 lockctl run "$seg" "{a}b" --global -w 5s -- true
