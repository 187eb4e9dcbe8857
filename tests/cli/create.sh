#!/bin/sh
# SPDX-License-Identifier: MIT
# create.sh - create and rm: capacities, mode, group, token floor, existing and missing segments
. "$(dirname "$0")/common.sh"

stat_of() { lockctl stat "$seg" | awk -v name="$1" '$1 == name { print $2 }'; }
segment_column() { lockctl ls --porcelain | awk -F '\t' -v name="/$seg" -v n="$1" '$1 == name { print $n }'; }

expect 1 lockctl rm "$seg"
says stderr "lockctl: rm $seg: "
expect 1 lockctl stat "$seg"
says stderr "lockctl: stat $seg: "
says stderr "lockctl create"

expect 0 lockctl create "$seg"
silent stdout
silent stderr
equal mode "$(segment_column 5)" 0600
equal status "$(segment_column 2)" OK
equal uid "$(segment_column 3)" "$(id -u)"
# The defaults are those of the help.
for name in keys requests owners; do
	equal "$name" "$(stat_of "$name")" "$(lockctl create --help | sed -n "s/^  --$name .*(\([0-9]*\)); .*/\1/p")"
done
# The header has them as well, with the range.
lockctl create --help | sed -nE 's/^  --([a-z-]+) .*\((.*)\); ([0-9a-z]+\.\.[0-9a-z]+)$/\1 \2 \3/p' |
	grep -v -e '^token-floor' -e '^redis-retain' | tr - _ >"$dir/ranges"
equal "options with a range" "$(wc -l <"$dir/ranges")" 7
# A line for each field with its whole comment.
awk '/^struct lockshm_create_options/ { on = 1 } on && /;/ { printf "\n" } on { $1 = $1; printf "%s ", $0 } on && /^};/ { exit }' \
	"$top_dir/include/lockshm.h" >"$dir/fields"
while read -r name initial range; do
	grep -E "\"$name\"|^[a-z0-9_]+ ${name}(_ns)?;" "$dir/fields" | grep -F "($initial" | grep -qF "$range" ||
		fail "lockshm.h does not have ($initial) and $range for $name"
done <"$dir/ranges"

# An existing segment is refused, or used as it is.
expect 1 lockctl create "/$seg" --keys 64
says stderr "lockctl: create /$seg: "
says stderr "exists"
says stderr "--or-open"
expect 0 lockctl create "/$seg" --keys 64 --or-open
[ "$(stat_of keys)" -gt 64 ] || fail "--or-open changed the segment"

expect 0 lockctl rm "/$seg"
silent stdout
expect 1 lockctl rm "$seg"

# The mode holds whatever the umask is.
(umask 0077 && lockctl create "$seg" --permissions 660 --keys 100 --requests 128 --owners 8) || fail "create"
equal mode "$(segment_column 5)" 0660
equal keys "$(stat_of keys)" 128
equal requests "$(stat_of requests)" 128
equal owners "$(stat_of owners)" 8
expect 0 lockctl rm "$seg"

# A group by name and by number; only root may give away to any.
if [ "$(id -u)" -eq 0 ]; then
	group=$(awk -F : '$3 != 0 { print $1; exit }' /etc/group)
	gid=$(awk -F : -v group="$group" '$1 == group { print $3 }' /etc/group)
	for value in "$group" "$gid"; do
		expect 0 lockctl create "$seg" --group "$value" --permissions 0640
		equal gid "$(segment_column 4)" "$gid"
		expect 0 lockctl rm "$seg"
	done
fi

# Every token is above the floor.
floor=5000000000000000
expect 0 lockctl create "$seg" --token-floor $floor
start "$LOCKCTL" run "$seg" key -- sleep 100
eventually held key
[ "$(field 8 holder key)" -gt $floor ] || fail "token $(field 8 holder key) is not above the floor"

# A removed segment: its holders continue, the name is free at once.
expect 0 lockctl rm "$seg"
kill -0 "$pid" || fail "the holder ended with its segment's name"
expect 0 lockctl create "$seg"
silent stderr
expect 0 lockctl ls "$seg" --porcelain
silent stdout
kill -TERM "$pid"
ended "$pid" 143
