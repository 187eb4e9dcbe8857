#!/bin/sh
# SPDX-License-Identifier: MIT
# run.sh - run: exit statuses, -E, -w, modes, tags, cooldown, the environment of the command
. "$(dirname "$0")/common.sh"

# The lock is free again whatever the command did.
free() { equal "holds of key" "$(lockctl show "$seg" key --porcelain | wc -l)" 1; }

# Without a segment it is made; --no-create and --global, which needs one with Redis, refuse.
for option in --no-create --global; do
	expect 1 lockctl run "$seg" key $option -- true
	says stderr "lockctl: run $seg: "
	says stderr "lockctl create"
done
for command in "run $seg key -- true" "once $seg key --every 1ms -- true" "seat $seg key -- true"; do
	# shellcheck disable=SC2086
	expect 0 lockctl $command
	silent stderr
	expect 0 lockctl rm "$seg"
done
expect 0 sh -c 'exec 9>/dev/null; "$0" hold "$1" key --fd 9; "$0" rm "$1"' "$LOCKCTL" "$seg"
expect 0 lockctl create "$seg"

# The command's own status, output and input.
expect 0 lockctl run "$seg" key -- true
silent stderr
free
for status in 1 2 3 4 42 126 127 255; do
	expect $status lockctl run "$seg" key -- sh -c "exit $status"
	free
done
for sig in TERM KILL SEGV USR1; do
	expect "$(by_signal "$sig")" lockctl run "$seg" key -- sh -c "kill -$sig \$\$"
	free
done
expect 0 lockctl run "$seg" key -- sh -c 'echo out; echo err >&2'
equal stdout "$(cat "$dir/stdout")" out
equal stderr "$(cat "$dir/stderr")" err
equal stdin "$(echo text | lockctl run "$seg" key -- cat)" text
equal "options of the command" "$(lockctl run "$seg" key -- printf '%s ' -w -- -s)" "-w -- -s "

# The command begins with the first operand after KEY, and has all that follows; -- is for one that begins with '-'.
equal "options of the command" "$(lockctl run "$seg" key -w 1s printf '%s ' -w 0 -- -s)" "-w 0 -- -s "
equal "options of the command" "$(lockctl run -w 1s -- "$seg" key printf '%s ' -w -- -s)" "-w -- -s "
expect 127 lockctl run "$seg" key -- -no-such-program
says stderr "cannot execute '-no-such-program'"
expect 2 lockctl run "$seg" key -no-such-program
# -c: a shell.
expect 7 lockctl run "$seg" key -c 'echo "$LOCKSHM_KEY"; exit 7'
equal stdout "$(cat "$dir/stdout")" key
expect 0 lockctl run -c 'exit 0' "$seg" key
expect 0 lockctl run "$seg" --command 'exit 0' key -w 0
free

# Not found, not executable.
expect 127 lockctl run "$seg" key -- no-such-program-anywhere
says stderr "lockctl: run $seg: cannot execute 'no-such-program-anywhere': No such file or directory"
expect 127 lockctl run "$seg" key -- "$dir/none"
free
echo text >"$dir/text"
expect 126 lockctl run "$seg" key -- "$dir/text"
says stderr "Permission denied"
expect 126 lockctl run "$seg" key -- "$dir"
free

# No open file but the caller's own, no signal blocked or ignored that was not.  The digits of signals 29 to 36 are
# left out: the C library keeps two of them for itself and resets them in a program that has had threads.
equal "open files" "$(lockctl run "$seg" key -- ls /proc/self/fd)" "$(ls /proc/self/fd)"
show_signals="sed -nE /^Sig(Blk|Ign|Cgt)/s/:(.{8})../:\\1xx/p /proc/self/status"
equal signals "$(lockctl run "$seg" key -- $show_signals)" "$($show_signals)"
strange="env --ignore-signal=CHLD,PIPE,HUP,USR1 --block-signal=TERM,USR2"
equal signals "$($strange "$LOCKCTL" run "$seg" key -- $show_signals)" "$($strange $show_signals)"

# Closed standard streams stay closed for the command, and no message lands in a file that took their place.
wanted=$(sh -c 'ls /proc/self/fd >"$1"' sh "$dir/fds" <&- 2>&-; cat "$dir/fds")
sh -c '"$1" run "$2" key -- sh -c "ls /proc/self/fd >\"\$1\"" sh "$3" <&- 2>&-' sh "$LOCKCTL" "$seg" "$dir/fds" ||
	fail "run without stdin and stderr"
equal "open files" "$(cat "$dir/fds")" "$wanted"
for command in "run $seg key -- no-such-program" "rm $seg-no" "ls --no-such-option"; do
	sh -c "'$LOCKCTL' $command <&- >&- 2>&-" && fail "$command succeeded"
done
sh -c "'$LOCKCTL' ls <&- >&- 2>&-" && fail "ls succeeded without stdout"
expect 0 lockctl verify "$seg"

# Held by another: not obtained in time.
start "$LOCKCTL" run "$seg" key -- sleep 100
holder=$pid
eventually held key
expect 3 lockctl run "$seg" key -w 0 -- touch "$dir/ran"
says stderr "lockctl: run $seg: 'key' not obtained: "
says stderr ": held exclusive by pid $(keeper "$holder") (lockshm-keeper) 'sleep' for "
says stderr " s; token $(field 8 holder key), unless renewed its lease ends in "
says stderr "; -w waits longer"
expect 3 lockctl run "$seg" key -w 50ms -- touch "$dir/ran"
expect 3 lockctl run "$seg" key --shared --wait 0.05s -- touch "$dir/ran"
expect 0 lockctl run "$seg" key -w 0 -E 0 -- touch "$dir/ran"
expect 75 lockctl run "$seg" key -w 0 --conflict-exit-code 75 -- touch "$dir/ran"
expect 255 lockctl run -w 0 -E 255 "$seg" key -- touch "$dir/ran"
[ ! -e "$dir/ran" ] || fail "a command ran without the lock"
equal waiters "$(field 6 lock key)" 0
expect 0 lockctl run "$seg" other -- true
expect 0 lockctl verify "$seg"
kill -TERM "$holder"
ended "$holder" 143
free

