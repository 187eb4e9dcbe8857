#!/bin/sh
# SPDX-License-Identifier: MIT
# run-descendants.sh - what a command has started never runs without the lock, with whichever user, group or parent
#
# Every command here ends in one or more "$sleep 4000", a program whose name no other process has.
. "$(dirname "$0")/common.sh"

name=slp$$
sleep=$dir/$name
cp "$(command -v sleep)" "$sleep"
# For other users.
chmod 755 "$dir" "$sleep"
expect 0 lockctl create "$seg"

# The sleepers that are alive, one on a line.
sleepers()
{
	for entry in $(grep -slx "$name" /proc/[0-9]*/comm); do
		entry=${entry%/comm}
		! grep -qs '^State:[[:space:]]*[^ZX[:space:]]' "$entry/status" || echo "${entry#/proc/}"
	done
}
asleep() { [ "$(sleepers | wc -l)" -eq "$1" ]; }

# begin NUMBER ARGUMENT...: lockctl run with these arguments, until so many sleep
begin()
{
	wanted=$1
	shift
	"$LOCKCTL" run "$seg" key "$@" 2>"$dir/run" &
	pid=$!
	started="$started $pid"
	eventually asleep "$wanted"
	keeper=$(keeper "$pid")
}

# The lock is granted only when none of them is alive.
next_is_alone()
{
	expect 0 lockctl run "$seg" key -w 20s -- true
	found=$(sleepers)
	[ -z "$found" ] || fail "runs without the lock: $what"
}

# SIGKILL to the process that was started, then to the keeper.
each_death()
{
	what="$*"
	begin "$@"
	kill -KILL "$pid"
	wait "$pid" 2>/dev/null
	next_is_alone
	begin "$@"
	kill -KILL "$keeper"
	ended "$pid" 4
	grep -q "the process that held the lock was ended by signal 9; the command was killed" "$dir/run" || fail "message: $what"
	found=$(sleepers)
	[ -z "$found" ] || fail "runs after the keeper's death: $what"
}

each_death 1 -- $sleep 4000
each_death 1 -- nohup $sleep 4000
each_death 1 -- setsid $sleep 4000
each_death 1 -- timeout 1h $sleep 4000
each_death 1 -- sh -c 'trap "" HUP INT TERM; "$0" 4000; :' $sleep
each_death 1 -c "$sleep 4000; echo done"
each_death 1 -c "sh -c '$sleep 4000; :'; echo done"
each_death 1 -c "timeout 1h $sleep 4000; echo done"
each_death 1 -c "setsid -w $sleep 4000; echo done"
each_death 2 -c "$sleep 4000 | $sleep 4000"
each_death 2 -c "$sleep 4000 & $sleep 4000 & wait"
each_death 2 -c "($sleep 4000 &) ; $sleep 4000"
each_death 3 -c "set -m; $sleep 4000 & ($sleep 4000 & exit) ; $sleep 4000; echo done"
each_death 1 -s -t none -c "$sleep 4000; echo done"
each_death 2 --keep-for-children -c "$sleep 4000 & $sleep 4000; echo done"

if [ "$(id -u)" -eq 0 ] && command -v setpriv >/dev/null; then
	each_death 1 -- setpriv --reuid 65534 $sleep 4000
	each_death 1 -- setpriv --regid 65534 --clear-groups $sleep 4000
	each_death 1 -- setpriv --groups 1,2 $sleep 4000
	each_death 1 -- setpriv --reuid 65534 --regid 65534 --init-groups $sleep 4000
	each_death 1 -- setpriv --no-new-privs --reuid 65534 $sleep 4000
	each_death 1 -- setpriv --bounding-set -all --inh-caps -all $sleep 4000
	each_death 1 -- setpriv --pdeathsig clear $sleep 4000
	each_death 1 -c "setpriv --reuid 65534 --clear-groups $sleep 4000; echo done"
	each_death 1 -c "setpriv --reuid 65534 --clear-groups sh -c '($sleep 4000 &)'; sleep 1000; echo done"
	! command -v runuser >/dev/null || each_death 1 -- runuser -u nobody -- $sleep 4000
	! command -v su >/dev/null || each_death 1 -- su -s /bin/sh nobody -c "$sleep 4000; :"
	each_death 1 -- chroot / $sleep 4000
	! unshare -p -f true 2>/dev/null || each_death 1 -- unshare -p -f $sleep 4000
	! unshare -U true 2>/dev/null || each_death 1 -- unshare -U -r $sleep 4000
