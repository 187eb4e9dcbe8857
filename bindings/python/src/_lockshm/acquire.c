/* SPDX-License-Identifier: MIT */
/*
 * acquire.c - take and release the lock of a lock object: threads
 *
 * Every hold is taken by a lockshm loop, so it belongs to the process, and any thread may release it.  A free key needs
 * no wait: the loop at the top of the segment's pool serves all threads, as they have the GIL.  A global key is always
 * waited for: its request is pending until the bridge has replied.  A wait takes a loop out
 * of the pool and polls its descriptor without the GIL: a signal ends the poll, its Python handler runs, and if that
 * raises, the request is cancelled.  lockshm_acquire() would go on sleeping after a signal.
 */
#define _GNU_SOURCE
#include <poll.h>
#include <signal.h>

#include "lockshm_py.h"

/* An exception is set; no code of the library. */
enum { INTERRUPTED = -1000 };

static uint64_t this_thread(void)
{
	return PyThreadState_GetID(PyThreadState_Get());
}

/* --- Nodes ------------------------------------------------------------------------------------------- */

/** Return: a node that is awaited now; NULL with an exception. */
struct node *node_take(Lock *lock)
{
	struct node *node = &lock->first;

	if (node->use != NODE_FREE) {
		node = PyMem_Calloc(1, sizeof(*node));
		if (!node) {
			PyErr_NoMemory();
			return NULL;
		}
		node->next = lock->first.next;
		lock->first.next = node;
	}
	node->use = NODE_AWAITED;
	return node;
}

void node_free(Lock *lock, struct node *node)
{
	PyObject *task = node->task;

	node->use = NODE_FREE;
	node->task = NULL;
	node->count = 0;
	if (node != &lock->first) {
		struct node **at = &lock->first.next;

		while (*at != node)
			at = &(*at)->next;
		*at = node->next;
		PyMem_Free(node);
	}
	Py_XDECREF(task);
}

/**
 * The request of @node was granted, with @status, to @task or, if that is NULL, to this thread.
 * Return: 0, or -1 with an exception.
 */
int node_enter(Lock *lock, struct node *node, PyObject *task, int status)
{
	PyObject *result;

	node->use = NODE_HELD;
	node->local_only = status == LOCKSHM_LOCAL_ONLY;
	node->count = 1;
	node->thread = this_thread();
	Py_XINCREF(task);
	node->task = task;
	if (!lock->on_lost)
		return 0;
	result = PyObject_CallMethod(lock->state->report, "watch", "OO", lock, task ? Py_True : Py_False);
	if (result) {
		Py_DECREF(result);
		return 0;
	}
	(void)lockshm_release(&node->hold, 0);
	node_free(lock, node);
	return -1;
}

/** After fork() the holds are the parent's. */
void forget_foreign(Lock *lock)
{
	for (struct node *node = &lock->first, *next; node; node = next) {
		next = node->next;
		if (node->use == NODE_HELD && lockshm_check(&node->hold, NULL) == LOCKSHM_NOT_HELD) {
			node_free(lock, node);
			lock->past = PAST_PARENT;
		}
	}
}

/** Return: the running task, NULL if there is none, or with an exception. */
static PyObject *running_task(const Lock *lock)
{
	PyObject *task = PyObject_CallMethod(lock->state->report, "running_task", NULL);

	if (task != Py_None)
		return task;
	Py_DECREF(task);
	return NULL;
}

static struct node *node_of(Lock *lock, const PyObject *task)
{
	uint64_t thread = task ? 0 : this_thread();

	for (struct node *node = &lock->first; node; node = node->next)
		if (node->use == NODE_HELD && node->task == task && (task || node->thread == thread))
			return node;
	return NULL;
}

static struct node *node_of_caller(Lock *lock)
{
	PyObject *task = running_task(lock);
	struct node *node = task ? node_of(lock, task) : NULL;

	Py_XDECREF(task);
	if (!node && !PyErr_Occurred())
		node = node_of(lock, NULL);
	if (!node && !PyErr_Occurred())
		PyErr_SetString(PyExc_RuntimeError, "several threads or tasks hold this lock object, and the caller is none of them");
	return node;
}

/** The node that a call on the hold means: the only one, else the caller's.  Return: NULL with an exception. */
struct node *lock_node(Lock *lock)
{
	struct node *only = NULL;
	int held = 0;

	if (lock->first.use == NODE_HELD && !lock->first.next)
		return &lock->first;
	for (struct node *node = &lock->first; node; node = node->next)
		if (node->use == NODE_HELD) {
			only = node;
			held++;
		}
	if (held > 1)
		return node_of_caller(lock);
	if (!held)
		fail_not_held(lock);
	return only;
}

/* --- Re-entry ---------------------------------------------------------------------------------------- */

