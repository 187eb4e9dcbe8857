#!/bin/sh
# SPDX-License-Identifier: MIT
# stat.sh - stat: figures that follow the events, and valid OpenMetrics text
. "$(dirname "$0")/common.sh"

value() { lockctl stat "$seg" | awk -v name="$1" '$1 == name { print $2 }'; }

expect 1 lockctl stat "$seg"
expect 0 lockctl create "$seg"
equal acquires "$(value acquires)" 0
expect 0 lockctl run "$seg" one -- true
expect 0 lockctl run "$seg" two -- true
equal acquires "$(value acquires)" 2
equal locks_busy "$(value locks_busy)" 0
start "$LOCKCTL" run "$seg" one -- sleep 100
eventually held one
equal locks_busy "$(value locks_busy)" 1
expect 3 lockctl run "$seg" one -w 20ms -- true
equal timeouts "$(value timeouts)" 1
now=$(date +%s)
created=$(value created_unix_ns)
[ $((now - created / 1000000000)) -ge 0 ] && [ $((now - created / 1000000000)) -lt 600 ] || fail "created $created"

expect 0 lockctl stat "$seg" --openmetrics
silent stderr
equal "last line" "$(tail -n 1 "$dir/stdout")" "# EOF"
# Each family: TYPE, UNIT if any, HELP, then its one sample; counters end in _total; names and values well-formed.
awk -v label="{segment=\"/$seg\"}" '
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
		name = family (type == "counter" ? "_total" : "") label
		if (NF != 2 || $1 != name || $2 !~ /^[0-9]+(\.[0-9]+)?$/) bad("sample, not " name)
		samples++
	}
	END { if (!failed && (!ended || samples < 15)) { print samples " samples" > "/dev/stderr"; exit 1 } }
' "$dir/stdout" || fail "not OpenMetrics"
says stdout "lockshm_acquires_total{segment=\"/$seg\"} 3"
says stdout "lockshm_locks_busy{segment=\"/$seg\"} 1"
says stdout "lockshm_timeouts_total{segment=\"/$seg\"} 1"
kill -TERM "$pid"
ended "$pid" 143
