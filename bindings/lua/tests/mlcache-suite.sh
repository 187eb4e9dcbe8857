#!/bin/sh
# SPDX-License-Identifier: MIT
# mlcache-suite.sh - lua-resty-mlcache's suite, unchanged, over lua-resty-lock and over resty.lockshm
#
# A check that passes over lua-resty-lock has to pass over resty.lockshm.  One cannot: it lists the keys in the lock
# dictionary, where lua-resty-lock has its locks and resty.lockshm nothing.  MLCACHE_DIR, RESTY_LOCK_DIR and
# TEST_NGINX_DIR name copies; none is part of this tree.  With LONG=1 all files run, otherwise those given by FILES.
set -u
. "$(dirname "$0")/common.sh"

need_nginx
need_dir MLCACHE_DIR lib/resty/mlcache.lua
need_dir RESTY_LOCK_DIR lib/resty/lock.lua
need_dir TEST_NGINX_DIR lib/Test/Nginx.pm

other_store="TEST 3: get() stores resty-locks in opts.shm_locks if specified - response_body"
if [ "${LONG:-0}" = 1 ]; then
	FILES=$(cd "$MLCACHE_DIR" && echo t/*.t)
fi
: "${FILES:=t/07-l1_serializer.t t/11-locks_shm.t}"

# checks NAME STATE - names of the checks in that state, without their numbers and what differs from run to run
checks() {
	grep "^$2 [0-9]" "$work/$1.tap" | sed -e "s/^$2 [0-9]* - //" -e 's/ (re[pq].*//' -e 's/ but matches line.*//' | sort -u
}

make_suite_dir "$MLCACHE_DIR" resty
make_suite_dir "$MLCACHE_DIR" lockshm
# Both at once: nearly all of the time is that of nginx' starts and ends.
run_suite resty $FILES &
run_suite lockshm $FILES
wait $!

checks resty 'not ok' > "$work/resty-failed"
checks lockshm 'not ok' > "$work/lockshm-failed"
passed=$(grep -c '^ok [0-9]' "$work/lockshm.tap")
[ "$passed" -gt 0 ] || fail "no check ran"
equal "the number of checks" "$(grep -c -E '^(not )?ok [0-9]' "$work/lockshm.tap")" \
	"$(grep -c -E '^(not )?ok [0-9]' "$work/resty.tap")"
comm -13 "$work/resty-failed" "$work/lockshm-failed" > "$work/worse"
while read -r check; do
	case $check in
	*"$other_store"*)
		skipped=$((skipped + 1))
		echo "skipped: reads the lock dictionary: $check"
		;;
	*)
		fail "passes over lua-resty-lock only: $check"
		grep -A15 -F -- "$check" "$work/lockshm.tap" | head -20
		;;
	esac
done < "$work/worse"
echo "fail over lua-resty-lock, too: $(comm -12 "$work/resty-failed" "$work/lockshm-failed" | wc -l)"
finish
