/* SPDX-License-Identifier: MIT */
/*
 * lock.c - the type of lock objects
 */
#include <string.h>

#include "lockshm_py.h"

/* --- Making one -------------------------------------------------------------------------------------- */

struct options {
	int64_t timeout_ns, lease_ns, max_hold_ns;
	PyObject *renew, *tag, *on_lost;
	int robust, reentrant, global, policy;
};

static int option(const struct state *state, struct options *o, PyObject *name, PyObject *value)
{
	if (word_is(state, name, WORD_TIMEOUT))
		return time_of(value, "timeout", &o->timeout_ns);
	if (word_is(state, name, WORD_LEASE))
		return time_of(value, "lease", &o->lease_ns);
	if (word_is(state, name, WORD_RENEW))
		o->renew = value == Py_None ? NULL : value;
	else if (word_is(state, name, WORD_MAX_HOLD))
		return value == Py_None ? 0 : time_of(value, "max_hold", &o->max_hold_ns);
	else if (word_is(state, name, WORD_TAG))
		o->tag = value == Py_None ? NULL : value;
	else if (word_is(state, name, WORD_ROBUST))
		return (o->robust = PyObject_IsTrue(value)) < 0 ? -1 : 0;
	else if (word_is(state, name, WORD_REENTRANT))
		return (o->reentrant = PyObject_IsTrue(value)) < 0 ? -1 : 0;
	else if (word_is(state, name, WORD_GLOBAL))
		return (o->global = PyObject_IsTrue(value)) < 0 ? -1 : 0;
	else if (word_is(state, name, WORD_REDIS_POLICY))
		return (o->policy = policy_of(value == Py_None ? NULL : value)) < 0 ? -1 : 0;
	else if (word_is(state, name, WORD_ON_LOST))
		o->on_lost = value == Py_None ? NULL : value;
	else
		return unknown_word("exclusive", name);
	return 0;
}

static int check_tag(PyObject *tag, const char **text)
{
	*text = text_of(tag, "a tag");
	if (!*text)
		return -1;
	if (strlen(*text) <= LOCKSHM_TAG_MAX)
		return 0;
	PyErr_Format(PyExc_ValueError, "a tag has up to %d bytes, %R has %zu", LOCKSHM_TAG_MAX, tag, strlen(*text));
	return -1;
}

/** Return: 1 = the lease is renewed, 0 = not, -1 with an exception. */
static int check_lease(const struct options *o)
{
	int renew = o->renew ? PyObject_IsTrue(o->renew) : o->lease_ns != LOCKSHM_FOREVER;

	if (renew < 0)
		return -1;
	if (renew && o->lease_ns == LOCKSHM_FOREVER)
		PyErr_SetString(PyExc_ValueError, "renew=True needs a lease, and lease=None has no end");
	else if (renew && o->lease_ns < LOCKSHM_AUTO_RENEW_TTL_MIN)
		PyErr_SetString(PyExc_ValueError, "a lease that is renewed is 0.2 s at least: pass a longer lease, or renew=False");
	else if (o->lease_ns < LOCKSHM_TTL_MIN)
		PyErr_SetString(PyExc_ValueError, "a lease is 0.001 s at least");
	else if (!renew && o->max_hold_ns)
		PyErr_SetString(PyExc_ValueError, "max_hold is for a lease that is renewed; without renewal the lease is the bound");
	else
		return renew;
	return -1;
}

static int parse_options(const struct state *state, struct options *o, PyObject *const *values, PyObject *names)
{
	Py_ssize_t n = names ? PyTuple_Size(names) : 0;

	for (Py_ssize_t i = 0; i < n; i++)
		if (option(state, o, PyTuple_GetItem(names, i), values[i]))
			return -1;
	if (o->on_lost && !PyCallable_Check(o->on_lost)) {
		PyErr_SetString(PyExc_TypeError, "on_lost is not callable");
		return -1;
	}
	return 0;
}

static int fill_request(struct lockshm_request *request, const struct options *o, PyObject *key)
{
	int renew = check_lease(o);
	const char *bytes;
	Py_ssize_t len;

	if (renew < 0 || key_bytes(key, &bytes, &len) || (o->tag && check_tag(o->tag, &request->tag)))
		return -1;
	request->key = bytes;
	request->key_len = (size_t)len;
	request->ttl_ns = o->lease_ns;
	request->timeout_ns = 0;
	request->flags = (renew ? LOCKSHM_AUTO_RENEW : 0) | (o->robust ? LOCKSHM_ROBUST : 0) | (o->global ? LOCKSHM_GLOBAL : 0);
	request->redis_policy = o->policy;
	request->max_hold_ns = o->max_hold_ns == LOCKSHM_FOREVER ? 0 : o->max_hold_ns;
	return 0;
}

