#!/bin/sh
# SPDX-License-Identifier: MIT
#
# run.sh [--short | --deep | --mutate | --row NAME | --list] - explore the models of the protocol with SPIN
#
#   (nothing)   rows "short" and "full": every state of each
#   --short     rows "short" only, some seconds each
#   --deep      rows "deep" only: hours, or much memory
#   --mutate    every seeded fault (MUT_*) with a configuration that must find it
#   --row NAME  this row, or this fault
#   --list      the rows
#
# JOBS=N runs N rows at a time (default 1); KEEP=DIR keeps what SPIN printed, and the trail of an error, in DIR/<row>.
# Status 1 if a row finds an error or does not finish, or a fault is not found; 77 if spin is not installed.
set -u
LC_ALL=C
export LC_ALL

here=$(cd "$(dirname "$0")" && pwd)
self=$here/$(basename "$0")

# name, when it is run, hash table (2^n), model, switches; the longest first, for JOBS=2
rows()
{
	cat <<-'END'
	three-timeout	full	25	queue	-DNPROC=3 -DNOPS=1 -DTOMASK=1
	three-renew	full	26	queue	-DNPROC=3 -DNREC=2 -DNOPS=1 -DRENEW -DN_EXPIRE=1
	three-expiry	full	25	queue	-DNPROC=3 -DNOPS=1 -DN_EXPIRE=1
	three-crash	full	25	queue	-DNPROC=3 -DNOPS=1 -DN_CRASH=1
	three-reuse	full	24	queue	-DNPROC=3 -DNREC=2 -DNOPS=1 -DN_EXPIRE=1 -DHINTS
	endless-expiry	full	24	queue	-DFOREVER -DHINTS -DANYMODE -DN_EXPIRE=1
	modes	full	24	queue	-DNOPS=2 -DHINTS -DANYMODE -DN_EXPIRE=1
	renew	full	24	queue	-DNOPS=2 -DRENEW -DN_EXPIRE=2
	three-linger	full	26	queue	-DNPROC=3 -DNOPS=1 -DLINGER -DHINTS
	three-linger-stop	full	26	queue	-DNPROC=3 -DNOPS=1 -DLINGER -DHINTS -DN_STOP=1 -DQUIET -DSELFCHECK
	linger	full	22	queue	-DNOPS=2 -DLINGER -DHINTS -DANYMODE
	linger-death	full	22	queue	-DNOPS=2 -DLINGER -DHINTS -DN_CRASH=1 -DTOMASK=2
	linger-expiry	full	24	queue	-DNOPS=2 -DLINGER -DHINTS -DRENEW -DN_EXPIRE=1
	linger-stop	full	22	queue	-DNOPS=2 -DLINGER -DHINTS -DN_STOP=1 -DN_CRASH=1 -DQUIET -DSELFCHECK
	three-cool	full	25	queue	-DNPROC=3 -DNOPS=1 -DCOOL -DHINTS
	three-stop	full	25	queue	-DNPROC=3 -DNOPS=1 -DN_STOP=1 -DN_CRASH=1 -DQUIET -DSELFCHECK
	three-marks	full	25	queue	-DNPROC=3 -DNOPS=1 -DMARKS -DN_CRASH=1
	upgrade	full	24	queue	-DNOPS=2 -DUPGRADE -DANYMODE -DHINTS -DN_EXPIRE=1
	three	full	24	queue	-DNPROC=3 -DNOPS=1
	operator	full	24	queue	-DNOPS=2 -DN_END=1 -DANYMODE -DHINTS
	cool	full	22	queue	-DNOPS=2 -DCOOL -DHINTS
	cancel	full	22	queue	-DNOPS=2 -DN_CANCEL=1 -DTOMASK=3 -DHINTS
	many-expiry	full	24	queue	-DNOPS=2 -DMANY -DMARKS -DN_EXPIRE=1
	marks	full	22	queue	-DNOPS=2 -DMARKS -DN_CRASH=1
	marks-late	full	22	queue	-DNOPS=2 -DMARKS -DLATE_ROBUST -DN_CRASH=1
	marks-expiry	full	22	queue	-DNOPS=2 -DMARKS -DANYMODE -DN_EXPIRE=1
	doorbell-expiry	full	25	doorbell	-DNOPS=2 -DN_EXPIRE=1
	doorbell-local	full	25	doorbell	-DNOPS=2 -DNLOCAL=1 -DN_QUIT=1
	doorbell-time	full	24	doorbell	-DNOPS=2 -DN_TIMEOUT=1
	doorbell-one	full	24	doorbell	-DNWAIT=1 -DNREC=1 -DNOPS=2 -DN_CRASH=1 -DN_EXPIRE=1 -DN_QUIT=1
	doorbell-free	full	24	doorbell	-DNOPS=3 -DNREC=1 -DN_EXPIRE=1 -DFREE_KEYS
	doorbell-stale	full	24	doorbell	-DNOPS=2 -DNCLASS=1 -DN_SPUR=1
	doorbell-crash	full	24	doorbell	-DNOPS=2 -DN_CRASH=1
	doorbell-cancel	full	24	doorbell	-DNOPS=2 -DNGRANTER=0 -DN_CANCEL=2
	doorbell-two	full	24	doorbell	-DNWAIT=1 -DNREC=1 -DNOPS=2 -DNGRANTER=2 -DN_CRASH=1 -DN_PEEK=1
	close-late	full	24	close	-DNPROC=1 -DNOPS=2 -DSUPPRESS_GRANTS=1 -DLATE
	close-three	full	24	close	-DNPROC=3 -DNOPS=1
	lease-late	full	24	lease	-DNPROC=1 -DNOPS=2 -DLATE
	lease-two	full	24	lease	-DNOPS=2
	lease-other	full	22	lease	-DNOPS=1 -DN_OTHER=2
	tokens-expiry	full	24	tokens	-DNOPS=1 -DN_EXPIRE=1 -DN_LOSS=0
	tokens-loss	full	24	tokens	-DNOPS=1
	table-buckets	full	22	table	-DNOPS=1 -DHOMES=2 -DN_CRASH=1
	readers	full	24	queue	-DNPROC=3 -DNOPS=1 -DM0=0 -DM1=0 -DM2=1 -DHINTS -DTOGETHER
	readers-again	full	24	queue	-DNPROC=3 -DO0=2 -DO1=1 -DO2=1 -DM0=0 -DM1=0 -DM2=1 -DHINTS -DTOGETHER
	readers-only	full	24	queue	-DNPROC=3 -DNOPS=1 -DM0=0 -DM1=0 -DM2=0 -DHINTS -DTOGETHER
	readers-expiry	full	24	queue	-DNPROC=3 -DNOPS=1 -DM0=0 -DM1=0 -DM2=1 -DHINTS -DTOGETHER -DN_EXPIRE=1
	readers-crash	full	24	queue	-DNPROC=3 -DNOPS=1 -DM0=0 -DM1=0 -DM2=1 -DHINTS -DTOGETHER -DN_CRASH=1
	readers-timeout	full	24	queue	-DNPROC=3 -DNOPS=1 -DM0=0 -DM1=0 -DM2=1 -DHINTS -DTOGETHER -DTOMASK=4
	readers-two	full	22	queue	-DNOPS=2 -DHINTS -DM0=0 -DM1=0 -DN_CRASH=1
	readers-writer	full	22	queue	-DNOPS=2 -DHINTS -DM0=0 -DM1=1 -DN_CRASH=1
	readers-again-crash	full	24	queue	-DNPROC=3 -DO0=2 -DO1=1 -DO2=1 -DM0=0 -DM1=0 -DM2=1 -DHINTS -DTOGETHER -DN_CRASH=1
	readers-upgrade	full	24	queue	-DNPROC=3 -DNOPS=1 -DM0=0 -DM1=0 -DM2=1 -DHINTS -DTOGETHER -DUPGRADE
	readers-renew	full	24	queue	-DNPROC=3 -DNOPS=1 -DM0=0 -DM1=0 -DM2=1 -DHINTS -DTOGETHER -DRENEW -DN_EXPIRE=1
	three-readers	full	22	queue	-DNPROC=3 -DNOPS=1 -DM0=1 -DM1=0 -DM2=0 -DLONGHOLD -DHINTS
	downgrade	full	24	queue	-DNPROC=3 -DNOPS=1 -DM0=1 -DM1=0 -DM2=0 -DLONGHOLD -DHINTS -DUPGRADE
	wakeups-stop	full	24	wakeups	-DN=4 -DEARLY=1 -DN_STOP=1
	wakeups-two	full	24	wakeups	-DN=5 -DALL_SLEEP -DEARLY=1 -DN_STOP=2
	death	short	22	queue	-DNOPS=2 -DN_CRASH=1
	doorbell	short	22	doorbell	-DNOPS=2
	doorbell-death	short	20	doorbell	-DNWAIT=1 -DNREC=1 -DNOPS=2 -DN_CRASH=1
	doorbell-none	short	20	doorbell	-DNOPS=2 -DNGRANTER=0
	loss	short	20	loss	-DPATIENT
	loss-crash	short	20	loss	-DPATIENT -DN_CRASH=1 -DN_SCAN=0
	loss-release	full	22	loss	-DN_CRASH=1
	loss-two	full	22	loss	-DN_TAKE=2
	close	short	20	close	-DNOPS=2
	lease	short	20	lease	-DNOPS=1
	robust-bridge	short	20	robust-global	-DNOPS=1 -DN_DEATH=1 -DN_BRIDGE=1
	robust-host	short	20	robust-global	-DNOPS=2 -DN_HOST=1
	robust-loss	full	22	robust-global	-DNOPS=2 -DN_LOSS=1
	robust-forget	full	22	robust-global	-DNOPS=2 -DN_DEATH=1 -DN_FORGET=1
	robust-leaders	full	24	robust-global	-DNOPS=1 -DLEADERS=2 -DN_DEATH=1
	robust-all	full	24	robust-global	-DNOPS=1 -DN_DEATH=1 -DN_BRIDGE=1 -DN_LOSS=1
	expiry	short	22	queue	-DNOPS=2 -DN_EXPIRE=1
	table	short	22	table	-DNOPS=1 -DN_CRASH=1
	tokens	short	22	tokens	-DNOPS=1 -DN_LOSS=0 -DCLOCK_MAX=1
	wakeups	short	22	wakeups	-DN=3 -DN_STOP=1
	wakeups-death	short	22	wakeups	-DN=3 -DN_DEATH=1
	endless	short	20	queue	-DFOREVER -DHINTS
	timeout	short	20	queue	-DNOPS=1 -DN_CRASH=1 -DTOMASK=3
	three-upgrade	deep	26	queue	-DNPROC=3 -DNOPS=1 -DUPGRADE -DM0=0 -DM1=0 -DM2=1
	wakeups-four	deep	26	wakeups	-DN=4 -DN_STOP=1
	three-endless	deep	26	queue	-DNPROC=3 -DFOREVER
	tokens-two	deep	26	tokens	-DNOPS=2 -DN_LOSS=0 -DCLOCK_MAX=1
	END
}

