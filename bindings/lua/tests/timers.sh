#!/bin/sh
# SPDX-License-Identifier: MIT
#
# timers.sh - timers_spec.lua on a real nginx
set -eu

. "${0%/*}/support/run"
need_nginx
run_specs timers_spec.lua
