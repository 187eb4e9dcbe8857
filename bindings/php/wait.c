/* SPDX-License-Identifier: MIT */
/*
 * wait.c - wait for a key, and end at the time limit of the request
 *
 * The thread itself waits: the library finds deadlocks, and the hand-over costs one wake-up.  But a thread that waits
 * so runs no handlers of signals.  Where the script asked for them (pcntl_async_signals) the request waits on a loop,
 * and poll() is interrupted: the place in the queue is kept while handlers run.
 */
#include "php_lockshm.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <time.h>

int64_t lk_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return LOCKSHM_SECONDS(now.tv_sec) + now.tv_nsec;
}

/* --- The time limit of the request -------------------------------------------------------------------- */

/*
 * PHP's timer counts processor time where it is ITIMER_PROF, so a wait would not end by it.  What is left of the limit
 * bounds the wait, and the wait is charged to the timer.
 */

#ifdef ZEND_MAX_EXECUTION_TIMERS

static int64_t limit_left_ns(void)
{
	struct itimerspec timer;

	if (!EG(timeout_seconds) || timer_gettime(EG(max_execution_timer_timer), &timer) != 0 ||
	    (!timer.it_value.tv_sec && !timer.it_value.tv_nsec))
		return LOCKSHM_FOREVER;
	return LOCKSHM_SECONDS(timer.it_value.tv_sec) + timer.it_value.tv_nsec;
}

static void limit_charge(int64_t ns)
{
	(void)ns; /* this timer counts wall time */
}

#else

static int64_t limit_left_ns(void)
{
	struct itimerval timer;

	if (!EG(timeout_seconds) || getitimer(ITIMER_PROF, &timer) != 0 ||
	    (!timer.it_value.tv_sec && !timer.it_value.tv_usec))
		return LOCKSHM_FOREVER;
	return LOCKSHM_SECONDS(timer.it_value.tv_sec) + timer.it_value.tv_usec * 1000;
}

static void limit_charge(int64_t ns)
{
	int64_t left_ns = limit_left_ns();
	struct itimerval timer = { 0 };

	if (left_ns == LOCKSHM_FOREVER)
		return;
	left_ns = left_ns > ns + 1000 ? left_ns - ns : 1000;
	timer.it_value.tv_sec = left_ns / LOCKSHM_SECONDS(1);
	timer.it_value.tv_usec = left_ns % LOCKSHM_SECONDS(1) / 1000;
	setitimer(ITIMER_PROF, &timer, NULL);
}

#endif

/* --- Handlers of signals ------------------------------------------------------------------------------ */

static bool handlers_wanted(void)
{
	zend_function *asks = zend_hash_str_find_ptr(EG(function_table), ZEND_STRL("pcntl_async_signals"));
	zval answer;

	if (!asks || asks->type != ZEND_INTERNAL_FUNCTION)
		return false;
	ZVAL_UNDEF(&answer);
	zend_call_known_function(asks, NULL, NULL, &answer, 0, NULL, NULL);
	return Z_TYPE(answer) == IS_TRUE;
}

struct loop_wait {
	lockshm_loop_t *loop;
	lockshm_hold_t *hold;
	int status;
};

static void loop_wait_end(struct loop_wait *wait)
{
	if (wait->status == LOCKSHM_PENDING)
		lockshm_loop_cancel(wait->loop, wait->hold);
	else if (wait->status >= 0)
		lockshm_release(wait->hold, 0);
	wait->status = LOCKSHM_CANCELLED;
}

/** Run what signals have asked for.  Return: false: the wait has to end, by an exception of theirs. */
static bool run_interrupts(struct loop_wait *wait)
{
	bool bailed_out = false;

	if (!zend_atomic_bool_load_ex(&EG(vm_interrupt)))
		return true;
	zend_atomic_bool_store_ex(&EG(vm_interrupt), false);
	if (zend_atomic_bool_load_ex(&EG(timed_out))) {
		loop_wait_end(wait);
		zend_timeout();
	}
	zend_try {
		if (zend_interrupt_function)
			zend_interrupt_function(EG(current_execute_data));
	} zend_catch {
		bailed_out = true;
	} zend_end_try();
	if (bailed_out) {
		loop_wait_end(wait);
		zend_bailout();
	}
	return !EG(exception);
}

/* A program that closes all descriptors takes the loop's, too: then there is nothing to sleep on. */
static const struct timespec closed_look = { 0, 10 * 1000 * 1000 };

/** The descriptor is readable, or a signal came; one that comes between the check and the wait is not missed. */
static void poll_once(const struct loop_wait *wait)
{
	struct pollfd descriptor = { .fd = lockshm_loop_fd(wait->loop), .events = POLLIN };
	sigset_t all, before;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	if (!zend_atomic_bool_load_ex(&EG(vm_interrupt)))
		ppoll(&descriptor, 1, descriptor.fd < 0 ? &closed_look : NULL, &before);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/** Handlers may wait on the same loop, so an outcome is that of any of these waits. */
static void collect(struct loop_wait *wait)
{
	struct lockshm_outcome outcome = LOCKSHM_OUTCOME_INIT;

	while (lockshm_loop_next(wait->loop, &outcome) == 1)
		((struct loop_wait *)outcome.user)->status = outcome.status;
}

static int wait_on_loop(struct lk_segment *segment, struct lockshm_request *request, lockshm_hold_t *hold)
{
	struct lockshm_error error;
	struct loop_wait wait = { .loop = lk_segment_loop(segment, &error), .hold = hold };

	if (!wait.loop) {
		request->report->error = error;
		return error.code;
	}
	wait.status = lockshm_loop_acquire(wait.loop, request, hold, &wait);
	while (wait.status == LOCKSHM_PENDING) {
		poll_once(&wait);
		collect(&wait);
		if (!run_interrupts(&wait))
			loop_wait_end(&wait);
	}
	return wait.status;
}

/**
 * lk_wait - take a key that is not free
 *
 * Does not return at the time limit: as everywhere in PHP that is a fatal error.
 *
 * Return: as lockshm_acquire(); LOCKSHM_CANCELLED with an exception.
 */
int lk_wait(struct lk_segment *segment, struct lockshm_request *request, lockshm_hold_t *hold)
{
	int64_t left_ns = limit_left_ns(), began_ns = lk_now_ns();
	bool limited = left_ns < request->timeout_ns;
	int code;

	if (limited)
		request->timeout_ns = left_ns;
	if (!handlers_wanted())
		code = lockshm_acquire(segment->handle, request, hold);
	else if (lk_holds_have(segment, request->key, request->key_len))
		code = LOCKSHM_DEADLOCK;
	else
		code = wait_on_loop(segment, request, hold);
	if (limited && code == LOCKSHM_TIMEOUT)
		zend_timeout();
	if (left_ns != LOCKSHM_FOREVER)
		limit_charge(lk_now_ns() - began_ns);
	return code;
}
