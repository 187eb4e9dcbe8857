#!/bin/sh
# SPDX-License-Identifier: MIT
# run-steps.sh - lockctl run is killed at each of its system calls, and so is its keeper: no command without the lock
. "$(dirname "$0")/common.sh"

killed_at_step=${builddir:-.}/tests/cli/killed-at-step
[ -x "$killed_at_step" ] || { echo "tests/cli/killed-at-step is not built" >&2; exit 99; }
name=stp$$
cp "$(command -v sleep)" "$dir/$name"
expect 0 lockctl create "$seg"
LOCKSHM_TEST_SEGMENT=$seg
export LOCKSHM_TEST_SEGMENT

# each_step front|keeper SMALLEST ARGUMENT...: until the process waits for the command, or has ended, after so many steps
each_step()
{
	process=$1
	smallest=$2
	shift 2
	step=1
	while :; do
		"$killed_at_step" "$process" $step "$name" "$LOCKCTL" run "$seg" key "$@" >"$dir/stdout" 2>"$dir/stderr" </dev/null
		got=$?
		case $got in
		0) ;;
		2 | 3) break ;;
		*) fail "$process killed at step $step of 'run $*': status $got" ;;
		esac
		step=$((step + 1))
	done
	[ $step -gt "$smallest" ] || fail "only $step steps of the $process"
	echo "run $*: $step steps of the $process"
}

each_step front 20 -- "$dir/$name" 4000
each_step keeper 20 -t none -c "$dir/$name 4000 & $dir/$name 4000; :"
# To the end of a command that ends.
each_step front 20 -- true
each_step keeper 20 -- true
expect 0 lockctl verify "$seg"
