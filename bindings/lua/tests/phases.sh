#!/bin/sh
# SPDX-License-Identifier: MIT
#
# phases.sh - phases_spec.lua on a real nginx
set -eu

. "${0%/*}/support/run"
need_nginx
run_specs phases_spec.lua
