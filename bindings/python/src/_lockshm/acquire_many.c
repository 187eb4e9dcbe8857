/* SPDX-License-Identifier: MIT */
/*
 * acquire_many.c - several keys, all or none: the base of lockshm.Many
 *
 * A lock object of the first key has the options, and is the request of all; the order of the keys is the library's.
 */
#include "lockshm_py.h"

/* The holds are not in the object: a daemon thread that ends with the interpreter leaves its wait behind. */
typedef struct {
	PyObject_HEAD
	Lock *lock;
	PyObject *keys; /* a tuple */
	size_t n;
	lockshm_hold_t *holds;
	bool held, busy;
} Many;

static PyObject *many_new(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(kwargs))
{
	allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
	PyObject *lock, *keys, *shown;
	Many *self;

	if (!PyArg_ParseTuple(args, "OO!U:Many", &lock, &PyTuple_Type, &keys, &shown))
		return NULL;
	self = (Many *)alloc(type, 0);
	if (!self)
		return NULL;
	Py_INCREF(lock);
	Py_INCREF(keys);
	self->lock = (Lock *)lock;
	/* Messages have all keys; the request is without one from now on. */
	self->lock->request.key = NULL;
	self->lock->request.key_len = 0;
	Py_DECREF(self->lock->key);
	Py_INCREF(shown);
	self->lock->key = shown;
	self->keys = keys;
	self->n = (size_t)PyTuple_Size(keys);
	self->holds = PyMem_Calloc(self->n, sizeof(*self->holds));
	if (!self->holds) {
		Py_DECREF(self);
		return PyErr_NoMemory();
	}
	return (PyObject *)self;
}

static void many_dealloc(Many *self)
{
	PyTypeObject *type = Py_TYPE(self);
	freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);

	if (self->held)
		(void)lockshm_release_many(self->holds, self->n);
	PyMem_Free(self->holds);
	Py_XDECREF(self->lock);
	Py_XDECREF(self->keys);
	release(self);
	Py_DECREF(type);
}

static int request_many(Many *self, lockshm_loop_t *loop, struct lockshm_report *report)
{
	struct lockshm_request request = self->lock->request;
	struct lockshm_key keys[LOCKSHM_MANY_MAX] = { { .len = 0 } };
	const char *bytes;
	Py_ssize_t len;
	int code;

	for (size_t i = 0; i < self->n; i++) {
		if (key_bytes(PyTuple_GetItem(self->keys, (Py_ssize_t)i), &bytes, &len))
			return INTERRUPTED;
		keys[i].data = bytes;
		keys[i].len = (size_t)len;
	}
	request.timeout_ns = self->lock->timeout_ns;
	request.report = report;
	code = lockshm_loop_acquire_many(loop, &request, keys, self->n, self->holds, NULL);
	return code == LOCKSHM_PENDING ? wait_for_outcome(loop, self->holds) : code;
}

/** Not with the loop of the pool: it is polled without the GIL. */
static int take_many(Many *self, struct lockshm_report *report)
{
	lockshm_loop_t *loop = segment_take_loop(self->lock->segment);
	int code = loop ? request_many(self, loop, report) : INTERRUPTED;

	if (loop)
		segment_give_loop(self->lock->segment, loop);
	return code;
}

static PyObject *many_acquire(Many *self, PyObject *Py_UNUSED(unused))
{
	struct lockshm_report *report;
	int code;

	if (self->held || self->busy) {
		PyErr_SetString(PyExc_RuntimeError, "these locks are held, or awaited, already");
		return NULL;
	}
	if (segment_check(self->lock->segment))
		return NULL;
	report = PyMem_Calloc(1, sizeof(*report));
	if (!report)
		return PyErr_NoMemory();
	report->size = sizeof(*report);
	self->busy = true;
	code = take_many(self, report);
	self->busy = false;
	self->held = code >= 0;
	if (code < 0 && code != INTERRUPTED)
		fail_request(self->lock, code, self->lock->timeout_ns, report);
	PyMem_Free(report);
	return code < 0 ? NULL : PyBool_FromLong(1);
}

