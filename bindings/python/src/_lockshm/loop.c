/* SPDX-License-Identifier: MIT */
/*
 * loop.c - requests of an asyncio event loop: for lockshm._aio
 *
 * Loop.request() gives True, False or a Wait; the event loop calls drain() when fileno() is readable, and wakes the
 * task of each Wait, and tells each Lock of its loss; the task calls finish().  A task that is cancelled calls abandon(), which is final: the request is
 * cancelled, or what was granted meanwhile is released.
 */
#include "lockshm_py.h"

/* --- Waits ------------------------------------------------------------------------------------------- */

static void wait_link(Wait *wait)
{
	Loop *loop = wait->loop;

	wait->previous = NULL;
	wait->next = loop->pending;
	if (loop->pending)
		loop->pending->previous = wait;
	loop->pending = wait;
	Py_INCREF(wait);
}

/** The reference of the loop goes to the caller. */
static void wait_unlink(Wait *wait)
{
	if (wait->previous)
		wait->previous->next = wait->next;
	else
		wait->loop->pending = wait->next;
	if (wait->next)
		wait->next->previous = wait->previous;
	wait->previous = wait->next = NULL;
}

static Wait *wait_new(Loop *loop, Lock *lock, PyObject *task, const struct acquire_args *how)
{
	static const struct lockshm_report report = LOCKSHM_REPORT_INIT;
	Wait *wait = PyObject_GC_New(Wait, loop->state->wait_type);

	if (!wait)
		return NULL;
	Py_INCREF(loop);
	Py_INCREF(lock);
	Py_INCREF(task);
	wait->loop = loop;
	wait->lock = lock;
	wait->task = task;
	wait->future = NULL;
	wait->node = NULL;
	wait->previous = wait->next = NULL;
	wait->how = *how;
	wait->status = LOCKSHM_PENDING;
	wait->report = report;
	PyObject_GC_Track(wait);
	return wait;
}

static struct node *wait_take_node(Wait *wait)
{
	struct node *node = wait->node;

	wait->node = NULL;
	return node;
}

static void end_request(Wait *wait)
{
	struct node *node = wait_take_node(wait);

	if (!node)
		return;
	if (wait->status == LOCKSHM_PENDING) {
		(void)lockshm_loop_cancel(wait->loop->loop, &node->hold);
		wait_unlink(wait);
		node_free(wait->lock, node);
		Py_DECREF(wait);
		return;
	}
	if (wait->status >= 0)
		(void)lockshm_release(&node->hold, 0);
	node_free(wait->lock, node);
}

static PyObject *wait_abandon(Wait *wait, PyObject *Py_UNUSED(unused))
{
	end_request(wait);
	Py_RETURN_NONE;
}

static PyObject *task_of(PyObject *task)
{
	return task == Py_None ? NULL : task;
}

/** The request was not granted. */
static PyObject *refused(Lock *lock, const struct acquire_args *how, int code, const struct lockshm_report *report)
{
	lock->blocker = report->blocker;
	if (how->returns_false && (code == LOCKSHM_BUSY || code == LOCKSHM_TIMEOUT))
		Py_RETURN_FALSE;
	return fail_request(lock, code, how->timeout_ns, report);
}

static PyObject *entered(Lock *lock, struct node *node, PyObject *task, int status)
{
	if (node_enter(lock, node, task_of(task), true, status))
		return NULL;
	Py_RETURN_TRUE;
}

static PyObject *wait_finish(Wait *wait, PyObject *Py_UNUSED(unused))
{
	struct node *node;

	if (!wait->node || wait->status == LOCKSHM_PENDING) {
		PyErr_SetString(PyExc_RuntimeError, "the wait is not decided");
		return NULL;
	}
	node = wait_take_node(wait);
	if (wait->status >= 0)
		return entered(wait->lock, node, wait->task, wait->status);
	node_free(wait->lock, node);
	return refused(wait->lock, &wait->how, wait->status, &wait->report);
}

