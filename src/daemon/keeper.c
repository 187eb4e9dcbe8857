/* SPDX-License-Identifier: MIT */
/*
 * keeper.c - the segments of one name: each is served by a thread of its own
 *
 * The name may have no segment yet, and a removed one is served until its last hold ends, beside the one that has the
 * name now.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "daemon/daemon.h"

#define LOOK_MS 200 /* for a segment that is new under the name */
#define AGAIN_MS 1000 /* after a failure that may pass */
#define UNUSED_LOOKS 15 /* in a row without a global key in use: the end of --while-used */

struct served {
	struct served *next;
	struct keeper *keeper;
	lockshm_t *segment;
	lockshm_canceller_t canceller;
	pthread_t thread;
	struct bridge_pulse pulse;
	struct lockshm_error why; /* the last failure that was reported */
	bool ended; /* atomic */
	bool refused; /* it cannot be served at all; final once ended */
};

struct keeper {
	const char *name;
	bool any_owner;
	bool while_used;
	pthread_t thread;
	int stop; /* eventfd, readable from then on */
	int done; /* eventfd, readable once it has ended by itself */
	struct served *served; /* the newest first */
	struct lockshm_error why; /* the last failure to open that was reported */
	unsigned unused; /* looks */
	int status;
	bool waits; /* for a segment, and it was said */
};

static void signal_event(int fd)
{
	uint64_t one = 1;

	if (write(fd, &one, sizeof(one)) < 0) {
		/* Readable already. */
	}
}

/** Return: true = to be stopped. */
static bool pause_ms(const struct keeper *keeper, int ms)
{
	struct pollfd fd = { keeper->stop, POLLIN, 0 };

	return poll(&fd, 1, ms) > 0;
}

/** Report @now, unless it is what was reported last. */
static void report(struct lockshm_error *last, const struct lockshm_error *now)
{
	if (last->code == now->code && strcmp(last->message, now->message) == 0)
		return;
	*last = *now;
	message("%s", now->message);
}

/* --- One segment ------------------------------------------------------------------------------------- */

/** Will another try fail as well? */
static bool is_final(int code)
{
	return code == LOCKSHM_INVALID || code == LOCKSHM_PERMISSION || code == LOCKSHM_BAD_SEGMENT;
}

static void *serve(void *arg)
{
	struct served *one = arg;
	struct lockshm_error why = { 0 };
	int code;

	for (;;) {
		code = bridge_serve(one->segment, &one->canceller, &one->pulse, &why);
		if (code == LOCKSHM_CANCELLED || code == LOCKSHM_NO_SEGMENT)
			break;
		report(&one->why, &why);
		one->refused = is_final(code);
		if (one->refused || pause_ms(one->keeper, AGAIN_MS))
			break;
	}
	__atomic_store_n(&one->ended, true, __ATOMIC_RELEASE);
	return NULL;
}

static void add(struct keeper *keeper, lockshm_t *segment)
{
	struct served *one = checked(calloc(1, sizeof(*one)));
	int cause;

	one->keeper = keeper;
	one->segment = segment;
	cause = pthread_create(&one->thread, NULL, serve, one);
	if (cause) {
		message("cannot start a thread: %s%s", strerror(cause), limit_of(cause));
		lockshm_close(segment);
		free(one);
		return;
	}
	one->next = keeper->served;
	keeper->served = one;
	message("serves the segment");
	supervisor_tell("STATUS=serves segment %s", keeper->name);
}

static bool end(struct served *one)
{
	bool refused;

	pthread_join(one->thread, NULL);
	refused = one->refused;
	lockshm_close(one->segment);
	free(one);
	return refused;
}

/* --- The name ---------------------------------------------------------------------------------------- */

static void wait_for_segment(struct keeper *keeper)
{
	if (keeper->waits)
		return;
	keeper->waits = true;
	message("waits for the segment to be made");
	supervisor_tell("STATUS=waits for segment %s to be made", keeper->name);
}

