#!/bin/sh
# SPDX-License-Identifier: MIT
# messages.sh - messages that name what is short and what to do; each time the advice is followed, and helps
. "$(dirname "$0")/common.sh"

lacks()
{
	! grep -qF -- "$2" "$dir/$1" || fail "$1 has '$2'"
}

limited()
{
	limit=$1
	shift
	(ulimit -n "$limit" && exec "$@")
}

as_user()
{
	user=$1
	shift
	setpriv --reuid "$user" --regid "$user" --clear-groups "$LOCKCTL" "$@"
}

# A tmpfs of one megabyte on /dev/shm.
full()
{
	mount -t tmpfs -o size=1m tmpfs /dev/shm || skip "no tmpfs can be mounted"
	head -c 300000 /dev/zero >/dev/shm/others
	expect 1 lockctl create "$seg"
	says stderr "no room in /dev/shm"
	says stderr "--keys"
	needed=$(sed -n 's/.*needs \([0-9]*\) bytes.*/\1/p' "$dir/stderr")
	free=$(sed -n 's/.* \([0-9]*\) are free.*/\1/p' "$dir/stderr")
	[ "$free" -gt 500000 ] && [ "$free" -lt 1048576 ] || fail "of 1 MiB without 300,000 bytes '$free' are free"
	[ "$needed" -gt "$free" ] || fail "'$needed' bytes are not more than '$free'"
	expect 0 lockctl create "$seg" --keys 64 --requests 64 --owners 16
	expect 0 lockctl rm "$seg"
	mount -o remount,size=$((needed + 1048576 - free)) tmpfs /dev/shm
	expect 0 lockctl create "$seg"
	expect 0 lockctl rm "$seg"
}

# Another file system at the place of /dev.
missing()
{
	mount -t tmpfs tmpfs /dev || skip "no tmpfs can be mounted"
	: >/dev/null
	for command in ls "create $seg"; do
		# shellcheck disable=SC2086
		expect 1 lockctl $command
		says stderr "no /dev/shm"
		says stderr "mount a tmpfs"
		lacks stderr "a system call failed"
	done
	mkdir /dev/shm
	mount -t tmpfs tmpfs /dev/shm
	expect 0 lockctl create "$seg"
	expect 0 lockctl ls
	says stdout "/$seg"
	expect 0 lockctl rm "$seg"
	umount -R /dev
}

case ${1:-} in
full | missing)
	"$1"
	exit 0
	;;
esac

# Too few descriptors: the number of processes is not the reason.
expect 0 lockctl create "$seg"
if limited 4 "$LOCKCTL" --version >/dev/null 2>&1; then
	expect 1 limited 4 "$LOCKCTL" run "$seg" key --keep-for-children -- true
	says stderr "Too many open files"
	says stderr "ulimit -n"
	lacks stderr "processes"
	expect 0 limited 16 "$LOCKCTL" run "$seg" key -- true
	silent stderr
else
	echo "left out: lockctl does not start with four descriptors"
fi
expect 0 lockctl rm "$seg"

[ "$(id -u)" -eq 0 ] || skip "the rest needs root"
command -v setpriv >/dev/null && as_user 65534 --version >/dev/null 2>&1 || skip "no other user can run $LOCKCTL"
# The segment of another user: the option, and not its name in the API.  Where the mode forbids it, no option helps.
expect 0 as_user 65534 create "$seg" --permissions 0644
expect 1 lockctl run "$seg" key -- true
says stderr "owned by uid 65534"
says stderr "--any-owner"
lacks stderr ANY_OWNER
expect 0 lockctl run "$seg" key --any-owner -- true
expect 1 as_user 65533 run "$seg" key -- true
says stderr "Permission denied; it belongs to nobody, with permissions 0644"
lacks stderr any-owner
expect 0 lockctl rm "$seg"

# Segments that the caller may not read: whose is it?
expect 0 lockctl create "$seg"
for command in "show $seg key" "stat $seg" "run $seg key -- true" "ack $seg key" "create $seg" "create $seg --or-open" "rm $seg"; do
	# shellcheck disable=SC2086
	expect 1 as_user 65534 $command
	says stderr "Permission denied; it belongs to root, with permissions 0600"
done
expect 0 as_user 65534 ls
lacks stdout "/$seg"
says stderr "may not read"
says stderr "--permissions 0644"
for format in --porcelain --json; do
	expect 0 as_user 65534 ls "$format"
	silent stderr
done
expect 0 lockctl ls
silent stderr
expect 0 lockctl rm "$seg"
expect 0 lockctl create "$seg" --permissions 0644
expect 0 as_user 65534 ls
says stdout "/$seg"

for part in full missing; do
	unshare --mount --propagation private sh "$0" "$part"
	case $? in
	0) ;;
	77) echo "left out: $part" ;;
	*) fail "$part" ;;
	esac
done
