#!/bin/sh
# SPDX-License-Identifier: MIT
#
# chaos.sh - chaos_spec.lua on a real nginx
set -eu

. "${0%/*}/support/run"
need_nginx
run_specs chaos_spec.lua
