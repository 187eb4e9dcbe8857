#!/bin/sh
# SPDX-License-Identifier: MIT
#
# servers.sh - servers_spec.lua on a real nginx
set -eu

. "${0%/*}/support/run"
need_nginx
run_specs servers_spec.lua
