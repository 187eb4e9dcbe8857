#!/bin/sh
# SPDX-License-Identifier: MIT
# bridge-of-another-user.sh - one user makes the segment, another one of its group runs the bridge; both use a global key
. "$(dirname "$0")/common.sh"

needs_bridge
[ "$(id -u)" -eq 0 ] || skip "only root can change its uid"
command -v setpriv >/dev/null || skip "setpriv is not installed"

trap 'lockctl rm "$seg-root" 2>/dev/null; clean_up' EXIT
owner=61001 member=61002 stranger=61003 group=61004
as_owner() { setpriv --reuid $owner --regid $owner --groups $group "$@"; }
as_member() { setpriv --reuid $member --regid $member --groups $group "$@"; }
as_stranger() { setpriv --reuid $stranger --regid $stranger --clear-groups "$@"; }
for program in "$LOCKCTL" "$bridge_program"; do
	as_member "$program" --version >/dev/null 2>&1 || skip "another user cannot run $program"
done

chmod 711 "$dir"
start redis-server --port 0 --unixsocket "$dir/redis.sock" --unixsocketperm 777 --requirepass secret --save '' \
	--dir "$dir" --logfile "$dir/log"
eventually test -S "$dir/redis.sock"
redis() { redis-cli -s "$dir/redis.sock" -a secret --no-auth-warning "$@"; }

settings="--permissions 0660 --group $group --redis unix://$dir/redis.sock --redis-prefix test: --redis-ttl 2s --redis-retain 0
	--host-leases 8 --keys 64 --requests 256 --owners 32"

# shellcheck disable=SC2086 # several options
expect 0 as_owner "$LOCKCTL" create "$seg" $settings
equal "owner, group and mode" "$(stat -c '%u %g %a' "$(find /dev/shm -name "*$seg*")")" "$owner $group 660"

# The group alone is not enough: whoever made the segment could have made it for this user to trust.
for command in "" --check; do
	# shellcheck disable=SC2086 # empty is no argument
	expect 1 as_member "$bridge_program" $command "$seg"
	cat "$dir/stdout" >>"$dir/stderr"
	says stderr "owned by uid $owner"
	says stderr "--any-owner takes it, if you trust that user"
done
expect 1 as_member "$LOCKCTL" run "$seg" key --global -- true
says stderr "--any-owner takes it, if you trust that user"
expect 1 as_stranger "$bridge_program" --any-owner "$seg"
says stderr "Permission denied"

# The password: for its owner and its group, and for no others.
mkdir -m 750 "$dir/credentials"
chgrp $group "$dir/credentials"
echo secret >"$dir/credentials/password"
check() { as_member "$bridge_program" --check --any-owner --credentials "$dir/credentials" "$seg"; }
chmod 600 "$dir/credentials/password"
expect 1 check
says stdout "password file $dir/credentials/password: Permission denied"
chgrp $group "$dir/credentials/password"
chmod 644 "$dir/credentials/password"
expect 1 check
says stdout "password file $dir/credentials/password: must be a plain file without rights for others"
chmod 640 "$dir/credentials/password"
expect 0 check

# A segment made by root needs no option.
# shellcheck disable=SC2086 # several options
expect 0 lockctl create "$seg-root" $settings
expect 0 as_member "$bridge_program" --check --credentials "$dir/credentials" "$seg-root"
expect 0 lockctl rm "$seg-root"

start setpriv --reuid $member --regid $member --groups $group "$bridge_program" --any-owner \
	--credentials "$dir/credentials" "$seg"
service=$pid
leads() { [ "$(lockctl stat "$seg" | awk '$1 == "bridge_pid" { print $2 }')" = "$service" ]; }
eventually leads
equal "the user of the bridge" "$(stat -c %u "/proc/$service")" $member

# Both users, one after the other, and each excludes the other.
# shellcheck disable=SC2016 # expanded by the command
expect 0 as_owner "$LOCKCTL" run "$seg" key --global -- sh -c 'echo "$LOCKSHM_TOKEN"'
first=$(cat "$dir/stdout")
# shellcheck disable=SC2016 # expanded by the command
start setpriv --reuid $member --regid $member --groups $group "$LOCKCTL" run "$seg" key --any-owner --global -- \
	sh -c 'echo "$LOCKSHM_TOKEN"; exec sleep 100' >"$dir/second"
eventually test -s "$dir/second"
equal "keys that are held in Redis" "$(redis exists test:key)" 1
expect 3 as_owner "$LOCKCTL" run "$seg" key --global -w 0 -- true
second=$(cat "$dir/second")
[ "$second" -gt "$first" ] || fail "token $second after $first"
kill -TERM "$pid"
ended "$pid" 143
expect 0 as_owner "$LOCKCTL" run "$seg" key --global -- true
