#!/bin/sh
# SPDX-License-Identifier: MIT
# run-signals.sh - signals sent to lockctl run: relayed once, or ending the wait without a trace
. "$(dirname "$0")/common.sh"

expect 0 lockctl create "$seg"

# A command that writes the name of each signal it gets and ends at TERM with 7.  It polls, since a shell runs
# a trap only between commands.
cat >"$dir/command" <<'END'
trap 'echo TERM >>"$1"; exit 7' TERM
for sig in HUP INT QUIT USR1 USR2 ALRM CONT WINCH URG VTALRM PROF IO PWR RTMIN RTMAX TSTP; do
	trap "echo $sig >>\"\$1\"" $sig
done
echo ready >>"$1"
while :; do sleep 0.02; done
END

log_ends() { [ "$(tail -n 1 "$dir/log")" = "$1" ]; }

# A background process of a shell ignores INT and QUIT, so give it the defaults.
start env --default-signal "$LOCKCTL" run "$seg" key -t none -- bash "$dir/command" "$dir/log"
eventually log_ends ready
for sig in HUP INT QUIT USR1 USR2 ALRM CONT WINCH URG VTALRM PROF IO PWR RTMIN RTMAX TSTP; do
	send "$sig" "$pid"
	eventually log_ends "$sig"
done
kill -TERM "$pid"
ended "$pid" 7
equal "the signals of the command" "$(tr '\n' ' ' <"$dir/log")" \
	"ready HUP INT QUIT USR1 USR2 ALRM CONT WINCH URG VTALRM PROF IO PWR RTMIN RTMAX TSTP TERM "
not_held key || fail "still held"

# A command without handlers dies of the signal, and the exit status names it.
for sig in HUP INT QUIT TERM USR1 ALRM; do
	start env --default-signal "$LOCKCTL" run "$seg" key -- sleep 100
	eventually held key
	eventually runs "$pid" sleep
	send "$sig" "$pid"
	ended "$pid" "$(by_signal "$sig")"
done

# A signal from the command to its own group does not come back to it.
setsid "$LOCKCTL" run "$seg" key -- bash -c '
	count=0
	trap "count=\$((count + 1))" USR1
	kill -USR1 0
	for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.02; done
	exit $count' 2>/dev/null
equal "signals that the command got from itself" $? 1

# While waiting: the signal ends the wait, leaves no trace, and does not affect the holder.
start "$LOCKCTL" run "$seg" key -- sleep 100
holder=$pid
eventually held key
for sig in TERM INT HUP QUIT USR1 ALRM; do
	start env --default-signal "$LOCKCTL" run "$seg" key -w inf -- touch "$dir/ran"
	eventually waiters key 1
	send "$sig" "$pid"
	ended "$pid" "$(by_signal "$sig")"
	equal waiters "$(field 6 lock key)" 0
done
[ ! -e "$dir/ran" ] || fail "a cancelled run ran its command"

# An ignored signal stays ignored: nohup.
start env --ignore-signal=HUP "$LOCKCTL" run "$seg" key -w inf -- touch "$dir/ran"
eventually waiters key 1
kill -HUP "$pid"
expect 0 lockctl run "$seg" other -- true
equal waiters "$(field 6 lock key)" 1
waiter=$pid
# With SIGTERM ignored, or blocked by the caller, the others end the wait, and so does the death of lockctl.
for state in --ignore-signal=TERM --block-signal=TERM; do
	start env --default-signal=INT "$state" "$LOCKCTL" run "$seg" key -w inf -- touch "$dir/never"
	eventually waiters key 2
	[ "$state" != --ignore-signal=TERM ] || kill -TERM "$pid" "$(keeper "$pid")"
	kill -INT "$pid"
	ended "$pid" 130
	start env "$state" "$LOCKCTL" run "$seg" key -w inf -- touch "$dir/never"
	eventually waiters key 2
	kill -KILL "$pid"
	wait "$pid" 2>/dev/null
	eventually waiters key 1
done
kill -TERM "$holder"
ended "$holder" 143
ended "$waiter" 0
[ ! -e "$dir/never" ] || fail "the command of a run that was killed ran"
[ -e "$dir/ran" ] || fail "the waiter did not run its command"

# A stopped command does not release the lock; SIGCONT reaches it.
start "$LOCKCTL" run "$seg" key -t 500ms -- sleep 100
eventually held key
eventually runs "$pid" sleep
command=$(command_of "$pid")
kill -STOP "$command"
eventually state_is "$command" T
token=$(field 8 holder key)
expect 3 lockctl run "$seg" key -w 1s -- true
equal token "$(field 8 holder key)" "$token"
kill -CONT "$pid"
eventually state_is "$command" S
kill -TERM "$pid"
ended "$pid" 143
expect 0 lockctl verify "$seg"
