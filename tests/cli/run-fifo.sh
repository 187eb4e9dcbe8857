#!/bin/sh
# SPDX-License-Identifier: MIT
# run-fifo.sh - commands run in the order they came; adjacent shared ones together
. "$(dirname "$0")/common.sh"

expect 0 lockctl create "$seg"

start "$LOCKCTL" run "$seg" key -- sleep 100
holder=$pid
eventually held key
pids=
n=0
while [ $n -lt 8 ]; do
	start "$LOCKCTL" run "$seg" key -w inf -- sh -c "echo $n >>'$dir/order'"
	pids="$pids $pid"
	n=$((n + 1))
	eventually waiters key $n
done
kill -TERM "$holder"
ended "$holder" 143
for pid in $pids; do
	ended "$pid" 0
done
equal order "$(tr '\n' ' ' <"$dir/order")" "0 1 2 3 4 5 6 7 "

# W0 holds; R1 R2 W3 R4 wait.  R1 and R2 hold together, W3 after both, R4 not before W3.
start "$LOCKCTL" run "$seg" key -- sleep 100
holder=$pid
eventually held key
for n in 1 2; do
	start "$LOCKCTL" run "$seg" key -s -w inf -- sh -c "touch '$dir/in$n'
		until [ -e '$dir/go' ]; do sleep 0.02; done
		echo R$n >>'$dir/mixed'"
	eval "reader$n=$pid"
	eventually waiters key $n
done
start "$LOCKCTL" run "$seg" key -w inf -- sh -c "echo W3 >>'$dir/mixed'"
writer=$pid
eventually waiters key 3
start "$LOCKCTL" run "$seg" key -s -w inf -- sh -c "echo R4 >>'$dir/mixed'"
last=$pid
eventually waiters key 4
kill -TERM "$holder"
ended "$holder" 143
eventually [ -e "$dir/in1" ]
eventually [ -e "$dir/in2" ]
equal holders "$(field 5 lock key)" 2
equal waiters "$(field 6 lock key)" 2
touch "$dir/go"
# shellcheck disable=SC2154 # set by eval above
for pid in $reader1 $reader2 $writer $last; do
	ended "$pid" 0
done
equal order "$(sed 's/R[12]/R/' "$dir/mixed" | tr '\n' ' ')" "R R W3 R4 "
expect 0 lockctl verify "$seg"
