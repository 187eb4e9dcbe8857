#!/bin/sh
# SPDX-License-Identifier: MIT
#
# edges.sh - edges_spec.lua: lua-resty-lock and resty.lockshm side by side, on a real nginx
#
# RESTY_LOCK_DIR names a copy of lua-resty-lock, where none is installed.
set -eu

. "${0%/*}/support/run"
need_nginx
for lock in ${RESTY_LOCK_DIR:+"$RESTY_LOCK_DIR/lib"} /usr/share/lua/5.1 /usr/local/share/lua/5.1 /usr/local/openresty/lualib; do
	[ -f "$lock/resty/lock.lua" ] && break
done
RESTY_LOCK=$lock/resty/lock.lua
[ -f "$RESTY_LOCK" ] || skip "no lua-resty-lock is installed, and RESTY_LOCK_DIR is not set"
export RESTY_LOCK
run_specs edges_spec.lua
