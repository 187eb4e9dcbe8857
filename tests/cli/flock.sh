#!/bin/sh
# SPDX-License-Identifier: MIT
# flock.sh - the table "Coming from flock(1)" of lockctl(1): both sides of each row do the same
#
# Each side is run as it stands while the lock is free, while it is held, and while it is held shared; a background
# process keeps the lock on both sides or on none.  Without flock(1) of util-linux only the right side is run, and must do what the
# row's own flags make it do.
. "$(dirname "$0")/common.sh"

page=$top_dir/doc/man/lockctl.1
PATH=$(dirname "$LOCKCTL"):$PATH
cd "$dir" || exit 99
export PATH dir
# It ends with the test, however that ends.
echo 'while [ -e job ] && [ ! -e go ]; do sleep 0.02; done >/dev/null 2>&1' >job
# With -F the process that took the lock lives: in a container /proc/locks has no lines of those that have ended.
flock -F lock-file true && sides='left right' || sides=right

expect 0 lockctl create "$seg"
sed -n '/^\.SS Coming from/,/^\.fi/p' "$page" | sed -n '/ | /p' | sed -e 's/\\-/-/g' -e "s/\\\\(aq/'/g" >rows
[ "$(wc -l <rows)" -ge 12 ] || fail "the table has $(wc -l <rows) rows"

# text SIDE ROW: what a shell runs
text()
{
	if [ "$1" = left ]; then
		printf '%s\n' "$2" | sed -e 's/ *| lockctl.*//' -e 's/ *| ( lockctl.*//' -e 's/ *| exec.*//' -e 's/\<F\>/lock-file/g'
	else
		printf '%s\n' "$2" | sed -e 's/.* | \(lockctl\|( lockctl\|exec\)/\1/' -e "s/\<S K\>/$seg key/g"
	fi | sed -e 's/\<JOB\>/sh job/' -e 's/\<CMD\>/touch ran/g'
}
# shut MODE SIDE: hold the lock of that side; its pid is in $pid
shut()
{
	case $2:$1 in
	right:shared) start "$LOCKCTL" run "$seg" key -s sleep 100 ;;
	right:*) start "$LOCKCTL" run "$seg" key sleep 100 ;;
	left:shared) start flock -F -s lock-file sleep 100 ;;
	left:*) start flock -F lock-file sleep 100 ;;
	esac
	shut_pid=$pid
	eventually is_shut "$2"
}
is_shut()
{
	case $1 in
	right) held key ;;
	left) ! flock -n lock-file true ;;
	esac
}
open_again()
{
	kill -TERM "$shut_pid"
	wait "$shut_pid" 2>/dev/null
	eventually is_open "$1"
}
is_open() { ! is_shut "$1"; }

# outcome SIDE TEXT: "STATUS ran" or "STATUS not"; "waits" if it waits until the lock is free.
outcome()
{
	rm -f ran
	case $2 in
	*"-w inf"* | "flock F "* | "flock lock-file "* | *"-x lock-file"* | *"flock 9;"* | *"-s lock-file"*)
		sh -c "$2" 2>/dev/null &
		waiter=$!
		started="$started $waiter"
		if [ "$1" = right ]; then eventually waits_or_ended; else eventually blocked_or_ended; fi
		if finished "$waiter" 2>/dev/null; then
			wait "$waiter"
			result=$?
		else
			[ ! -e ran ] || fail "ran without the lock: $2"
			open_again "$1"
			ended "$waiter" 0
			result=waits
		fi
		;;
	*)
		sh -c "$2" 2>/dev/null
		result=$?
		;;
	esac
	[ -e ran ] && result="$result ran" || result="$result not"
}
waits_or_ended() { waiters key 1 || finished "$waiter"; }
# flock(2) sleeps in the kernel: /proc/locks has a line for the waiter, with the inode.
blocked_or_ended() { grep -q -- "-> FLOCK .*:$(stat -c %i lock-file) " /proc/locks || finished "$waiter"; }

while read -r row <&3; do
	for side in $sides; do
		line=$(text "$side" "$row")
		case $row in
		*JOB*)
			rm -f go
			sh -c "$line" || fail "status $?: $line"
			case $row in
			# The helper of lockctl hold releases a moment later.
			*" -o "* | *" -u "*) eventually is_open "$side" ;;
			*) is_shut "$side" || fail "JOB does not keep the lock: $line" ;;
			esac
			touch go
			eventually is_open "$side"
			continue
			;;
		esac
		outcome "$side" "$line"
		equal "$side of '$row', free" "$result" "0 ran"
		for mode in exclusive shared; do
			shut $mode "$side"
			outcome "$side" "$line"
			kill -TERM "$shut_pid" 2>/dev/null && wait "$shut_pid" 2>/dev/null
			eventually is_open "$side"
			eval "${side}_$mode=\$result"
		done
	done
	case $row:$sides in
	*JOB* | *:right) ;;
	*)
		# shellcheck disable=SC2154 # set by eval
		for mode in exclusive shared; do
			eval "equal \"'\$row', held $mode\" \"\$right_$mode\" \"\$left_$mode\""
		done
		;;
	esac
	case $row:$right_exclusive in
	*JOB* | *"inf"*:"waits ran" | *"-E 1 "*:"1 not" | *"-E 75 "*:"75 not" | *"|| exit 1"*:"1 not") ;;
	*) fail "'$row', held exclusive: $right_exclusive" ;;
	esac
done 3<rows
expect 0 lockctl verify "$seg"
