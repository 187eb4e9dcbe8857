#!/bin/sh
# SPDX-License-Identifier: MIT
# two-hosts.sh - the example of the bridge: two hosts, a real redis-server, a bridge that is killed
set -u

[ -x "${builddir:-.}/lockshm-bridge" ] || { echo "SKIP: built without the bridge"; exit 77; }
exec "$(dirname "$0")/../../examples/two-hosts.sh" "${builddir:-.}"
