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
run_suite lockshm t/sanity.t
count_checks lockshm
[ "$passed" -gt 0 ] || fail "no check ran"
finish
