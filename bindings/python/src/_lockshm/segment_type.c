/* SPDX-License-Identifier: MIT */
/*
 * segment_type.c - an open segment, the loops that its threads wait on, and what others hold in it
 */
#include "lockshm_py.h"

/* Loops that stay open while no thread waits on them; each has a descriptor. */
enum { IDLE_LOOPS_MAX = 16 };

/** Return: 0, or -1 with an exception. */
int segment_check(const Segment *segment)
{
	struct lockshm_error error = { .message = "the segment was closed: open it again" };

	if (segment->handle && !segment->closed)
		return 0;
	fail_code(segment->state, LOCKSHM_INVALID, &error, segment->name);
	return -1;
}

/* --- Loops ------------------------------------------------------------------------------------------- */

/** A loop that is not in the pool: the caller gives it back.  Return: NULL with an exception. */
lockshm_loop_t *segment_take_loop(Segment *segment)
{
	struct lockshm_error error;
	lockshm_loop_t *loop;
	int code;

	if (segment->n_idle && lockshm_loop_fd(segment->idle[segment->n_idle - 1]) < 0)
		segment_forget_loops(segment);
	if (segment->n_idle)
		return segment->idle[--segment->n_idle];
	if (segment_check(segment))
		return NULL;
	code = lockshm_loop_open(&loop, segment->handle, -1, &error);
	if (code >= 0)
		return loop;
	fail_code(segment->state, code, &error, segment->name);
	return NULL;
}

void segment_give_loop(Segment *segment, lockshm_loop_t *loop)
{
	if (segment->n_idle == segment->room || segment->closed) {
		lockshm_loop_close(loop);
		return;
	}
	segment->idle[segment->n_idle++] = loop;
}

/** The loop for requests that need no wait; it stays in the pool.  Return: NULL with an exception. */
lockshm_loop_t *segment_loop(Segment *segment)
{
	lockshm_loop_t *loop;

	if (segment->n_idle)
		return segment->idle[segment->n_idle - 1];
	loop = segment_take_loop(segment);
	if (loop)
		segment_give_loop(segment, loop);
	return loop;
}

/** After fork(): the pool has the parent's loops, which a child cannot close. */
void segment_forget_loops(Segment *segment)
{
	segment->n_idle = 0;
}

/* --- Open and close ---------------------------------------------------------------------------------- */

static int open_handle(Segment *self, const char *name, const struct create_arguments *given, struct lockshm_error *error)
{
	int code = LOCKSHM_NO_SEGMENT;

	if (given->any_owner || !given->create)
		code = lockshm_open(&self->handle, name, given->any_owner ? LOCKSHM_OPEN_ANY_OWNER : 0, error);
	if (code == LOCKSHM_NO_SEGMENT && given->create)
		code = lockshm_create(&self->handle, name, &given->options, error);
	return code;
}

static int segment_open(Segment *self, const struct create_arguments *given)
{
	const char *name = name_of(self->state, self->name);
	struct lockshm_error error;
	int code;

	if (!name)
		return -1;
	Py_BEGIN_ALLOW_THREADS
	code = open_handle(self, name, given, &error);
	Py_END_ALLOW_THREADS
	if (code >= 0)
		return 0;
	fail_code(self->state, code, &error, self->name);
	return -1;
}

static PyObject *segment_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
	allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
	struct create_arguments given;
	PyTypeObject *base = type;
	Segment *self;

	while (PyType_GetSlot(base, Py_tp_base) && PyType_GetSlot(base, Py_tp_base) != &PyBaseObject_Type)
		base = PyType_GetSlot(base, Py_tp_base);
	if (create_arguments(PyType_GetModuleState(base), args, kwargs, &given))
		return NULL;
	self = (Segment *)alloc(type, 0);
	if (!self)
		return NULL;
	self->state = PyType_GetModuleState(base);
	Py_INCREF(given.name);
	self->name = given.name;
	self->idle = PyMem_Calloc(IDLE_LOOPS_MAX, sizeof(*self->idle));
	self->room = IDLE_LOOPS_MAX;
	if (!self->idle) {
		Py_DECREF(self);
		return PyErr_NoMemory();
	}
	if (segment_open(self, &given)) {
		Py_DECREF(self);
		return NULL;
	}
	return (PyObject *)self;
}

static void close_loops(Segment *self)
{
	while (self->n_idle)
		lockshm_loop_close(self->idle[--self->n_idle]);
}

static int segment_traverse(Segment *self, visitproc visit, void *arg)
{
	Py_VISIT(Py_TYPE(self));
	return 0;
}

