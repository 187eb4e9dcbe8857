/* SPDX-License-Identifier: MIT */
/*
 * release.c - release the lock of a lock object: by a call, by threading.Condition, with the object
 */
#include "lockshm_py.h"

/** With its last hold: the others may still be lost. */
static void unwatch(const Lock *lock)
{
	PyObject *result;

	for (const struct node *node = &lock->first; node; node = node->next)
		if (node->use == NODE_HELD)
			return;
	result = lock->state->report ? PyObject_CallMethod(lock->state->report, "unwatch", "O", lock) : NULL;
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
	lock->past = code == LOCKSHM_NOT_HELD ? PAST_PARENT : PAST_RELEASED;
	return code == LOCKSHM_LATE ? LOCKSHM_LATE : quiet ? 0 : -1;
}

/** @quiet: an exception is on its way, which a loss must not replace.  Return: 0, LOCKSHM_LATE, or -1 with an exception. */
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
	node->use = NODE_ENDED; /* other threads run while Python code does */
	lock->past = PAST_RELEASED;
	if (lock->on_lost)
		unwatch(lock);
	code = code ? release_failed(lock, node, code, token, quiet) : 0;
	node_free(lock, node);
	return code;
}

PyObject *lock_release(Lock *lock, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
	PyObject *cooldown = n ? args[0] : NULL;
	int64_t cooldown_ns = 0;
	struct node *node;
	int code;

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
	code = node ? lock_release_node(lock, node, cooldown_ns, false) : -1;
	return code < 0 ? NULL : PyBool_FromLong(code == 0);
}

/* --- threading.Condition ----------------------------------------------------------------------------- */

/** Release it whatever its count.  Return: the count, for lock_acquire_restore(). */
PyObject *lock_release_save(Lock *lock, PyObject *Py_UNUSED(unused))
{
	struct node *node = lock_node(lock);
	PyObject *count = node ? PyLong_FromSsize_t(node->count) : NULL;

	if (!count)
		return NULL;
	node->count = 1;
	if (lock_release_node(lock, node, 0, false) < 0)
		Py_CLEAR(count);
	return count;
}

/** Without a bound: a wait() that returned without the lock would let two threads in. */
PyObject *lock_acquire_restore(Lock *lock, PyObject *count)
{
	struct acquire_args how = { LOCKSHM_FOREVER, false };
	Py_ssize_t n = PyLong_AsSsize_t(count);
	struct node *node;

	if ((n == -1 && PyErr_Occurred()) || acquire_as(lock, &how) < 0)
		return NULL;
	node = lock_node(lock);
	if (!node)
		return NULL;
	node->count = n;
	Py_RETURN_NONE;
}

PyObject *lock_is_owned(Lock *lock, PyObject *Py_UNUSED(unused))
{
	PyObject *task;
	bool owned;

	if (!lock->reentrant)
		return hold_get_held(lock, NULL);
	if (owner_of(lock, &task))
		return NULL;
	forget_foreign(lock);
	owned = node_of(lock, task);
	Py_XDECREF(task);
	return PyBool_FromLong(owned);
}

/* --- The end of the object --------------------------------------------------------------------------- */

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
