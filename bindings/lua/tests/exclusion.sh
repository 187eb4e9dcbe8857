#!/bin/sh
# SPDX-License-Identifier: MIT
#
# exclusion.sh - exclusion_spec.lua on a real nginx
set -eu

. "${0%/*}/support/run"
need_nginx
run_specs exclusion_spec.lua
