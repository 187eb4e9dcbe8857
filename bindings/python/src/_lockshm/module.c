/* SPDX-License-Identifier: MIT */
/*
 * module.c - the module lockshm._lockshm
 */
#include <stdlib.h>
#include <string.h>

#include "lockshm_py.h"

static const char *const word_texts[WORDS] = {
	[WORD_TIMEOUT] = "timeout",
	[WORD_LEASE] = "lease",
	[WORD_RENEW] = "renew",
	[WORD_MAX_HOLD] = "max_hold",
	[WORD_TAG] = "tag",
	[WORD_ROBUST] = "robust",
	[WORD_REENTRANT] = "reentrant",
	[WORD_GLOBAL] = "global_",
	[WORD_REDIS_POLICY] = "redis_policy",
	[WORD_ON_LOST] = "on_lost",
	[WORD_BLOCKING] = "blocking",
	[WORD_POLL_INTERVAL] = "poll_interval",
	[WORD_COOLDOWN] = "cooldown",
};

/** The library in use has to be of the header's version: up to 1.0 the minor number counts, too. */
static int check_version(void)
{
	char *end;
	long major = strtol(lockshm_version(), &end, 10);
	long minor = *end == '.' ? strtol(end + 1, NULL, 10) : -1;

	if (major == LOCKSHM_VERSION_MAJOR && minor == LOCKSHM_VERSION_MINOR)
		return 0;
	PyErr_Format(PyExc_ImportError, "liblockshm is version %s, this extension was built for %d.%d", lockshm_version(),
		     LOCKSHM_VERSION_MAJOR, LOCKSHM_VERSION_MINOR);
	return -1;
}

static int add_type(PyObject *module, PyTypeObject **type, PyType_Spec *spec)
{
	*type = (PyTypeObject *)PyType_FromModuleAndSpec(module, spec, NULL);
	return *type ? PyModule_AddType(module, *type) : -1;
}

static int module_exec(PyObject *module)
{
	struct state *state = PyModule_GetState(module);
	PyObject *kinds;

	if (check_version())
		return -1;
	for (int i = 0; i < WORDS; i++)
		if (!(state->words[i] = PyUnicode_InternFromString(word_texts[i])))
			return -1;
	state->report = PyImport_ImportModule("lockshm._report");
	if (!state->report || add_type(module, &state->segment_type, &segment_spec) ||
	    add_type(module, &state->lock_type, &lock_spec) ||
	    add_type(module, &state->many_type, &many_spec) || add_type(module, &state->loop_type, &loop_spec) ||
	    add_type(module, &state->wait_type, &wait_spec))
		return -1;
	kinds = option_kinds();
	if (!kinds || PyModule_AddObject(module, "option_kinds", kinds)) {
		Py_XDECREF(kinds);
		return -1;
	}
	return PyModule_AddStringConstant(module, "library_version", lockshm_version());
}

static PyObject *module_destroy(PyObject *module, PyObject *name)
{
	struct state *state = PyModule_GetState(module);
	const char *text = name_of(state, name);
	struct lockshm_error error;
	int code;

	if (!text)
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	code = lockshm_destroy(text, &error);
	Py_END_ALLOW_THREADS
	if (code < 0)
		return fail_code(state, code, &error, name);
	Py_RETURN_NONE;
}

static PyObject *module_nothing(PyObject *Py_UNUSED(module), PyObject *const *Py_UNUSED(args), Py_ssize_t Py_UNUSED(n))
{
	Py_RETURN_NONE;
}

static int module_traverse(PyObject *module, visitproc visit, void *arg)
{
	struct state *state = PyModule_GetState(module);

	Py_VISIT(state->segment_type);
	Py_VISIT(state->lock_type);
	Py_VISIT(state->many_type);
	Py_VISIT(state->loop_type);
	Py_VISIT(state->wait_type);
	Py_VISIT(state->report);
	return 0;
}

static int module_clear(PyObject *module)
{
	struct state *state = PyModule_GetState(module);

	Py_CLEAR(state->report);
	Py_CLEAR(state->segment_type);
	Py_CLEAR(state->lock_type);
	Py_CLEAR(state->many_type);
	Py_CLEAR(state->loop_type);
	Py_CLEAR(state->wait_type);
	for (int i = 0; i < WORDS; i++)
		Py_CLEAR(state->words[i]);
	return 0;
}

static void module_free(void *module)
{
	module_clear(module);
}

static PyMethodDef module_methods[] = {
	{ "destroy", module_destroy, METH_O,
	  "destroy(name)\n\nRemove a segment.  Processes that have it open get NoSegment from their next request." },
	{ "explain", explain_holder, METH_VARARGS, "explain(state, mode, pid, thread, tag, age, expires_in): str() of a Holder." },
	{ "_nothing", (PyCFunction)(void (*)(void))module_nothing, METH_FASTCALL, "For bench/: the cost of a call." },
	{ NULL, NULL, 0, NULL },
};

static PyModuleDef_Slot module_slots[] = {
	{ Py_mod_exec, module_exec },
	{ 0, NULL },
};

static struct PyModuleDef module_def = {
	PyModuleDef_HEAD_INIT,
	.m_name = "lockshm._lockshm",
	.m_doc = "The C part of lockshm.",
	.m_size = sizeof(struct state),
	.m_methods = module_methods,
	.m_slots = module_slots,
	.m_traverse = module_traverse,
	.m_clear = module_clear,
	.m_free = module_free,
};

PyMODINIT_FUNC PyInit__lockshm(void)
{
	return PyModuleDef_Init(&module_def);
}
