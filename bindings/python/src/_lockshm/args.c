/* SPDX-License-Identifier: MIT */
/*
 * args.c - arguments: seconds, names of keywords, keys, other strings
 */
#include <math.h>
#include <string.h>

#include "lockshm_py.h"

/** Return: @value as seconds; -1 with an exception that names the argument, or without one. */
double number_of(PyObject *value, const char *name)
{
	double seconds = PyFloat_AsDouble(value);

	if (seconds != -1.0 || !PyErr_Occurred())
		return seconds;
	if (PyErr_ExceptionMatches(PyExc_TypeError))
		PyErr_Format(PyExc_TypeError, "%s must be a real number of seconds, or None, not %R", name,
			     (PyObject *)Py_TYPE(value));
	else if (PyErr_ExceptionMatches(PyExc_OverflowError))
		PyErr_Format(PyExc_ValueError, "%s must be seconds from 0 to 315360000 (ten years)", name);
	return -1;
}

/** @ns: [out] nanoseconds; None and inf are LOCKSHM_FOREVER.  Return: 0, or -1 with an exception. */
int time_of(PyObject *value, const char *name, int64_t *ns)
{
	double seconds;

	if (value == Py_None) {
		*ns = LOCKSHM_FOREVER;
		return 0;
	}
	seconds = number_of(value, name);
	if (seconds == -1.0 && PyErr_Occurred())
		return -1;
	if (isinf(seconds) && seconds > 0) {
		*ns = LOCKSHM_FOREVER;
		return 0;
	}
	if (!(seconds >= 0) || seconds > (double)LOCKSHM_TIME_MAX / 1e9) {
		PyErr_Format(PyExc_ValueError, "%s is %S, must be seconds from 0 to 315360000 (ten years), or None for no end",
			     name, value);
		return -1;
	}
	*ns = (int64_t)(seconds * 1e9 + 0.5);
	return 0;
}

PyObject *seconds_of(int64_t ns)
{
	return PyFloat_FromDouble(ns == LOCKSHM_FOREVER ? (double)INFINITY : (double)ns / 1e9);
}

bool word_is(const struct state *state, PyObject *name, enum word word)
{
	return name == state->words[word] || PyUnicode_Compare(name, state->words[word]) == 0;
}

int unknown_word(const char *function, PyObject *name)
{
	PyErr_Format(PyExc_TypeError, "%s() got an unexpected keyword argument '%U'", function, name);
	return -1;
}

/** @bytes: [out] owned by @key.  Return: 0, or -1 with an exception. */
int key_bytes(PyObject *key, const char **bytes, Py_ssize_t *len)
{
	if (PyUnicode_Check(key)) {
		*bytes = PyUnicode_AsUTF8AndSize(key, len);
	} else if (PyBytes_Check(key)) {
		char *data;

		*bytes = PyBytes_AsStringAndSize(key, &data, len) ? NULL : data;
	} else {
		PyErr_Format(PyExc_TypeError, "a key is str or bytes, not %R", (PyObject *)Py_TYPE(key));
		return -1;
	}
	if (!*bytes)
		return -1;
	if (*len >= 1 && *len <= LOCKSHM_KEY_MAX)
		return 0;
	PyErr_Format(PyExc_ValueError, "a key has 1 to %d bytes, this one %zd", LOCKSHM_KEY_MAX, *len);
	return -1;
}

/**
 * A str that the library gets as a C string.  @what: for messages.
 * Return: owned by @value; NULL with an exception, also for a NUL, at which the library would cut it.
 */
const char *text_of(PyObject *value, const char *what)
{
	const char *text;
	Py_ssize_t len;

	if (!PyUnicode_Check(value)) {
		PyErr_Format(PyExc_TypeError, "%s must be str, not %R", what, (PyObject *)Py_TYPE(value));
		return NULL;
	}
	text = PyUnicode_AsUTF8AndSize(value, &len);
	if (!text || !memchr(text, '\0', (size_t)len))
		return text;
	PyErr_Format(PyExc_ValueError, "%s must not contain a NUL character: %R", what, value);
	return NULL;
}

/** The name of a segment.  Return: owned by @name; NULL with an exception, Invalid as for the other names that none can have. */
const char *name_of(const struct state *state, PyObject *name)
{
	struct lockshm_error error = { .message = "the name of a segment must not contain a NUL character" };
	const char *text = text_of(name, "name");

	if (!text && PyErr_ExceptionMatches(PyExc_ValueError) && !PyErr_ExceptionMatches(PyExc_UnicodeError)) {
		PyErr_Clear();
		fail_code(state, LOCKSHM_INVALID, &error, name);
	}
	return text;
}
