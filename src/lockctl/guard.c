/* SPDX-License-Identifier: MIT */
/*
 * guard.c - hold a lock for exactly as long as a command lives
 *
 * A keeper (cli/keeper.c) takes the lock and starts the command.  It renews the lease while it waits for the command's
 * end.  A command that takes longer than most has a thread of the library in addition, which reports the loss of the lock
 * at once: then the command gets SIGTERM.
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

/** From then on a loss is reported by a thread.  Most commands of scripts have ended before. */
#define WATCH_AFTER_NS LOCKSHM_MS(10)
/** Without that thread. */
#define LOOK_AGAIN_NS LOCKSHM_SECONDS(1)

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return LOCKSHM_SECONDS(now.tv_sec) + now.tv_nsec;
}

static int64_t earlier(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* --- The lock ---------------------------------------------------------------------------------------- */

/** Of a nested lockctl: an outer one holds what it waits for. */
static const char *nested_text(const struct lockshm_blocker *blocker)
{
	pid_t pid = getpid();

	while (blocker->state == LOCKSHM_HOLDING && pid > 1)
		if ((pid = process_parent(pid)) == blocker->pid)
			return "; that runs this lockctl, and ends after it";
	return "";
}

/** A try or a wait that ended without the lock. */
static int conflict(const struct guard *guard, lockshm_t *segment)
{
	char *text = guard->every_ns ? format_blocker(&guard->report) :
				       format_report(&guard->report, guard->request.timeout_ns);
	char *ahead = guard->n_also ? format_text("%s", "") : format_writer_ahead(segment, &guard->request);
	const char *nested = nested_text(&guard->report.blocker);

	if (guard->every_ns)
		message("'%s' skipped: %s", guard->shown, text);
	else
		message("'%s' not obtained: %s%s%s", guard->shown, text, ahead, *nested ? nested : "; -w waits longer");
	free(text);
	free(ahead);
	return guard->conflict_status;
}

/** A hold on this host only has no status of a mark, and clears none. */
static void report_mark(struct guard *guard, size_t i, const struct lockshm_damage *damage)
{
	char *text = format_mark(damage);
	bool cleared = guard->acknowledge && guard->code != LOCKSHM_LOCAL_ONLY &&
		       lockshm_acknowledge(&guard->holds[i]) == 0;

	message("'%s': %s (%s)", guard->n_also ? guard->keys[i].shown : guard->shown, text,
		cleared ? "damage mark cleared" : "the damage mark stays: lockctl ack clears it");
	free(text);
}

/** The report has one mark of several. */
static void report_damage(struct guard *guard)
{
	struct lockshm_damage damage = guard->report.damage;

	if (!damage.status)
		return;
	for (size_t i = 0; i <= guard->n_also; i++)
		if (!guard->n_also || (lockshm_damage(&guard->holds[i], &damage) >= 0 && damage.status))
			report_mark(guard, i, &damage);
}

/** Return: the exit status. */
static int not_acquired(const struct guard *guard, lockshm_t *segment, int code)
{
	if (code == LOCKSHM_CANCELLED && signals_caught())
		return EXIT_BY_SIGNAL + signals_caught();
	if (code == LOCKSHM_TIMEOUT || code == LOCKSHM_BUSY)
		return conflict(guard, segment);
	return failed(code, &guard->report.error);
}

static void announce_wait(const struct guard *guard)
{
	const char *nested = nested_text(&guard->report.blocker);
	char *blocker;

	if (!*nested && !guard->announce)
		return;
	blocker = format_blocker(&guard->report);
	message("'%s': waits: %s%s", guard->shown, blocker, nested);
	free(blocker);
}

static int take(struct guard *guard, lockshm_t *segment)
{
	struct lockshm_key keys[LOCKSHM_MANY_MAX] = { { .len = 0 } };

	if (!guard->n_also)
		return lockshm_acquire(segment, &guard->request, guard->holds);
	for (size_t i = 0; i <= guard->n_also; i++) {
		keys[i].data = guard->keys[i].key.bytes;
		keys[i].len = guard->keys[i].key.len;
	}
	return lockshm_acquire_many(segment, &guard->request, keys, guard->n_also + 1, guard->holds);
}

/** A try first, so that a wait can be reported. */
static int acquire_announced(struct guard *guard, lockshm_t *segment)
{
	int64_t timeout_ns = guard->request.timeout_ns;
	int code;

	guard->request.timeout_ns = 0;
	code = take(guard, segment);
	guard->request.timeout_ns = timeout_ns;
	if (code != LOCKSHM_BUSY || !timeout_ns)
		return code;
	announce_wait(guard);
	code = take(guard, segment);
	if (code >= 0 && guard->announce)
		message("'%s': taken after a wait", guard->shown);
	return code;
}

/** This lockctl is in a command that runs under a lock of the same segment. */
static bool is_inside(const struct guard *guard)
{
	const char *outer = getenv("LOCKSHM_SEGMENT");

	return outer && !strcmp(outer + (*outer == '/'), guard->name + (*guard->name == '/'));
}

static int acquire(struct guard *guard, lockshm_t *segment)
{
	/* A try of a global key asks other hosts, and would lose its place there. */
	bool inside = !guard->global && is_inside(guard);

	return guard->announce || inside ? acquire_announced(guard, segment) : take(guard, segment);
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

/** The segment may make a key global without --global. */
static void complete_request(struct guard *guard, lockshm_t *segment)
{
	struct lockshm_row row = LOCKSHM_ROW_INIT;

	guard->global = guard->request.flags & LOCKSHM_GLOBAL;
	for (size_t i = 0; i <= guard->n_also && !guard->global; i++)
		guard->global = find_key(segment, guard->keys[i].key, &row) == 0 && row.global;
	if (guard->request.redis_policy && !guard->global)
		usage_error("--redis-policy needs --global");
}

bool guard_acquire(struct guard *guard, lockshm_t *segment, int *status)
{
	complete_request(guard, segment);
	guard->ttl_ns = guard->request.ttl_ns;
	if (guard->max_hold_ns)
		guard->request.ttl_ns = earlier(guard->ttl_ns, guard->max_hold_ns);
	guard->code = guard->global ? acquire_global(guard, segment) : acquire(guard, segment);
	if (guard->code < 0) {
		*status = not_acquired(guard, segment, guard->code);
		return false;
	}
	for (size_t i = 0; i <= guard->n_also; i++)
		guard->tokens[i] = lockshm_token(&guard->holds[i]);
	guard->granted_ns = now_ns();
	guard->watch_ns = guard->granted_ns + WATCH_AFTER_NS;
	guard->renew_ns = guard->ttl_ns == LOCKSHM_FOREVER ? LOCKSHM_FOREVER : guard->granted_ns + guard->ttl_ns / 2;
	report_damage(guard);
	if (guard->code == LOCKSHM_LOCAL_ONLY)
		message("'%s': Redis is out of reach; the lock is held on this host only", guard->shown);
	return true;
}

static void warn_lost(const struct guard *guard, size_t i, const char *effect)
{
	uint64_t next = lockshm_lost_to(&guard->holds[i]);
	char *to = next ? format_text(", and token %" PRIu64 " was issued after it", next) : format_text("%s", "");

	message("'%s' was lost, token %" PRIu64 ": the lease expired%s or an operator ended the hold%s; %s",
		guard->keys[i].shown, guard->tokens[i], guard->global ? ", this host lost the key in Redis," : "", to,
		effect);
	free(to);
}

/** One of several is enough. */
static bool is_lost(struct guard *guard, const char *effect)
{
	for (size_t i = 0; i <= guard->n_also; i++) {
		int code = lockshm_check(&guard->holds[i], NULL);

		if (code != LOCKSHM_LOST && code != LOCKSHM_NOT_HELD)
			continue;
		guard->lost = true;
		warn_lost(guard, i, effect);
		return true;
	}
	return false;
}

/** When half of the lease has passed.  The last renewal of a bounded hold (--max-hold) ends at the bound. */
static void renew(struct guard *guard, int64_t now)
{
	int64_t until = guard->max_hold_ns ? guard->granted_ns + guard->max_hold_ns : LOCKSHM_FOREVER;
	int64_t end = earlier(now + guard->ttl_ns, until);

	guard->renew_ns = end == until ? LOCKSHM_FOREVER : now + guard->ttl_ns / 2;
	/* A hold that is lost shows in is_lost(). */
	for (size_t i = 0; i <= guard->n_also && end - now >= LOCKSHM_TTL_MIN; i++)
		(void)lockshm_renew(&guard->holds[i], end - now);
}

/** Without a descriptor or a thread for it a loss is found a second later. */
static void begin_watch(struct guard *guard, int64_t now)
{
	int notices = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	size_t watched = 0;

	while (notices >= 0 && watched <= guard->n_also && lockshm_notify(&guard->holds[watched], notices) >= 0)
		watched++;
	if (watched > guard->n_also) {
		guard->notices = notices;
		guard->watch_ns = LOCKSHM_FOREVER;
		return;
	}
	if (notices >= 0)
		close(notices);
	guard->watch_ns = now + LOOK_AGAIN_NS;
}

int guard_look(struct guard *guard, const char *effect)
{
	int64_t now = now_ns(), next;
	uint64_t notices;

	if (guard->notices >= 0 && read(guard->notices, &notices, sizeof(notices)) < 0) {
		/* Nothing new; look all the same. */
	}
	if (now >= guard->renew_ns)
		renew(guard, now);
	if (now >= guard->watch_ns)
		begin_watch(guard, now);
	if (is_lost(guard, effect))
		return CHILD_LOST;
	next = earlier(guard->renew_ns, guard->watch_ns);
	if (next == LOCKSHM_FOREVER)
		return CHILD_LOOK_NEVER;
	/* Of leases of days the first hour. */
	return next <= now ? 0 : (int)(earlier(next - now, LOCKSHM_SECONDS(3600)) / 1000000) + 1;
}

int guard_release(struct guard *guard, int64_t cooldown_ns, int status)
{
	for (size_t i = guard->n_also + 1; i-- > 0;)
		switch (lockshm_release(&guard->holds[i], cooldown_ns)) {
		case LOCKSHM_OK:
			break;
		case LOCKSHM_LATE:
			message("'%s': the lease had expired before the end, but the lock had no other holder",
				guard->keys[i].shown);
			break;
		default:
			if (!guard->lost)
				warn_lost(guard, i, guard->command ? "the command has ended" : "the descriptor is closed");
			status = EXIT_LOST;
		}
	return status;
}

/* --- The environment of the command ------------------------------------------------------------------- */

static const char *const variables[] = { "LOCKSHM_SEGMENT", "LOCKSHM_KEY", "LOCKSHM_TOKEN", "LOCKSHM_STATUS",
					 "LOCKSHM_DAMAGE_PID" };
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
 * library's threads, which may read it.
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
	list[kept++] = format_text("LOCKSHM_KEY=%s", guard->keys[0].text);
	list[kept++] = format_text("LOCKSHM_TOKEN=%" PRIu64, guard->tokens[0]);
	list[kept++] = format_text("LOCKSHM_STATUS=%s", lockshm_code_name(guard->code));
	if (guard->request.flags & LOCKSHM_ROBUST && guard->report.damage.status)
		list[kept] = format_text("LOCKSHM_DAMAGE_PID=%" PRId32, guard->report.damage.pid);
	return list;
}

/** It has our variables last. */
static void free_environment(char **list)
{
	for (size_t i = 0; list && list[i]; i++)
		if (is_ours(list[i]))
			free(list[i]);
	free(list);
}

/* --- The command ------------------------------------------------------------------------------------- */

/** For child_run(). */
static int look(void *arg, bool running)
{
	struct guard *guard = arg;
	int ms = guard_look(guard, running ? "the command gets SIGTERM" :
					     "processes that the command started may be running");

	guard->watch->fd = guard->notices;
	return ms;
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

static int run_command(struct guard *guard)
{
	struct child_watch watch = { .look = look, .arg = guard, .fd = -1, .keep = guard->keep,
				     .group = guard->command == guard->shell, .front = guard->front };
	char **environment = make_environment(guard);
	struct child_end end;

	guard->watch = &watch;
	if (!environment || child_run(guard->command, environment, &watch, &end) < 0) {
		message("cannot start a process: %s%s", strerror(errno), limit_of(errno));
		return guard_release(guard, 0, EXIT_FAILED);
	}
	/* The holder was killed: no release, no period; of a robust key a damage mark. */
	if (keeper_is_alone(guard->front))
		_exit(EXIT_FAILED);
	free_environment(environment);
	if (end.exec_errno)
		message("cannot execute '%s': %s", guard->command[0], strerror(end.exec_errno));
	if (end.signal) {
		message("'%s': released while processes that the command started are running", guard->shown);
		end.exit_status = EXIT_BY_SIGNAL + end.signal;
	}
	return guard_release(guard, cooldown_after(guard, &end), end.exit_status);
}

int guard_open(const struct guard *guard, lockshm_t **segment)
{
	/* What is made here has no Redis. */
	bool create = !guard->no_create && !(guard->request.flags & LOCKSHM_GLOBAL);

	return create ? open_or_create(segment, guard->name, guard->any_owner) :
			open_to_act(segment, guard->name, guard->any_owner);
}

/** In the keeper. */
static int keep(void *arg)
{
	struct guard *guard = arg;
	lockshm_t *segment;
	int status;

	signals_cancel(&guard->canceller, guard->front);
	signals_unblock();
	status = guard_open(guard, &segment);
	if (status)
		return status;
	if (guard_acquire(guard, segment, &status))
		status = run_command(guard);
	lockshm_close(segment);
	guard_free(guard);
	return status;
}

int guard_run(struct guard *guard)
{
	int status;

	guard->front = keeper_front();
	status = keeper_run(guard->front, keep, guard);
	guard_free(guard);
	return status;
}
