/* SPDX-License-Identifier: MIT */
/* settings-none.c - in place of redis/settings.c in a library built without the bridge */
#include "redis/settings.h"

#include "sys/error.h"

int redis_settings_check(const struct lockshm_create_options *o, struct lockshm_error *error)
{
	(void)o;
	return error_set(error, LOCKSHM_BRIDGE, "this library was built without the bridge to Redis");
}

int redis_settings_make(struct redis_settings *out, const struct lockshm_create_options *o,
			struct lockshm_error *error)
{
	(void)out;
	return redis_settings_check(o, error);
}
