#!/bin/sh
# SPDX-License-Identifier: MIT
# ls.sh - ls and show: the porcelain columns, the human-readable table, keys that try to break out of both
. "$(dirname "$0")/common.sh"

tab=$(printf '\t')
number='[0-9]+'

# matches PATTERN: a line of stdout is exactly this extended regular expression, ' ' standing for a tab
matches()
{
	pattern=$(printf '%s' "$1" | sed "s/ /$tab/g")
	grep -Eqx -- "$pattern" "$dir/stdout" || fail "no line matches '$1'"
}

expect 0 lockctl create "$seg"
expect 0 lockctl ls "$seg" --porcelain
silent stdout

start "$LOCKCTL" run "$seg" user:42 --tag owner -- sleep 100
holder=$pid
eventually held user:42
start "$LOCKCTL" run "$seg" user:42 -s -w inf --tag - -- true
first=$pid
eventually waiters user:42 1
start "$LOCKCTL" run "$seg" user:42 -w inf -- true
second=$pid
eventually waiters user:42 2

expect 0 lockctl ls "$seg" --porcelain
matches "lock user:42 7 exclusive 1 2 - - - - - -"
matches "holder user:42 7 exclusive $holder $holder 1 $number $number $number owner"
matches "waiter user:42 7 shared $first $first 1 $number $number - %2D"
matches "waiter user:42 7 exclusive $second $second 1 $number $number - true"
equal lines "$(wc -l <"$dir/stdout")" 4
cut -f 1-8,11 "$dir/stdout" >"$dir/ls"
expect 0 lockctl show "$seg" user:42 --porcelain
cut -f 1-8,11 "$dir/stdout" | cmp -s - "$dir/ls" || fail "show differs from ls"

# The queue in order, tickets rising.
equal order "$(lockctl show "$seg" user:42 --porcelain | awk '$1 != "lock" { print $5 }' | tr '\n' ' ')" \
	"$holder $first $second "
lockctl show "$seg" user:42 --porcelain | awk '$1 != "lock" { if ($8 <= last) exit 1; last = $8 }' || fail "tickets"

expect 0 lockctl ls "$seg"
says stdout KEY
grep -Eq "^user:42 +exclusive +1 +2 .* $holder \(owner\) +-$" "$dir/stdout" || fail "row of user:42"
expect 0 lockctl show "$seg" user:42
says stdout "user:42 (7 bytes)"
says stdout "$holder (owner)"
says stdout "waiters  2, in the order they will be granted"
expect 0 lockctl show "$seg" unknown
says stdout "mode     free"
says stdout "holders  0"
expect 0 lockctl show "$seg" unknown --porcelain
matches "lock unknown 7 - 0 0 - - - - - -"

kill -TERM "$holder"
ended "$holder" 143
ended "$first" 0
ended "$second" 0
expect 0 lockctl ls "$seg" --porcelain
silent stdout

# A strict hold has no end.
start "$LOCKCTL" run "$seg" strict -t none -- sleep 100
eventually held strict
expect 0 lockctl show "$seg" strict --porcelain
matches "holder strict 6 exclusive $pid $pid 1 $number $number - sleep"
kill -TERM "$pid"
ended "$pid" 143

# Keys and tags that would break lines, columns or the terminal; and the porcelain key names the lock again.
nasty=$(printf 'a b\tc\033[31m%%\377\303\251\nend')
start "$LOCKCTL" run "$seg" "$nasty" --tag "$(printf 'x\ty\033')" -- sleep 100
eventually held 'a%20b%09c%1B[31m%25%FF%C3%A9%0Aend'
expect 0 lockctl ls "$seg"
equal lines "$(wc -l <"$dir/stdout")" 2
says stdout 'a b\x09c\x1b[31m%\xff'"$(printf '\303\251')"'\x0aend'
says stdout '(x\x09y\x1b)'
expect 0 lockctl show "$seg" 'a%20b%09c%1b[31m%25%ff%C3%A9%0Aend' --escaped --porcelain
matches 'lock a%20b%09c%1B\[31m%25%FF%C3%A9%0Aend 18 exclusive 1 0 .*'
kill -TERM "$pid"
ended "$pid" 143

# Only the first 64 bytes of a long key are kept for listings; the length is that of all.
long=$(printf '%0100d' 5)
start "$LOCKCTL" run "$seg" "$long" -- sleep 100
eventually held "$(printf '%064d' 0)"
expect 0 lockctl ls "$seg" --porcelain
matches "lock 0{64} 100 exclusive 1 0 .*"
expect 0 lockctl ls "$seg"
says stdout "0000..."
kill -TERM "$pid"
ended "$pid" 143

# Keys that begin with a dash.
start "$LOCKCTL" run -- "$seg" -dash -- sleep 100
eventually held -dash
expect 0 lockctl show --porcelain -- "$seg" -dash
matches "lock -dash 5 exclusive 1 0 .*"
kill -TERM "$pid"
ended "$pid" 143

# All segments.
expect 0 lockctl ls --porcelain
matches "/$seg OK $(id -u) $number 0600 $number $number $number 0 0"
expect 0 lockctl ls
says stdout BUSY/KNOWN/LOCKS
grep -Eq "^/$seg +0/$number/$number +$(id -un) +0600 .* ok$" "$dir/stdout" || fail "row of the segment"

# Output that cannot be written is a failure.
expect 1 sh -c "'$LOCKCTL' ls >/dev/full"
says stderr "cannot write the output"