# fault, hash table, model, switches of the smallest configuration found that shows it
mutations()
{
	cat <<-'END'
	MUT_ANNOUNCE_STORE	20	table	-DNOPS=1
	MUT_APPEND_INDEX_ONLY	20	queue	-DNOPS=2
	MUT_ASLEEP_LATE	20	doorbell	-DNWAIT=1 -DNREC=1 -DNOPS=1
	MUT_BITS_LATE	20	doorbell	-DNWAIT=1 -DNREC=1 -DNOPS=1
	MUT_BYPASS_NO_WAKE	24	queue	-DNPROC=3 -DNOPS=1 -DTOMASK=2 -DN_CRASH=1
	MUT_CANCEL_IN_TABLE	20	doorbell	-DNWAIT=1 -DNREC=1 -DNOPS=1 -DN_QUIT=1
	MUT_CANCEL_NO_GEN	22	queue	-DNPROC=3 -DNREC=2 -DO0=1 -DO1=2 -DO2=1 -DTOMASK=2 -DN_CANCEL=1
	MUT_CLAIM_LATE	20	loss	-DNOPS=1
	MUT_CLAIM_SAME_TICKET	20	table	-DNOPS=1
	MUT_COOL_EXPIRES	20	queue	-DNOPS=2 -DCOOL -DMARKS -DHINTS
	MUT_COOL_NO_WAKE	20	queue	-DNOPS=1 -DCOOL -DHINTS
	MUT_DEADLINE_AFTER	20	doorbell	-DNWAIT=1 -DNREC=1 -DNOPS=1 -DN_EXPIRE=1
	MUT_DEADLINE_FIRST	20	queue	-DNOPS=2 -DN_EXPIRE=1 -DRENEW
	MUT_DECIDE_ANY_GEN	20	doorbell	-DNWAIT=1 -DNREC=1 -DNOPS=2 -DN_QUIT=1
	MUT_DECIDE_TWICE	20	doorbell	-DNWAIT=1 -DNREC=1 -DNOPS=1 -DNLOCAL=1
	MUT_DOORBELL_LATE	20	doorbell	-DNWAIT=1 -DNREC=1 -DNOPS=1 -DNGRANTER=0
	MUT_DOWNGRADE_IN_REDIS	20	lease	-DNOPS=1
	MUT_END_BY_INDEX	20	queue	-DNOPS=2 -DN_END=1 -DRENEW
	MUT_ENTER_ANY_GEN	20	doorbell	-DNREC=1 -DNOPS=2 -DN_EXPIRE=1
	MUT_ENTER_ANY_MODE	20	lease	-DNOPS=1
	MUT_ENTER_NO_LOOK	20	close	-DNOPS=1
	MUT_ENTER_PLAIN	20	queue	-DNOPS=1 -DN_EXPIRE=1
	MUT_FILL_UNTOLD	20	loss	-DPATIENT
	MUT_FIRST_LATE	20	table	-DNOPS=1
	MUT_FIRST_NOTE	20	robust-global	-DNOPS=1 -DN_DEATH=1 -DN_BRIDGE=1 -DN_LOSS=1
	MUT_FLAG_LATE	20	queue	-DNOPS=1
	MUT_FLOOR_AFTER_CLAIM	20	table	-DNOPS=2
	MUT_FLOOR_EARLY	20	table	-DNOPS=2
	MUT_FREE_ANY	20	queue	-DNOPS=2 -DN_EXPIRE=1
	MUT_FREE_FIRST	22	queue	-DNPROC=3 -DNOPS=1 -DM0=0 -DM1=0 -DM2=1 -DHINTS -DTOGETHER -DN_CRASH=1
	MUT_FREE_KEY_SILENT	20	doorbell	-DNREC=1 -DNOPS=2 -DN_EXPIRE=1 -DFREE_KEYS
	MUT_FREE_ONE_GENERATION	20	loss	-DN_TAKE=0 -DNOPS=1
	MUT_GRANT_NO_DEADLINE	20	queue	-DNOPS=1
	MUT_HELD_FIRST	20	robust-global	-DNOPS=2 -DN_DEATH=1
	MUT_HINT_NO_GEN	20	queue	-DNOPS=2 -DHINTS -DTOMASK=3
	MUT_JOIN_ANY_MODE	20	queue	-DNOPS=1 -DM0=1 -DM1=0 -DHINTS
	MUT_JOIN_FAST_UNJUDGED	20	queue	-DNOPS=1 -DN_CRASH=1 -DM0=0 -DM1=0 -DHINTS
	MUT_JOIN_UNJUDGED	20	queue	-DNOPS=1 -DN_CRASH=1 -DM0=0 -DM1=0
	MUT_KEPT_BY_SERVER	20	robust-global	-DNOPS=2 -DN_DEATH=1 -DN_FORGET=1
	MUT_LATE_WHOLE	20	robust-global	-DNOPS=2 -DN_LOSS=1
	MUT_LEAVE_NO_WALK	22	queue	-DNPROC=3 -DNOPS=1 -DM0=0 -DM1=0 -DM2=1 -DHINTS -DTOGETHER
	MUT_LINGER_NO_WAKE	20	queue	-DNOPS=1 -DLINGER -DHINTS
	MUT_LINGER_PLAIN	20	queue	-DNOPS=1 -DLINGER -DHINTS
	MUT_LINGER_SAME_GEN	20	queue	-DNOPS=1 -DLINGER -DHINTS -DRENEW -DN_EXPIRE=1
	MUT_LINGER_SHIELD	26	queue	-DNPROC=3 -DNOPS=1 -DLINGER -DHINTS -DN_STOP=1 -DQUIET -DSELFCHECK
	MUT_LINGER_UNWATCHED	20	queue	-DNOPS=1 -DLINGER -DHINTS
	MUT_MARK_AFTER	20	queue	-DNOPS=1 -DMARKS -DN_EXPIRE=1
	MUT_MARK_FIRST	20	robust-global	-DNOPS=1 -DN_DEATH=1 -DN_BRIDGE=1
	MUT_MARK_OUTSIDE	20	queue	-DNOPS=1 -DMARKS -DN_EXPIRE=1
	MUT_MARK_OVERLOOKED	20	robust-global	-DNOPS=2 -DN_DEATH=1
	MUT_MARK_UNCHECKED	20	queue	-DNOPS=2 -DMARKS -DN_EXPIRE=1
	MUT_NEXT_ONLY	22	queue	-DNPROC=3 -DNOPS=1 -DSELFCHECK -DN_STOP=1 -DN_CRASH=1
	MUT_NO_FENCE	20	doorbell	-DNWAIT=1 -DNREC=1 -DNOPS=1
	MUT_NO_IDENTITY_CHECK	20	table	-DNOPS=2
	MUT_NO_LOOK_AT_FLAG	20	doorbell	-DNWAIT=1 -DNREC=1 -DNOPS=1 -DNGRANTER=0 -DN_CANCEL=1
	MUT_NO_LOOK_AFTER	20	queue	-DNPROC=3 -DNOPS=1 -DM0=1 -DM1=0 -DM2=0 -DLONGHOLD
	MUT_NO_OPEN	20	table	-DNOPS=1
	MUT_NO_RESCAN	20	table	-DNOPS=1
	MUT_NO_RING	20	loss	-DPATIENT -DN_SCAN=0 -DN_RENEW=0
	MUT_NO_SECOND_LOOK	20	doorbell	-DNWAIT=1 -DNREC=1 -DNOPS=1
	MUT_NO_SECOND_READ	20	queue	-DNOPS=2 -DN_EXPIRE=1
	MUT_OPEN_OLD_HOME	20	table	-DNOPS=2
	MUT_PLAIN_FREE	20	queue	-DNOPS=2 -DTOMASK=3
	MUT_POP_ALIVE	22	queue	-DNPROC=3 -DNOPS=1 -DM0=0 -DM1=0 -DM2=0 -DHINTS -DTOGETHER
	MUT_POP_WORD_FIRST	20	queue	-DNOPS=2 -DTOMASK=3
	MUT_QUIET_AFTER_LOOK	20	close	-DNOPS=1
	MUT_QUIET_CLOSED	20	close	-DNOPS=2
	MUT_QUIET_TOO_SOON	20	close	-DNOPS=1
	MUT_READERS_OVERLOOKED	20	lease	-DNOPS=1
	MUT_RENEW_NO_GEN	20	queue	-DNOPS=1 -DRENEW -DN_EXPIRE=1
	MUT_RENEW_PLAIN	20	queue	-DNOPS=1 -DRENEW -DN_EXPIRE=1
	MUT_SAME_GEN	20	queue	-DNOPS=2
	MUT_SHARED_STAYS	20	lease	-DNOPS=1
	MUT_SUMMARY_FIRST	20	doorbell	-DNWAIT=1 -DNREC=1 -DNOPS=1
	MUT_SUMMARY_LATE	20	doorbell	-DNOPS=2
	MUT_TABLE_BY_INDEX	20	doorbell	-DNREC=1 -DNOPS=2 -DN_EXPIRE=1
	MUT_TAIL_EARLY	20	queue	-DNOPS=1 -DM0=1 -DM1=0 -DLONGHOLD -DHINTS -DUPGRADE
	MUT_TELL_UNSEEN	20	loss	-DNOPS=2
	MUT_TICKET_PLAIN	24	queue	-DNOPS=2 -DUPGRADE -DM0=0 -DN_EXPIRE=1
	MUT_TOKENS_LEVELLED_ANYWHERE	20	tokens	-DNOPS=2 -DN_LOSS=0 -DCLOCK_MAX=1
	MUT_TOKENS_LEVELLED_ONCE	20	tokens	-DNOPS=1
	MUT_TOKENS_NOT_ALIKE	20	tokens	-DNOPS=1
	MUT_TOKENS_NO_CLOCK	20	tokens	-DNOPS=1
	MUT_TOLD_IS_GOOD	20	robust-global	-DNOPS=2 -DN_DEATH=1
	MUT_UNDO_USED	20	robust-global	-DNOPS=1 -DLEADERS=2 -DN_DEATH=1
	MUT_UNUSED_IS_GOOD	22	robust-global	-DNOPS=1 -DN_BRIDGE=1 -DN_LOSS=1 -DN_DEATH=1
	MUT_UPGRADE_NO_TAIL	20	queue	-DNOPS=1 -DUPGRADE -DM0=0 -DM1=0
	MUT_UPGRADE_SHARED	20	lease	-DNOPS=1
	MUT_USE_LATE	20	loss	-DNOPS=1
	MUT_WAKE_AHEAD	20	wakeups	-DN=5 -DALL_SLEEP -DEARLY=1 -DN_STOP=2
	MUT_WAKE_EARLY	20	wakeups	-DN=4
	MUT_WAKE_LAST	20	wakeups	-DN=3 -DN_STOP=1
	MUT_WAKE_NEAR	24	wakeups	-DN=5 -DALL_SLEEP -DEARLY=1 -DN_STOP=2
	MUT_WAKE_ONE	20	wakeups	-DN=5 -DALL_SLEEP -DEARLY=1 -DN_STOP=2
	MUT_WRITE_FIRST	20	doorbell	-DNWAIT=1 -DNREC=1 -DNOPS=1
	END
}

