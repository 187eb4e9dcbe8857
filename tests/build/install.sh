#!/bin/sh
# SPDX-License-Identifier: MIT
#
# install.sh - what `make install` puts in place is enough to build and run a program, shared and static, in C and C++
#
# Installs below a scratch directory, finds the library there with pkg-config, and runs the installed lockctl.  Nothing
# that is installed loads code from a directory of its own choice (RPATH, RUNPATH) or names the directories of the build:
# they may belong to an ordinary user, and lockctl is run by root.  A private prefix is tested by build-dist.sh, which
# runs this in a tree of `make distcheck`.
set -u

srcdir=$(cd "${srcdir:-.}" && pwd)
builddir=$(cd "${builddir:-.}" && pwd)
work=$(mktemp -d) || exit 1
root=$work/root
segment=/lockshm-install-test.$$
lockctl=
problems=0

clean_up()
{
	[ -z "$lockctl" ] || LD_LIBRARY_PATH=$lib "$lockctl" rm "$segment" 2>/dev/null
	rm -rf "$work"
}
trap clean_up EXIT

problem()
{
	problems=$((problems + 1))
	echo "$*"
	[ ! -s "$work/log" ] || cat "$work/log"
	: >"$work/log"
}

for tool in readelf strip; do
	command -v $tool >/dev/null || { echo "SKIP: $tool is not installed (package binutils)"; exit 77; }
done

# The outer make's flags would bring its job server along.
unset MAKEFLAGS MFLAGS MAKELEVEL
"${MAKE:-make}" -C "$builddir" install DESTDIR="$root" >"$work/log" 2>&1 || { problem "make install failed:"; exit 1; }
: >"$work/log"

# The .pc file speaks of the place without DESTDIR.
PKG_CONFIG_PATH=$(dirname "$(find "$root" -name lockshm.pc)")
PKG_CONFIG_SYSROOT_DIR=$root
export PKG_CONFIG_PATH PKG_CONFIG_SYSROOT_DIR
pc()
{
	"${PKG_CONFIG:-pkg-config}" "$@" lockshm
}
lib=$root$(env -u PKG_CONFIG_SYSROOT_DIR "${PKG_CONFIG:-pkg-config}" --variable=libdir lockshm)
lockctl=$(find "$root" -path '*/bin/lockctl')

installed()
{
	[ -n "$(find "$root" -path "*/$1" -size +0)" ] || problem "not installed: $1"
}
installed bin/lockctl
installed include/lockshm.h
installed share/doc/lockshm/README.md
installed share/doc/lockshm/doc/operations.md
installed share/doc/lockshm/examples/event-loop.c
# left_out DIRECTORY: configured without it
left_out()
{
	grep -qx "$1 = no" "$builddir/Makefile"
}
left_out bashcompletiondir || installed completions/lockctl
bridge=$(find "$root" -path "*/bin/lockshm-bridge")
if [ -n "$bridge" ]; then
	left_out bashcompletiondir || installed completions/lockshm-bridge
	# A service manager does not search the PATH of a shell.
	left_out systemdunitdir ||
		find "$root" -name lockshm-bridge@.service -exec grep -xF "ExecStart=${bridge#"$root"} %i" {} + >/dev/null ||
		problem "no unit starts ${bridge#"$root"}"
fi
installed man1/lockctl.1
installed man7/lockshm.7
for name in $(sed -n 's/^\t\(lockshm_[a-z_]*\);/\1/p' "$srcdir/src/liblockshm.sym"); do
	installed "man3/$name.3"
done
[ -z "$(find "$root" ! -path '*/share/doc/*' \( -name '*internal*' -o -name '*.o' \))" ] || problem "internal files were installed"

# Links of the installed documents lead to installed files; what only the source has is named as a path in backquotes.
find "$root" -name '*.md' >"$work/documents"
[ "$(wc -l <"$work/documents")" -ge 40 ] || problem "only $(wc -l <"$work/documents") documents were installed"
while read -r document; do
	awk '/^```/ { code = !code; next } !code' "$document" | grep -o '\](\([^) ]*\))' | tr -d '()' | sed 's/^]//; s/#.*//' |
		grep -v -e '^[a-z]*:' -e '^$' | sort -u >"$work/links"
	while read -r link; do
		[ -e "$(dirname "$document")/$link" ] || problem "${document#"$root"}: $link is not installed"
	done <"$work/links"
