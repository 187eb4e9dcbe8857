#!/bin/sh
# SPDX-License-Identifier: MIT
# run-terminal.sh - run at a terminal: control C arrives once, job control works, a hang-up is relayed
#
# script(1) makes the terminal; what is written to its standard input is typed.
. "$(dirname "$0")/common.sh"

command -v script >/dev/null || skip "script(1) is not installed"
script -qec true /dev/null </dev/null >/dev/null 2>&1 || skip "no terminal can be made here"

expect 0 lockctl create "$seg"
mkfifo "$dir/keys"

# at_terminal COMMAND: run it at a new terminal; type on descriptor 9
at_terminal()
{
	# A background process of a shell ignores INT and QUIT, so give it the defaults.
	SHELL=/bin/bash env --default-signal script -qec "$1" "$dir/typescript" <"$dir/keys" >/dev/null 2>&1 &
	script=$!
	started="$started $script"
	exec 9>"$dir/keys"
}

# The process that was started: the parent of the holder.
front() { sed -n 's/^PPid:[[:space:]]*//p' "/proc/$(field 5 holder key)/status"; }
line_is() { [ "$(tail -n 1 "$dir/log" 2>/dev/null)" = "$1" ]; }

cat >"$dir/command" <<'END'
trap 'echo INT >>"$1"' INT
trap 'echo QUIT >>"$1"' QUIT
trap 'echo HUP >>"$1"; exit 9' HUP
trap 'echo TERM >>"$1"; exit 8' TERM
echo ready >>"$1"
while :; do sleep 0.02; done
END

# Control C and control \ reach the command from the terminal and are not relayed a second time.
at_terminal "exec '$LOCKCTL' run '$seg' key --tag at-terminal -- bash '$dir/command' '$dir/log'"
eventually line_is ready
printf '\003' >&9
eventually line_is INT
printf '\034' >&9
eventually line_is QUIT
printf '\003' >&9
twice() { [ "$(grep -c INT "$dir/log")" -ge 2 ]; }
eventually twice
# lockctl processes its signals in order, so after this one all earlier ones are done.
lockctl_pid=$(front)
kill -TERM "$lockctl_pid"
eventually line_is TERM
exec 9>&-
ended "$script" 8
equal "signals" "$(tr '\n' ' ' <"$dir/log")" "ready INT QUIT INT TERM "

# A hang-up reaches lockctl alone when lockctl leads the session; lockctl relays it.
rm "$dir/log"
at_terminal "exec '$LOCKCTL' run '$seg' key -- bash '$dir/command' '$dir/log'"
eventually line_is ready
lockctl_pid=$(front)
kill -KILL "$script"
eventually grep -q HUP "$dir/log"
eventually gone "$lockctl_pid"
exec 9>&-
not_held key || fail "held after the hang-up"

# A stop from the terminal stops lockctl with its command, so the shell gets the terminal back.  fg continues both,
# and the command gets that signal once.
rm "$dir/log"
cat >"$dir/job" <<'END'
trap 'echo CONT >>"$1"' CONT
trap 'echo USR1 >>"$1"' USR1
trap 'exit 6' TERM
echo ready >>"$1"
kill -TSTP 0
while :; do sleep 0.02; done
END
cat >"$dir/session" <<END
set -m
'$LOCKCTL' run '$seg' key -- bash '$dir/job' '$dir/log'
echo "stopped \$?" >>'$dir/log'
until [ -e '$dir/go' ]; do sleep 0.02; done
fg
echo "ended \$?" >>'$dir/log'
END
at_terminal "exec bash '$dir/session'"
eventually line_is "stopped 148"
lockctl_pid=$(front)
eventually state_is "$lockctl_pid" T
touch "$dir/go"
eventually line_is CONT
send USR1 "$lockctl_pid"
eventually line_is USR1
send TERM "$lockctl_pid"
eventually line_is "ended 6"
exec 9>&-
ended "$script" 0
equal "the job" "$(tr '\n' ' ' <"$dir/log")" "ready stopped 148 CONT USR1 ended 6 "
expect 0 lockctl verify "$seg"