static PyObject *keep(PyObject *object)
{
	Py_XINCREF(object);
	return object;
}

static Lock *lock_alloc(Segment *segment, PyObject *key, const struct options *o)
{
	Lock *lock = PyObject_GC_New(Lock, segment->state->lock_type);

	if (!lock)
		return NULL;
	lock->state = segment->state;
	lock->segment = (Segment *)keep((PyObject *)segment);
	lock->key = keep(key);
	lock->tag = keep(o->tag);
	lock->on_lost = keep(o->on_lost);
	lock->weakrefs = NULL;
	lock->timeout_ns = o->timeout_ns;
	lock->reentrant = o->reentrant;
	lock->grants = 0;
	lock->first.use = NODE_FREE;
	lock->first.count = 0;
	lock->first.task = NULL;
	lock->first.next = NULL;
	lock->waits = NULL;
	lock->past = PAST_NONE;
	lock->cancelled = false;
	lock->blocker.state = 0;
	return lock;
}

PyObject *lock_new(Segment *segment, int mode, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
	struct options o = { .timeout_ns = LOCKSHM_SECONDS(5), .lease_ns = LOCKSHM_SECONDS(30) };
	struct lockshm_request request = LOCKSHM_REQUEST_INIT;
	Lock *lock;

	if (n != 1)
		return PyErr_Format(PyExc_TypeError, "the key is the one positional argument, %zd given", n);
	if (parse_options(segment->state, &o, args + 1, names) || fill_request(&request, &o, args[0]))
		return NULL;
	lock = lock_alloc(segment, args[0], &o);
	if (!lock)
		return NULL;
	lock->request = request;
	lock->request.mode = mode;
	PyObject_GC_Track(lock);
	return (PyObject *)lock;
}

/* --- The type ---------------------------------------------------------------------------------------- */

static int lock_traverse(Lock *lock, visitproc visit, void *arg)
{
	Py_VISIT(Py_TYPE(lock));
	Py_VISIT(lock->segment);
	Py_VISIT(lock->on_lost);
	for (struct node *node = &lock->first; node; node = node->next)
		Py_VISIT(node->task);
	return 0;
}

static int lock_clear(Lock *lock)
{
	Py_CLEAR(lock->on_lost);
	return 0;
}

static void lock_dealloc(Lock *lock)
{
	PyTypeObject *type = Py_TYPE(lock);

	PyObject_GC_UnTrack(lock);
	if (lock->weakrefs)
		PyObject_ClearWeakRefs((PyObject *)lock);
	if (lock->first.use != NODE_FREE || lock->first.next)
		lock_drop(lock);
	Py_XDECREF(lock->on_lost);
	Py_XDECREF(lock->tag);
	Py_DECREF(lock->key);
	Py_DECREF(lock->segment);
	PyObject_GC_Del(lock);
	Py_DECREF(type);
}

static PyObject *lock_repr(Lock *lock)
{
	const char *held = lock->first.use == NODE_HELD || lock->first.next ? "held" : "not held";

	return PyUnicode_FromFormat("<lockshm.Lock %s %R in %R, %s>",
				    lock->request.mode == LOCKSHM_SHARED ? "shared" : "exclusive", lock->key,
				    lock->segment->name, held);
}

static PyObject *lock_enter(Lock *lock, PyObject *Py_UNUSED(unused))
{
	PyObject *held = lock_acquire(lock, NULL, 0, NULL);

	if (!held)
		return NULL;
	Py_DECREF(held);
	Py_INCREF(lock);
	return (PyObject *)lock;
}

static PyObject *lock_exit(Lock *lock, PyObject *const *args, Py_ssize_t n)
{
	bool raised = n > 0 && args[0] != Py_None;
	struct node *node = lock_node(lock);

	if (!node && raised) {
		PyErr_Clear(); /* released inside, and an exception is on its way */
		Py_RETURN_NONE;
	}
	if (!node || lock_release_node(lock, node, 0, raised) < 0)
		return NULL;
	Py_RETURN_NONE;
}

/* The coroutines are in lockshm._aio, which is imported by the first of them. */
static PyObject *coroutine(Lock *lock, const char *name, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
	PyObject *function = PyObject_CallMethod(lock->state->report, "coroutine", "s", name);
	PyObject *list, *tuple = NULL, *kwargs = NULL, *result = NULL;
	Py_ssize_t n_names = names ? PyTuple_Size(names) : 0;

	if (!function)
		return NULL;
	list = PyTuple_New(n + 1);
	if (list) {
		PyTuple_SetItem(list, 0, keep((PyObject *)lock));
		for (Py_ssize_t i = 0; i < n; i++)
			PyTuple_SetItem(list, i + 1, keep(args[i]));
		tuple = list;
		kwargs = PyDict_New();
	}
	for (Py_ssize_t i = 0; kwargs && i < n_names; i++)
		if (PyDict_SetItem(kwargs, PyTuple_GetItem(names, i), args[n + i]))
			Py_CLEAR(kwargs);
	if (tuple && kwargs)
		result = PyObject_Call(function, tuple, kwargs);
	Py_XDECREF(tuple);
	Py_XDECREF(kwargs);
	Py_DECREF(function);
	return result;
}

