#!/bin/sh
# SPDX-License-Identifier: MIT
# limits.sh - no limit of memory, stack or open files ends lockctl by a signal, or without a reason
. "$(dirname "$0")/common.sh"

[ -z "${SANITIZE_CFLAGS:-}" ] || skip "a sanitizer needs more memory than any limit here"

expect 0 lockctl create "$seg" --keys 64 --requests 64 --owners 8
ulimit -c 0

# under LETTER VALUE COMMAND...: its exit status is in $got, its output in $dir.
under()
{
	letter=$1
	value=$2
	shift 2
	# shellcheck disable=SC3045 # dash and bash have these limits
	(ulimit "-$letter" "$value" && exec "$LOCKCTL" "$@") >"$dir/stdout" 2>"$dir/stderr" </dev/null
	got=$?
}

# Below that the kernel or the loader ends the process, before a line of lockctl has run.
starts()
{
	under "$1" "$2" --version
	[ "$got" -eq 0 ]
}

# at_each LETTER FIRST STEP LAST COMMAND...: as long as the command fails, it gives a reason; from then on it works.
at_each()
{
	letter=$1
	value=$2
	step=$3
	last=$4
	shift 4
	worked=
	while [ "$value" -le "$last" ]; do
		if starts "$letter" "$value"; then
			under "$letter" "$value" "$@"
			case $got in
			0)
				worked=yes
				# A segment that cannot be opened is listed with the reason.
				[ "$*" != ls ] || says stdout "$seg"
				;;
			1)
				[ -s "$dir/stderr" ] || fail "no reason: ulimit -$letter $value; lockctl $*"
				# The stack is what a thread gets of the address space, so it has no name of its own.
				[ "$letter" = s ] || grep -q "(ulimit .*-$letter)" "$dir/stderr" ||
					fail "the limit is not named: ulimit -$letter $value; lockctl $*"
				;;
			*) fail "exit status $got: ulimit -$letter $value; lockctl $*" ;;
			esac
			[ "$got" -eq 0 ] || [ -z "$worked" ] || fail "worked with less than ulimit -$letter $value: lockctl $*"
		fi
		value=$((value + step))
	done
	[ -n "$worked" ] || fail "ulimit -$letter $last is not enough: lockctl $*"
	expect 0 lockctl verify "$seg"
}

all_commands()
{
	at_each "$@" run "$seg" key -- true
	at_each "$@" ls
	at_each "$@" ls "$seg"
	at_each "$@" show "$seg" key
	at_each "$@" create "$seg" --or-open
	at_each "$@" stat "$seg"
	at_each "$@" sweep "$seg"
}

# The service thread of run has a stack of 8 MiB.
ulimit -s 8192
all_commands v 1024 512 20480
all_commands n 0 1 12
all_commands s 64 64 512

# What is made under a limit is whole, or not there.
v=2048
while [ $v -le 12288 ]; do
	under v $v create "$seg.new" --keys 64 --requests 64 --owners 8
	if [ "$got" -eq 0 ]; then
		expect 0 lockctl verify "$seg.new"
		expect 0 lockctl rm "$seg.new"
	fi
	expect 1 lockctl rm "$seg.new"
	v=$((v + 512))
done
exit 0
