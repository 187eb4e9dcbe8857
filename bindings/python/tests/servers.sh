#!/bin/sh
# SPDX-License-Identifier: MIT
#
# servers.sh - build the extension and run the tests with real servers; arguments go to pytest
#
# Environment: srcdir and builddir of the library, or pkg-config finds it; PYTHON; LOCKCTL; FILELOCK_DIR, REDIS_PY_DIR and HUEY_DIR,
# checkouts of filelock, redis-py and huey, whose tests or programs are run; LONG=1 for the long forms.  What is not installed is skipped, with the reason.
set -u

. "$(dirname "$0")/common.sh"
run_tests "$here/servers" "$@"
