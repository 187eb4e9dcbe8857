#!/bin/sh
# SPDX-License-Identifier: MIT
#
# servers.sh - build the extension and run the tests with real servers; arguments go to pytest
#
# Environment: srcdir and builddir of the library, or pkg-config finds it; PYTHON; LOCKCTL; HUEY_DIR, a checkout of huey;
# LONG=1 for the long forms.  What is not installed is skipped, with the reason.
set -u

here=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-/usr/bin/python3}

modules=$("$here/../build.sh")
status=$?
if [ $status -ne 0 ]; then
	echo "$modules"
	[ $status -eq 77 ] && echo "0 passed, 0 failed, 1 skipped" || echo "0 passed, 1 failed, 0 skipped"
	exit $status
fi
if ! "$python" -c 'import pytest' 2>/dev/null; then
	echo "skipped: $python has no pytest: python3-pytest"
	echo "0 passed, 0 failed, 1 skipped"
	exit 77
fi

libs=${builddir:+$(cd "$builddir" && pwd)/.libs}
LD_LIBRARY_PATH=${libs:-$(pkg-config --variable=libdir lockshm)}${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
PYTHONPATH=$modules
PYTHONDONTWRITEBYTECODE=1
LOCKSHM_COUNTS=$(mktemp)
export LD_LIBRARY_PATH PYTHONPATH PYTHONDONTWRITEBYTECODE LOCKSHM_COUNTS
trap 'rm -f "$LOCKSHM_COUNTS"' EXIT

cd "$here/servers" || exit 1
"$python" -m pytest -q -rs --rootdir="$here" -p no:cacheprovider -W error::pytest.PytestUnraisableExceptionWarning "$@"
status=$?
cat "$LOCKSHM_COUNTS"
exit $status
