/* SPDX-License-Identifier: MIT */
/*
 * acquire.c - take the lock of a lock object: threads
 *
 * One request, with the loop at the top of the segment's pool, which serves all threads, as they have the GIL.  If it is
 * pending, which one for a global key always is, its thread takes the loop out of the pool and polls its descriptor
 * without the GIL: a signal ends the poll, its Python handler runs, and if that raises, the request is cancelled.
 * lockshm_acquire() would go on sleeping after a signal.
 */
#define _GNU_SOURCE
#include <poll.h>
#include <signal.h>

#include "lockshm_py.h"

/**
 * Poll without the GIL.  Signals are blocked from before the check to the poll, which takes them: one that arrived in
 * between would otherwise be handled after the wait.  Return: 0; -1 with the exception of a signal's handler.
 */
static int poll_descriptor(int fd)
{
	struct pollfd poll_for = { .fd = fd, .events = POLLIN };
	sigset_t all, before;
	int raised;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	raised = PyErr_CheckSignals();
	if (!raised) {
		Py_BEGIN_ALLOW_THREADS
		(void)ppoll(&poll_for, 1, NULL, &before);
		Py_END_ALLOW_THREADS
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return raised ? -1 : PyErr_CheckSignals();
}

/** Return: a status, or INTERRUPTED. */
int wait_for_outcome(lockshm_loop_t *loop, lockshm_hold_t *hold)
{
	struct lockshm_outcome outcome = LOCKSHM_OUTCOME_INIT;

	for (;;) {
		if (poll_descriptor(lockshm_loop_fd(loop))) {
			lockshm_loop_cancel(loop, hold);
			return INTERRUPTED;
		}
		if (lockshm_loop_next(loop, &outcome) == 1)
			return outcome.status;
	}
}

/* Not in the stack: a daemon thread that ends with the interpreter leaves its wait behind. */
static struct thread_wait *take_wait(Segment *segment)
{
	static const struct thread_wait start = { LOCKSHM_REPORT_INIT, LOCKSHM_CANCELLER_INIT, NULL };
	struct thread_wait *wait = segment->spare;

	segment->spare = NULL;
	if (wait)
		return wait;
	wait = PyMem_Malloc(sizeof(*wait));
	if (wait)
		*wait = start;
	else
		PyErr_NoMemory();
	return wait;
}

static void give_wait(Segment *segment, struct thread_wait *wait)
{
	wait->canceller = (lockshm_canceller_t)LOCKSHM_CANCELLER_INIT;
	if (segment->spare)
		PyMem_Free(wait);
	else
		segment->spare = wait;
}

/** The request is pending: other threads use other loops meanwhile. */
static int wait_for_grant(Lock *lock, struct node *node, struct thread_wait *wait)
{
	lockshm_loop_t *loop = segment_take_loop(lock->segment);
	struct thread_wait **at = &lock->waits;
	int code;

	wait->next = lock->waits;
	lock->waits = wait;
	code = wait_for_outcome(loop, &node->hold);
	while (*at != wait)
		at = &(*at)->next;
	*at = wait->next;
	segment_give_loop(lock->segment, loop);
	return code;
}

/** With the loop at the top of the pool, which stays there if the outcome is known at once. */
static int request_once(Lock *lock, struct node *node, int64_t timeout_ns, struct thread_wait *wait)
{
	lockshm_loop_t *loop = segment_loop(lock->segment);
	struct lockshm_request request = lock->request;
	int code;

	if (!loop)
		return INTERRUPTED;
	request.timeout_ns = timeout_ns;
	request.report = &wait->report;
	request.canceller = &wait->canceller;
	code = lockshm_loop_acquire(loop, &request, &node->hold, wait);
	if (code != LOCKSHM_PENDING)
		return code;
	if (lockshm_loop_fd(loop) >= 0)
		return wait_for_grant(lock, node, wait);
	/* The program has closed all descriptors. */
	(void)lockshm_loop_cancel(loop, &node->hold);
	return LOCKSHM_NOT_HELD;
}

/** In a child after fork() the first request finds the loops of the parent.  Return: a status, or INTERRUPTED. */
static int request_node(Lock *lock, struct node *node, int64_t timeout_ns, struct thread_wait *wait)
{
	int code;

	if (lock->cancelled)
		(void)lockshm_cancel(&wait->canceller);
	code = request_once(lock, node, timeout_ns, wait);
	if (code != LOCKSHM_NOT_HELD)
		return code;
	segment_forget_loops(lock->segment);
	return request_once(lock, node, timeout_ns, wait);
}

/**
 * Request the lock for @task, or this thread.  @report is filled if it is not granted.
 * Return: a status, or INTERRUPTED with an exception.
 */
static int lock_take(Lock *lock, PyObject *task, int64_t timeout_ns, struct lockshm_report *report)
{
	struct thread_wait *wait;
	struct node *node;
	int code = INTERRUPTED;

	if (segment_check(lock->segment))
		return INTERRUPTED;
	node = node_take(lock);
	if (!node)
		return INTERRUPTED;
	wait = take_wait(lock->segment);
	if (wait) {
		code = request_node(lock, node, timeout_ns, wait);
		if (code < 0)
			*report = wait->report;
		give_wait(lock->segment, wait);
	}
	if (code < 0)
		node_free(lock, node);
	else if (node_enter(lock, node, task, false, code))
		code = INTERRUPTED;
	return code;
}

/* --- acquire() --------------------------------------------------------------------------------------- */

static int bound_of(PyObject *value, int64_t *ns)
{
	double seconds = value == Py_None ? -1.0 : number_of(value, "timeout");

	if (seconds != -1.0)
		return time_of(value, "timeout", ns);
	if (PyErr_Occurred())
		return -1;
	*ns = LOCKSHM_FOREVER;
	return 0;
}

static int acquire_values(const Lock *lock, PyObject *blocking, PyObject *timeout, struct acquire_args *out)
{
	int blocks = blocking ? PyObject_IsTrue(blocking) : 1;

	if (blocks < 0)
		return -1;
	out->returns_false = timeout || !blocks;
	out->timeout_ns = lock->timeout_ns;
	if (timeout && bound_of(timeout, &out->timeout_ns))
		return -1;
	if (blocks)
		return 0;
	if (!timeout || out->timeout_ns == LOCKSHM_FOREVER) { /* (False, -1) are the defaults of a wrapper that tries */
		out->timeout_ns = 0;
		return 0;
	}
	PyErr_SetString(PyExc_ValueError, "a timeout makes no sense with blocking=False");
	return -1;
}

int acquire_args(const Lock *lock, PyObject *const *args, Py_ssize_t n, PyObject *names, struct acquire_args *out)
{
	PyObject *given[2] = { n > 0 ? args[0] : NULL, n > 1 ? args[1] : NULL };
	Py_ssize_t n_names = names ? PyTuple_Size(names) : 0;

	if (n > 2) {
		PyErr_Format(PyExc_TypeError, "acquire() takes blocking and timeout, %zd arguments given", n);
		return -1;
	}
	for (Py_ssize_t i = 0; i < n_names; i++) {
		PyObject *name = PyTuple_GetItem(names, i);

		if (word_is(lock->state, name, WORD_TIMEOUT))
			given[1] = args[n + i];
		else if (word_is(lock->state, name, WORD_BLOCKING))
			given[0] = args[n + i];
		else if (!word_is(lock->state, name, WORD_POLL_INTERVAL))
			return unknown_word("acquire", name);
	}
	return acquire_values(lock, given[0], given[1], out);
}

/** Return: 1 = held, 0 = not and the caller is told so by False, -1 with an exception. */
static int acquire_for(Lock *lock, PyObject *task, const struct acquire_args *how)
{
	struct lockshm_report report;
	int code = lock_reenter(lock, task);

	if (code)
		return code;
	code = lock_take(lock, task, how->timeout_ns, &report);
	if (code >= 0)
		return 1;
	if (code == INTERRUPTED)
		return -1;
	lock->blocker = report.blocker;
	if (how->returns_false && (code == LOCKSHM_BUSY || code == LOCKSHM_TIMEOUT))
		return 0;
	fail_request(lock, code, how->timeout_ns, &report);
	return -1;
}

int acquire_as(Lock *lock, const struct acquire_args *how)
{
	PyObject *task;
	int result;

	if (!lock->reentrant)
		return acquire_for(lock, NULL, how);
	if (owner_of(lock, &task))
		return -1;
	result = acquire_for(lock, task, how);
	Py_XDECREF(task);
	return result;
}

PyObject *lock_acquire(Lock *lock, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
	struct acquire_args how = { lock->timeout_ns, false };
	int result = n || names ? acquire_args(lock, args, n, names, &how) : 0;

	if (!result)
		result = acquire_as(lock, &how);
	return result < 0 ? NULL : PyBool_FromLong(result);
}
