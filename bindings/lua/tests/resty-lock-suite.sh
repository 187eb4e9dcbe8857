#!/bin/sh
# SPDX-License-Identifier: MIT
# resty-lock-suite.sh - lua-resty-lock's own suite, unchanged, over resty.lockshm on real nginx
#
# RESTY_LOCK_DIR and TEST_NGINX_DIR name copies of lua-resty-lock and Test::Nginx; neither is part of this tree.
set -u
. "$(dirname "$0")/common.sh"

need_nginx
need_dir RESTY_LOCK_DIR t/sanity.t
need_dir TEST_NGINX_DIR lib/Test/Nginx.pm

make_suite_dir "$RESTY_LOCK_DIR" lockshm

run=1
while [ "$run" -le "$RUNS" ]; do
	run_suite lockshm t/sanity.t
	checks lockshm 'not ok' > "$work/failed-now"
	keep_failed "$work/failed" "$run" "$work/failed-now"
	[ -s "$work/failed" ] || break
	run=$((run + 1))
done

equal "the number of checks" $(($(count_checks lockshm ok) + $(count_checks lockshm 'not ok'))) 84
passed=$(count_checks lockshm ok)
while read -r check; do
	fail "$check"
	grep -A15 -F -- "$check" "$work/lockshm.tap" | head -20
done < "$work/failed"
finish