done <"$work/documents"

version=$(sed -n 's/^#define LOCKSHM_VERSION_[A-Z]* //p' "$srcdir/include/lockshm.h" | paste -sd. -)
[ "$(pc --modversion)" = "$version" ] || problem "lockshm.pc says $(pc --modversion), the header $version"

# Libraries are found as those of any program are: by the loader's own list.  Directories that LDFLAGS asked for at
# configure time are the builder's choice.
case $(sed -n 's/^LDFLAGS = //p' "$builddir/Makefile") in
*rpath*) wanted=yes ;;
*) wanted= ;;
esac
# no_load_path FILE
no_load_path()
{
	[ -z "$wanted" ] || return 0
	found=$(LC_ALL=C readelf -d "$1" 2>/dev/null | grep -E '\((RPATH|RUNPATH)\)')
	[ -z "$found" ] || problem "${1#"$root"} has a load path:$found"
}

# no_build_path FILE: debugging information names source files and is no load path, so it is left out; the prefix may
# be named where it lies below the source directory, as in distcheck.  Sanitizers name source files in their reports.
no_build_path()
{
	[ -z "${SANITIZE_CFLAGS:-}" ] || return 0
	strip --strip-debug -o "$work/stripped" "$1" 2>/dev/null || cp "$1" "$work/stripped"
	LC_ALL=C sed "$without_prefix" "$work/stripped" >"$work/bytes"
	for path in "$builddir" "$srcdir"; do
		! grep -qaF "$path" "$work/bytes" || { problem "${1#"$root"} names $path"; return; }
	done
}
prefix=$(env -u PKG_CONFIG_SYSROOT_DIR "${PKG_CONFIG:-pkg-config}" --variable=prefix lockshm)
case $prefix in
"$builddir"/* | "$srcdir"/*) without_prefix="s|$prefix||g" ;;
*) without_prefix= ;;
esac
find "$root" -type f >"$work/files"
while read -r file; do
	no_load_path "$file"
	no_build_path "$file"
done <"$work/files"

# run PROGRAM: it takes a lock, prints its token and waits for a line
run()
{
	echo | LD_LIBRARY_PATH=$lib "$1" "$segment" >"$work/out" 2>"$work/log" || { problem "$1 failed:"; return; }
	grep -q '^token [1-9][0-9]*:' "$work/out" || problem "$1 printed: $(cat "$work/out")"
}

# What the library was built with, the program needs too.
build()
{
	# shellcheck disable=SC2086
	"$@" ${SANITIZE_CFLAGS:-} >"$work/log" 2>&1 || { problem "does not compile: $*"; return 1; }
}

cc=${CC:-cc}
cxx=${CXX:-g++}
minimal=$srcdir/examples/minimal.c
# Commands and flags are lists of words.
# shellcheck disable=SC2046,SC2086
{
	if [ -f "$lib/liblockshm.so" ]; then
		build $cc -o "$work/shared" "$minimal" $(pc --cflags --libs) && run "$work/shared"
		LD_LIBRARY_PATH=$lib "$lockctl" ls >"$work/out" 2>"$work/log" || problem "the installed lockctl failed:"
		grep -q "$segment" "$work/out" || problem "the installed lockctl does not list $segment"
	fi
	if [ -f "$lib/liblockshm.a" ]; then
		libs=$(pc --static --libs | sed 's/-llockshm//')
		build $cc -o "$work/static" "$minimal" $(pc --cflags) "$lib/liblockshm.a" $libs && run "$work/static"
	fi
	if [ -f "$lib/liblockshm.so" ] && command -v $cxx >/dev/null 2>&1; then
		printf '%s\n' '#include <lockshm.h>' '#include <cstdio>' \
			'int main() { return std::puts(lockshm_version()) < 0; }' >"$work/version.cc"
		if build $cxx -o "$work/cxx" "$work/version.cc" $(pc --cflags --libs); then
			[ "$(LD_LIBRARY_PATH=$lib "$work/cxx")" = "$version" ] ||
				problem "lockshm_version() is not $version"
		fi
	fi
}
[ $problems = 0 ] || exit 1
echo "installed $(find "$root" ! -type d | wc -l) files; programs build and run"
