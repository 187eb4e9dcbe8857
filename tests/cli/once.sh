#!/bin/sh
# SPDX-License-Identifier: MIT
# once.sh - at most once in a period: skipped runs, failed ones, killed ones, long ones
. "$(dirname "$0")/common.sh"

runs() { wc -l <"$dir/ran" | tr -d ' '; }
job='echo ran >>"$0"'
: >"$dir/ran"

expect 0 lockctl create "$seg"
expect 0 lockctl once "$seg" job --every 1h -- sh -c "$job" "$dir/ran"
silent stderr
equal runs "$(runs)" 1

# Skipped: 0, and a message with who ran it, the time since then and to the next one.
expect 0 lockctl once "$seg" job --every 1h -- sh -c "$job" "$dir/ran"
grep -Eq "^lockctl: once $seg: 'job' skipped: cooling down for another (59|60) min, taken [0-9.]+ s ago by 'sh'$" \
	"$dir/stderr" || fail "message of a skipped run"
expect 75 lockctl once "$seg" job --every 1h -E 75 -- sh -c "$job" "$dir/ran"
equal runs "$(runs)" 1
expect 0 lockctl ls "$seg"
says stdout "cooling down (sh)"
# The period is that of the run that was made, and the key is closed to run as well.
expect 75 lockctl once "$seg" job --every 1ms -E 75 -- sh -c "$job" "$dir/ran"
expect 3 lockctl run "$seg" job -w 0 -- true
says stderr "'job' not obtained: "
says stderr "cooling down for another "
expect 0 lockctl once "$seg" other --every 1h -c "echo other >>'$dir/other'"
[ -s "$dir/other" ] || fail "-c did not run"

# Running now: the message names the holder.
start "$LOCKCTL" once "$seg" long --every 1h --tag nightly -- sleep 100
eventually held long
expect 0 lockctl once "$seg" long --every 1h -- sh -c "$job" "$dir/ran"
says stderr "'long' skipped: held exclusive by pid $(keeper "$pid") (lockshm-keeper) 'nightly' for "
says stderr "; token $(field 8 holder long), "
equal runs "$(runs)" 1

# A killed run does not count: the next call runs.
kill_lockctl
expect 0 lockctl once "$seg" long --every 1h -- sh -c "$job" "$dir/ran"
equal runs "$(runs)" 2
expect 9 lockctl once "$seg" long --every 1h -E 9 -- true

# A failed one counts, unless told otherwise; one that did not start does not.
expect 7 lockctl once "$seg" fails --every 1h -- sh -c 'exit 7'
expect 9 lockctl once "$seg" fails --every 1h -E 9 -- true
expect 7 lockctl once "$seg" retried --every 1h --retry-on-failure -- sh -c 'exit 7'
expect "$(by_signal TERM)" lockctl once "$seg" retried --every 1h --retry-on-failure -- sh -c 'kill -TERM $$'
expect 0 lockctl once "$seg" retried --every 1h --retry-on-failure -- true
expect 9 lockctl once "$seg" retried --every 1h --retry-on-failure -E 9 -- true
expect 127 lockctl once "$seg" absent --every 1h -- no-such-program-anywhere
expect 0 lockctl once "$seg" absent --every 1h -E 9 -- true

# The period counts from the start: a run that takes longer leaves no cooldown.
expect 0 lockctl once "$seg" slow --every 50ms -- sleep 0.1
expect 0 lockctl once "$seg" slow --every 50ms -E 9 -- sleep 0.1

# An operator ends the period early.
token=$(field 8 cooling job)
expect 0 lockctl release "$seg" job --token "$token"
expect 0 lockctl once "$seg" job --every 1h -E 9 -- sh -c "$job" "$dir/ran"
silent stderr
equal runs "$(runs)" 3

# Of ten at once one runs.
: >"$dir/ran"
for i in 1 2 3 4 5 6 7 8 9 10; do
	start "$LOCKCTL" once "$seg" herd --every 1h -- sh -c "$job" "$dir/ran" 2>/dev/null
done
for pid in $started; do
	wait "$pid" 2>/dev/null
done
equal runs "$(runs)" 1
expect 0 lockctl verify "$seg"
