# SPDX-License-Identifier: MIT
# shellcheck shell=sh
#
# common.sh - shared by the tests of lockctl and lockshm-bridge; sourced by each of them, never run by itself
#
# Gives a private directory in $dir (no command runs in it), a private segment name in $seg, and a trap
# that ends the processes of the test and removes both.  Waiting is polling for a condition with a bound.

set -u
# Ranges in expressions, the order of sort and the decimal point are not the operator's.
LC_ALL=C
export LC_ALL

if [ -z "${LOCKCTL:-}" ]; then
	for LOCKCTL in ./lockctl ./src/lockctl "$(command -v lockctl)"; do
		[ -x "$LOCKCTL" ] && break
	done
fi
case $LOCKCTL in
/*) ;;
*) LOCKCTL=$PWD/$LOCKCTL ;;
esac
# 99 is a hard error for the test driver: a missing tool must not look like a skipped test.
[ -x "$LOCKCTL" ] || { echo "no lockctl: set LOCKCTL" >&2; exit 99; }

# shellcheck disable=SC2034 # for the scripts that source this
top_dir=$(cd "$(dirname "$0")/../.." && pwd)
test_name=cli-$(basename "$0" .sh)
seg=$test_name-$$
dir=$(mktemp -d)
started=

lockctl()
{
	"$LOCKCTL" "$@"
}

clean_up()
{
	trap - EXIT
	for pid in $started; do
		kill -KILL "$pid" 2>/dev/null
		kill -CONT "$pid" 2>/dev/null
	done
	"$LOCKCTL" rm "$seg" >/dev/null 2>&1
	rm -rf "$dir"
}
trap clean_up EXIT
trap 'exit 1' INT TERM HUP

fail()
{
	echo "FAIL: $*" >&2
	for file in "$dir/stdout" "$dir/stderr"; do
		[ -s "$file" ] && sed "s|^|  $(basename "$file"): |" "$file" >&2
	done
	exit 1
}

skip()
{
	echo "SKIP: $*" >&2
	exit 77
}

# lockshm-bridge is beside lockctl, or above libtool's directory.
find_bridge()
{
	bridge_program=$(dirname "$LOCKCTL")/lockshm-bridge
	[ -x "$bridge_program" ] || bridge_program=$(dirname "$LOCKCTL")/../lockshm-bridge
	[ -x "$bridge_program" ]
}

needs_bridge()
{
	find_bridge || skip "built without the bridge"
	command -v redis-server >/dev/null || skip "redis-server is not installed"
}

bridge()
{
	"$bridge_program" "$@"
}

# expect STATUS COMMAND...: run it, keep its output in $dir/stdout and $dir/stderr, compare the exit status.
expect()
{
	wanted=$1
	shift
	"$@" >"$dir/stdout" 2>"$dir/stderr" </dev/null
	got=$?
	[ "$got" -eq "$wanted" ] || fail "exit status $got, not $wanted: $*"
}

# says FILE TEXT: the file kept by expect contains the text.
says()
{
	grep -qF -- "$2" "$dir/$1" || fail "$1 lacks '$2'"
}

silent()
{
	[ ! -s "$dir/$1" ] || fail "$1 is not empty"
}

# equal WHAT GOT WANTED
equal()
{
	[ "$2" = "$3" ] || fail "$1 is '$2', not '$3'"
}

# eventually COMMAND...: poll until it succeeds, at most 20 seconds.
eventually()
{
	tries=0
	until "$@" >/dev/null 2>&1; do
		tries=$((tries + 1))
		[ "$tries" -lt 1000 ] || fail "did not happen in 20 seconds: $*"
		sleep 0.02
	done
}

# start COMMAND...: in the background, killed at the end of the test; its pid is in $pid.
start()
{
	"$@" &
	pid=$!
	started="$started $pid"
}

# ended PID STATUS: wait for it and compare.
ended()
{
	eventually finished "$1"
	wait "$1"
	got=$?
	[ "$got" -eq "$2" ] || fail "process $1 ended with $got, not $2"
}

# field N TYPE KEY: column N of the first porcelain line of that type and key; as text, or "0" would be "000".
field()
{
	lockctl ls "$seg" --porcelain | awk -F '\t' -v n="$1" -v type="$2" -v key="$3" \
		'$1 == type && $2 "" == key { print $n; exit }'
}

# by_signal NAME: the exit status for it.  bash knows all signals, other shells and kill(1) do not.
by_signal() { echo $((128 + $(bash -c 'kill -l "$1"' bash "$1"))); }
send() { bash -c 'kill -s "$1" "$2"' bash "$1" "$2"; }

# child PID: the pid of its only child
child() { tr -d ' ' <"/proc/$1/task/$1/children"; }

# keeper PID: of a lockctl that runs a command, the process that holds the lock
keeper() { child "$1"; }
# command_of PID: what a lockctl or a lockshm-bridge runs
command_of()
{
	command_pid=$(child "$1")
	case $(cat "/proc/$command_pid/comm") in
	lockshm-keeper) child "$command_pid" ;;
	*) echo "$command_pid" ;;
	esac
}

# kill_lockctl: SIGKILL to the lockctl in $pid, until its keeper has ended as well; that one's pid is in $keeper
kill_lockctl()
{
	keeper=$(keeper "$pid")
	kill -KILL "$pid"
	wait "$pid" 2>/dev/null
	eventually gone "$keeper"
}

# Conditions for eventually.
held() { [ -n "$(field 8 holder "$1")" ]; }
not_held() { [ -z "$(field 8 holder "$1")" ]; }
waiters() { [ "$(field 6 lock "$1")" = "$2" ]; }
finished() { gone "$1" || state_is "$1" Z; }
gone() { ! kill -0 "$1"; }
runs() { [ "$(cat "/proc/$(command_of "$1")/comm")" = "$2" ]; }
state_is() { grep -q "^State:[[:space:]]*$2" "/proc/$1/status"; }