# Nested: the message says that an outer one holds it, directly or with one for another key in between; not of other holders.
inner="'$LOCKCTL' run $seg"
expect 3 lockctl run "$seg" key -c "$inner key -w 20ms true"
equal messages "$(grep -c "; that runs this lockctl, and ends after it" "$dir/stderr")" 2
grep -q "'key': waits: held exclusive by pid" "$dir/stderr" || fail "no message before the wait"
expect 3 lockctl run "$seg" key -c "$inner key -w 0 true"
equal messages "$(grep -c "; that runs this lockctl, and ends after it" "$dir/stderr")" 1
expect 3 lockctl run "$seg" key -c "$inner other -c \"$inner key -s -w 20ms true\""
says stderr "; that runs this lockctl, and ends after it"
expect 0 lockctl run "$seg" key -s -c "$inner key -s true"
silent stderr

# Two shared holds at once; tags and modes in the listing.
start "$LOCKCTL" run "$seg" key -s -- sleep 100
first=$pid
eventually held key
start "$LOCKCTL" run "$seg" key -s --tag second -- sleep 100
second=$pid
two_hold() { [ "$(field 5 lock key)" = 2 ]; }
eventually two_hold
equal mode "$(field 4 lock key)" shared
lockctl show "$seg" key --porcelain | awk -F '\t' '$1 == "holder" { print $4, $11 }' | sort >"$dir/stdout"
says stdout "shared second"
says stdout "shared sleep"
expect 3 lockctl run "$seg" key -w 0 -- true
expect 0 lockctl run "$seg" key -s -w 0 -- true
kill -TERM "$first" "$second"
ended "$first" 143
ended "$second" 143

# The default tag: the name without its directory, cut at 30 bytes.
printf '#!/bin/sh\nexec sleep 100\n' >"$dir/a-name-of-more-than-thirty-bytes-in-all"
chmod +x "$dir/a-name-of-more-than-thirty-bytes-in-all"
start "$LOCKCTL" run "$seg" key -- "$dir/a-name-of-more-than-thirty-bytes-in-all"
eventually held key
equal tag "$(field 11 holder key)" a-name-of-more-than-thirty-byt
kill -TERM "$pid"
ended "$pid" 143

# A cooldown keeps the key closed to all requests, but not if the command did not run.
expect 7 lockctl run "$seg" cool --cooldown 1h -- sh -c 'exit 7'
expect 3 lockctl run "$seg" cool -w 0 -- true
equal cooling "$(field 1 cooling cool)" cooling
expect 127 lockctl run "$seg" never --cooldown 1h -- no-such-program-anywhere
expect 0 lockctl run "$seg" never -w 0 -- true
before=$(date +%s%N)
expect 0 lockctl run "$seg" short --cooldown 300ms -- true
expect 0 lockctl run "$seg" short -w 30s -- true
[ $(($(date +%s%N) - before)) -ge 300000000 ] || fail "the cooldown of 300 ms was over too early"

# A process in the background does not keep the lock, unless that is asked for; then lockctl waits for it.
job='until [ -e "$0" ]; do sleep 0.02; done'
expect 0 lockctl run "$seg" key -c "{ $job; } >/dev/null 2>&1 &" </dev/null
free
rm -f "$dir/go"
start "$LOCKCTL" run "$seg" key --keep-for-children -- sh -c "{ $job; } >/dev/null 2>&1 & echo started >\"\$0.started\"; exit 6" \
	"$dir/go"
waiting=$pid
eventually [ -s "$dir/go.started" ]
eventually state_is "$waiting" S
held key || fail "not kept for the process in the background"
expect 3 lockctl run "$seg" key -w 0 -- true
touch "$dir/go"
ended "$waiting" 6
free
# Lost meanwhile, and ended by a signal meanwhile.
for end in lost TERM; do
	rm -f "$dir/go" "$dir/go.pid"
	start "$LOCKCTL" run "$seg" key --keep-for-children -- sh -c "{ $job; } >/dev/null 2>&1 & echo \$\$ >\"\$0.pid\"" "$dir/go" \
		2>"$dir/kept"
	waiting=$pid
	eventually [ -s "$dir/go.pid" ]
	eventually gone "$(cat "$dir/go.pid")"
	if [ $end = lost ]; then
		expect 0 lockctl release "$seg" key --token "$(field 8 holder key)"
		ended "$waiting" 4
		grep -q "was lost, token .*; processes that the command started may be running" "$dir/kept" || fail "message"
	else
		kill -TERM "$waiting"
		ended "$waiting" 143
		grep -q "released while processes that the command started are running" "$dir/kept" || fail "message"
	fi
	touch "$dir/go"
	free
done

# A lease shorter than the command is renewed; a strict one needs none.
expect 0 lockctl run "$seg" key -t 500ms -- sleep 1.2
silent stderr
expect 0 lockctl run "$seg" key -t none -- true
expect 0 lockctl run "$seg" key -t inf -w inf -- true
expect 0 lockctl run "$seg" key -t 1.5h -w 0.5m -- true
expect 0 lockctl verify "$seg"
