#!/bin/sh
# SPDX-License-Identifier: MIT
#
# hosts.sh - build the extension and run the tests of keys across hosts; arguments go to pytest
#
# Environment: srcdir and builddir of the library, or pkg-config finds it; PYTHON; LOCKCTL.
set -u

. "$(dirname "$0")/common.sh"
. "$here/../../hosts.sh"
if ! find_hosts; then
	echo "skipped: $hosts_missing"
	echo "0 passed, 0 failed, 1 skipped"
	exit 77
fi
trap 'end_hosts; rm -f "$LOCKSHM_COUNTS"' EXIT
trap 'exit 1' HUP INT TERM
start_hosts
run_tests "$here/hosts" "$@"
