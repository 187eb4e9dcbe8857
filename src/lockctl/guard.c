/* SPDX-License-Identifier: MIT */
/*
 * guard.c - hold a lock for exactly as long as a command lives
 *
 * The main thread takes the lock, so the hold lives as long as lockctl.  The library's service thread renews the lease,
 * and writes to an eventfd if the lock is lost: then the command gets SIGTERM.  If lockctl is killed the kernel kills
 * the command, and the next request is granted.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "lockctl/lockctl.h"

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return LOCKSHM_SECONDS(now.tv_sec) + now.tv_nsec;
}

/* --- The lock ---------------------------------------------------------------------------------------- */

/** A try or a wait that ended without the lock. */
static int conflict(const struct guard *guard, lockshm_t *segment, int code)
{
	const char *text = *guard->report.error.message ? guard->report.error.message : lockshm_strerror(code);
	char *blocker = format_blocker(&guard->report.blocker);
	char *ahead = format_writer_ahead(segment, &guard->request);

	if (guard->every_ns)
		message("'%s' skipped: %s", guard->shown, blocker ? blocker : text);
	else
		message("'%s' not obtained: %s%s%s%s; -w waits longer", guard->shown, text, blocker ? ": " : "",
			blocker ? blocker : "", ahead);
	free(blocker);
	free(ahead);
	return guard->conflict_status;
}

static void warn_previous(const struct guard *guard)
{
	char *text = format_previous(&guard->report.previous);

	message("'%s': %s (%s)", guard->shown, text,
		guard->request.flags & LOCKSHM_ACKNOWLEDGE ? "damage mark cleared" :
							     "the damage mark stays: lockctl ack clears it");
	free(text);
}

/** Return: the exit status. */
static int not_acquired(const struct guard *guard, lockshm_t *segment, int code)
{
	if (code == LOCKSHM_CANCELLED && signals_caught())
		return EXIT_BY_SIGNAL + signals_caught();
	if (code == LOCKSHM_TIMEOUT || code == LOCKSHM_BUSY)
		return conflict(guard, segment, code);
	return failed(code, &guard->report.error);
}

/** A try first, so that a wait can be reported. */
static int acquire_announced(struct guard *guard, lockshm_t *segment)
{
	int64_t timeout_ns = guard->request.timeout_ns;
	char *blocker;
	int code;

	guard->request.timeout_ns = 0;
	code = lockshm_acquire(segment, &guard->request, &guard->hold);
	guard->request.timeout_ns = timeout_ns;
	if (code != LOCKSHM_BUSY || !timeout_ns)
		return code;
	blocker = format_blocker(&guard->report.blocker);
	message("'%s': waits: %s", guard->shown, blocker ? blocker : guard->report.error.message);
	free(blocker);
	code = lockshm_acquire(segment, &guard->request, &guard->hold);
	if (code >= 0)
		message("'%s': taken after a wait", guard->shown);
	return code;
}

static int acquire(struct guard *guard, lockshm_t *segment)
{
	return guard->announce ? acquire_announced(guard, segment) :
				 lockshm_acquire(segment, &guard->request, &guard->hold);
}

/** A bridge that was started for others, and ends as this request begins, is followed by one of our own. */
static int acquire_global(struct guard *guard, lockshm_t *segment)
{
	int code = LOCKSHM_BRIDGE;

	for (int tries = 0; code == LOCKSHM_BRIDGE && tries < 2; tries++) {
		bridge_start_if_none(segment, guard->name, guard->any_owner);
		code = acquire(guard, segment);
	}
	return code;
}

static int take_global(const struct lockshm_lock_info *lock, void *arg)
{
	struct guard *guard = arg;

	if (lock->global)
		guard->request.flags |= LOCKSHM_GLOBAL;
	return 0;
}

/** The segment may make the key global without --global. */
static void complete_request(struct guard *guard, lockshm_t *segment)
{
	(void)lockshm_show_lock(segment, guard->key.bytes, guard->key.len, take_global, guard);
	if (guard->request.redis_policy && !(guard->request.flags & LOCKSHM_GLOBAL))
		usage_error("--redis-policy needs --global");
}

bool guard_acquire(struct guard *guard, lockshm_t *segment, int *status)
{
	complete_request(guard, segment);
	guard->code = guard->request.flags & LOCKSHM_GLOBAL ? acquire_global(guard, segment) : acquire(guard, segment);
	if (guard->code < 0) {
		*status = not_acquired(guard, segment, guard->code);
		return false;
	}
	guard->granted_ns = now_ns();
	if (guard->report.previous.status)
		warn_previous(guard);
	if (guard->code == LOCKSHM_LOCAL_ONLY)
		message("'%s': Redis is out of reach; the lock is held on this host only", guard->shown);
	return true;
}

static void warn_lost(const struct guard *guard, const char *effect)
{
	uint64_t next = lockshm_lost_to(&guard->hold);
	char *to = next ? format_text(", and token %" PRIu64 " was issued after it", next) : format_text("%s", "");

	message("'%s' was lost, token %" PRIu64 ": the lease expired%s or an operator ended the hold%s; %s", guard->shown,
		guard->report.token, guard->request.flags & LOCKSHM_GLOBAL ? ", this host lost the key in Redis," : "", to,
		effect);
	free(to);
}

