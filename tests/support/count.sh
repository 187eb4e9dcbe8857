#!/bin/sh
# SPDX-License-Identifier: MIT
#
# count.sh BUILD-DIRECTORY - add up what the last `make check` there ran: "N passed, N failed, N skipped"
#
# After it the ends of the logs of failed tests, for readers of the tail of a log; indented, as they have such lines, too.
#
# A test program of libcheck counts as its cases, a test script of bindings/ as those of its last line, "N passed, N
# failed, N skipped", anything else as one.
set -eu

# cases LOG: how many there were, and of those how many failed; beside them how many were skipped
cases()
{
	case $1 in
	./bindings/*)
		sed -n 's/^\([0-9]*\) passed, \([0-9]*\) failed, \([0-9]*\) skipped$/\1 \2 \3/p' "$1" | tail -n 1 |
			awk '{ all = $1 + $2; bad = $2; not = $3 } END { print all + 0, bad + 0, not + 0 }'
		;;
	*) # "95%: Checks: 20, Failures: 1, Errors: 0"
		sed -n 's/^[0-9]*%: Checks: \([0-9]*\), Failures: \([0-9]*\), Errors: \([0-9]*\)$/\1 \2 \3/p' "$1" |
			awk '{ all += $1; bad += $2 + $3 } END { print all + 0, bad + 0, 0 }'
		;;
	esac
}

cd "$1"
passed=0 failed=0 skipped=0 bad_logs=
for trs in $(find tests bindings -name "*.trs" 2>/dev/null | sed 's,^,./,' | sort); do
	[ -f "$trs" ] || continue
	result=$(sed -n 's/^:global-test-result: //p' "$trs")
	# shellcheck disable=SC2046
	set -- $(cases "${trs%.trs}.log" 2>/dev/null || echo 0 0 0)
	all=$1 bad=$2
	case $result in
	PASS | XFAIL)
		passed=$((passed + (all > 0 ? all : 1)))
		skipped=$((skipped + $3))
		;;
	SKIP)
		skipped=$((skipped + 1))
		;;
	*)
		bad_logs="$bad_logs ${trs%.trs}.log"
		# The program itself may have failed beside its cases.
		[ "$bad" -gt 0 ] || { bad=1 all=$((all + 1)); }
		failed=$((failed + bad))
		passed=$((passed + all - bad))
		;;
	esac
done
echo "$passed passed, $failed failed, $skipped skipped"
for log in $bad_logs; do
	echo "$log:"
	tail -n 8 "$log" | sed 's/^/  /'
done
