#!/bin/sh
# SPDX-License-Identifier: MIT
#
# build.sh - build the extension outside the source tree, and print the directory for PYTHONPATH
#
# With $srcdir and $builddir against their header and library, otherwise against what pkg-config finds.
# $PYTHON: the interpreter (/usr/bin/python3).  Prints "skipped: REASON" and ends with 77 where it cannot run.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-/usr/bin/python3}
if [ -n "${builddir:-}" ]; then
	out=$(cd "$builddir" && pwd)/bindings/python/built # not the folder itself, which is the source in a build in the tree
	LOCKSHM_CFLAGS="-I$(cd "$srcdir" && pwd)/include"
	LOCKSHM_LIBS="-L$(cd "$builddir" && pwd)/.libs -llockshm"
	export LOCKSHM_CFLAGS LOCKSHM_LIBS
else
	out=${TMPDIR:-/tmp}/lockshm-python.$(id -u)
fi

skip()
{
	echo "skipped: $*"
	exit 77
}

[ "${have_python-yes}" = yes ] || skip "configured without Python"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null || skip "$python is no Python 3.10 or newer"
"$python" -c 'import setuptools' 2>/dev/null || skip "$python has no setuptools"
"$python" -c 'import os, sysconfig, sys; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))' ||
	skip "Python.h is missing: python3-dev"
[ -n "${builddir:-}" ] || pkg-config --exists lockshm || skip "pkg-config finds no lockshm"

# One build at a time, and none where nothing differs: tests that run at the same time have it mapped.
mkdir -p "$out"
exec 9>"$out/lock"
flock 9
stamp=$(cd "$here" && { "$python" -V; cat ../../include/lockshm.h 2>/dev/null || :; find src setup.py pyproject.toml -type f ! -name '*.pyc' |
	LC_ALL=C sort | xargs cat; } | cksum)
if [ "$(cat "$out/stamp" 2>/dev/null)" = "$stamp" ]; then
	echo "$out/lib"
	exit 0
fi
# A copy of what it needs, as the build writes beside its sources.
rm -rf "$out/tree" "$out/stamp"
mkdir "$out/tree"
(cd "$here" && cp -r MANIFEST.in README.md pyproject.toml setup.py src "$out/tree")
chmod -R u+w "$out/tree"
cd "$out/tree"
CFLAGS="${CFLAGS:--O2 -g} -Wall -Wextra -Werror" \
	"$python" setup.py -q build --build-base="$out/build" --build-lib="$out/lib" >"$out/build.log" 2>&1 ||
	{ cat "$out/build.log" >&2; exit 1; }
echo "$stamp" >"$out/stamp"
echo "$out/lib"
