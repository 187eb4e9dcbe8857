#!/bin/sh
# SPDX-License-Identifier: MIT
# uses.sh - the uses in examples/uses.c do what they say, in a new segment and in one that remembers a period
. "$(dirname "$0")/../cli/common.sh"

uses=$(dirname "$LOCKCTL")/examples/uses
[ -x "$uses" ] || uses=$(dirname "$LOCKCTL")/../examples/uses
[ -x "$uses" ] || { echo "no $uses: build it first" >&2; exit 99; }

for refreshes in 1 0; do
	expect 0 "$uses" "$seg"
	silent stderr
	says stdout "4 processes, 1 rendering, 1 to 4 reports, $refreshes refreshes, 12 clients, 4 seats in turn"
done
# The seat is free, and nothing else is left but the period.
expect 0 lockctl ls "$seg" --porcelain
equal "locks left" "$(awk '$1 != "lock" && $7 { print $1, $2 }' "$dir/stdout")" ""
expect 0 lockctl sweep "$seg"
expect 0 lockctl ls "$seg" --porcelain
equal "locks left" "$(awk '$1 != "lock" { print $1, $2 }' "$dir/stdout")" "cooling refresh"
expect 0 lockctl verify "$seg"
