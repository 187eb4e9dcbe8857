/* SPDX-License-Identifier: MIT */
/*
 * segments.c - the segments of one name: each is served by a thread of its own
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
#define LOOK_MIN_MS 10 /* however often the manager wants a sign of life */
#define AGAIN_MS 1000 /* after a failure that may pass */
#define UNUSED_LOOKS 15 /* in a row without a global key in use: the end of --while-used */

struct served {
	struct served *next;
	struct segments *all;
	lockshm_t *segment;
	lockshm_canceller_t canceller;
	pthread_t thread;
	struct bridge_pulse pulse;
	struct hosts *hosts; /* names and settings of other hosts; NULL = none */
	struct lockshm_error why; /* the last failure that was reported */
	bool ended; /* atomic */
	bool refused; /* it cannot be served at all; final once ended */
};

struct segments {
	const char *name;
	bool any_owner;
	bool while_used;
	const char *host_name; /* of this host; NULL = that of the machine */
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
static bool pause_ms(const struct segments *all, int ms)
{
	struct pollfd fd = { all->stop, POLLIN, 0 };

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
		if (one->refused || pause_ms(one->all, AGAIN_MS))
			break;
	}
	__atomic_store_n(&one->ended, true, __ATOMIC_RELEASE);
	return NULL;
}

static void add(struct segments *all, lockshm_t *segment)
{
	struct served *one = checked(calloc(1, sizeof(*one)));
	int cause;

	one->all = all;
	one->segment = segment;
	/* Else its thread reports the reason. */
	if (bridge_can_serve(segment, NULL) == 0) {
		message("serves the segment");
		supervisor_tell("STATUS=serves segment %s", all->name);
	}
	cause = pthread_create(&one->thread, NULL, serve, one);
	if (cause) {
		message("cannot start a thread: %s%s", strerror(cause), limit_of(cause));
		lockshm_close(segment);
		free(one);
		return;
	}
	one->hosts = hosts_start(segment, all->host_name);
	one->next = all->served;
	all->served = one;
}

static bool end(struct served *one)
{
	bool refused;

	pthread_join(one->thread, NULL);
	refused = one->refused;
	hosts_stop(one->hosts);
	lockshm_close(one->segment);
	free(one);
	return refused;
}

/* --- The name ---------------------------------------------------------------------------------------- */

static void wait_for_segment(struct segments *all)
{
	if (all->waits)
		return;
	all->waits = true;
	message("waits for the segment to be made");
	supervisor_tell("STATUS=waits for segment %s to be made", all->name);
}

/** Report why it cannot be opened, with the option that would help. */
static void report_open(struct segments *all, const struct lockshm_error *why)
{
	char *text;

	if (all->why.code == why->code && strcmp(all->why.message, why->message) == 0)
		return;
	all->why = *why;
	text = open_reason(all->name, all->any_owner, why);
	message("%s", text);
	free(text);
}

/** Return: false = there is none that this process may serve, ever. */
static bool look_for_segment(struct segments *all)
{
	struct lockshm_error why = { 0 };
	lockshm_t *segment;
	int code;

	if (all->served && lockshm_current(all->served->segment) == 0)
		return true;
	code = lockshm_open(&segment, all->name, all->any_owner ? LOCKSHM_OPEN_ANY_OWNER : 0, &why);
	if (code == 0) {
		all->waits = false;
		add(all, segment);
		return true;
	}
	if (code == LOCKSHM_NO_SEGMENT) {
		wait_for_segment(all);
		return true;
	}
	report_open(all, &why);
	/* While another one is served that one counts. */
	if (all->served || !is_final(code))
		return true;
	/* Of an open it is the name. */
	all->status = code == LOCKSHM_INVALID ? EXIT_USAGE : EXIT_FAILED;
	return false;
}

/** Return: false = the segment cannot be served. */
static bool collect_ended(struct segments *all)
{
	struct served **at = &all->served;
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

static bool is_unused(struct segments *all)
{
	bool used = false;

	for (const struct served *one = all->served; one; one = one->next)
		used = used || !bridge_is_unused(one->segment);
	all->unused = used ? 0 : all->unused + 1;
	return all->unused >= UNUSED_LOOKS;
}

/** A thread that hangs while it leads is ended with the program, by the manager's watchdog. */
static void tell_alive(const struct segments *all)
{
	for (const struct served *one = all->served; one; one = one->next)
		if (!bridge_pulse_is_good(&one->pulse, one->segment))
			return;
	supervisor_tell("WATCHDOG=1");
}

static void *keep(void *arg)
{
	struct segments *all = arg;
	int64_t interval = supervisor_interval();
	int ms = interval && interval < LOCKSHM_MS(LOOK_MS) ? (int)(interval / LOCKSHM_MS(1)) : LOOK_MS;

	ms = ms < LOOK_MIN_MS ? LOOK_MIN_MS : ms;

	do {
		tell_alive(all);
		if (!look_for_segment(all) || !collect_ended(all)) {
			all->status = all->status ? all->status : EXIT_FAILED;
			break;
		}
		if (all->while_used && is_unused(all))
			break;
	} while (!pause_ms(all, ms));
	signal_event(all->done);
	return NULL;
}

/* --- Begin and end ----------------------------------------------------------------------------------- */

struct segments *segments_start(const char *name, bool any_owner, bool while_used, const char *host_name)
{
	struct segments *all = checked(calloc(1, sizeof(*all)));
	int cause;

	all->name = name;
	all->any_owner = any_owner;
	all->while_used = while_used;
	all->host_name = host_name;
	all->stop = eventfd(0, EFD_CLOEXEC);
	all->done = eventfd(0, EFD_CLOEXEC);
	cause = all->stop < 0 || all->done < 0 ? errno : pthread_create(&all->thread, NULL, keep, all);
	if (!cause)
		return all;
	message("cannot start: %s%s", strerror(cause), limit_of(cause));
	return NULL;
}

int segments_fd(const struct segments *all)
{
	return all->done;
}

int segments_stop(struct segments *all)
{
	int status;

	signal_event(all->stop);
	pthread_join(all->thread, NULL);
	for (struct served *one = all->served; one; one = one->next) {
		lockshm_cancel(&one->canceller);
		hosts_cancel(one->hosts);
	}
	while (all->served) {
		struct served *one = all->served;

		all->served = one->next;
		(void)end(one);
	}
	status = all->status;
	close(all->stop);
	close(all->done);
	free(all);
	return status;
}