bool guard_lost(struct guard *guard, const char *effect)
{
	int code = lockshm_check(&guard->hold, NULL);

	if (code != LOCKSHM_LOST && code != LOCKSHM_NOT_HELD)
		return false;
	guard->lost = true;
	warn_lost(guard, effect);
	return true;
}

int guard_release(struct guard *guard, int64_t cooldown_ns, int status)
{
	switch (lockshm_release(&guard->hold, cooldown_ns)) {
	case LOCKSHM_OK:
		return status;
	case LOCKSHM_LATE:
		message("'%s': the lease had expired before the end, but the lock had no other holder", guard->shown);
		return status;
	default:
		if (!guard->lost)
			warn_lost(guard, guard->command ? "the command has ended" : "the descriptor is closed");
		return EXIT_LOST;
	}
}

int guard_notices(struct guard *guard, int *status)
{
	int notices = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	int code;

	if (notices < 0) {
		message("cannot make an eventfd: %s%s", strerror(errno), limit_of(errno));
		*status = guard_release(guard, 0, EXIT_FAILED);
		return -1;
	}
	code = lockshm_notify(&guard->hold, notices);
	if (code >= 0)
		return notices;
	if (code == LOCKSHM_LOST) {
		guard->lost = true;
		warn_lost(guard, guard->command ? "the command was not started" : "nothing holds it");
		*status = EXIT_LOST;
	} else if (code == LOCKSHM_SYSTEM) {
		/* Before the close: it tries whether a descriptor is left. */
		message_no_watch();
		*status = EXIT_FAILED;
	} else {
		*status = failed(code, NULL);
	}
	close(notices);
	*status = guard_release(guard, 0, *status);
	return -1;
}

/* --- The environment of the command ------------------------------------------------------------------- */

static const char *const variables[] = { "LOCKSHM_SEGMENT", "LOCKSHM_KEY", "LOCKSHM_TOKEN", "LOCKSHM_STATUS",
					 "LOCKSHM_PREVIOUS_PID" };
#define VARIABLES (sizeof(variables) / sizeof(variables[0]))

static bool is_ours(const char *entry)
{
	for (size_t i = 0; i < VARIABLES; i++) {
		size_t len = strlen(variables[i]);

		if (!strncmp(entry, variables[i], len) && entry[len] == '=')
			return true;
	}
	return false;
}

/**
 * A copy of the environment with the variables of this lock, and of no outer one.  setenv() would race with the
 * library's threads, which may read it.  Freed by the end of lockctl.
 */
static char **make_environment(const struct guard *guard)
{
	size_t n = 0, kept = 0;
	char **list;

	while (environ[n])
		n++;
	list = calloc(n + VARIABLES + 1, sizeof(*list));
	if (!list)
		return NULL;
	for (size_t i = 0; i < n; i++)
		if (!is_ours(environ[i]))
			list[kept++] = environ[i];
	list[kept++] = format_text("LOCKSHM_SEGMENT=%s%s", *guard->name == '/' ? "" : "/", guard->name);
	list[kept++] = format_text("LOCKSHM_KEY=%s", guard->key_text);
	list[kept++] = format_text("LOCKSHM_TOKEN=%" PRIu64, lockshm_token(&guard->hold));
	list[kept++] = format_text("LOCKSHM_STATUS=%s", lockshm_code_name(guard->code));
	if (guard->request.flags & LOCKSHM_ROBUST && guard->report.previous.status)
		list[kept] = format_text("LOCKSHM_PREVIOUS_PID=%" PRId32, guard->report.previous.pid);
	return list;
}

/* --- The command ------------------------------------------------------------------------------------- */

/** For child_run(). */
static bool must_stop(void *arg, bool running)
{
	return guard_lost(arg, running ? "the command gets SIGTERM" : "processes that the command started may be running");
}

static int64_t cooldown_after(const struct guard *guard, const struct child_end *end)
{
	int64_t used;

	if (!end->started || (guard->retry && end->exit_status))
		return 0;
	if (!guard->every_ns)
		return guard->cooldown_ns;
	used = now_ns() - guard->granted_ns;
	return used < guard->every_ns ? guard->every_ns - used : 0;
}

static int run_watched(struct guard *guard, int notices)
{
	struct child_watch watch = { must_stop, guard, notices, guard->keep };
	char **environment = make_environment(guard);
	struct child_end end;

	if (!environment || child_run(guard->command, environment, &watch, &end) < 0) {
		message("cannot start a process: %s%s", strerror(errno), limit_of(errno));
		return guard_release(guard, 0, EXIT_FAILED);
	}
	if (end.exec_errno)
		message("cannot execute '%s': %s", guard->command[0], strerror(end.exec_errno));
	if (end.signal) {
		message("'%s': released while processes that the command started are running", guard->shown);
		end.exit_status = EXIT_BY_SIGNAL + end.signal;
	}
	return guard_release(guard, cooldown_after(guard, &end), end.exit_status);
}

static int acquire_and_run(struct guard *guard, lockshm_t *segment)
{
	int status, notices;

	if (!guard_acquire(guard, segment, &status))
		return status;
	notices = guard_notices(guard, &status);
	if (notices < 0)
		return status;
	status = run_watched(guard, notices);
	close(notices);
	return status;
}

int guard_run(struct guard *guard)
{
	lockshm_t *segment;
	int status;

	signals_cancel(&guard->canceller);
	status = open_to_act(&segment, guard->name, guard->any_owner);
	if (status)
		return status;
	status = acquire_and_run(guard, segment);
	lockshm_close(segment);
	return status;
}