static void segment_dealloc(Segment *self)
{
	PyTypeObject *type = Py_TYPE(self);
	freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);

	PyObject_GC_UnTrack(self);
	close_loops(self);
	PyMem_Free(self->idle);
	PyMem_Free(self->spare);
	lockshm_close(self->handle);
	Py_XDECREF(self->name);
	release(self);
	Py_DECREF(type);
}

static PyObject *segment_close(Segment *self, PyObject *Py_UNUSED(unused))
{
	self->closed = true;
	close_loops(self);
	Py_RETURN_NONE;
}

static PyObject *segment_enter(Segment *self, PyObject *Py_UNUSED(unused))
{
	if (segment_check(self))
		return NULL;
	Py_INCREF(self);
	return (PyObject *)self;
}

static PyObject *segment_exit(Segment *self, PyObject *Py_UNUSED(args))
{
	return segment_close(self, NULL);
}

/* --- What the processes hold ------------------------------------------------------------------------- */

/* Is it a request at all, and of a live thread, or a cooldown? */
static bool is_live(const struct lockshm_row *row)
{
	int state = row->request.state;

	return state && (row->alive || (state != LOCKSHM_HOLDING && state != LOCKSHM_WAITING));
}

/* A request that would keep another one waiting now: its lease has not ended. */
static bool in_the_way(const struct lockshm_row *row)
{
	return is_live(row) && row->request.expires_in_ns > 0 &&
	       (row->request.state == LOCKSHM_COOLING || row->request.state == LOCKSHM_HOLDING);
}

/** @error: [out] 0, or -1 with an exception */
bool key_is_held(Segment *segment, const void *key, size_t len, int *error)
{
	struct lockshm_row row = LOCKSHM_ROW_INIT;
	lockshm_list_t *list;
	bool held = false;
	int code;

	*error = -1;
	if (segment_check(segment))
		return false;
	code = lockshm_list_open(&list, segment->handle, LOCKSHM_LIST_KEY, key, len);
	while (code == 0 && !held && lockshm_list_next(list, &row) == 1)
		held = in_the_way(&row);
	lockshm_list_close(list);
	if (code < 0)
		fail_code(segment->state, code, NULL, NULL);
	else
		*error = 0;
	return held;
}

static int append_holder(const struct state *state, PyObject *list, const struct lockshm_blocker *r)
{
	double expires_in = r->expires_in_ns == LOCKSHM_FOREVER ? -1e300 : (double)r->expires_in_ns / 1e9;
	PyObject *holder = PyObject_CallMethod(state->report, "holder", "iiiissKdd", r->state, r->mode, (int)r->pid,
					       (int)r->tid, r->name, r->tag, (unsigned long long)r->token,
					       (double)r->age_ns / 1e9, expires_in);
	int result = holder ? PyList_Append(list, holder) : -1;

	Py_XDECREF(holder);
	return result;
}

/** Return: a new list, or NULL with an exception. */
static PyObject *holders_of(const struct state *state, lockshm_list_t *rows, PyObject *key)
{
	struct lockshm_row row = LOCKSHM_ROW_INIT;
	PyObject *list = PyList_New(0);
	int code = 1;

	while (list && (code = lockshm_list_next(rows, &row)) == 1)
		if (is_live(&row) && append_holder(state, list, &row.request))
			Py_CLEAR(list);
	if (list && code < 0) {
		Py_CLEAR(list);
		fail_code(state, code, NULL, key);
	}
	return list;
}

static PyObject *segment_holders(Segment *self, PyObject *key)
{
	lockshm_list_t *rows;
	PyObject *list;
	const char *bytes;
	Py_ssize_t len;
	int code;

	if (key_bytes(key, &bytes, &len) || segment_check(self))
		return NULL;
	code = lockshm_list_open(&rows, self->handle, LOCKSHM_LIST_KEY, bytes, (size_t)len);
	if (code < 0)
		return fail_code(self->state, code, NULL, key);
	list = holders_of(self->state, rows, key);
	lockshm_list_close(rows);
	return list;
}

static PyObject *segment_locked(Segment *self, PyObject *key)
{
	const char *bytes;
	Py_ssize_t len;
	int error;
	bool held;

	if (key_bytes(key, &bytes, &len))
		return NULL;
	held = key_is_held(self, bytes, (size_t)len, &error);
	return error ? NULL : PyBool_FromLong(held);
}