fail()
{
	echo "run.sh: $*"
	exit 99
}

# build MODEL SWITCHES...: ./pan
build()
{
	model=$1
	shift
	store=h_store
	if [ "$model" = queue ]; then
		set -- -DSYMMETRY "$@"
		store=canonical_store
	fi
	spin -a "$@" "$here/$model.pml" >spin.log 2>&1 || return 1
	# States are stored as the smallest of their permutations: see queue-names.pml.
	sed 's/II = h_store(/II = STORE(/' pan.c >pan-store.c && mv pan-store.c pan.c
	grep -q 'II = STORE(' pan.c || { echo "this SPIN has no h_store() to exchange" >spin.log; return 1; }
	# No partial-order reduction: each step touches shared memory, so there is nothing to reduce.
	${CC:-cc} "$optimize" -w -DSAFETY -DNOREDUCE -DCOLLAPSE -DMEMLIM="${MEMLIM:-12000}" \
		-DSTORE=$store -o pan pan.c >cc.log 2>&1
}

# explore NAME HASH MODEL SWITCHES...: pan.log
explore()
{
	name=$1 hash=$2
	shift 2
	rm -rf "${work:?}/$name" && mkdir -p "$work/$name" && cd "$work/$name" || exit 99
	build "$@" || {
		echo "$name: the model does not build"
		cat spin.log cc.log 2>/dev/null
		return 1
	}
	# What takes long gives way to others.
	[ "$hash" -gt 22 ] && gently="nice -n 5" || gently=
	# shellcheck disable=SC2086 # nothing, or three words
	$gently ./pan -m2000000 -w"$hash" >pan.log 2>&1
	errors=$(sed -n 's/.*errors: \([0-9]*\).*/\1/p' pan.log)
	states=$(sed -n 's/^ *\([0-9.e+]*\) states, stored.*/\1/p' pan.log)
	seconds=$(sed -n 's/^pan: elapsed time \([0-9.]*\) seconds.*/\1/p' pan.log)
	partial=$(grep -c -e 'not completed' -e 'depth too small' -e 'out of memory' -e 'memory limit' pan.log)
	return 0
}

