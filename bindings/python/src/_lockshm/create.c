/* SPDX-License-Identifier: MIT */
/*
 * create.c - arguments of a new segment
 */
#include "lockshm_py.h"

#include <string.h>

/** @number: unchanged by NULL and None.  Return: 0, or -1 with an exception. */
static int capacity_of(PyObject *value, const char *name, unsigned *number)
{
	long long n;
	int overflow;

	if (!value || value == Py_None)
		return 0;
	if (!PyLong_Check(value)) {
		PyErr_Format(PyExc_TypeError, "%s must be int, not %R", name, (PyObject *)Py_TYPE(value));
		return -1;
	}
	n = PyLong_AsLongLongAndOverflow(value, &overflow);
	if (n < 0 || n > UINT32_MAX || overflow) {
		PyErr_Format(PyExc_ValueError, "%s is %S, must not be %s", name, value,
			     n < 0 && overflow <= 0 ? "negative" : "greater than 4294967295");
		return -1;
	}
	*number = (unsigned)n;
	return 0;
}

/** @ns: unchanged by NULL.  Return: 0, or -1 with an exception. */
static int bound_of(PyObject *value, const char *name, int64_t *ns)
{
	if (!value)
		return 0;
	if (value != Py_None)
		return time_of(value, name, ns);
	PyErr_Format(PyExc_TypeError, "%s must be a real number of seconds, not None", name);
	return -1;
}

/** @value: NULL = 0.  Return: enum lockshm_redis_policy, or -1 with an exception. */
int policy_of(PyObject *value, bool of_request)
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
		if (of_request && strcmp(text, "local-only") == 0)
			return LOCKSHM_REDIS_LOCAL_ONLY;
	}
	PyErr_Format(text ? PyExc_ValueError : PyExc_TypeError, "redis_policy is %R, must be \"fail\"%s \"wait\"%s", value,
		     of_request ? "," : " or", of_request ? " or \"local-only\"" : ", for a segment");
	return -1;
}

/* As given; NULL = not. */
struct values {
	PyObject *locks, *requests, *owners, *permissions;
	PyObject *redis, *prefix, *global_keys;
	PyObject *ttl, *policy, *gap, *retain, *leases, *wait;
	int quorum;
};

static int redis_options(const struct values *v, struct lockshm_create_options *options)
{
	int policy = policy_of(v->policy, false);

	if (policy < 0 || optional_text(v->redis, "redis", &options->redis) ||
	    optional_text(v->prefix, "redis_prefix", &options->redis_prefix) ||
	    optional_text(v->global_keys, "global_keys", &options->global_keys) || bound_of(v->ttl, "redis_ttl", &options->redis_ttl_ns) ||
	    bound_of(v->gap, "redis_gap", &options->redis_gap_ns) ||
	    bound_of(v->retain, "redis_retain", &options->redis_retain_ns) ||
	    capacity_of(v->leases, "host_leases", &options->host_leases) ||
	    capacity_of(v->wait, "redis_wait", &options->redis_wait))
		return -1;
	if (policy)
		options->redis_policy = policy;
	if (v->quorum)
		options->flags |= LOCKSHM_CREATE_REDIS_QUORUM;
	return 0;
}

/** Return: 0, or -1 with an exception. */
int create_arguments(PyObject *args, PyObject *kwargs, struct create_arguments *out)
{
	static char *names[] = { "name",  "create",    "any_owner",    "locks",        "requests",     "owners",    "permissions",
				 "redis", "redis_ttl", "redis_policy", "redis_prefix", "redis_quorum", "redis_gap", "redis_retain",
				 "host_leases", "redis_wait", "global_keys", NULL };
	struct lockshm_create_options *o = &out->options;
	struct values v = { 0 };
	unsigned permissions;

	*out = (struct create_arguments){ .create = 1, .options = LOCKSHM_CREATE_INIT };
	o->flags = LOCKSHM_CREATE_OR_OPEN;
	permissions = o->permissions;
	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "U|$ppOOOOOOOOpOOOOO:Locks", names, &out->name, &out->create,
					 &out->any_owner, &v.locks, &v.requests, &v.owners, &v.permissions, &v.redis, &v.ttl,
					 &v.policy, &v.prefix, &v.quorum, &v.gap, &v.retain, &v.leases, &v.wait,
					 &v.global_keys) ||
	    capacity_of(v.locks, "locks", &o->locks) || capacity_of(v.requests, "requests", &o->requests) ||
	    capacity_of(v.owners, "owners", &o->owners) || capacity_of(v.permissions, "permissions", &permissions))
		return -1;
	o->permissions = permissions;
	return redis_options(&v, o);
}
