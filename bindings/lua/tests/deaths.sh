#!/bin/sh
# SPDX-License-Identifier: MIT
#
# deaths.sh - deaths_spec.lua on a real nginx
set -eu

. "${0%/*}/support/run"
need_nginx
run_specs deaths_spec.lua
