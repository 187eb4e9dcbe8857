#!/bin/sh
# SPDX-License-Identifier: MIT
# stat.sh - stat: figures that follow the events, and valid OpenMetrics text
. "$(dirname "$0")/common.sh"

value() { lockctl stat "$seg" --json | tr -d '{}' | tr ',' '\n' | sed -n "s/^ *\"$1\": //p"; }

expect 1 lockctl stat "$seg"
expect 0 lockctl create "$seg"
equal acquires "$(value acquires)" 0
expect 0 lockctl run "$seg" one -- true
expect 0 lockctl run "$seg" two -- true
equal acquires "$(value acquires)" 2
equal keys_busy "$(value keys_busy)" 0
start "$LOCKCTL" run "$seg" one -- sleep 100
eventually held one
equal keys_busy "$(value keys_busy)" 1
expect 3 lockctl run "$seg" one -w 20ms -- true
equal timeouts "$(value timeouts)" 1
expect 3 lockctl run "$seg" one -w 0 -- true
equal timeouts "$(value timeouts)" 1
equal tries_failed "$(value tries_failed)" 1
now=$(date +%s)
created=$(value created_unix_ns)
[ $((now - created / 1000000000)) -ge 0 ] && [ $((now - created / 1000000000)) -lt 600 ] || fail "created $created"

# valid SEGMENTS: stdout is OpenMetrics text with samples of so many
valid()
{
silent stderr
equal "last line" "$(tail -n 1 "$dir/stdout")" "# EOF"
# Each family: TYPE, UNIT if any, HELP, then its samples; counters end in _total; names and values well-formed.
awk -v segments="$1" '
	function bad(why) { print "line " NR ": " why ": " $0 > "/dev/stderr"; failed = 1; exit 1 }
	ended { bad("something after # EOF") }
	/^# EOF$/ { ended = 1; next }
	/^# TYPE / {
		if (seen[$3]++) bad("family twice")
		if ($3 !~ /^[a-z_]+$/ || $3 ~ /_total$/ || ($4 != "gauge" && $4 != "counter") || NF != 4) bad("TYPE")
		family = $3; type = $4; next
	}
	/^# UNIT / { if ($3 != family || $3 !~ ("_" $4 "$") || NF != 4) bad("UNIT"); next }
	/^# HELP / { if ($3 != family || NF < 4) bad("HELP"); next }
	/^#/ { bad("unknown comment") }
	{
		name = family (type == "counter" ? "_total" : "")
		if (NF != 2 || $2 !~ /^[0-9]+(\.[0-9]+)?$/ || sample[$1]++) bad("sample")
		if (substr($1, 1, length(name) + 10) != name "{segment=\"" || $1 !~ /"}$/) bad("sample, not of " name)
		if (family == "lockshm_acquires") found++
		samples++
	}
	END {
		if (!failed && (!ended || samples < 15 * segments || found != segments)) {
			print samples " samples of " found > "/dev/stderr"
			exit 1
		}
	}
' "$dir/stdout" || fail "not OpenMetrics"
}
expect 0 lockctl stat "$seg" --openmetrics
valid 1
says stdout "lockshm_acquires_total{segment=\"/$seg\"} 3"
says stdout "lockshm_keys_busy{segment=\"/$seg\"} 1"
says stdout "lockshm_timeouts_total{segment=\"/$seg\"} 1"
says stdout "lockshm_tries_failed_total{segment=\"/$seg\"} 1"
says stdout "lockshm_keys_left{segment=\"/$seg\"} 0"
says stdout "lockshm_longest_queue{segment=\"/$seg\"} 0"
grep -Eq "^lockshm_oldest_hold_seconds\{segment=\"/$seg\"\} [0-9]+\.[0-9]{9}$" "$dir/stdout" || fail "age of the oldest hold"

# The oldest hold and wait, and the longest queue, at this moment.
at_least() { [ "$(value "$1")" -ge "$2" ] || fail "$1 is $(value "$1"), less than $2"; }
equal longest_queue "$(value longest_queue)" 0
equal oldest_wait_ns "$(value oldest_wait_ns)" 0
holder=$pid
queue=
for n in 1 2; do
	start "$LOCKCTL" run "$seg" one -w inf -- true
	queue="$queue $pid"
	eventually waiters one $n
