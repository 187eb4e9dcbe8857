#!/bin/sh
# SPDX-License-Identifier: MIT
#
# install.sh - the source archive installs into an empty virtual environment, offline, and the README's first example runs there
#
# Environment: srcdir and builddir of the library, or pkg-config finds it; PYTHON.
set -u

here=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-/usr/bin/python3}
work=$(mktemp -d)
segment=install.$$
passed=0

finish()
{
	rm -rf "$work"
	rm -f "/dev/shm/$segment"
}
trap finish EXIT

skip()
{
	echo "skipped: $*"
	echo "0 passed, 0 failed, 1 skipped"
	exit 77
}

step()
{
	name=$1
	shift
	if "$@" >"$work/log" 2>&1; then
		passed=$((passed + 1))
		return
	fi
	echo "FAILED: $name"
	cat "$work/log"
	echo "$passed passed, 1 failed, 0 skipped"
	exit 1
}

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null || skip "$python is no Python 3.10 or newer"
"$python" -c 'import setuptools, ensurepip, venv' 2>/dev/null || skip "$python has no setuptools or no venv: python3-venv"
"$python" -c 'import wheel' 2>/dev/null || skip "$python has no wheel: python3-wheel"
"$python" -c 'import os, sysconfig, sys; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))' ||
	skip "Python.h is missing: python3-dev"
if [ -n "${builddir:-}" ]; then
	libdir=$(cd "$builddir" && pwd)/.libs
	source=$(cd "$srcdir" && pwd)
	LOCKSHM_CFLAGS="-I$source/include"
	LOCKSHM_LIBS="-L$libdir -llockshm"
	export LOCKSHM_CFLAGS LOCKSHM_LIBS
else
	pkg-config --exists lockshm || skip "pkg-config finds no lockshm"
	libdir=$(pkg-config --variable=libdir lockshm)
fi
LD_LIBRARY_PATH=$libdir${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH
unset PYTHONPATH

cp -r "$here/.." "$work/tree"
chmod -R u+w "$work/tree"
cd "$work/tree" || exit 1
step "make the archive, without the library" env -u LOCKSHM_CFLAGS -u LOCKSHM_LIBS PKG_CONFIG=false \
	"$python" setup.py -q sdist --dist-dir "$work/dist"
cd "$work" || exit 1
rm -rf "$work/tree"

# What builds a package is taken from the system, as there is no network; everything else is empty.
step "make the environment" "$python" -m venv --system-site-packages "$work/venv"
step "install the archive" "$work/venv/bin/pip" install --no-index --no-build-isolation --no-deps "$work"/dist/lockshm-*.tar.gz
tar -xzf "$work"/dist/lockshm-*.tar.gz --strip-components=1 -C "$work" --wildcards '*/README.md'
awk '/^```python$/ { on = 1; next } on && /^```$/ { exit } on' README.md | sed "s/\"shop\"/\"$segment\"/" >example.py
step "find the installed package" "$work/venv/bin/python" -c "import lockshm, sys; sys.exit('$work/venv' not in lockshm.__file__)"
step "run the README's example" "$work/venv/bin/python" -Werror example.py
step "find the stubs" test -f "$("$work/venv/bin/python" -c 'import lockshm, os; print(os.path.dirname(lockshm.__file__))')/py.typed"
step "remove it" "$work/venv/bin/pip" uninstall -y lockshm

# A build in the source tree itself: the folder of its results is inside the one that it copies.
if [ -n "${builddir:-}" ]; then
	mkdir -p "$work/both/bindings/python"
	ln -s "$source/include" "$libdir" "$work/both"
	cp -r "$here/../MANIFEST.in" "$here/../README.md" "$here/../build.sh" "$here/../pyproject.toml" "$here/../setup.py" "$here/../src" \
		"$work/both/bindings/python"
	cd "$work/both" || exit 1
	step "build in the source tree" env srcdir=. builddir=. sh bindings/python/build.sh
	step "find it unchanged the second time" env srcdir=. builddir=. CC=false sh bindings/python/build.sh
fi
echo "$passed passed, 0 failed, 0 skipped"
