#!/bin/sh
# SPDX-License-Identifier: MIT
# ls.sh - ls and show: the porcelain columns, the human-readable table, keys that try to break out of both
. "$(dirname "$0")/common.sh"

tab=$(printf '\t')
number='[0-9]+'
id='[0-9a-f]{16}'

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
front=$pid
eventually held user:42
holder=$(keeper "$front")
start "$LOCKCTL" run "$seg" user:42 -s -w inf --tag - -- true
first_front=$pid
eventually waiters user:42 1
first=$(keeper "$first_front")
start "$LOCKCTL" run "$seg" user:42 -w inf -- true
second_front=$pid
eventually waiters user:42 2
second=$(keeper "$second_front")

expect 0 lockctl ls "$seg" --porcelain
matches "lock user:42 7 exclusive 1 2 - - - - - - $id"
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
matches "lock unknown 7 - 0 0 - - - - - - $id"

kill -TERM "$front"
ended "$front" 143
ended "$first_front" 0
ended "$second_front" 0
expect 0 lockctl ls "$seg" --porcelain
silent stdout

# A strict hold has no end.
start "$LOCKCTL" run "$seg" strict -t none -- sleep 100
eventually held strict
expect 0 lockctl show "$seg" strict --porcelain
matches "holder strict 6 exclusive $(keeper "$pid") $(keeper "$pid") 1 $number $number - sleep"
kill -TERM "$pid"
ended "$pid" 143

# Keys and tags that would break lines, columns or the terminal; and the porcelain key names the lock again.
nasty=$(printf 'a b\tc\033[31m%%\377\303\251\nend')
start "$LOCKCTL" run "$seg" "$nasty" --tag "$(printf 'x\ty\033')" -- sleep 100
eventually held 'a%20b%09c%1B[31m%25%FF%C3%A9%0Aend'
expect 0 lockctl ls "$seg"
equal lines "$(wc -l <"$dir/stdout")" 2
says stdout 'a b%09c%1B[31m%25%FF'"$(printf '\303\251')"'%0Aend'
says stdout '(x%09y%1B)'
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
says stdout "0000$(printf '\342\200\246')"
kill -TERM "$pid"
ended "$pid" 143

# A cooldown that is over is not there, in no format; damage and waiters would be.
expect 0 lockctl run "$seg" cool --cooldown 50ms -- true
expect 0 lockctl ls "$seg"
over() { [ -z "$(lockctl ls "$seg" --porcelain)" ]; }
eventually over
expect 0 lockctl ls "$seg"
equal lines "$(wc -l <"$dir/stdout")" 1
expect 0 lockctl ls "$seg" --json
says stdout '"locks": []'
expect 0 lockctl show "$seg" cool
says stdout "mode     free"
says stdout "holders  0"
expect 0 lockctl show "$seg" cool --porcelain
matches "lock cool 4 - 0 0 - - - - - - $id"
# The next request gets it at once.
expect 0 lockctl run "$seg" cool -w 0 -- true

# Which requests of which process, behind which holder: --pid, --waiting, --min-age, --sort.
start "$LOCKCTL" run "$seg" a -s --tag reader -- sleep 100
eventually held a
reader=$(keeper "$pid")
start "$LOCKCTL" run "$seg" a -s --tag reader -- sleep 100
two_hold() { [ "$(field 5 lock a)" = 2 ]; }
eventually two_hold
start "$LOCKCTL" run "$seg" a -w inf --tag writer -- true
eventually waiters a 1
writer=$(keeper "$pid")
start "$LOCKCTL" run "$seg" a -s -w inf --tag late -- true
eventually waiters a 2
late=$(keeper "$pid")
start "$LOCKCTL" run "$seg" b --tag other -- sleep 100
eventually held b
other=$(keeper "$pid")
expect 0 lockctl ls "$seg" --waiting
equal lines "$(wc -l <"$dir/stdout")" 3
grep -Eq "^a +waits +$writer \(writer\) +exclusive +[0-9.]+ m?s +- +$reader \(reader\) and 1 more$" "$dir/stdout" || fail "row of the writer"
grep -Eq "^a +waits +$late \(late\) +shared .* $reader \(reader\) and 1 more, waiters ahead: 1$" "$dir/stdout" || fail "row of late"
# A reader behind readers is told for whom it waits.
for wait in 0 20ms; do
	expect 3 lockctl run "$seg" a -s -w $wait -- true
	says stderr "held shared by pid "
	says stderr "; before it an exclusive request waits: pid $writer (writer), for "
