#!/bin/sh
# SPDX-License-Identifier: MIT
#
# many.sh - many_spec.lua on a real nginx
set -eu

. "${0%/*}/support/run"
need_nginx
run_specs many_spec.lua
