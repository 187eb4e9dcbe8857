#!/bin/sh
# SPDX-License-Identifier: MIT
# rm-mounted.sh - a segment file that is mounted by itself, as into a container: rm is refused and changes nothing
. "$(dirname "$0")/common.sh"

unshare -m true 2>/dev/null || skip "no mount namespace (needs root)"
lockctl create "$seg" || fail "create"
export LOCKCTL LD_LIBRARY_PATH seg
unshare -m sh -c 'mount --bind "/dev/shm/$seg" "/dev/shm/$seg" && { "$LOCKCTL" rm "$seg" 2>"$0"; echo $? >>"$0"; }' "$dir/said" ||
	skip "cannot mount here"
[ "$(tail -n 1 "$dir/said")" != 0 ] || fail "removed a mounted file: $(cat "$dir/said")"
grep -q retired "$dir/said" && fail "retired: $(cat "$dir/said")"
lockctl run "$seg" key -- true || fail "the segment grants nothing any more"
lockctl rm "$seg" || fail "rm without the mount"
