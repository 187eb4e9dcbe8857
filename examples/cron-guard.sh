#!/bin/sh
# SPDX-License-Identifier: MIT
#
# cron-guard.sh - run a job from cron at most once at a time on this machine
#
#   cron-guard.sh [-c COOLDOWN] JOB COMMAND [ARGUMENT...]
#
# In a crontab, a report every five minutes that may take longer, and then rests for a minute:
#
#   */5 * * * *  cron-guard.sh -c 60s report /usr/local/bin/make-report || [ $? = 75 ]
#
# It does not wait: if the job is still running, or in its pause, this run is skipped (status 75).  The lease of an
# hour is renewed while the command runs.  If cron, lockctl or the whole group is killed, so is the command, and the lock is
# free: there is no lock file to clean up.
#
# Environment: LOCKCTL (lockctl), CRON_SEGMENT (/cron).
set -u

lockctl=${LOCKCTL:-lockctl}
segment=${CRON_SEGMENT:-/cron}
cooldown=0
skipped=75 # EX_TEMPFAIL of sysexits.h; lockctl's own 3 is a status the command might use

usage()
{
	echo "usage: cron-guard.sh [-c COOLDOWN] JOB COMMAND [ARGUMENT...]" >&2
	exit 2
}

while getopts c: option; do
	case $option in
	c) cooldown=$OPTARG ;;
	*) usage ;;
	esac
done
shift $((OPTIND - 1))
[ $# -ge 2 ] || usage
job=$1
shift

"$lockctl" run "$segment" "cron/$job" -w 0 -t 3600s --cooldown "$cooldown" --tag "cron $job" -E "$skipped" -- "$@"
status=$?

case $status in
0) ;;
"$skipped")
	echo "cron-guard: $job: still running, or in its pause after the last run; skipped" >&2 ;;
4) # the command has got SIGTERM already; what it does elsewhere must be able to refuse it
	echo "cron-guard: $job: lost the lock while it ran, another run may have begun (or its own status is 4)" >&2 ;;
*)
	[ "$status" -gt 128 ] && how="signal $((status - 128))" || how="status $status"
	echo "cron-guard: $job: ended with $how" >&2 ;;
esac
exit "$status"