# The small ones take longer to compile than to run.
optimization()
{
	[ "$1" -gt 20 ] || { echo -O0; return; }
	[ "$1" -gt 22 ] && echo -O2 || echo -O1
}

one_row()
{
	name=$1 hash=$3 model=$4
	shift 4
	optimize=$(optimization "$hash")
	explore "$name" "$hash" "$model" "$@" || return 1
	result="no error"
	[ "$partial" = 0 ] || result="NOT FINISHED"
	[ "$errors" = 0 ] || result="ERROR: $(sed -n 's/^pan:1: //p' pan.log)"
	printf '%-12s %12s states %8s s   %s   %s\n' "$name" "$states" "$seconds" "$result" "$model $*"
	[ "$result" = "no error" ]
}

one_mutation()
{
	name=$1 hash=$2 model=$3
	shift 3
	optimize=$(optimization "$hash")
	explore "$name" "$hash" "$model" "-D$name" "$@" || return 1
	if [ "${errors:-0}" = 0 ]; then
		printf '%-24s NOT FOUND   %s\n' "$name" "$model $*"
		return 1
	fi
	error=$(sed -n 's/^pan:1: \(.*\) (at depth.*/\1/p' pan.log)
	printf '%-24s %10s states   %s   %s\n' "$name" "$states" "$error" "$model $*"
}