static int refuse_in_task(const Lock *lock)
{
	PyObject *task = running_task(lock);

	if (!task)
		return PyErr_Occurred() ? -1 : 0;
	Py_DECREF(task);
	PyErr_Format(PyExc_RuntimeError,
		     "%R: this thread holds the lock object, and whether the running task does is not known: use async with, "
		     "or a lock object for each task",
		     lock->key);
	return -1;
}

/** Count once more if @task, or this thread, holds it.  Return: 1 if so; 0 = request it; -1 with an exception. */
int lock_reenter(Lock *lock, PyObject *task)
{
	struct node *node;
	int code;

	if (lock->first.use == NODE_FREE && !lock->first.next)
		return 0;
	forget_foreign(lock);
	node = node_of(lock, task);
	if (!node)
		return 0;
	if (!task && refuse_in_task(lock))
		return -1;
	code = lockshm_check(&node->hold, NULL);
	if (code < 0) {
		fail_hold(lock, code, &node->hold, lockshm_token(&node->hold));
		return -1;
	}
	node->count++;
	return 1;
}

/* --- Acquire ----------------------------------------------------------------------------------------- */

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
static int wait_for_outcome(lockshm_loop_t *loop, struct node *node)
{
	struct lockshm_outcome outcome = LOCKSHM_OUTCOME_INIT;

	for (;;) {
		if (poll_descriptor(lockshm_loop_fd(loop))) {
			lockshm_loop_cancel(loop, &node->hold);
			return INTERRUPTED;
		}
		if (lockshm_loop_next(loop, &outcome) == 1)
			return outcome.status;
	}
}

/** A loop refuses an endless wait for a strict hold, since it finds no deadlocks: ten years are as good. */
int64_t wait_bound(const Lock *lock, int64_t timeout_ns)
{
	return timeout_ns == LOCKSHM_FOREVER && lock->request.ttl_ns == LOCKSHM_FOREVER ? LOCKSHM_TIME_MAX : timeout_ns;
}

static int request_with(Lock *lock, lockshm_loop_t *loop, struct node *node, int64_t timeout_ns, struct thread_wait *wait)
{
	struct lockshm_request request = lock->request;
	struct thread_wait **at = &lock->waits;
	int code;

	request.timeout_ns = wait_bound(lock, timeout_ns);
	request.report = &wait->report;
	request.canceller = &wait->canceller;
	code = lockshm_loop_acquire(loop, &request, &node->hold, wait);
	if (code != LOCKSHM_PENDING)
		return code;
	wait->next = lock->waits;
	lock->waits = wait;
	code = wait_for_outcome(loop, node);
	while (*at != wait)
		at = &(*at)->next;
	*at = wait->next;
	return code;
}

/* Not in the stack: a daemon thread that ends with the interpreter leaves its wait behind. */
static int wait_for_grant(Lock *lock, struct node *node, int64_t timeout_ns, struct lockshm_report *report)
{
	static const struct thread_wait start = { LOCKSHM_REPORT_INIT, LOCKSHM_CANCELLER_INIT, NULL };
	struct thread_wait *wait = PyMem_Malloc(sizeof(*wait));
	lockshm_loop_t *loop = wait ? segment_take_loop(lock->segment) : NULL;
	int code;

	if (!loop) {
		if (!wait)
			PyErr_NoMemory();
		PyMem_Free(wait);
		return INTERRUPTED;
	}
	*wait = start;
	if (lock->cancelled)
		(void)lockshm_cancel(&wait->canceller);
	code = request_with(lock, loop, node, timeout_ns, wait);
	segment_give_loop(lock->segment, loop);
	*report = wait->report;
	PyMem_Free(wait);
	return code;
}

static int try_now(Lock *lock, struct node *node)
{
	lockshm_loop_t *loop = segment_loop(lock->segment);
	int code = loop ? lockshm_loop_acquire(loop, &lock->request, &node->hold, NULL) : INTERRUPTED;

	if (code == LOCKSHM_PENDING) { /* the segment makes the key global */
		lock->segment->pends = true;
		(void)lockshm_loop_cancel(loop, &node->hold);
	}
	return code;
}

/**
 * A try, unless it would be pending, as one for a global key is.  In a child after fork() the first one finds the loops
 * of the parent.  Return: a status, or INTERRUPTED.
 */
static int try_node(Lock *lock, struct node *node)
{
	int code;

	if (lock->segment->pends || lock->request.flags & LOCKSHM_GLOBAL)
		return LOCKSHM_PENDING;
	code = try_now(lock, node);
	if (code != LOCKSHM_NOT_HELD)
		return code;
	segment_forget_loops(lock->segment);
	return try_now(lock, node);
}

/**
 * Request the lock for this thread.  @report is filled only if it is not granted: a free key is tried without one.
 * Return: a status, or INTERRUPTED with an exception.
 */