done
expect 0 lockctl show "$seg" a
says stdout "waiters  2, in the order they will be granted, behind $reader (reader) and 1 more"
expect 0 lockctl ls "$seg" --pid "$late"
equal lines "$(wc -l <"$dir/stdout")" 2
says stdout "$late (late)"
expect 0 lockctl ls "$seg" --pid "$other"
grep -Eq "^b +holds +$other \(other\) +exclusive +" "$dir/stdout" || fail "row of a holder"
equal lines "$(wc -l <"$dir/stdout")" 2
for option in "--pid $other" --waiting "--min-age 1h" "--min-age 0"; do
	# shellcheck disable=SC2086 # an option and its value
	lockctl ls "$seg" $option --porcelain >"$dir/$(echo "$option" | tr ' ' _)" || fail "ls $option"
done
equal "locks of a process" "$(awk '$1 == "lock" { print $2 }' "$dir/--pid_$other" | tr '\n' ' ')" "b "
equal "locks with waiters" "$(awk '$1 == "lock" { print $2 }' "$dir/--waiting" | tr '\n' ' ')" "a "
equal "old locks" "$(cat "$dir/--min-age_1h")" ""
equal "all locks" "$(awk '$1 == "lock" { print $2 }' "$dir/--min-age_0" | sort | tr '\n' ' ')" "a b "
order() { lockctl ls "$seg" --sort "$1" | awk 'NR > 1 { print $1 }' | tr '\n' ' '; }
start "$LOCKCTL" run "$seg" 0 -- sleep 100
newest=$pid
eventually held 0
equal "by key" "$(order key)" "0 a b "
equal "by age" "$(order age)" "a b 0 "
equal "by waiters" "$(order waiters)" "a 0 b "
expect 2 lockctl ls --waiting
says stderr "NAME is missing: --pid, --waiting, --min-age, --sort and --internal are for the locks of one segment"
expect 2 lockctl ls "$seg" --sort name
says stderr "'name' is not key, age or waiters"
expect 2 lockctl ls "$seg" --sort age --json
expect 2 lockctl ls "$seg" --pid 0

# Nested runs in opposite order, and of one key: circles that are no deadlock of two threads.  A mere wait is none.
nested()
{
	start "$LOCKCTL" run "$seg" "$1" -- sh -c 'until [ -e "$0" ]; do sleep 0.02; done; "$1" run "$2" "$3" -w 20s --tag inner true' \
		"$dir/both" "$LOCKCTL" "$seg" "$2" 2>/dev/null
	eventually held "$1"
}
expect 0 lockctl ls "$seg" --waiting
grep -q circle "$dir/stdout" && fail "a circle without nested runs"
nested left right
one=$pid
nested right left
other=$pid
nested same same
same=$pid
touch "$dir/both"
eventually waiters left 1
eventually waiters right 1
eventually waiters same 1
expect 0 lockctl ls "$seg" --waiting
inner() { field 5 waiter "$1"; }
{ grep -Fx "circle of waits: $(inner left) (inner) waits for 'left' of $(keeper "$one") (sh), which runs $(inner right) (inner), which\
 waits for 'right' of $(keeper "$other") (sh), which runs $(inner left) (inner)" "$dir/stdout" ||
	grep -Fx "circle of waits: $(inner right) (inner) waits for 'right' of $(keeper "$other") (sh), which runs $(inner left) (inner), which\
 waits for 'left' of $(keeper "$one") (sh), which runs $(inner right) (inner)" "$dir/stdout"; } >/dev/null || fail "no circle of two"
says stdout "circle of waits: $(inner same) (inner) waits for 'same' of $(keeper "$same") (sh), which runs $(inner same) (inner)"
equal circles "$(grep -c circle "$dir/stdout")" 2
for waiter in $(inner left) $(inner right) $(inner same); do
	kill -TERM "$waiter"
