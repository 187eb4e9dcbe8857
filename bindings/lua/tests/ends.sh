#!/bin/sh
# SPDX-License-Identifier: MIT
#
# ends.sh - ends_spec.lua on a real nginx
set -eu

. "${0%/*}/support/run"
need_nginx
run_specs ends_spec.lua
