# SPDX-License-Identifier: MIT
# common.sh - sourced by unit.sh and servers.sh: builds the extension; then  run_tests FOLDER ARGUMENT...  runs pytest there
# Ends with 77 and a reason where it cannot run.

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

run_tests()
{
	cd "$1" || exit 1
	shift
	"$python" -m pytest -q -rs --rootdir="$here" -p no:cacheprovider \
		-W error::pytest.PytestUnraisableExceptionWarning "$@"
	status=$?
	cat "$LOCKSHM_COUNTS"
	exit $status
}
