#!/bin/sh
# SPDX-License-Identifier: MIT
#
# flight.sh - flight_spec.lua on a real nginx
set -eu

. "${0%/*}/support/run"
need_nginx
run_specs flight_spec.lua