/** Return: false = there is none that this process may serve, ever. */
static bool look_for_segment(struct keeper *keeper)
{
	struct lockshm_error why = { 0 };
	lockshm_t *segment;
	int code;

	if (keeper->served && lockshm_current(keeper->served->segment) == 0)
		return true;
	code = lockshm_open(&segment, keeper->name, keeper->any_owner ? LOCKSHM_OPEN_ANY_OWNER : 0, &why);
	if (code == 0) {
		keeper->waits = false;
		add(keeper, segment);
		return true;
	}
	if (code == LOCKSHM_NO_SEGMENT) {
		wait_for_segment(keeper);
		return true;
	}
	report(&keeper->why, &why);
	/* While another one is served that one counts. */
	return keeper->served || !is_final(code);
}

/** Return: false = the segment cannot be served. */
static bool collect_ended(struct keeper *keeper)
{
	struct served **at = &keeper->served;
	bool fine = true;

	while (*at) {
		struct served *one = *at;

		if (!__atomic_load_n(&one->ended, __ATOMIC_ACQUIRE)) {
			at = &one->next;
			continue;
		}
		*at = one->next;
		fine = !end(one) && fine;
	}
	return fine;
}

static bool is_unused(struct keeper *keeper)
{
	bool used = false;

	for (const struct served *one = keeper->served; one; one = one->next)
		used = used || !bridge_is_unused(one->segment);
	keeper->unused = used ? 0 : keeper->unused + 1;
	return keeper->unused >= UNUSED_LOOKS;
}

/** A thread that hangs while it leads is ended with the program, by the manager's watchdog. */
static void tell_alive(const struct keeper *keeper)
{
	for (const struct served *one = keeper->served; one; one = one->next)
		if (!bridge_pulse_is_good(&one->pulse, one->segment))
			return;
	supervisor_tell("WATCHDOG=1");
}

static void *keep(void *arg)
{
	struct keeper *keeper = arg;
	int64_t interval = supervisor_interval();
	int ms = interval && interval < LOCKSHM_MS(LOOK_MS) ? (int)(interval / LOCKSHM_MS(1)) : LOOK_MS;

	do {
		tell_alive(keeper);
		if (!look_for_segment(keeper) || !collect_ended(keeper)) {
			keeper->status = EXIT_FAILED;
			break;
		}
		if (keeper->while_used && is_unused(keeper))
			break;
	} while (!pause_ms(keeper, ms));
	signal_event(keeper->done);
	return NULL;
}

/* --- Begin and end ----------------------------------------------------------------------------------- */

struct keeper *keeper_start(const char *name, bool any_owner, bool while_used)
{
	struct keeper *keeper = checked(calloc(1, sizeof(*keeper)));
	int cause;

	keeper->name = name;
	keeper->any_owner = any_owner;
	keeper->while_used = while_used;
	keeper->stop = eventfd(0, EFD_CLOEXEC);
	keeper->done = eventfd(0, EFD_CLOEXEC);
	cause = keeper->stop < 0 || keeper->done < 0 ? errno : pthread_create(&keeper->thread, NULL, keep, keeper);
	if (!cause)
		return keeper;
	message("cannot start: %s%s", strerror(cause), limit_of(cause));
	return NULL;
}

int keeper_fd(const struct keeper *keeper)
{
	return keeper->done;
}

int keeper_stop(struct keeper *keeper)
{
	int status;

	signal_event(keeper->stop);
	pthread_join(keeper->thread, NULL);
	for (struct served *one = keeper->served; one; one = one->next)
		lockshm_cancel(&one->canceller);
	while (keeper->served) {
		struct served *one = keeper->served;

		keeper->served = one->next;
		(void)end(one);
	}
	status = keeper->status;
	close(keeper->stop);
	close(keeper->done);
	free(keeper);
	return status;
}