static int wait_traverse(Wait *wait, visitproc visit, void *arg)
{
	Py_VISIT(Py_TYPE(wait));
	Py_VISIT(wait->loop);
	Py_VISIT(wait->lock);
	Py_VISIT(wait->task);
	Py_VISIT(wait->future);
	return 0;
}

static int wait_clear(Wait *wait)
{
	Py_CLEAR(wait->future);
	return 0;
}

static void wait_dealloc(Wait *wait)
{
	PyTypeObject *type = Py_TYPE(wait);

	PyObject_GC_UnTrack(wait);
	end_request(wait);
	Py_XDECREF(wait->future);
	Py_DECREF(wait->task);
	Py_DECREF(wait->lock);
	Py_DECREF(wait->loop);
	PyObject_GC_Del(wait);
	Py_DECREF(type);
}

static PyMemberDef wait_members[] = {
	{ "future", T_OBJECT, offsetof(Wait, future), 0, NULL },
	{ NULL, 0, 0, 0, NULL },
};

static PyMethodDef wait_methods[] = {
	{ "finish", (PyCFunction)wait_finish, METH_NOARGS, NULL },
	{ "abandon", (PyCFunction)wait_abandon, METH_NOARGS, NULL },
	{ NULL, NULL, 0, NULL },
};

static PyType_Slot wait_slots[] = {
	{ Py_tp_dealloc, wait_dealloc },
	{ Py_tp_traverse, wait_traverse },
	{ Py_tp_clear, wait_clear },
	{ Py_tp_members, wait_members },
	{ Py_tp_methods, wait_methods },
	{ 0, NULL },
};

PyType_Spec wait_spec = {
	.name = "lockshm._lockshm.Wait",
	.basicsize = sizeof(Wait),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
	.slots = wait_slots,
};

/* --- Loops ------------------------------------------------------------------------------------------- */

/** Ask once, with the real time-out: a try of a busy key costs what its queue is long. */
static PyObject *request(Loop *loop, Lock *lock, PyObject *task, const struct acquire_args *how, struct node *node)
{
	struct lockshm_request request = lock->request;
	Wait *wait = wait_new(loop, lock, task, how);
	PyObject *result;
	int code;

	if (!wait) {
		node_free(lock, node);
		return NULL;
	}
	request.timeout_ns = how->timeout_ns;
	request.report = &wait->report;
	if (lock->on_lost)
		request.flags |= LOCKSHM_TELL_LOSS;
	node->lock = lock;
	node->wait = wait;
	code = lockshm_loop_acquire(loop->loop, &request, &node->hold, node);
	if (code == LOCKSHM_PENDING) {
		wait->node = node;
		wait_link(wait);
		return (PyObject *)wait;
	}
	if (code < 0)
		node_free(lock, node);
	result = code < 0 ? refused(lock, how, code, &wait->report) : entered(lock, node, task, code);
	Py_DECREF(wait);
	return result;
}

static PyObject *enter_or_request(Loop *loop, Lock *lock, PyObject *task, const struct acquire_args *how)
{
	int code = lock_reenter(lock, task_of(task));
	struct node *node;

	if (code)
		return code < 0 ? NULL : PyBool_FromLong(1);
	node = node_take(lock);
	return node ? request(loop, lock, task, how, node) : NULL;
}

/* request(lock, task, *args of acquire(), **keywords) */
static PyObject *loop_request(Loop *loop, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
	struct acquire_args how;
	Lock *lock;

	if (n < 2 || Py_TYPE(args[0]) != loop->state->lock_type) {
		PyErr_SetString(PyExc_TypeError, "request(lock, task, ...)");
		return NULL;
	}
	lock = (Lock *)args[0];
	if (lock->segment != loop->segment || !loop->loop) {
		PyErr_SetString(PyExc_ValueError, "a loop of another segment, or closed");
		return NULL;
	}
	if (segment_check(loop->segment) || acquire_args(lock, args + 2, n - 2, names, &how))
		return NULL;
	return enter_or_request(loop, lock, args[1], &how);
}