static PyObject *segment_stat(Segment *self, PyObject *Py_UNUSED(unused))
{
	struct lockshm_stat s = LOCKSHM_STAT_INIT;
	int code;

	if (segment_check(self))
		return NULL;
	code = lockshm_stat(self->handle, &s);
	if (code < 0)
		return fail_code(self->state, code, NULL, self->name);
	return Py_BuildValue("{sIsIsIsIsIsIsIsIsKsKsKsKsKsKsKsK}", "keys", s.keys, "keys_busy", s.keys_busy,
			     "keys_damaged", s.keys_damaged, "requests", s.requests, "requests_used", s.requests_used,
			     "owners", s.owners, "owners_used", s.owners_used, "owners_dead", s.owners_dead, "acquires",
			     (unsigned long long)s.acquires, "waits", (unsigned long long)s.waits, "timeouts",
			     (unsigned long long)s.timeouts, "tries_failed", (unsigned long long)s.tries_failed, "lost",
			     (unsigned long long)s.lost, "recovered", (unsigned long long)s.recovered, "expired",
			     (unsigned long long)s.expired, "bytes", (unsigned long long)s.bytes);
}

/* --- Lock objects ------------------------------------------------------------------------------------ */

static PyObject *segment_exclusive(Segment *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
	return lock_new(self, LOCKSHM_EXCLUSIVE, args, n, names);
}

static PyObject *segment_shared(Segment *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
	return lock_new(self, LOCKSHM_SHARED, args, n, names);
}

static PyObject *segment_get_name(Segment *self, void *Py_UNUSED(unused))
{
	Py_INCREF(self->name);
	return self->name;
}

#define WITH_KEYWORDS (METH_FASTCALL | METH_KEYWORDS)

static PyMethodDef segment_methods[] = {
	{ "exclusive", (PyCFunction)(void (*)(void))segment_exclusive, WITH_KEYWORDS,
	  "exclusive(key, *, timeout=5.0, lease=30.0, renew=None, max_hold=None, tag=None, robust=False, reentrant=False,\n"
	  "global_=False, redis_policy=None, on_lost=None)\n\n"
	  "A lock object that holds the key alone.  Nothing is requested before acquire() or with.\n\n"
	  "timeout: longest wait in seconds; 0 = try once, None = no bound.  lease: seconds until another request may take\n"
	  "the lock; None = it lives as long as the process.  renew: a thread of the C library renews the lease while the\n"
	  "process lives; by default with every lease.  max_hold: not for longer than that.  tag: up to 30 bytes, shown in\n"
	  "refusals and by lockctl.  robust: a holder that dies inside leaves a damage mark, see damage.\n"
	  "reentrant: the thread or asyncio task that holds it through this object may acquire it again, and counts, as with\n"
	  "threading.RLock; without it a second acquire() waits, as with threading.Lock.\n"
	  "global_: exclude the other hosts with the same Redis, too; the segment was made with redis=.  redis_policy: \"fail\",\n"
	  "\"wait\" or \"local-only\" while Redis is out of reach or no lockshm-bridge runs; None = that of the segment.\n"
	  "on_lost: called with the lock object when the hold was taken away." },
	{ "shared", (PyCFunction)(void (*)(void))segment_shared, WITH_KEYWORDS,
	  "shared(key, *, ...)\n\nA lock object that holds the key together with other shared ones." },
	{ "locked", (PyCFunction)segment_locked, METH_O,
	  "locked(key)\n\nTrue if a live process holds the key, or it cools down.  Does not block." },
	{ "holders", (PyCFunction)segment_holders, METH_O,
	  "holders(key)\n\nA list of Holder: holders, oldest first, then waiters in their order, without those that died.\n"
	  "Does not block." },
	{ "stat", (PyCFunction)segment_stat, METH_NOARGS, "stat()\n\nCapacities, use and event counts of the segment." },
	{ "close", (PyCFunction)segment_close, METH_NOARGS,
	  "close()\n\nRefuse new requests through this object, now and in children; the end of a with block does the same.\n"
	  "Holds and waits go on, and are released as ever; the segment is unmapped with the last lock object." },
	{ "__enter__", (PyCFunction)segment_enter, METH_NOARGS, NULL },
	{ "__exit__", (PyCFunction)segment_exit, METH_VARARGS, NULL },
	{ NULL, NULL, 0, NULL },
};

static PyGetSetDef segment_getset[] = {
	{ "name", (getter)segment_get_name, NULL, "Name of the segment.", NULL },
	{ NULL, NULL, NULL, NULL, NULL },
};

static PyType_Slot segment_slots[] = {
	{ Py_tp_new, segment_new },
	{ Py_tp_dealloc, segment_dealloc },
	{ Py_tp_traverse, segment_traverse },
	{ Py_tp_methods, segment_methods },
	{ Py_tp_getset, segment_getset },
	{ Py_tp_doc, "An open segment." },
	{ 0, NULL },
};

PyType_Spec segment_spec = {
	.name = "lockshm._lockshm.Segment",
	.basicsize = sizeof(Segment),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
	.slots = segment_slots,
};
