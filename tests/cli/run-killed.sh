#!/bin/sh
# SPDX-License-Identifier: MIT
# run-killed.sh - a killed lockctl takes its command with it, and the next request is granted at once
. "$(dirname "$0")/common.sh"

expect 0 lockctl create "$seg"

start "$LOCKCTL" run "$seg" key -t 1h --tag victim -- sleep 100
victim=$pid
eventually held key
eventually runs "$victim" sleep
command=$(command_of "$victim")
start "$LOCKCTL" run "$seg" key -w inf -- sleep 0
next=$pid
eventually waiters key 1
kill -KILL "$victim"
wait "$victim" 2>/dev/null
eventually gone "$command"
ended "$next" 0

# Without waiters: the next request gets it, and no message, since no request was robust.
start "$LOCKCTL" run "$seg" key -t 1h --tag victim -- sleep 100
victim=$pid
eventually held key
kill -KILL "$victim"
wait "$victim" 2>/dev/null
expect 5 lockctl run "$seg" key -w 20s -- sh -c 'exit 5'
silent stderr

# The same for a shared holder, a strict hold, and a waiter in between that is killed too.
start "$LOCKCTL" run "$seg" key -s -t none --tag reader -- sleep 100
reader=$pid
eventually held key
start "$LOCKCTL" run "$seg" key -w inf -- true
between=$pid
eventually waiters key 1
start "$LOCKCTL" run "$seg" key -w inf -- true
last=$pid
eventually waiters key 2
kill -KILL "$between"
wait "$between" 2>/dev/null
kill -KILL "$reader"
wait "$reader" 2>/dev/null
ended "$last" 0
expect 0 lockctl verify "$seg"