static PyObject *lock_acquire_async(Lock *lock, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
	return coroutine(lock, "acquire", args, n, names);
}

static PyObject *lock_aenter(Lock *lock, PyObject *Py_UNUSED(unused))
{
	return coroutine(lock, "enter", NULL, 0, NULL);
}

static PyObject *lock_aexit(Lock *lock, PyObject *const *args, Py_ssize_t n)
{
	return coroutine(lock, "leave", args, n, NULL);
}

static PyObject *lock_cancel(Lock *lock, PyObject *Py_UNUSED(unused))
{
	lock->cancelled = true;
	for (struct thread_wait *wait = lock->waits; wait; wait = wait->next)
		(void)lockshm_cancel(&wait->canceller);
	Py_RETURN_NONE;
}

static PyObject *lock_locked(Lock *lock, PyObject *Py_UNUSED(unused))
{
	int error;
	bool held = key_is_held(lock->segment, lock->request.key, lock->request.key_len, &error);

	return error ? NULL : PyBool_FromLong(held);
}

static PyObject *get_key(Lock *lock, void *Py_UNUSED(unused))
{
	return keep(lock->key);
}

static PyObject *get_segment(Lock *lock, void *Py_UNUSED(unused))
{
	return keep((PyObject *)lock->segment);
}

static PyObject *get_mode(Lock *lock, void *Py_UNUSED(unused))
{
	return PyUnicode_FromString(lock->request.mode == LOCKSHM_SHARED ? "shared" : "exclusive");
}

static PyObject *get_timeout(Lock *lock, void *Py_UNUSED(unused))
{
	return seconds_of(lock->timeout_ns);
}

static PyObject *get_lease(Lock *lock, void *Py_UNUSED(unused))
{
	return seconds_of(lock->request.ttl_ns);
}

static PyObject *get_reentrant(Lock *lock, void *Py_UNUSED(unused))
{
	return PyBool_FromLong(lock->reentrant);
}

static PyObject *get_holder(Lock *lock, void *Py_UNUSED(unused))
{
	return holder_of(lock->state, &lock->blocker);
}

static PyObject *get_on_lost(Lock *lock, void *Py_UNUSED(unused))
{
	return keep(lock->on_lost ? lock->on_lost : Py_None);
}

static PyObject *get_count(Lock *lock, void *Py_UNUSED(unused))
{
	Py_ssize_t count = 0;

	forget_foreign(lock);
	for (struct node *node = &lock->first; node; node = node->next)
		count += node->use == NODE_HELD ? node->count : 0;
	return PyLong_FromSsize_t(count);
}

#define FUNCTION(f) ((PyCFunction)(void (*)(void))(f))

