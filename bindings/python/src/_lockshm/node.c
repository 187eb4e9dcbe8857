/* SPDX-License-Identifier: MIT */
/*
 * node.c - the holds of a lock object, and which of them a call means
 *
 * Every hold is taken by a lockshm loop, so it belongs to the process: any thread or task may use and release it.
 */
#include "lockshm_py.h"

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
 * The request of @node was granted, with @status, to @task or, if that is NULL, to this thread.  @in_loop: the event loop
 * gets an outcome if it is lost.
 * Return: 0, or -1 with an exception.
 */
int node_enter(Lock *lock, struct node *node, PyObject *task, bool in_loop, int status)
{
	uint64_t number = ++lock->grants;
	PyObject *result;

	node->use = NODE_HELD;
	node->local_only = status == LOCKSHM_LOCAL_ONLY;
	node->told = false;
	node->count = 1;
	node->number = number;
	node->thread = this_thread();
	Py_XINCREF(task);
	node->task = task;
	if (!lock->on_lost || in_loop)
		return 0;
	result = PyObject_CallMethod(lock->state->report, "watch", "OK", lock, (unsigned long long)number);
	if (result) {
		Py_DECREF(result);
		return 0;
	}
	node = lock_node_numbered(lock, number);
	if (node) { /* no other thread has released it meanwhile */
		(void)lockshm_release(&node->hold, 0);
		node_free(lock, node);
	}
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

/* --- Which hold a call means --------------------------------------------------------------------------- */

/** Return: the running task, else the running greenlet; NULL if there is neither, or with an exception. */
static PyObject *running_task(const Lock *lock)
{
	PyObject *task = PyObject_CallMethod(lock->state->report, "running_task", NULL);

	if (task != Py_None)
		return task;
	Py_DECREF(task);
	return NULL;
}

static bool by_task(const struct node *node, const void *task)
{
	return node->task == task;
}

static bool by_thread(const struct node *node, const void *thread)
{
	return !node->task && node->thread == *(const uint64_t *)thread;
}

static bool by_any(const struct node *Py_UNUSED(node), const void *Py_UNUSED(unused))
{
	return true;
}

/** Return: the oldest hold that @takes accepts, or NULL. */
static struct node *oldest(Lock *lock, bool (*takes)(const struct node *node, const void *of), const void *of)
{
	struct node *found = NULL;

	for (struct node *node = &lock->first; node; node = node->next)
		if (node->use == NODE_HELD && takes(node, of) && (!found || node->number < found->number))
			found = node;
	return found;
}

/** @task: NULL = this thread */
struct node *node_of(Lock *lock, const PyObject *task)
{
	uint64_t thread = this_thread();

	return task ? oldest(lock, by_task, task) : oldest(lock, by_thread, &thread);
}

/**
 * Of several holds: the one that the running task or this thread took, else the oldest; any thread or task may use it.
 * An exclusive object has several only if all but the newest are lost.  The oldest goes first, so that the release of
 * a lost hold, in whichever thread, reports the loss, and does not end the hold that came after it.
 */
static struct node *node_of_caller(Lock *lock)
{
	PyObject *task = running_task(lock);
	struct node *node = task ? node_of(lock, task) : NULL;

	Py_XDECREF(task);
	if (PyErr_Occurred())
		return NULL;
	if (!node)
		node = node_of(lock, NULL);
	return node ? node : oldest(lock, by_any, NULL);
}

/** The hold that a call means.  Return: NULL with an exception. */
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

/** Return: NULL if it was released. */
struct node *lock_node_numbered(Lock *lock, uint64_t number)
{
	for (struct node *node = &lock->first; node; node = node->next)
		if (node->use == NODE_HELD && node->number == number)
			return node;
	return NULL;
}

/* --- Re-entry ---------------------------------------------------------------------------------------- */

/**
 * What @task, or this thread, has from before: a lost hold is reported once more; one of a reentrant object is counted.
 * Return: 1 if it is held now; 0 = request it; -1 with an exception.
 */
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
	code = lockshm_check(&node->hold, NULL);
	if (code < 0) {
		fail_hold(lock, code, &node->hold, lockshm_token(&node->hold));
		return -1;
	}
	node->count += lock->reentrant;
	return lock->reentrant;
}

/** Of a reentrant object.  @task: [out] a new reference, or NULL = the thread.  Return: 0, or -1 with an exception. */
int owner_of(const Lock *lock, PyObject **task)
{
	*task = lock->reentrant ? running_task(lock) : NULL;
	return !*task && PyErr_Occurred() ? -1 : 0;
}