done
equal longest_queue "$(value longest_queue)" 2
before=$(value oldest_wait_ns)
[ "$before" -gt 0 ] || fail "oldest_wait_ns is $before"
at_least oldest_hold_ns "$before"
at_least oldest_wait_ns $((before + 1))
# Units that are read, not counted: no number of nanoseconds, and the size in MiB.
expect 0 lockctl stat "$seg"
grep -Eq "^bytes +[0-9.]+ [KMG]iB +" "$dir/stdout" || fail "bytes"
grep -Eq "^created +20[0-9]{2}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2} UTC +" "$dir/stdout" || fail "created"
grep -Eq "^oldest_hold +[0-9.]+ (us|ms|s|min) +" "$dir/stdout" || fail "oldest_hold"
grep -Eq "^oldest_wait +[0-9.]+ (us|ms|s|min) +" "$dir/stdout" || fail "oldest_wait"
! grep -Eq "_ns|[0-9]{10}" "$dir/stdout" || [ "$(grep -E "_ns|[0-9]{10}" "$dir/stdout" | cut -d ' ' -f 1)" = token_base ] ||
	fail "nanoseconds"
# More keys than there is room for are explained where both are shown.
grep -Eq "^keys_known .* half as many again as there is room for" "$dir/stdout" || fail "keys_known"
for waiter in $queue; do
	kill -TERM "$waiter"
	ended "$waiter" 143
done
equal longest_queue "$(value longest_queue)" 0
pid=$holder

# Several segments: the samples of a family are adjacent.  Without a name it is all of this machine.
expect 0 lockctl create "$seg.b" --keys 128 --requests 64 --owners 4
expect 0 lockctl stat --openmetrics "$seg" "/$seg.b"
valid 2
says stdout "lockshm_keys_capacity{segment=\"/$seg.b\"} 128"
lockctl stat --openmetrics >"$dir/stdout" 2>/dev/null
says stdout "lockshm_timeouts_total{segment=\"/$seg\"} 3"
says stdout "lockshm_acquires_total{segment=\"/$seg.b\"} 0"
equal "last line" "$(tail -n 1 "$dir/stdout")" "# EOF"
# One that cannot be read: the others are printed, a message, exit 1.
expect 0 lockctl rm "$seg.b"
expect 1 lockctl stat --openmetrics "$seg.b" "$seg"
says stderr "lockctl: stat $seg.b: "
equal messages "$(wc -l <"$dir/stderr")" 1
: >"$dir/stderr"
valid 1
expect 2 lockctl stat --json
says stderr "NAME is missing"
expect 2 lockctl stat "$seg" "$seg.b"
expect 2 lockctl stat --openmetrics ""
# A full table refuses, and each refusal is counted by its table.
expect 0 lockctl create "$seg.c" --owners 1 --requests 1 --keys 64
start "$LOCKCTL" run "$seg.c" held -- sleep 100
eventually sh -c "'$LOCKCTL' ls '$seg.c' --porcelain | grep -q ^holder"
for n in 1 2; do
	expect 1 lockctl run "$seg.c" other -- true
	says stderr "owner table full"
	lockctl stat "$seg.c" --json | grep -q "\"refused_owners\": $n," || fail "refusal $n is not counted"
	lockctl stat "$seg.c" | grep -Eq "^refused_owners +$n +" || fail "refusal $n is not shown"
	lockctl stat --openmetrics "$seg.c" | grep -Fqx "lockshm_refused_owners_total{segment=\"/$seg.c\"} $n" || fail "no metric"
	lockctl stat "$seg.c" --json | grep -q '"refused_keys": 0, "refused_requests": 0,' || fail "counted elsewhere"
done
kill -TERM "$pid"
ended "$pid" 143
expect 0 lockctl verify "$seg.c"
expect 0 lockctl rm "$seg.c"
pid=$holder
kill_lockctl
equal "keys_busy, the holder is dead" "$(value keys_busy)" 0
equal keys_left "$(value keys_left)" 1
equal "oldest_hold_ns, the holder is dead" "$(value oldest_hold_ns)" 0
expect 0 lockctl sweep "$seg"
equal "keys_left after sweep" "$(value keys_left)" 0
