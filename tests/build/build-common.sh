# SPDX-License-Identifier: MIT
# shellcheck shell=sh
#
# build-common.sh - what the scripts share that build the tree anew; sourced by them, never run by itself
#
# Each works in a directory of its own below the build directory, prints in one line what it found, and ends with a
# line "N passed, N failed, N skipped" if it ran tests.  Status: 0, 1, or 77 with the reason if it cannot run here.

set -u

srcdir=$(cd "${srcdir:-.}" && pwd)
builddir=$(cd "${builddir:-.}" && pwd)
MAKE=${MAKE:-make}
# shellcheck disable=SC2034
jobs=$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
# The outer make's job server is not ours, and its choice of tests neither.
unset MAKEFLAGS MFLAGS MAKELEVEL TESTS CC LOCKCTL

skip()
{
	echo "skipped: $*"
	exit 77
}

die()
{
	echo "FAILED: $*"
	exit 1
}

# need COMMAND PACKAGE: the Debian package that has it
need()
{
	command -v "$1" >/dev/null 2>&1 || skip "$1 is not installed (package $2)"
}

# configure_in DIRECTORY ARGUMENT...: anew, unless it was done with the same arguments; ends in the directory
configure_in()
{
	dir=$1
	shift
	mkdir -p "$dir" || die "cannot make $dir"
	cd "$dir" || exit 1
	# make itself configures anew when configure.ac has changed.
	if [ ! -f config.status ] || [ "$(cat arguments 2>/dev/null)" != "$*" ]; then
		echo "configure $*"
		"$srcdir/configure" --quiet "$@" || die "configure in $dir"
		echo "$*" >arguments
	fi
}

# run_tests MAKE-ARGUMENT...: make check, then the sum of what ran
run_tests()
{
	status=0
	find tests -name "*.trs" -delete
	"$MAKE" -k check "$@" || status=1
	"$srcdir/tests/support/count.sh" .
	return $status
}