/** All of them, in the reverse order; the first loss is raised after that. */
static PyObject *many_release(Many *self, PyObject *Py_UNUSED(unused))
{
	lockshm_hold_t *lost = NULL;
	uint64_t lost_token = 0;
	int code = self->held ? 0 : LOCKSHM_NOT_HELD;
	bool late = false;

	for (size_t i = self->held ? self->n : 0; i-- > 0;) {
		uint64_t token = lockshm_token(&self->holds[i]);
		int one = lockshm_release(&self->holds[i], 0);

		late |= one == LOCKSHM_LATE;
		if (one < 0) {
			code = one;
			lost = &self->holds[i];
			lost_token = token;
		}
	}
	self->held = false;
	if (code < 0)
		return fail_hold(self->lock, code, lost ? lost : self->holds, lost_token);
	return PyBool_FromLong(!late);
}

static PyObject *many_check(Many *self, PyObject *Py_UNUSED(unused))
{
	int64_t least = LOCKSHM_FOREVER, left;

	for (size_t i = 0; i < self->n; i++) {
		int code = self->held ? lockshm_check(&self->holds[i], &left) : LOCKSHM_NOT_HELD;

		if (code < 0)
			return fail_hold(self->lock, code, &self->holds[i], lockshm_token(&self->holds[i]));
		least = left < least ? left : least;
	}
	return seconds_of(least);
}

static PyObject *many_enter(Many *self, PyObject *Py_UNUSED(unused))
{
	PyObject *held = many_acquire(self, NULL);

	if (!held)
		return NULL;
	Py_DECREF(held);
	Py_INCREF(self);
	return (PyObject *)self;
}

static PyObject *many_exit(Many *self, PyObject *Py_UNUSED(args))
{
	PyObject *result = many_release(self, NULL);

	if (!result)
		return NULL;
	Py_DECREF(result);
	Py_RETURN_NONE;
}

static PyObject *many_get_held(Many *self, void *Py_UNUSED(unused))
{
	bool held = self->held;

	for (size_t i = 0; held && i < self->n; i++)
		held = lockshm_check(&self->holds[i], NULL) >= 0;
	return PyBool_FromLong(held);
}

static PyObject *many_get_tokens(Many *self, void *Py_UNUSED(unused))
{
	PyObject *tokens = PyTuple_New((Py_ssize_t)self->n);

	for (size_t i = 0; tokens && i < self->n; i++) {
		PyObject *token = PyLong_FromUnsignedLongLong(self->held ? lockshm_token(&self->holds[i]) : 0);

		if (!token || PyTuple_SetItem(tokens, (Py_ssize_t)i, token))
			Py_CLEAR(tokens);
	}
	return tokens;
}

static PyMethodDef many_methods[] = {
	{ "acquire", (PyCFunction)many_acquire, METH_NOARGS, "acquire()\n\nTake all of them, or none: then Timeout, Busy and the like." },
	{ "release", (PyCFunction)many_release, METH_NOARGS,
	  "release()\n\nRelease all.  False: a lease had ended, but no other request had taken the lock.  Lost: one was taken away." },
	{ "check", (PyCFunction)many_check, METH_NOARGS, "check()\n\nThe seconds that all are held at least; Lost if one was taken away." },
	{ "__enter__", (PyCFunction)many_enter, METH_NOARGS, NULL },
	{ "__exit__", (PyCFunction)many_exit, METH_VARARGS, NULL },
	{ NULL, NULL, 0, NULL },
};

static PyGetSetDef many_getset[] = {
	{ "held", (getter)many_get_held, NULL, "True while all of them are held.", NULL },
	{ "tokens", (getter)many_get_tokens, NULL, "Tokens in the order of the keys; 0 = not held.", NULL },
	{ NULL, NULL, NULL, NULL, NULL },
};

static PyType_Slot many_slots[] = {
	{ Py_tp_new, many_new },
	{ Py_tp_dealloc, many_dealloc },
	{ Py_tp_methods, many_methods },
	{ Py_tp_getset, many_getset },
	{ Py_tp_doc, "Several locks, all or none: see Locks.many()." },
	{ 0, NULL },
};

PyType_Spec many_spec = {
	.name = "lockshm._lockshm.Many",
	.basicsize = sizeof(Many),
	.flags = Py_TPFLAGS_DEFAULT,
	.slots = many_slots,
};
