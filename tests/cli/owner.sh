#!/bin/sh
# SPDX-License-Identifier: MIT
# owner.sh - segments of other users: reading is free, changing needs --any-owner, modes apply
. "$(dirname "$0")/common.sh"

[ "$(id -u)" -eq 0 ] || skip "only root can change its uid"
command -v setpriv >/dev/null || skip "setpriv is not installed"

as_nobody() { setpriv --reuid 65534 --regid 65534 --clear-groups "$LOCKCTL" "$@"; }
as_nobody --version >/dev/null 2>&1 || skip "another user cannot run $LOCKCTL"

# A segment of another user: root may read it, but trusts it only with --any-owner.
expect 0 as_nobody create "$seg" --permissions 0666
expect 0 lockctl ls "$seg"
expect 0 lockctl show "$seg" key
expect 0 lockctl stat "$seg"
expect 0 lockctl verify "$seg"
for command in "run @ key -- true" "ack @ key" "release @ key --token 1" sweep; do
	case $command in
	*@*) set -- ${command%%@*} "$seg" ${command#*@} ;;
	*) set -- "$command" "$seg" ;;
	esac
	expect 1 lockctl "$@"
	says stderr "owned by uid 65534"
	says stderr "--any-owner takes it, if you trust that user"
done
if find_bridge; then
	expect 1 bridge "$seg"
	says stderr "owned by uid 65534"
	says stderr "--any-owner takes it, if you trust that user"
	expect 1 bridge --any-owner "$seg"
	says stderr "a segment without Redis"
fi
expect 0 lockctl run "$seg" key --any-owner -- true
expect 0 lockctl ack "$seg" key --any-owner
expect 0 lockctl sweep "$seg" --any-owner
start "$LOCKCTL" run "$seg" key --any-owner -- sleep 100
eventually held key
expect 0 lockctl release "$seg" key --any-owner --token "$(field 8 holder key)"
ended "$pid" 4
expect 0 lockctl rm "$seg"

# A segment of the caller, closed to other users.
expect 0 lockctl create "$seg"
for command in "run @ key -- true" "show @ key" stat verify rm; do
	case $command in
	*@*) set -- ${command%%@*} "$seg" ${command#*@} ;;
	*) set -- "$command" "$seg" ;;
	esac
	expect 1 as_nobody "$@"
	says stderr "lockctl: $1 $seg: "
	[ "$1" != run ] || says stderr "it belongs to $(id -un), with permissions 0600; lockctl create with --permissions 0660 and --group"
done
expect 0 lockctl rm "$seg"

# A segment of the caller, open to other users: they share the queue.
expect 0 lockctl create "$seg" --permissions 0666
start "$LOCKCTL" run "$seg" key -- sleep 100
eventually held key
expect 3 as_nobody run "$seg" key -w 0 -- true
expect 0 as_nobody run "$seg" other -- true
kill -TERM "$pid"
ended "$pid" 143

# No process can be made: the lock is released.
expect 1 setpriv --reuid 65534 --regid 65534 --clear-groups prlimit --nproc=0 "$LOCKCTL" run "$seg" key -t none -- true
says stderr "lockctl: run $seg: cannot start a process"
expect 0 lockctl run "$seg" key -w 0 -- true
silent stderr
