#!/bin/sh
# SPDX-License-Identifier: MIT
#
# hosts.sh - hosts_spec.lua: keys across hosts, in LuaJIT and on a real nginx
set -eu

. "${0%/*}/support/run"
. "${0%/*}/../../hosts.sh"
need_nginx
find_library
find_hosts || skip "$hosts_missing"
trap end_hosts EXIT
trap 'exit 1' HUP INT TERM
LD_LIBRARY_PATH=${library%/*}${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
README=$bindings/README.md
export LD_LIBRARY_PATH README
start_hosts
(run_specs hosts_spec.lua)