done
for runner in "$one" "$other" "$same"; do
	eventually finished "$runner"
done

# CJK and emoji take two columns, combining characters none; the columns stay aligned.
cjk=$(printf '\346\227\245\346\234\254\350\252\236')
emoji=$(printf '\360\237\230\200\360\237\230\200')
combining=$(printf 'e\314\201e\314\201')
for key in "$cjk" "$emoji" "$combining"; do
	start "$LOCKCTL" run "$seg" "$key" -- sleep 100
	eventually held "$(printf '%s' "$key" | od -An -tx1 | tr -d ' \n' | tr a-f A-F | sed 's/../%&/g; s/%65/e/g')"
done
expect 0 lockctl ls "$seg"
says stdout "$cjk  exclusive"
says stdout "$emoji    exclusive"
says stdout "$combining      exclusive"
says stdout "KEY     MODE"

# At a terminal no line is wider than it is; a pipe gets all.
long=$(printf '%060d' 0)
start "$LOCKCTL" run "$seg" "$long" -- sleep 100
eventually held "$long"
if command -v script >/dev/null && SHELL=/bin/sh script -qec true /dev/null </dev/null >/dev/null 2>&1; then
	SHELL=/bin/sh script -qec "stty cols 90; '$LOCKCTL' ls '$seg'" /dev/null </dev/null >"$dir/stdout"
	[ "$(tr -d '\r' <"$dir/stdout" | grep -c exclusive)" -ge 4 ] || fail "no listing at a terminal"
	grep -q "^000000*$(printf '\342\200\246')  exclusive" "$dir/stdout" || fail "the key is not cut"
	tr -d '\r' <"$dir/stdout" | LC_ALL=C awk '/0000/ { gsub(/[\200-\277]/, ""); if (length($0) > 90) exit 1 }' || fail "too wide"
fi
expect 0 lockctl ls "$seg"
says stdout "$long  exclusive"
# Under watch(1) stdout is a pipe, and COLUMNS has the width.  No row wraps, and a number that is none counts for nothing.
widest()
{
	COLUMNS=$1 "$LOCKCTL" ls "$seg" $2 | LC_ALL=C sed "s/$(printf '\342\200\246')/./g" |
		awk '/0000/ { if (length($0) > n) n = length($0) } END { print n + 0 }'
}
for columns in 120 80 60 40 20 10; do
	for option in "" "--pid $(keeper "$pid")"; do
		[ "$(widest $columns "$option")" -le $columns ] || fail "COLUMNS=$columns $option: a row has $(widest $columns "$option")"
		[ "$(widest $columns "$option")" -ge 8 ] || fail "COLUMNS=$columns $option: no row"
	done
done
[ "$(widest 1 "")" -le 8 ] || fail "COLUMNS=1"
for columns in 0 "" -80 80x x " 80" 1e2 18446744073709551617 99999999999999999999999999; do
	[ "$(widest "$columns" "")" -gt 100 ] || fail "COLUMNS='$columns' cuts"
done
expect 0 env COLUMNS=40 "$LOCKCTL" ls "$seg"
says stdout "HELD BY"
! grep -q "EXPIRES" "$dir/stdout" || fail "minor columns stay at 40"
COLUMNS=40 "$LOCKCTL" show "$seg" "$long" | grep -q " $(field 8 holder "$long") " || fail "the token is cut"
for format in --json --porcelain; do
	equal "$format with COLUMNS" "$(COLUMNS=10 "$LOCKCTL" ls "$seg" $format | grep -c "$long")" \
		"$("$LOCKCTL" ls "$seg" $format | grep -c "$long")"
done
for pid in $started; do
	kill -TERM "$pid" 2>/dev/null
done
for pid in $started; do
	wait "$pid" 2>/dev/null
done
none() { [ -z "$(lockctl ls "$seg" --porcelain)" ]; }
eventually none

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
says stdout BUSY/KEYS
grep -Eq "^/$seg +0/$number +$(id -un) +0600 .* ok$" "$dir/stdout" || fail "row of the segment"

# Output that cannot be written is a failure.
expect 1 sh -c "'$LOCKCTL' ls >/dev/full"
says stderr "cannot write the output"
