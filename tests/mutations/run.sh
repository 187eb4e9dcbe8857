#!/bin/sh
# SPDX-License-Identifier: MIT
#
# run.sh all | NAME...   - show that the suites can fail: seed each bug of tests/mutations, expect it to be caught
# run.sh                 - only see that each of them still applies; this is in make check
#
# A file tests/mutations/NAME.patch is a few lines that say what the bug is, a line "Caught-by: COMMAND", perhaps a line
# "Needs: TARGET..." with what must be built for it in addition to the program itself, and a diff.  The command is run
# in the build directory; $srcdir, $LOCKCTL and $BRIDGE_PROGRAM are set as in make check.  It must pass without the patch
# and fail with it.  shellcheck source=tests/build/build-common.sh
. "$(dirname "$0")/../build/build-common.sh"

patches=$srcdir/tests/mutations
work=$builddir/check-mutations
tree=$work/tree
# A mutant may hang.
limit=${MUTATION_LIMIT:-600}

field()
{
	sed -n "/^--- /q;s/^$1: //p" "$patches/$2.patch"
}

# Everything of the source tree but what was built.
copy_tree()
{
	rm -rf "$tree"
	mkdir -p "$tree" || die "cannot make $tree"
	(cd "$srcdir" && tar -cf - --exclude=.git --exclude=./build --exclude='./check-*' --exclude='*.o' --exclude='*.lo' .) |
		(cd "$tree" && tar -xf -) || die "cannot copy $srcdir"
	# Copied from a tree that was configured in itself?
	[ ! -f "$tree/config.status" ] || (cd "$tree" && "$MAKE" -s distclean >/dev/null 2>&1)
}

# build NAME: the library, the tool, and what the command needs
build()
{
	command=$(field Caught-by "$1")
	case $command in
	tests/*) program=${command%% *} ;;
	*) program= ;;
	esac
	# shellcheck disable=SC2046
	"$MAKE" -s -j"$jobs" all $program $(field Needs "$1") >"$work/make.log" 2>&1
}

# run COMMAND LOG: status 124 if it took too long
run()
{
	(
		srcdir=$tree builddir=$tree/build LOCKCTL=$tree/build/lockctl BRIDGE_PROGRAM=$tree/build/lockshm-bridge
		export srcdir builddir LOCKCTL BRIDGE_PROGRAM
		timeout -k 5 "$limit" sh -c "$1" >"$2" 2>&1 </dev/null
	)
}

# Once for each command: does it pass without any bug?
control()
{
	grep -qxF "$2" "$work/controlled" 2>/dev/null && return 0
	build "$1" || { tail "$work/make.log"; die "the tree does not build"; }
	run "$2" "$work/control.log" || { tail "$work/control.log"; return 1; }
	echo "$2" >>"$work/controlled"
}

apply()
{
	(cd "$tree" && patch -s -f -p1 "$@")
}

seed_bug()
{
	name=$1 command=$(field Caught-by "$1")
	printf '%-34s' "$name"
	if ! control "$name" "$command"; then
		echo "FAILED: without the bug, too: $command"
		return 1
	fi
	apply <"$patches/$name.patch" || { echo "FAILED: does not apply"; return 1; }
	if ! build "$name"; then
		result="FAILED: does not build"
		tail "$work/make.log"
	elif run "$command" "$work/$name.log"; then
		result="NOT CAUGHT by $command"
	elif [ $? = 124 ]; then
		result="caught (hangs): $command"
	else
		result="caught: $command"
	fi
	apply -R <"$patches/$name.patch" || die "$name.patch cannot be taken back"
	echo "$result"
	case $result in
	caught*) return 0 ;;
	*) return 1 ;;
	esac
}

dry_run()
{
	need patch patch
	for file in "$patches"/*.patch; do
		name=$(basename "$file" .patch)
		[ -n "$(field Caught-by "$name")" ] || { echo "$name.patch has no line Caught-by:"; failed=1; }
		(cd "$srcdir" && patch -s -f -p1 --dry-run --fuzz=0 -r - <"$file") || { echo "$name.patch does not apply"; failed=1; }
	done
	exit $failed
}

failed=0
[ $# -gt 0 ] || dry_run
need patch patch
need timeout coreutils
# shellcheck disable=SC2046
[ "$1" != all ] || set -- $(cd "$patches" && ls ./*.patch | sed 's,^\./,,; s,\.patch$,,')
mkdir -p "$work" && rm -f "$work/controlled"
copy_tree
mkdir -p "$tree/build" && cd "$tree/build" || exit 1
../configure --quiet >"$work/configure.log" 2>&1 || { tail "$work/configure.log"; die "configure"; }
passed=0
for name in "$@"; do
	if seed_bug "$name"; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
	fi
done
echo "$passed passed, $failed failed, 0 skipped"
[ $failed = 0 ]