fi

# What may not be signalled keeps the lock until it ends.
if [ "$(id -u)" -eq 0 ] && cp "$(command -v setpriv)" "$dir/setuid" && chmod 4755 "$dir/setuid" && chmod 755 "$dir" &&
	command -v setpriv >/dev/null && setpriv --reuid 65534 "$dir/setuid" --ruid 0 true 2>/dev/null; then
	user="setpriv --reuid 65534 --regid 65534 --clear-groups"
	expect 0 lockctl rm "$seg"
	# shellcheck disable=SC2086
	expect 0 $user "$LOCKCTL" create "$seg" --permissions 0666
	what="a command of another user"
	$user "$LOCKCTL" run "$seg" key -- "$dir/setuid" --reuid 0 $sleep 4000 &
	pid=$!
	started="$started $pid"
	eventually asleep 1
	kill -KILL "$pid"
	wait "$pid" 2>/dev/null
	expect 3 lockctl run "$seg" key --any-owner -w 1s -- true
	kill -TERM "$(sleepers)"
	expect 0 lockctl run "$seg" key --any-owner -w 20s -- true
	expect 0 lockctl rm "$seg"
	expect 0 lockctl create "$seg"
fi

# Where /proc is missing, or is that of another pid namespace, or hides other users' processes, what cannot be found keeps
# the lock until it ends.
still_held()
{
	kill -KILL "$1"
	expect 3 lockctl run "$seg" key --any-owner -w 1s -- true
	# shellcheck disable=SC2046
	kill -KILL $(sleepers)
	expect 0 lockctl run "$seg" key --any-owner -w 20s -- true
}
# The process that runs this program with the segment, but the given one.
front_but() { grep -lzx "$seg" /proc/[0-9]*/cmdline | while read -r file; do
	process=${file#/proc/} process=${process%/cmdline}
	[ "$process" -eq "$1" ] || ! grep -qsx lockctl "/proc/$process/comm" || echo "$process"
done; }
line="$sleep 4000 & $sleep 4000; echo done"
if [ "$(id -u)" -eq 0 ] && unshare -m mount -t tmpfs none /proc 2>/dev/null; then
	what="no /proc"
	unshare -m sh -c 'mount -t tmpfs none /proc; exec "$@"' sh "$LOCKCTL" run "$seg" key -c "$line" >/dev/null &
	started="$started $!"
	eventually asleep 2
	still_held $!
fi
if [ "$(id -u)" -eq 0 ] && unshare -p -f true 2>/dev/null; then
	what="the /proc of another pid namespace"
	unshare -p -f sh -c '"$@" & sleep 1000; wait' sh "$LOCKCTL" run "$seg" key -c "$line" >/dev/null &
	pid=$!
	started="$started $pid"
	eventually asleep 2
	still_held "$(front_but "$pid")"
	kill -KILL "$(child "$pid")"
	# There the number of the process group is not known.
	unshare -p -f "$LOCKCTL" run "$seg" key -- cat /proc/self/stat >"$dir/stat"
	equal "the process group" "$(cut -d ' ' -f 5 "$dir/stat")" "$(cut -d ' ' -f 5 /proc/self/stat)"
fi
# A mount of its own, which has options of its own since Linux 5.8: a remount, or an older one, would change every /proc.
own_options() { uname -r | awk -F . '{ exit !($1 > 5 || ($1 == 5 && $2 + 0 >= 8)) }'; }
if [ "$(id -u)" -eq 0 ] && [ -u "$dir/setuid" ] && own_options &&
	unshare -m mount -t proc -o hidepid=2 proc /proc 2>/dev/null; then
	what="hidepid"
	expect 0 lockctl rm "$seg"
	# shellcheck disable=SC2086
	expect 0 $user "$LOCKCTL" create "$seg" --permissions 0666
	# shellcheck disable=SC2086
	unshare -m sh -c 'mount -t proc -o hidepid=2 proc /proc; exec "$@"' sh $user "$LOCKCTL" run "$seg" key \
		-c "$dir/setuid --reuid 0 $sleep 4000; echo done" >/dev/null &
	started="$started $!"
	eventually asleep 1
	still_held $!
	expect 0 lockctl rm "$seg"
	expect 0 lockctl create "$seg"
fi

# What the process had started before it executed lockctl is the caller's.
what="a process of the caller"
sh -c '"$0" 4000 & exec "$@"' $sleep "$LOCKCTL" run "$seg" key -- $sleep 4000 2>"$dir/run" &
pid=$!
started="$started $pid"
eventually asleep 2
kill -KILL "$(field 5 holder key)"
ended "$pid" 4
asleep 1 || fail "a process of the caller was killed"
kill "$(sleepers)"
eventually asleep 0

# The keeper ends by itself when the segment is truncated.
what="a truncated segment"
begin 2 -t none -c "setsid $sleep 4000 & $sleep 4000; echo done"
: >"/dev/shm/$seg"
ended "$pid" 1
eventually asleep 0
expect 0 lockctl rm "$seg"
expect 0 lockctl create "$seg"

# TERM to lockctl, a lost lease and an operator's release end all of a command line, and the command alone without -c.
what="TERM"
begin 2 -c "$sleep 4000 & $sleep 4000; echo done"
kill -TERM "$pid"
ended "$pid" 143
next_is_alone
begin 1 -c "$sleep 4000; echo done"
expect 0 lockctl release "$seg" key --token "$(field 8 holder key)"
ended "$pid" 4
next_is_alone
begin 1 -t 200ms -c "$sleep 4000; echo done"
kill -STOP "$keeper"
expect 0 lockctl run "$seg" key -w 20s -- true
kill -CONT "$keeper"
ended "$pid" 4
[ -z "$(sleepers)" ] || fail "runs after the lease was lost"
# One that takes its time keeps the lock.
begin 1 -c "(trap 'until [ -e \"$dir/go\" ]; do sleep 0.02; done; exit' TERM; $sleep 4000 & wait) & wait"
kill -TERM "$pid"
eventually asleep 0
expect 3 lockctl run "$seg" key -w 0 -- true
touch "$dir/go"
ended "$pid" 143
begin 1 -- sh -c '"$0" 4000 & wait' $sleep
kill -TERM "$pid"
ended "$pid" 143
equal "sleepers that the command left" "$(sleepers | wc -l)" 1
kill "$(sleepers)"
eventually asleep 0

# At the command's own end the lock is free, whatever it left running.
for daemon in "$sleep 4000 &" "setsid $sleep 4000 &" "(setsid $sleep 4000 &)" "nohup $sleep 4000 >/dev/null 2>&1 &"; do
	expect 0 lockctl run "$seg" key -c "$daemon" >/dev/null 2>&1
	expect 0 lockctl run "$seg" key -w 0 -- true
	eventually asleep 1
	# A daemon is not touched when lockctl is killed later.
	kill "$(sleepers)"
	eventually asleep 0
done
# With a session of its own, and without a parent, it is a daemon also while the command runs.
begin 1 -c "(setsid $sleep 4000 &) ; exec sleep 1000"
kill -KILL "$pid"
wait "$pid" 2>/dev/null
expect 0 lockctl run "$seg" key -w 20s -- true
asleep 1 || fail "a daemon was killed"
kill "$(sleepers)"

# --keep-for-children: a process with the descriptor keeps the lock, also a daemon, also when lockctl is killed.
begin 1 --keep-for-children -c "setsid $sleep 4000 & exit 0"
kill -KILL "$pid"
wait "$pid" 2>/dev/null
expect 3 lockctl run "$seg" key -w 1s -- true
kill "$(sleepers)"
expect 0 lockctl run "$seg" key -w 20s -- true

# once and seat are the same.
for command in "once $seg key --every 1ms" "seat $seg key"; do
	what=$command
	# shellcheck disable=SC2086
	"$LOCKCTL" $command -c "$sleep 4000; echo done" &
	pid=$!
	started="$started $pid"
	eventually asleep 1
	kill -KILL "$pid"
	wait "$pid" 2>/dev/null
	next_is_alone
done
expect 0 lockctl verify "$seg"
