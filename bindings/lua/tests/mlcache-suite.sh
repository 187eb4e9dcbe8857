#!/bin/sh
# SPDX-License-Identifier: MIT
# mlcache-suite.sh - lua-resty-mlcache's suite, unchanged, over lua-resty-lock and over resty.lockshm
#
# What passes over lua-resty-lock has to pass over resty.lockshm.  MLCACHE_DIR, RESTY_LOCK_DIR and TEST_NGINX_DIR name
# copies; none is part of this tree.  By default the files that use locks run; with LONG=1 all.
set -u
. "$(dirname "$0")/common.sh"

need_nginx
need_dir MLCACHE_DIR lib/resty/mlcache.lua
need_dir RESTY_LOCK_DIR lib/resty/lock.lua
need_dir TEST_NGINX_DIR lib/Test/Nginx.pm

if [ "${LONG:-0}" = 1 ]; then
	set -- t/*.t
else
	set -- t/11-locks_shm.t
fi
