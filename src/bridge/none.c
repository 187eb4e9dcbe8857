/* SPDX-License-Identifier: MIT */
/* none.c - in place of the bridge, in a library that was built without hiredis */
#include "bridge/standby.h"

#include "sys/error.h"

int standby_trouble(struct lockshm *s, struct lockshm_error *error)
{
	(void)s;
	(void)error;
	return 0;
}

int standby_start(struct lockshm *s, struct lockshm_error *error)
{
	(void)s;
	return error_set(error, LOCKSHM_BRIDGE, "this library was built without the bridge to Redis");
}

LOCKSHM_EXPORT int lockshm_bridge_serve(lockshm_t *segment, lockshm_canceller_t *canceller, struct lockshm_error *error)
{
	if (!segment_valid(segment) || !canceller)
		return LOCKSHM_INVALID;
	return standby_start(segment, error);
}

LOCKSHM_EXPORT int lockshm_remote_inspect(lockshm_t *segment, const void *key, size_t key_len, int64_t timeout_ns,
					  lockshm_remote_fn fn, void *arg, struct lockshm_error *error)
{
	(void)timeout_ns;
	(void)arg;
	if (!segment_valid(segment) || !segment->n_host_leases || !key || key_len == 0 || !fn)
		return LOCKSHM_INVALID;
	return standby_start(segment, error);
}

LOCKSHM_EXPORT int lockshm_remote_end(lockshm_t *segment, const void *key, size_t key_len, const void *value,
				      size_t value_len, int64_t timeout_ns, struct lockshm_error *error)
{
	(void)timeout_ns;
	if (!segment_valid(segment) || !segment->n_host_leases || !key || key_len == 0 || !value || value_len == 0)
		return LOCKSHM_INVALID;
	return standby_start(segment, error);
}
