#!/bin/sh
# SPDX-License-Identifier: MIT
# Build the extension from a copy of its sources, with warnings as errors (parameters are those of PHP's interface); print the path of lockshm.so.
#
# Against the headers and the library of this tree ($srcdir, $builddir), else those that pkg-config finds.
set -eu

here=$(cd "$(dirname "$0")/.." && pwd)
[ -z "${builddir:-}" ] || builddir=$(cd "$builddir" && pwd)
[ -z "${srcdir:-}" ] || srcdir=$(cd "$srcdir" && pwd)
target=${builddir:-${TMPDIR:-/tmp}/lockshm-php-$(id -u)}/bindings/php/build
phpize=${PHPIZE:-phpize}
mkdir -p "$target"

sources() {
	cd "$here" && ls ./*.c ./*.h ./config.m4
}

changed() {
	[ ! -e "$target/modules/lockshm.so" ] && return 0
	cmp -s "$here/tests/build.sh" "$target/configured-by" || return 0
	for file in $(sources); do
		cmp -s "$here/$file" "$target/$file" || return 0
	done
	# The header decides, too.
	[ -z "${srcdir:-}" ] || [ ! "$srcdir/include/lockshm.h" -nt "$target/modules/lockshm.so" ]  || return 0
	return 1
}

configure() {
	"$phpize" --clean
	"$phpize"
	if [ -n "${builddir:-}" ] && [ -e "$builddir/.libs/liblockshm.so" ]; then
		LOCKSHM_CFLAGS="-I${srcdir:?}/include" LOCKSHM_LIBS="-L$builddir/.libs -llockshm"
		export LOCKSHM_CFLAGS LOCKSHM_LIBS
	fi
	./configure --with-lockshm CFLAGS="-O2 -g -std=gnu11 -Wall -Wextra -Wno-unused-parameter -Werror"
	cp "$here/tests/build.sh" configured-by
	cp config.m4 configured-for
}

build() {
	for file in $(sources); do
		cp -p "$here/$file" "$target/$file"
	done
	cd "$target"
	if ! cmp -s config.m4 configured-for || ! cmp -s "$here/tests/build.sh" configured-by; then
		configure
	fi
	make
}

# One build at a time: tests run at the same time.
exec 9>"$target.lock"
flock 9
if changed; then
	build >"$target/build.log" 2>&1 || {
		tail -60 "$target/build.log" >&2
		exit 1
	}
fi
echo "$target/modules/lockshm.so"