static PyMethodDef lock_methods[] = {
	{ "acquire", FUNCTION(lock_acquire), METH_FASTCALL | METH_KEYWORDS,
	  "acquire(blocking=True, timeout=<that of the object>)\n\n"
	  "Take the lock.  Without arguments True, or Timeout.  With blocking=False or a timeout in seconds (-1 or None: no\n"
	  "bound) False if it is not granted.  A reentrant object that this thread or task holds counts once more." },
	{ "acquire_async", FUNCTION(lock_acquire_async), METH_FASTCALL | METH_KEYWORDS,
	  "acquire_async(...)\n\nCoroutine: as acquire(), for the running task, without blocking its event loop." },
	{ "release", FUNCTION(lock_release), METH_FASTCALL | METH_KEYWORDS,
	  "release(cooldown=0.0)\n\nEnd the hold; any thread or task of the process may.  With a cooldown the key stays closed\n"
	  "for so many seconds.  Raises Lost if it was taken away before, NotOwned if it is not held." },
	{ "cancel", (PyCFunction)lock_cancel, METH_NOARGS,
	  "cancel()\n\nEnd the waits of threads on this object, present and future ones, with Cancelled.  Any thread may call\n"
	  "it.  A free key can still be acquired." },
	{ "locked", (PyCFunction)lock_locked, METH_NOARGS,
	  "locked()\n\nTrue if a live process holds the key, this one or another, or it cools down." },
	{ "check", (PyCFunction)hold_check, METH_NOARGS,
	  "check()\n\nSeconds that the lease has left, 0.0 if it expired and no other request took the lock, inf if strict.\n"
	  "Raises Lost or NotOwned." },
	{ "renew", FUNCTION(hold_renew), METH_FASTCALL,
	  "renew(seconds=<the lease>)\n\nLet the lease end so many seconds from now.  Raises Lost or NotOwned." },
	{ "extend", (PyCFunction)hold_extend, METH_O,
	  "extend(seconds)\n\nLet the lease end so much later than it would.  Raises Lost or NotOwned." },
	{ "upgrade", (PyCFunction)hold_upgrade, METH_NOARGS,
	  "upgrade()\n\nMake a shared hold exclusive.  Never waits: Busy if there are other holders or waiters.\n"
	  "Invalid for a global key that this host has shared: release it, then acquire it exclusive." },
	{ "downgrade", (PyCFunction)hold_downgrade, METH_NOARGS, "downgrade()\n\nMake an exclusive hold shared." },
	{ "acknowledge", (PyCFunction)hold_acknowledge, METH_NOARGS,
	  "acknowledge()\n\nClear the damage mark of the key (robust=True): its data are good again." },
	{ "_notify", FUNCTION(hold_notify), METH_FASTCALL, NULL },
	{ "_tell_lost", (PyCFunction)hold_tell_lost, METH_NOARGS, NULL },
	{ "_release_save", (PyCFunction)lock_release_save, METH_NOARGS, "For threading.Condition." },
	{ "_acquire_restore", (PyCFunction)lock_acquire_restore, METH_O, "For threading.Condition." },
	{ "_is_owned", (PyCFunction)lock_is_owned, METH_NOARGS, "For threading.Condition." },
	{ "__enter__", (PyCFunction)lock_enter, METH_NOARGS, NULL },
	{ "__exit__", FUNCTION(lock_exit), METH_FASTCALL, NULL },
	{ "__aenter__", (PyCFunction)lock_aenter, METH_NOARGS, NULL },
	{ "__aexit__", FUNCTION(lock_aexit), METH_FASTCALL, NULL },
	{ NULL, NULL, 0, NULL },
};

static PyGetSetDef lock_getset[] = {
	{ "key", (getter)get_key, NULL, "The key, as given.", NULL },
	{ "mode", (getter)get_mode, NULL, "\"exclusive\" or \"shared\", as requested.", NULL },
	{ "timeout", (getter)get_timeout, NULL, "Longest wait of acquire() and with, seconds; inf = no bound.", NULL },
	{ "lease", (getter)get_lease, NULL, "Seconds; inf = strict.", NULL },
	{ "reentrant", (getter)get_reentrant, NULL, "As given: whether the thread or task that holds it may enter again.", NULL },
	{ "held", (getter)hold_get_held, NULL, "True while this object holds the lock and has not lost it.", NULL },
	{ "local_only", (getter)hold_get_local_only, NULL,
	  "True if the hold excludes this host alone, as Redis was out of reach: redis_policy=\"local-only\".", NULL },
	{ "token", (getter)hold_get_token, NULL, "Fencing token of the hold; NotOwned without one.", NULL },
	{ "remaining", (getter)hold_get_remaining, NULL, "Seconds left of the lease; 0.0 if lost or not held.", NULL },
	{ "count", (getter)get_count, NULL, "How many releases are due.", NULL },
	{ "holder", (getter)get_holder, NULL, "What was in the way of the last refused request: Holder or None.", NULL },
	{ "damage", (getter)hold_get_damage, NULL, "The damage mark of the key of the hold: Damage or None.", NULL },
	{ "_segment", (getter)get_segment, NULL, NULL, NULL },
	{ "on_lost", (getter)get_on_lost, NULL, "As given.", NULL },
	{ NULL, NULL, NULL, NULL, NULL },
};

static PyMemberDef lock_members[] = {
	{ "__weaklistoffset__", T_PYSSIZET, offsetof(Lock, weakrefs), READONLY, NULL },
	{ NULL, 0, 0, 0, NULL },
};

static PyType_Slot lock_slots[] = {
	{ Py_tp_dealloc, lock_dealloc },
	{ Py_tp_traverse, lock_traverse },
	{ Py_tp_clear, lock_clear },
	{ Py_tp_repr, lock_repr },
	{ Py_tp_methods, lock_methods },
	{ Py_tp_getset, lock_getset },
	{ Py_tp_members, lock_members },
	{ Py_tp_doc, "A lock object of Locks.exclusive() or Locks.shared(); usable with with and async with, again and again." },
	{ 0, NULL },
};

PyType_Spec lock_spec = {
	.name = "lockshm._lockshm.Lock",
	.basicsize = sizeof(Lock),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
	.slots = lock_slots,
};
