#!/bin/sh
# SPDX-License-Identifier: MIT
# two-hosts.sh - the example of the bridge: two hosts, a real redis-server, a bridge that is killed
set -u

case $("${LOCKCTL:-./lockctl}" create --redis '' example-none 2>&1) in
*"built without"*) echo "SKIP: built without the bridge"; exit 77 ;;
esac
exec "$(dirname "$0")/../../examples/two-hosts.sh" "${builddir:-.}"
