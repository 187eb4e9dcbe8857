#!/bin/sh
# SPDX-License-Identifier: MIT
# hold.sh - a lock for the rest of a script: held as long as its descriptor is open, by whichever process
. "$(dirname "$0")/common.sh"

export LOCKCTL seg dir
command -v dash >/dev/null && sh=dash || sh=sh
expect 0 lockctl create "$seg"
line_is() { [ "$(tail -n 1 "$dir/log" 2>/dev/null)" = "$1" ]; }

# script TEXT: in the background; waits for the file go, whose descriptor no child has
script()
{
	rm -f "$dir/log" "$dir/go"
	cat >"$dir/script" <<END
$1
echo ready >>"\$dir/log"
until [ -e "\$dir/go" ]; do sleep 0.02 9>&-; done
END
	start $sh "$dir/script"
	eventually line_is ready
}

# The line of the manual, in a script that is killed: nothing is left.
script 'exec 9>/dev/null; "$LOCKCTL" hold "$seg" key --fd 9 || exit 1'
held key || fail "not held"
equal tag "$(field 11 holder key)" "$sh"
expect 3 lockctl run "$seg" key -w 0 -- true
says stderr "'key' not obtained: "
says stderr "held exclusive by pid $(field 5 holder key) ("
says stderr ") '$sh' for "
start "$LOCKCTL" run "$seg" key -w inf -- true
waiter=$pid
eventually waiters key 1
# shellcheck disable=SC2086 # the last but one
kill -KILL ${started% *}
ended "$waiter" 0
eventually not_held key
expect 0 lockctl run "$seg" key -w 0 -- true
silent stderr

# The end of the script, and closing the descriptor.
script 'exec 9>/dev/null; "$LOCKCTL" hold "$seg" key --fd 9 || exit 1'
held key || fail "not held"
touch "$dir/go"
ended "$pid" 0
eventually not_held key
script 'exec 9>/dev/null; "$LOCKCTL" hold "$seg" key --fd 9 || exit 1; exec 9>&-'
eventually not_held key
touch "$dir/go"
ended "$pid" 0

# A part of a script: the parentheses.
expect 0 $sh -c '( "$LOCKCTL" hold "$seg" key --fd 9 || exit 1
	"$LOCKCTL" show "$seg" key --porcelain ) 9>/dev/null'
says stdout holder
eventually not_held key

# A child in the background keeps it, as with flock; -u ends it nevertheless.
expect 0 $sh -c 'exec 9>/dev/null; "$LOCKCTL" hold "$seg" key --fd 9 || exit 1
	{ until [ -e "$dir/first" ]; do sleep 0.02; done; } >/dev/null 2>&1 & '
held key || fail "the child in the background does not keep it"
touch "$dir/first"
eventually not_held key
expect 0 $sh -c 'exec 9>/dev/null; "$LOCKCTL" hold "$seg" key --fd 9 || exit 1
	{ until [ -e "$dir/second" ]; do sleep 0.02; done; } >/dev/null 2>&1 &
	"$LOCKCTL" hold --fd 9 -u'
eventually not_held key
touch "$dir/second"

# Two locks of one script end one by one; nothing of the script stays open in the helpers.
script 'exec 8>/dev/null 9>/dev/null
"$LOCKCTL" hold "$seg" one --fd 8 || exit 1
x=$("$LOCKCTL" hold "$seg" two --fd 9) || exit 1
exec 8>&-
until [ -e "$dir/third" ]; do sleep 0.02 9>&-; done
exec 9>&-'  &
writer=$!
eventually held two
eventually not_held one
held two || fail "the second lock ended with the first"
touch "$dir/third"
eventually not_held two
eventually [ -s "$dir/log" ]
touch "$dir/go"
wait "$writer"

# Shared, and one descriptor for two keys.
expect 0 $sh -c 'exec 9>/dev/null; "$LOCKCTL" hold "$seg" a --fd 9 -s && "$LOCKCTL" hold "$seg" b --fd 9 &&
	"$LOCKCTL" run "$seg" a -s -w 0 true && ! "$LOCKCTL" run "$seg" b -w 0 true'
eventually not_held a
eventually not_held b

# Lost: the script gets SIGTERM and can end its work.
script 'trap "echo TERM >>\"$dir/log\"; exit 9" TERM
exec 9>/dev/null; "$LOCKCTL" hold "$seg" key --fd 9 2>"$dir/lost" || exit 1'
expect 0 lockctl release "$seg" key --token "$(field 8 holder key)"
ended "$pid" 9
line_is TERM || fail "the script got no SIGTERM"
grep -q "lockctl: hold $seg: 'key' was lost, token .*; the script gets SIGTERM" "$dir/lost" || fail "no message"

# Not obtained in time; ended while it waits, by the terminal or by force: no waiter is left.
start "$LOCKCTL" run "$seg" key -- sleep 100
eventually held key
expect 3 $sh -c '"$LOCKCTL" hold "$seg" key --fd 9 -w 0 9>/dev/null'
says stderr "held exclusive by pid $(keeper "$pid") (lockshm-keeper) 'sleep' for "
expect 75 $sh -c '"$LOCKCTL" hold "$seg" key --fd 9 -w 20ms -E 75 9>/dev/null'
for sig in TERM KILL; do
	start "$LOCKCTL" hold "$seg" key --fd 9 -w inf 9>/dev/null
	waiter=$pid
	eventually waiters key 1
	kill -$sig "$waiter"
	wait "$waiter" 2>/dev/null
	eventually waiters key 0
done

# A file that another program has locked, and one that this user may not open again.
cat >"$dir/lock.c" <<'END'
#define _GNU_SOURCE
#include <fcntl.h>
#include <unistd.h>
int main(int argc, char **argv)
{
	struct flock all = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	int fd = open(argv[argc - 1], O_RDWR | O_CREAT, 0600);
	return fcntl(fd, F_OFD_SETLK, &all) < 0 || write(1, "locked\n", 7) < 0 || pause();
}
END
if ${CC:-cc} -o "$dir/lock" "$dir/lock.c" 2>/dev/null; then
	start "$dir/lock" "$dir/file" >"$dir/locked"
	eventually [ -s "$dir/locked" ]
	expect 1 $sh -c '"$LOCKCTL" hold "$seg" other --fd 9 9>"$dir/file"'
	says stderr "another process has locked the file of descriptor 9: use a file of your own"
	expect 0 $sh -c '"$LOCKCTL" hold "$seg" other --fd 9 9>"$dir/own"'
fi
expect 1 lockctl hold "$seg-no" key --fd 9 --no-create 9>/dev/null
says stderr "lockctl: hold $seg-no: "
# The keeper keeps no pipe open: a reader of the script's output, or of lockctl's own, sees its end although a process that
# has inherited the descriptor lives on, and so does a pipe on standard input.
cat >"$dir/script" <<'END'
exec 9>/dev/null
"$LOCKCTL" hold "$seg" piped --fd 9 || exit 1
sleep 1000 >/dev/null 2>&1 </dev/null &
echo $!
END
out=$($sh "$dir/script" 2>&1)
held piped || fail "the process in the background does not keep the lock"
kill "$out"
eventually not_held piped
out=$(: | $sh -c '"$LOCKCTL" hold "$seg" piped --fd 9 2>&1' 9>/dev/null) || fail "hold: $out"
exec 9>/dev/null
out=$("$LOCKCTL" hold "$seg" piped --fd 9 2>&1)
held piped || fail "not held: $out"
exec 9>&-
eventually not_held piped
expect 0 lockctl verify "$seg"
