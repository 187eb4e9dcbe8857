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

make_suite_dir "$MLCACHE_DIR" resty
make_suite_dir "$MLCACHE_DIR" lockshm
run=1
while [ "$run" -le "$RUNS" ]; do
	# Both at once: nearly all of the time is that of nginx' starts and ends.
	run_suite resty $FILES &
	run_suite lockshm $FILES
	wait $!
	checks resty 'not ok' > "$work/resty-failed"
	checks lockshm 'not ok' | comm -13 "$work/resty-failed" - > "$work/worse-now"
	keep_failed "$work/worse" "$run" "$work/worse-now"
	grep -q -v -F "$other_store" "$work/worse" || break
	run=$((run + 1))
done

equal "the number of checks" $(($(count_checks lockshm ok) + $(count_checks lockshm 'not ok'))) \
	$(($(count_checks resty ok) + $(count_checks resty 'not ok')))
passed=$(count_checks lockshm ok)
[ "$passed" -gt 0 ] || fail "no check ran"
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
echo "fail over lua-resty-lock: $(wc -l < "$work/resty-failed")"
finish
