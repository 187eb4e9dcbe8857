#!/bin/sh
# SPDX-License-Identifier: MIT
#
# held.sh - what users copy compares the status of a call that acquires with "< 0" or ">= 0" only
#
# A positive status is a hold, too: after "!= 0" it would be left behind.  A status that is kept in a variable is not seen
# here.  LOCKSHM_PENDING is compared with itself.
set -u
LC_ALL=C
export LC_ALL

cd "${srcdir:-.}" || exit 99
acquirers='lockshm_(acquire|acquire_many|lock|trylock|timedlock|upgrade|loop_acquire|loop_acquire_many)\([^;]*\)'
# No name in this tree has a blank.
# shellcheck disable=SC2046
set -- $(find README.md examples include doc bindings perf src/lockctl -type f \( -name '*.[ch137]' -o -name '*.md' \))
seen=$(grep -hE "$acquirers *(<|>=) 0" "$@" | wc -l)
[ "$seen" -ge 5 ] || { echo "only $seen comparisons found: this script looks in the wrong place"; exit 99; }
! grep -nE "$acquirers *([!=]=|<=|> )|!$acquirers" "$@" | grep -v '[!=]= LOCKSHM_PENDING'