int lock_take(Lock *lock, int64_t timeout_ns, struct lockshm_report *report)
{
	struct node *node;
	int code;

	if (segment_check(lock->segment))
		return INTERRUPTED;
	node = node_take(lock);
	if (!node)
		return INTERRUPTED;
	code = try_node(lock, node);
	if (code < 0 && code != INTERRUPTED)
		code = wait_for_grant(lock, node, timeout_ns, report);
	if (code < 0)
		node_free(lock, node);
	else if (node_enter(lock, node, NULL, code))
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
	out->timeout_ns = blocks ? lock->timeout_ns : 0;
	if (!timeout)
		return 0;
	if (blocks)
		return bound_of(timeout, &out->timeout_ns);
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
static int acquire_as(Lock *lock, const struct acquire_args *how)
{
	struct lockshm_report report;
	int code = lock_reenter(lock, NULL);

	if (code)
		return code;
	code = lock_take(lock, how->timeout_ns, &report);
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

PyObject *lock_acquire(Lock *lock, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
	struct acquire_args how = { lock->timeout_ns, false };
	int result = n || names ? acquire_args(lock, args, n, names, &how) : 0;

	if (!result)
		result = acquire_as(lock, &how);
	return result < 0 ? NULL : PyBool_FromLong(result);
}

/* --- Release ----------------------------------------------------------------------------------------- */

static void unwatch(const Lock *lock)
{
	PyObject *result = lock->state->report ? PyObject_CallMethod(lock->state->report, "unwatch", "O", lock) : NULL;

	if (!result && PyErr_Occurred())
		PyErr_WriteUnraisable(lock->key);
	Py_XDECREF(result);
}

static int release_failed(Lock *lock, struct node *node, int code, uint64_t token, bool quiet)
{
	if (code == LOCKSHM_LATE)
		log_hold(lock, "late", &node->hold, token);
	else if (quiet)
		log_hold(lock, code == LOCKSHM_LOST ? "lost" : "not held", &node->hold, token);
	else
		fail_hold(lock, code, &node->hold, token);
	node_free(lock, node);
	lock->past = code == LOCKSHM_NOT_HELD ? PAST_PARENT : PAST_RELEASED;
	return code == LOCKSHM_LATE || quiet ? 0 : -1;
}

/** @quiet: an exception is on its way, which a loss must not replace.  Return: 0, or -1 with an exception. */
int lock_release_node(Lock *lock, struct node *node, int64_t cooldown_ns, bool quiet)
{
	uint64_t token;
	int code;

	if (node->count > 1 && !cooldown_ns) {
		node->count--;
		return 0;
	}
	token = lockshm_token(&node->hold);
	code = node->count > 1 ? LOCKSHM_INVALID : lockshm_release(&node->hold, cooldown_ns);
	if (code == LOCKSHM_INVALID) {
		PyErr_SetString(PyExc_ValueError, "a cooldown is for the last release of an exclusive hold, up to ten years");
		return -1;
	}
	if (lock->on_lost)
		unwatch(lock);
	if (code)
		return release_failed(lock, node, code, token, quiet);
	node_free(lock, node);
	lock->past = PAST_RELEASED;
	return 0;
}

PyObject *lock_release(Lock *lock, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
	PyObject *cooldown = n ? args[0] : NULL;
	int64_t cooldown_ns = 0;
	struct node *node;

	if (names && PyTuple_Size(names) == 1 && !n) {
		if (!word_is(lock->state, PyTuple_GetItem(names, 0), WORD_COOLDOWN)) {
			unknown_word("release", PyTuple_GetItem(names, 0));
			return NULL;
		}
		cooldown = args[0];
	} else if (n > 1 || names) {
		PyErr_SetString(PyExc_TypeError, "release() takes one argument, cooldown");
		return NULL;
	}
	if (cooldown && time_of(cooldown, "cooldown", &cooldown_ns))
		return NULL;
	node = lock_node(lock);
	if (!node || lock_release_node(lock, node, cooldown_ns, false))
		return NULL;
	Py_RETURN_NONE;
}

static bool is_held(const struct node *node)
{
	return node->use == NODE_HELD && lockshm_check(&node->hold, NULL) != LOCKSHM_NOT_HELD;
}

static void warn_dropped(const Lock *lock)
{
	PyObject *type, *value, *traceback;

	PyErr_Fetch(&type, &value, &traceback);
	if (PyErr_WarnFormat(PyExc_ResourceWarning, 1, "lock object of %R was dropped while it was held", lock->key))
		PyErr_WriteUnraisable(lock->key);
	PyErr_Restore(type, value, traceback);
}

/** The object goes away: end its holds.  In a child of fork() they are the parent's, and go on. */
void lock_drop(Lock *lock)
{
	for (struct node *node = &lock->first, *next; node; node = next) {
		next = node->next;
		if (is_held(node)) {
			(void)lockshm_release(&node->hold, 0);
			warn_dropped(lock);
		}
		node_free(lock, node);
	}
}
