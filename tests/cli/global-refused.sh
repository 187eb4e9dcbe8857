#!/bin/sh
# SPDX-License-Identifier: MIT
# global-refused.sh - messages of lockctl run --global for unusable servers and keys: the cause, and the server
. "$(dirname "$0")/common.sh"

needs_bridge

mkdir "$dir/none" "$dir/right" "$dir/wrong" "$dir/worker"
printf 'right\n' >"$dir/right/password"
printf 'wrong\n' >"$dir/wrong/password"
printf 'right\n' >"$dir/worker/password"
printf 'worker\n' >"$dir/worker/user"
chmod 600 "$dir"/*/password
credentials() { export LOCKSHM_CREDENTIALS="$dir/$1"; }
start redis-server --port 0 --unixsocket "$dir/redis.sock" --save '' --dir "$dir" --logfile "$dir/log" --databases 4 \
	--requirepass right
start redis-server --port 0 --unixsocket "$dir/cluster.sock" --save '' --dir "$dir" --logfile "$dir/cluster.log" \
	--cluster-enabled yes --cluster-config-file "$dir/nodes.conf"
eventually test -S "$dir/redis.sock"
eventually test -S "$dir/cluster.sock"
redis() { redis-cli -s "$dir/redis.sock" -a right --no-auth-warning "$@"; }
cluster() { redis-cli -s "$dir/cluster.sock" "$@"; }

# refused URI KEY TEXT [OTHER]: nothing is run, and the message has the text, and the server or the other one.  A segment of
# its own: the bridge of the last one, with other credentials, may be there for some seconds more.
base=$seg
number=0
refused()
{
	number=$((number + 1))
	seg=$base-$number
	expect 0 lockctl create "$seg" --redis "$1" --redis-prefix own: --keys 64 --requests 256 --owners 32
	expect 1 lockctl run "$seg" "$2" --global -w 5s -- touch "$dir/ran"
	says stderr "$3"
	says stderr "${4:-$dir/}"
	sed "s|$dir/[a-z]*/[a-z]*||; s|rights||" "$dir/stderr" | grep -q "right\|wrong" && fail "a password in the message"
	[ -e "$dir/ran" ] && fail "the command was run"
	expect 0 lockctl rm "$seg"
}

server="unix://$dir/redis.sock"
credentials none
refused "unix://$dir/nobody.sock" key "cannot connect"
refused "$server" key "NOAUTH: there is no file password in $dir/none"
credentials wrong
refused "$server" key "password"
redis acl setuser worker on '>right' '~*' '&*' +@all -evalsha -eval >/dev/null
credentials worker
refused "$server" key "NOPERM"
credentials right
refused "$server?db=9" key "DB index"
chmod 644 "$dir/right/password"
refused "$server" key "must be a plain file without rights for others"
chmod 600 "$dir/right/password"

# All keys but the list of hosts.
locks_of() { "$1" keys '*' | grep . | grep -cv 'lockshm:hosts$'; }

# Data of other programs stays unchanged.
redis rpush own:key a b >/dev/null
refused "$server" key "not a lock"
equal "what is left" "$(redis lrange own:key 0 -1 | tr '\n' ' ')" "a b "
equal "keys in Redis" "$(locks_of redis)" 1
redis del own:key >/dev/null

# A replica is refused.
redis replicaof 127.0.0.1 1 >/dev/null
refused "$server" key "replica"
redis replicaof no one >/dev/null

# Names that a cluster would split over several nodes.
cluster cluster addslotsrange 0 16383 >/dev/null
credentials none
cluster_is_up() { cluster cluster info | grep -q cluster_state:ok; }
eventually cluster_is_up
refused "unix://$dir/cluster.sock" "a}b{c" "braces" "own:a}b{c"
equal "keys in Redis" "$(locks_of cluster)" 0
expect 0 lockctl create "$seg" --redis "unix://$dir/cluster.sock" --keys 64 --requests 256 --owners 32
expect 0 lockctl run "$seg" "{a}b" --global -w 5s -- true

# A directory that was named has to be there.
credentials nowhere
expect 2 "$bridge_program" show "$seg" key
says stderr "LOCKSHM_CREDENTIALS $dir/nowhere: No such file or directory"
expect 2 "$bridge_program" --credentials "$dir/right/password" "$seg"
says stderr "--credentials $dir/right/password: Not a directory"
