/* SPDX-License-Identifier: MIT */
/*
 * hold.c - calls on the hold of a lock object
 */
#include "lockshm_py.h"

/** True, or False where the lease had ended before, and no other request had taken the lock. */
static PyObject *in_time(const Lock *lock, const struct node *node, int code)
{
	return code < 0 ? fail_hold(lock, code, &node->hold, lockshm_token(&node->hold)) : PyBool_FromLong(code == 0);
}

static PyObject *done(const Lock *lock, const struct node *node, int code)
{
	if (code < 0)
		return fail_hold(lock, code, &node->hold, lockshm_token(&node->hold));
	Py_RETURN_NONE;
}

PyObject *hold_check(Lock *lock, PyObject *Py_UNUSED(unused))
{
	struct node *node = lock_node(lock);
	int64_t remaining;
	int code;

	if (!node)
		return NULL;
	code = lockshm_check(&node->hold, &remaining);
	return code < 0 ? fail_hold(lock, code, &node->hold, lockshm_token(&node->hold)) : seconds_of(remaining);
}

static PyObject *move_end(Lock *lock, int64_t ns, int (*call)(lockshm_hold_t *, int64_t), const char *refusal)
{
	struct node *node = lock_node(lock);
	int code;

	if (!node)
		return NULL;
	code = call(&node->hold, ns);
	if (code != LOCKSHM_INVALID)
		return in_time(lock, node, code);
	PyErr_SetString(PyExc_ValueError, refusal);
	return NULL;
}

PyObject *hold_renew(Lock *lock, PyObject *const *args, Py_ssize_t n)
{
	int64_t ns = lock->request.ttl_ns;

	if (n > 1)
		return PyErr_Format(PyExc_TypeError, "renew() takes one argument, seconds, %zd given", n);
	if (n && args[0] != Py_None && time_of(args[0], "seconds", &ns))
		return NULL;
	return move_end(lock, ns, lockshm_renew, "a lease is renewed to 0.001 s at least");
}

PyObject *hold_extend(Lock *lock, PyObject *seconds)
{
	int64_t ns;

	if (time_of(seconds, "seconds", &ns))
		return NULL;
	return move_end(lock, ns, lockshm_extend,
			"a hold without a lease cannot be extended; a lease is extended by 0.001 s at least");
}

/**
 * Busy with the holder or waiter in the way.  A closed segment has no list: then without one.  @token: of the hold, which
 * another thread may release while Python code runs.
 */
static PyObject *upgrade_refused(const Lock *lock, uint64_t token)
{
	PyObject *holders = PyObject_CallMethod((PyObject *)lock->segment, "holders", "O", lock->key);
	PyObject *exception = NULL;

	if (holders)
		exception = PyObject_CallMethod(lock->state->report, "upgrade_refused", "OOK", lock->key, holders,
						(unsigned long long)token);
	Py_XDECREF(holders);
	if (exception) {
		PyErr_SetObject((PyObject *)Py_TYPE(exception), exception);
		Py_DECREF(exception);
		return NULL;
	}
	if (!PyErr_ExceptionMatches(PyExc_Exception))
		return NULL;
	PyErr_Clear();
	return fail_hold(lock, LOCKSHM_BUSY, NULL, token);
}

PyObject *hold_upgrade(Lock *lock, PyObject *Py_UNUSED(unused))
{
	struct node *node = lock_node(lock);
	int code = node ? lockshm_upgrade(&node->hold) : 0;

	if (!node)
		return NULL;
	if (code == LOCKSHM_INVALID) {
		struct lockshm_error error = { .message = "this host has the key shared: release it, then acquire it exclusive" };

		return fail_code(lock->state, code, &error, lock->key);
	}
	return code == LOCKSHM_BUSY ? upgrade_refused(lock, lockshm_token(&node->hold)) : in_time(lock, node, code);
}

PyObject *hold_downgrade(Lock *lock, PyObject *Py_UNUSED(unused))
{
	struct node *node = lock_node(lock);

	return node ? in_time(lock, node, lockshm_downgrade(&node->hold)) : NULL;
}

PyObject *hold_acknowledge(Lock *lock, PyObject *Py_UNUSED(unused))
{
	struct node *node = lock_node(lock);

	return node ? done(lock, node, lockshm_acknowledge(&node->hold)) : NULL;
}

/** _notify(fd, number of the grant): write to a descriptor when that hold is lost, unless it has been released by now. */
PyObject *hold_notify(Lock *lock, PyObject *const *args, Py_ssize_t n)
{
	long fd = n == 2 ? PyLong_AsLong(args[0]) : -1;
	unsigned long long number = n == 2 ? PyLong_AsUnsignedLongLong(args[1]) : 0;
	struct node *node;

	if (PyErr_Occurred())
		return NULL;
	node = lock_node_numbered(lock, number);
	if (!node)
		Py_RETURN_NONE;
	return done(lock, node, lockshm_notify(&node->hold, (int)fd));
}

/** _tell_lost(): whether a hold of the object was lost since the last call; on_lost is called for each once. */
PyObject *hold_tell_lost(Lock *lock, PyObject *Py_UNUSED(unused))
{
	bool lost = false;

	for (struct node *node = &lock->first; node; node = node->next)
		if (node->use == NODE_HELD && !node->told && lockshm_check(&node->hold, NULL) == LOCKSHM_LOST)
			lost = node->told = true;
	return PyBool_FromLong(lost);
}

/** The node, or NULL without an exception if nothing is held. */
static struct node *node_if_held(Lock *lock)
{
	for (const struct node *node = &lock->first; node; node = node->next)
		if (node->use == NODE_HELD)
			return lock_node(lock);
	return NULL;
}

PyObject *hold_get_held(Lock *lock, void *Py_UNUSED(unused))
{
	struct node *node = node_if_held(lock);

	if (!node && PyErr_Occurred())
		return NULL;
	return PyBool_FromLong(node && lockshm_check(&node->hold, NULL) >= 0);
}

PyObject *hold_get_local_only(Lock *lock, void *Py_UNUSED(unused))
{
	struct node *node = node_if_held(lock);

	if (!node && PyErr_Occurred())
		return NULL;
	return PyBool_FromLong(node && node->local_only);
}

PyObject *hold_get_token(Lock *lock, void *Py_UNUSED(unused))
{
	struct node *node = lock_node(lock);
	int code;

	if (!node)
		return NULL;
	code = lockshm_check(&node->hold, NULL);
	if (code == LOCKSHM_NOT_HELD)
		return fail_hold(lock, code, &node->hold, 0);
	return PyLong_FromUnsignedLongLong(lockshm_token(&node->hold));
}

PyObject *hold_get_remaining(Lock *lock, void *Py_UNUSED(unused))
{
	struct node *node = node_if_held(lock);
	int64_t remaining = 0;

	if (node)
		(void)lockshm_check(&node->hold, &remaining);
	else if (PyErr_Occurred())
		return NULL;
	return seconds_of(remaining);
}

PyObject *hold_get_damage(Lock *lock, void *Py_UNUSED(unused))
{
	struct node *node = lock_node(lock);
	struct lockshm_damage p;
	int code;

	if (!node)
		return NULL;
	code = lockshm_damage(&node->hold, &p);
	if (code < 0)
		return fail_hold(lock, code, &node->hold, lockshm_token(&node->hold));
	if (!p.status)
		Py_RETURN_NONE;
	return PyObject_CallMethod(lock->state->report, "damage", "siiKds", lockshm_code_name(p.status), (int)p.pid, (int)p.tid,
				   (unsigned long long)p.token, (double)p.age_ns / 1e9, p.tag);
}
