#!/bin/sh
# SPDX-License-Identifier: MIT
# damaged.sh - files that are no valid segment: every command fails with exit 1, and rm removes damaged segments
. "$(dirname "$0")/common.sh"

[ -w /dev/shm ] || skip "/dev/shm is not writable"
expect 0 lockctl create "$seg" --keys 64 --requests 64 --owners 4
file=$(find /dev/shm -name "*$seg*")
[ -f "$file" ] || fail "no file of the segment in /dev/shm"
cp "$file" "$dir/good"
size=$(wc -c <"$file")

# every_command STATUS: all that open the segment fail with a message; ls lists it with that status
every_command()
{
	status=$1
	for command in verify stat sweep ls "show @ key" "release @ key --token 1" "ack @ key" "run @ key -- true"; do
		case $command in
		*@*) set -- ${command%%@*} "$seg" ${command#*@} ;;
		*) set -- "$command" "$seg" ;;
		esac
		expect 1 lockctl "$@"
		silent stdout
		says stderr "lockctl: $1 $seg: "
	done
	expect 0 lockctl ls --porcelain
	equal "listed status" "$(awk -F '\t' -v name="/$seg" '$1 == name { print $2 }' "$dir/stdout")" "$status"
	expect 0 lockctl ls
	expect 0 lockctl ls --json
}

# Truncated, and with a damaged header.
head -c $((size / 2)) "$dir/good" >"$file"
every_command BAD_SEGMENT
head -c 100 "$dir/good" >"$file"
every_command BAD_SEGMENT
{ head -c 64 "$dir/good"; head -c $((size - 64)) /dev/zero | tr '\0' '\377'; } >"$file"
every_command BAD_SEGMENT
# Files that do not look like segments are not listed.  No message advises what then fails: lockctl rm leaves the file of
# another program alone.
foreign()
{
	for command in "show $seg key" "create $seg" "create $seg --or-open"; do
		# shellcheck disable=SC2086
		expect 1 lockctl $command
		says stderr "choose another segment name, or remove the file if it is yours"
		! grep -q "lockctl rm" "$dir/stderr" || fail "lockctl rm is advised: $command"
	done
	expect 1 lockctl create "$seg"
	says stderr exists
	! grep -qe --or-open "$dir/stderr" || fail "--or-open is advised"
	expect 1 lockctl rm "$seg"
	says stderr "is no lockshm segment: if it is yours, remove the file by hand"
	[ -e "$file" ] || fail "rm removed a file that is no segment"
}
printf LOCK >"$file"
every_command ""
says_truncated() { lockctl show "$seg" key 2>&1 | grep -q "^lockctl: show $seg: truncated: .* lockctl rm removes it$"; }
says_truncated || fail "four bytes of a segment are not truncated"
: >"$file"
every_command ""
says_truncated || fail "an empty file is not truncated"
expect 1 lockctl create "$seg"
says stderr "lockctl rm removes it"
printf hi >"$file"
every_command ""
foreign
echo "some text" >"$file"
every_command ""
foreign
head -c "$size" /dev/zero >"$file"
every_command ""
foreign
head -c "$size" /dev/zero | tr '\0' '\377' >"$file"
every_command ""
foreign
rm "$file"
mkfifo "$file"
foreign
rm "$file"
# A damaged segment is removed.
{ head -c 64 "$dir/good"; head -c $((size - 64)) /dev/zero; } >"$file"
expect 0 lockctl rm "$seg"
[ ! -e "$file" ] || fail "rm left the damaged file"

# The intact copy is valid, and remains so.
cp "$dir/good" "$file"
chmod 600 "$file"
expect 0 lockctl verify "$seg"
silent stdout
silent stderr

# Damage inside the tables: a piece of each page overwritten in turn.  verify finds some of it and names the
# invariant on a line; no command crashes or hangs.
start "$LOCKCTL" run "$seg" key -t none -- sleep 100
eventually held key
expect 0 lockctl verify "$seg"
cp "$file" "$dir/held"
kill -TERM "$pid"
ended "$pid" 143

# survives ARGUMENT...: lockctl ends by itself
survives()
{
	timeout -s KILL 20 "$LOCKCTL" "$@" >"$dir/stdout" 2>"$dir/stderr" </dev/null
	got=$?
	[ $got -lt 124 ] || fail "exit status $got: lockctl $*"
}

found=0
page=4096
while [ $page -lt "$size" ]; do
	cp "$dir/held" "$file"
	tr '\0' '\125' </dev/zero | dd of="$file" bs=256 count=1 seek=$((page / 256)) conv=notrunc 2>"$dir/dd"
	survives verify "$seg"
	if [ $got -eq 1 ]; then
		grep -Eq '^I[1-7]: .' "$dir/stdout" || fail "no problem is named"
		says stderr "lockctl: verify $seg: "
		found=$((found + 1))
	fi
	page=$((page + 4096))
done
[ $found -ge 3 ] || fail "verify found the damage of $found pages only"

# All of the tables overwritten.
{ head -c 4096 "$dir/held"; head -c $((size - 4096)) /dev/zero | tr '\0' '\125'; } >"$file"
survives stat "$seg"
survives ls "$seg"
survives ls "$seg" --json
survives show "$seg" key
survives run "$seg" key -w 10ms -- true
survives release "$seg" key --token 1
survives ack "$seg" key
survives ack "$seg" --all
survives sweep "$seg"

# Truncated while in use: an error, not a crash; the command does not outlive its lock.
expect 0 lockctl rm "$seg"
expect 0 lockctl create "$seg" --keys 64 --requests 64 --owners 4
start "$LOCKCTL" run "$seg" key -t none -- sleep 100 2>"$dir/truncated"
eventually held key
eventually runs "$pid" sleep
command=$(command_of "$pid")
: >"$file"
ended "$pid" 1
grep -q "lockctl: a segment was truncated while it was in use" "$dir/truncated" || fail "no message"
eventually gone "$command"