# In a process of its own, so that several can run at a time.
by_name()
{
	line=$(rows | awk -v name="$1" '$1 == name')
	# Words, on purpose.
	# shellcheck disable=SC2086
	if [ -n "$line" ]; then
		one_row $line
	else
		line=$(mutations | awk -v name="$1" '$1 == name')
		[ -n "$line" ] || fail "there is no row $1"
		one_mutation $line
	fi
}

case ${1-} in
"") names=$(rows | awk '$2 == "short" || $2 == "full" { print $1 }') ;;
--short) names=$(rows | awk '$2 == "short" { print $1 }') ;;
--deep) names=$(rows | awk '$2 == "deep" { print $1 }') ;;
--mutate) names=$(mutations | awk '{ print $1 }') ;;
--row) names=${2:?which row?} ;;
--list)
	rows
	mutations
	exit 0
	;;
*) sed -n '3,/^set/s/^# \{0,1\}//p' "$0" && exit 99 ;;
esac

command -v spin >/dev/null || { echo "run.sh: spin is not installed (package spin)"; exit 77; }
if [ -n "${MODEL_WORK-}" ]; then
	work=$MODEL_WORK
	by_name "$names"
	exit
fi
if [ -n "${KEEP-}" ]; then
	mkdir -p "$KEEP" && work=$(cd "$KEEP" && pwd) || exit 99
else
	work=$(mktemp -d) || exit 99
	trap 'rm -rf "$work"' EXIT
	trap 'exit 1' INT TERM
fi
export MODEL_WORK="$work"
echo "$names" | xargs -P "${JOBS:-1}" -n 1 "$self" --row
status=$?
echo "$(echo "$names" | wc -w) rows, $([ $status = 0 ] && echo all as they should be || echo NOT all as they should be)"
[ $status = 0 ]
