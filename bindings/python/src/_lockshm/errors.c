/* SPDX-License-Identifier: MIT */
/*
 * errors.c - codes of the library as exceptions, which lockshm._report makes
 */
#include "lockshm_py.h"

/* What lockshm._report.failure() gets. */
struct failure {
	int code;
	const struct lockshm_error *error;
	PyObject *key;
	const char *sentence; /* or NULL: the message of the error */
	int64_t waited_ns;
	const struct lockshm_blocker *blocker;
	bool own; /* the blocker is a hold of the same lock object */
	uint64_t token, lost_to;
};

/* explain(state, mode, pid, thread, tag, age, expires_in): str() of a Holder. */
PyObject *explain_holder(PyObject *Py_UNUSED(module), PyObject *args)
{
	struct lockshm_report alone = LOCKSHM_REPORT_INIT;
	struct lockshm_blocker *b = &alone.blocker;
	char sentence[LOCKSHM_EXPLAIN_MAX] = "";
	const char *thread, *tag;
	double age, left;

	if (!PyArg_ParseTuple(args, "iiissdd", &b->state, &b->mode, &b->pid, &thread, &tag, &age, &left))
		return NULL;
	b->age_ns = (int64_t)(age * 1e9);
	b->expires_in_ns = (int64_t)(left * 1e9);
	(void)PyOS_snprintf(b->name, sizeof(b->name), "%s", thread);
	(void)PyOS_snprintf(b->tag, sizeof(b->tag), "%s", tag);
	(void)lockshm_explain(&alone, 0, sentence, sizeof(sentence));
	return PyUnicode_FromString(sentence);
}

PyObject *holder_of(const struct state *state, const struct lockshm_blocker *b)
{
	if (!b || !b->state || !state->report)
		Py_RETURN_NONE;
	return PyObject_CallMethod(state->report, "holder", "iiiissKdd", b->state, b->mode, (int)b->pid, (int)b->tid, b->name,
				   b->tag, (unsigned long long)b->token, (double)b->age_ns / 1e9,
				   b->expires_in_ns == LOCKSHM_FOREVER ? -1e300 : (double)b->expires_in_ns / 1e9);
}

static PyObject *raise_failure(const struct state *state, const struct failure *f)
{
	const char *own_message = f->error && *f->error->message ? f->error->message : lockshm_strerror(f->code);
	const char *message = f->sentence ? f->sentence : own_message;
	PyObject *holder, *exception;

	if (!state->report) { /* the interpreter is ending */
		PyErr_SetString(PyExc_RuntimeError, message);
		return NULL;
	}
	holder = holder_of(state, f->blocker);
	if (!holder)
		return NULL;
	exception = PyObject_CallMethod(state->report, "failure", "ssiiOLNOKK", lockshm_code_name(f->code), message,
					f->error ? f->error->sys_errno : 0, f->error ? f->error->table : 0,
					f->key ? f->key : Py_None, (long long)f->waited_ns, holder,
					f->own ? Py_True : Py_False,
					(unsigned long long)f->token, (unsigned long long)f->lost_to);
	if (exception) {
		PyErr_SetObject((PyObject *)Py_TYPE(exception), exception);
		Py_DECREF(exception);
	}
	return NULL;
}

PyObject *fail_code(const struct state *state, int code, const struct lockshm_error *error, PyObject *key)
{
	struct failure f = { .code = code, .error = error, .key = key };

	return raise_failure(state, &f);
}

static const char *const not_held[] = {
	[PAST_NONE] = "not held: never acquired through this lock object",
	[PAST_RELEASED] = "not held: released already",
	[PAST_PARENT] = "not held by this process: the hold is that of its parent, from before fork()",
};

static PyObject *fail_past(const Lock *lock, enum past past)
{
	struct lockshm_error error = { .code = LOCKSHM_NOT_HELD };
	struct failure f = { .code = LOCKSHM_NOT_HELD, .error = &error, .key = lock->key };

	(void)PyOS_snprintf(error.message, sizeof(error.message), "%s", not_held[past]);
	return raise_failure(lock->state, &f);
}

/** @hold: after a call on it returned @code.  @token: its own; a release clears it */
PyObject *fail_hold(const Lock *lock, int code, const lockshm_hold_t *hold, uint64_t token)
{
	struct failure f = { .code = code, .key = lock->key };

	if (code == LOCKSHM_NOT_HELD) /* the lock object has a hold, but not this process */
		return fail_past(lock, PAST_PARENT);
	if (code == LOCKSHM_LOST) {
		f.token = token;
		f.lost_to = lockshm_lost_to(hold);
	}
	return raise_failure(lock->state, &f);
}

static bool holds_token(const Lock *lock, uint64_t token)
{
	for (const struct node *node = &lock->first; node; node = node->next)
		if (node->use == NODE_HELD && lockshm_token(&node->hold) == token)
			return true;
	return false;
}

PyObject *fail_request(const Lock *lock, int code, int64_t timeout_ns, const struct lockshm_report *report)
{
	char sentence[LOCKSHM_EXPLAIN_MAX] = "";
	struct failure f = { .code = code,
			     .error = &report->error,
			     .key = lock->key,
			     .sentence = sentence,
			     .waited_ns = report->waited_ns,
			     .blocker = &report->blocker,
			     .own = report->blocker.state && holds_token(lock, report->blocker.token) };

	(void)lockshm_explain(report, timeout_ns, sentence, sizeof(sentence));
	return raise_failure(lock->state, &f);
}

PyObject *fail_not_held(const Lock *lock)
{
	return fail_past(lock, lock->past);
}

/** Write a line to the log where an exception is not possible, or would hide another one. */
void log_hold(const Lock *lock, const char *event, const lockshm_hold_t *hold, uint64_t token)
{
	PyObject *type, *value, *traceback, *result = NULL;

	PyErr_Fetch(&type, &value, &traceback);
	if (lock->state->report)
		result = PyObject_CallMethod(lock->state->report, "log_hold", "sOKK", event, lock->key,
					     (unsigned long long)token, (unsigned long long)lockshm_lost_to(hold));
	if (!result && PyErr_Occurred())
		PyErr_WriteUnraisable(lock->key);
	Py_XDECREF(result);
	PyErr_Restore(type, value, traceback);
}
