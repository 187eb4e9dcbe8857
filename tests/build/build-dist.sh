#!/bin/sh
# SPDX-License-Identifier: MIT
#
# build-dist.sh - the release archive is complete and builds, tests, installs and uninstalls by itself
#
# `make distcheck` with warnings as errors; only the tests that look at the tree itself run in it.  In a git checkout,
# every tracked file must be in the archive: the lists of Makefile.am are made by hand.
# shellcheck source=tests/build/build-common.sh
. "$(dirname "$0")/build-common.sh"

cd "$builddir" || exit 1
archive=lockshm-$(sed -n "s/^PACKAGE_VERSION='\(.*\)'/\1/p" config.log).tar.gz
# shellcheck disable=SC2016 # make expands it
"$MAKE" -j"$jobs" distcheck 'TESTS=$(tests_of_tree) $(tests_of_install)' \
	DISTCHECK_CONFIGURE_FLAGS=--enable-werror || die "make distcheck"

git=$(git -C "$srcdir" ls-files 2>/dev/null | grep -vE '^(\.gitignore|\.ci/)' | LC_ALL=C sort)
if [ -n "$git" ]; then
	tar -tzf "$archive" | sed -n 's,^[^/]*/\(.*[^/]\)$,\1,p' | LC_ALL=C sort >check-dist.have
	echo "$git" | LC_ALL=C comm -23 - check-dist.have >check-dist.missing
	[ ! -s check-dist.missing ] || { cat check-dist.missing; die "tracked by git, but not in $archive"; }
fi

# What is missing is no reason to leave out silently what needs it.  refused MODULE PACKAGE OPTION
refused()
{
	mkdir -p "$builddir/check-refused" && cd "$builddir/check-refused" || exit 1
	printf '#!/bin/sh\ncase "$*" in *%s*) exit 1 ;; esac\nexec "%s" "$@"\n' "$1" "$(command -v pkg-config)" >pkg-config
	chmod +x pkg-config
	! "$srcdir/configure" --quiet PKG_CONFIG="$PWD/pkg-config" >refusal 2>&1 || die "configured without $1"
	grep "install $2 .*--without-$3" refusal >/dev/null || { cat refusal; die "without $1: another message"; }
}
refused hiredis libhiredis-dev bridge
refused libssl libssl-dev tls

# Built by a user, in the tree of the archive itself, and without OpenSSL, which no other check has: a segment takes any URI,
# and the bridge refuses it.
(
	rm -rf "$builddir/check-in-tree" && mkdir "$builddir/check-in-tree" && cd "$builddir/check-in-tree" || exit 1
	tar -xzf "../$archive" --strip-components=1 && find . -type f | LC_ALL=C sort >../check-dist.have
	{ ./configure --quiet --without-tls --enable-werror --disable-static && "$MAKE" -j"$jobs" all; } || die "make in the tree"
	if [ -x lockshm-bridge ]; then
		! readelf -d lockshm-bridge | grep -E 'NEEDED.*(ssl|crypto)' || die "without TLS it needs OpenSSL"
		segment=/lockshm-no-tls.$$
		trap './lockctl rm "$segment"' EXIT
		./lockctl create "$segment" --redis rediss://redis.example || die "create without TLS"
		./lockshm-bridge show "$segment" key >refusal 2>&1
		grep -q 'built without OpenSSL' refusal || { cat refusal; die "without TLS: another message"; }
		rm refusal
		./lockctl rm "$segment"
		trap - EXIT
	fi
	srcdir=. builddir=. tests/build/install.sh || die "make install in the tree"
	for build in bindings/python/build.sh bindings/php/tests/build.sh; do
		srcdir=. builddir=. $build || [ $? = 77 ] || die "$build in the tree"
	done
	"$MAKE" distclean >distclean.log 2>&1 || { cat distclean.log; die "make distclean in the tree"; }
	rm distclean.log
	find . -type f | LC_ALL=C sort | diff ../check-dist.have - || die "make distclean leaves these, or removes those of the archive"
	rm -rf "$builddir/check-in-tree"
) || exit 1
cd "$builddir" || exit 1
echo "$archive: $(tar -tzf "$archive" | grep -vc '/$') files"
"$srcdir/tests/support/count.sh" . >/dev/null
