#!/bin/sh
# SPDX-License-Identifier: MIT
#
# dropin.sh - dropin_spec.lua on a real nginx
set -eu

. "${0%/*}/support/run"
need_nginx
run_specs dropin_spec.lua
