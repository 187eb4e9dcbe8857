#!/bin/sh
# SPDX-License-Identifier: MIT
#
# unit.sh - build the extension and run its tests; arguments go to pytest
#
# Environment: srcdir and builddir of the library, or pkg-config finds it; PYTHON; LONG=1 for the long forms.
set -u

. "$(dirname "$0")/common.sh"
run_tests "$here" --ignore="$here/servers" --ignore="$here/hosts" "$@"
