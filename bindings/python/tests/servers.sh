#!/bin/sh
# SPDX-License-Identifier: MIT
#
# servers.sh - build the extension and run the tests with real servers; arguments go to pytest
#
# Environment: srcdir and builddir of the library, or pkg-config finds it; PYTHON; LOCKCTL; HUEY_DIR, a checkout of huey;
# LONG=1 for the long forms.  What is not installed is skipped, with the reason.
set -u

. "$(dirname "$0")/common.sh"
run_tests "$here/servers" "$@"
