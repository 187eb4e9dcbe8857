#!/bin/sh
# SPDX-License-Identifier: MIT
#
# plain.sh - plain_spec.lua in LuaJIT without nginx
set -eu

. "${0%/*}/support/run"
run_specs plain_spec.lua