/** Return: the wait that is decided, or the lock object whose hold was lost, which is not released yet. */
static PyObject *outcome_object(const struct lockshm_outcome *outcome)
{
	const struct node *node = outcome->user;

	if (outcome->status == LOCKSHM_LOST) {
		Py_INCREF(node->lock);
		return (PyObject *)node->lock;
	}
	node->wait->status = outcome->status;
	wait_unlink(node->wait);
	return (PyObject *)node->wait;
}

static PyObject *loop_drain(Loop *loop, PyObject *Py_UNUSED(unused))
{
	struct lockshm_outcome outcome = LOCKSHM_OUTCOME_INIT;
	PyObject *objects = PyList_New(0);

	while (objects && lockshm_loop_next(loop->loop, &outcome) == 1) {
		PyObject *object = outcome_object(&outcome);

		if (PyList_Append(objects, object))
			Py_CLEAR(objects);
		Py_DECREF(object);
	}
	return objects;
}

static PyObject *loop_fileno(Loop *loop, PyObject *Py_UNUSED(unused))
{
	return PyLong_FromLong(lockshm_loop_fd(loop->loop));
}

static PyObject *loop_new(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(kwargs))
{
	struct state *state = PyType_GetModuleState(type);
	struct lockshm_error error;
	Segment *segment;
	Loop *loop;
	int code;

	if (!state || !PyArg_ParseTuple(args, "O!:Loop", state->segment_type, &segment) || segment_check(segment))
		return NULL;
	loop = PyObject_GC_New(Loop, type);
	if (!loop)
		return NULL;
	Py_INCREF(segment);
	loop->state = state;
	loop->segment = segment;
	loop->pending = NULL;
	code = lockshm_loop_open(&loop->loop, segment->handle, -1, &error);
	PyObject_GC_Track(loop);
	if (code >= 0)
		return (PyObject *)loop;
	fail_code(state, code, &error, segment->name);
	Py_DECREF(loop);
	return NULL;
}

static int loop_traverse(Loop *loop, visitproc visit, void *arg)
{
	Py_VISIT(Py_TYPE(loop));
	Py_VISIT(loop->segment);
	for (Wait *wait = loop->pending; wait; wait = wait->next)
		Py_VISIT(wait);
	return 0;
}

static int loop_clear(Loop *loop)
{
	while (loop->pending)
		end_request(loop->pending);
	return 0;
}

static void loop_dealloc(Loop *loop)
{
	PyTypeObject *type = Py_TYPE(loop);

	PyObject_GC_UnTrack(loop);
	loop_clear(loop);
	if (loop->loop)
		(void)lockshm_loop_close(loop->loop);
	Py_DECREF(loop->segment);
	PyObject_GC_Del(loop);
	Py_DECREF(type);
}

static PyMethodDef loop_methods[] = {
	{ "request", (PyCFunction)(void (*)(void))loop_request, METH_FASTCALL | METH_KEYWORDS, NULL },
	{ "drain", (PyCFunction)loop_drain, METH_NOARGS, NULL },
	{ "fileno", (PyCFunction)loop_fileno, METH_NOARGS, NULL },
	{ NULL, NULL, 0, NULL },
};

static PyType_Slot loop_slots[] = {
	{ Py_tp_new, loop_new },
	{ Py_tp_dealloc, loop_dealloc },
	{ Py_tp_traverse, loop_traverse },
	{ Py_tp_clear, loop_clear },
	{ Py_tp_methods, loop_methods },
	{ 0, NULL },
};

PyType_Spec loop_spec = {
	.name = "lockshm._lockshm.Loop",
	.basicsize = sizeof(Loop),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
	.slots = loop_slots,
};
