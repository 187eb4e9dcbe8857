/* SPDX-License-Identifier: MIT */
/*
 * create.c - arguments of a new segment: its options are those of lockshm_create_option()
 */
#include "lockshm_py.h"

#include <string.h>

/** Of a request.  @value: NULL = 0.  Return: enum lockshm_redis_policy, or -1 with an exception. */
int policy_of(PyObject *value)
{
	const char *text = NULL;

	if (!value)
		return 0;
	if (PyUnicode_Check(value)) {
		text = text_of(value, "redis_policy");
		if (!text)
			return -1;
		if (strcmp(text, "fail") == 0)
			return LOCKSHM_REDIS_FAIL;
		if (strcmp(text, "wait") == 0)
			return LOCKSHM_REDIS_WAIT;
		if (strcmp(text, "local-only") == 0)
			return LOCKSHM_REDIS_LOCAL_ONLY;
	}
	PyErr_Format(text ? PyExc_ValueError : PyExc_TypeError,
		     "redis_policy is %R, must be \"fail\", \"wait\" or \"local-only\"", value);
	return -1;
}

/** Names of a segment's options, each with its enum lockshm_option_kind. */
PyObject *option_kinds(void)
{
	struct lockshm_option option = LOCKSHM_OPTION_INIT;
	PyObject *kinds = PyDict_New(), *kind;
	int failed = !kinds;

	for (size_t i = 0; !failed && lockshm_create_option_at(i, &option) == 0; i++) {
		kind = PyLong_FromLong(option.kind);
		failed = !kind || PyDict_SetItemString(kinds, option.name, kind);
		Py_XDECREF(kind);
	}
	if (!failed)
		return kinds;
	Py_XDECREF(kinds);
	return NULL;
}

static int set_option(const struct state *state, struct create_arguments *out, PyObject *name, PyObject *value)
{
	const char *option = text_of(name, "a keyword");
	const char *text = option ? text_of(value, option) : NULL;
	struct lockshm_error error;

	if (!text)
		return -1;
	if (lockshm_create_option(&out->options, option, text, &error) == 0)
		return 0;
	fail_code(state, LOCKSHM_INVALID, &error, NULL);
	return -1;
}

/** @kwargs: create, any_owner, and options as str.  Return: 0, or -1 with an exception. */
int create_arguments(const struct state *state, PyObject *args, PyObject *kwargs, struct create_arguments *out)
{
	PyObject *name, *value;
	Py_ssize_t at = 0;

	*out = (struct create_arguments){ .create = 1, .options = LOCKSHM_CREATE_INIT };
	out->options.flags = LOCKSHM_CREATE_OR_OPEN;
	if (!PyArg_ParseTuple(args, "U:Locks", &out->name))
		return -1;
	while (kwargs && PyDict_Next(kwargs, &at, &name, &value)) {
		if (PyUnicode_CompareWithASCIIString(name, "create") == 0)
			out->create = PyObject_IsTrue(value);
		else if (PyUnicode_CompareWithASCIIString(name, "any_owner") == 0)
			out->any_owner = PyObject_IsTrue(value);
		else if (set_option(state, out, name, value))
			return -1;
	}
	return out->create < 0 || out->any_owner < 0 ? -1 : 0;
}
