#!/bin/sh
# SPDX-License-Identifier: MIT
# two-hosts-stopped.sh - the example of the bridge leaves nothing when a signal ends it, at whichever of its steps
set -u

[ -x "${builddir:-.}/lockshm-bridge" ] || { echo "SKIP: built without the bridge"; exit 77; }
command -v redis-server >/dev/null || { echo "SKIP: redis-server is not installed"; exit 77; }
[ -d /dev/shm ] || { echo "SKIP: no /dev/shm"; exit 77; }
command -v dash >/dev/null && sh=dash || sh=sh

example=$(dirname "$0")/../../examples/two-hosts.sh
TMPDIR=$(mktemp -d)
export TMPDIR
pid=
clean_up()
{
	[ -z "$pid" ] || kill -KILL "$pid" 2>/dev/null
	rm -rf "$TMPDIR" "$log"
}
log=$(TMPDIR='' mktemp)
trap clean_up EXIT
trap 'exit 1' HUP INT TERM

# eventually COMMAND...: polls, at most a minute
eventually()
{
	tries=0
	until "$@" >/dev/null 2>&1; do
		tries=$((tries + 1))
		[ $tries -lt 3000 ] || { echo "did not happen: $*" >&2; cat "$log" >&2; exit 1; }
		sleep 0.02
	done
}
ended() { ! kill -0 "$pid" || grep -q '^State:[[:space:]]*Z' "/proc/$pid/status"; }
reached() { ended || grep -q "$1" "$log"; }
left() { find /dev/shm "$TMPDIR" -mindepth 1 \( -name "*two-hosts-?-$pid*" -o -path "$TMPDIR/*" \); }
nothing_left() { [ -z "$(left)" ]; }

for signal in TERM INT HUP; do
	for step in '^Two hosts' 'host A: its bridge' 'half way'; do
		: >"$log"
		# A shell lets its background processes ignore INT.
		env --default-signal=INT $sh "$example" "${builddir:-.}" >"$log" 2>&1 &
		pid=$!
		eventually reached "$step"
		grep -q "$step" "$log" || { echo "the example ended before '$step'" >&2; cat "$log" >&2; exit 1; }
		kill -$signal "$pid"
		eventually ended
		wait "$pid"
		nothing_left || { echo "$signal at '$step' leaves:" >&2; left >&2; rm -f /dev/shm/*two-hosts-?-"$pid"*; exit 1; }
	done
done
