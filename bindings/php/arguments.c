/* SPDX-License-Identifier: MIT */
/* arguments.c - values of scripts as those of lockshm.h; each failure is a ValueError that names the argument */
#include "php_lockshm.h"

#include <grp.h>
#include <math.h>

static const double seconds_max = (double)(LOCKSHM_TIME_MAX / LOCKSHM_SECONDS(1));

bool lk_seconds(double seconds, uint32_t argument, int64_t least_ns, int64_t *ns)
{
	double least = least_ns / 1e9;

	if (!(seconds >= least && seconds <= seconds_max)) {
		zend_argument_value_error(argument, "must be between %g and %.0f seconds, %g given", least, seconds_max,
					  seconds);
		return false;
	}
	*ns = seconds == seconds_max ? LOCKSHM_TIME_MAX : (int64_t)(seconds * 1e9);
	return true;
}

bool lk_request_key(struct lockshm_request *request, zend_string *key, uint32_t argument)
{
	if (ZSTR_LEN(key) < 1 || ZSTR_LEN(key) > LOCKSHM_KEY_MAX) {
		zend_argument_value_error(argument, "must be 1 to %d bytes long, %zu given", LOCKSHM_KEY_MAX,
					  ZSTR_LEN(key));
		return false;
	}
	request->key = ZSTR_VAL(key);
	request->key_len = ZSTR_LEN(key);
	return true;
}

bool lk_request_timeout(struct lockshm_request *request, double seconds, bool endless, uint32_t argument)
{
	if (endless || seconds == INFINITY) {
		request->timeout_ns = LOCKSHM_FOREVER;
		return true;
	}
	return lk_seconds(seconds, argument, 0, &request->timeout_ns);
}

bool lk_request_lease(struct lockshm_request *request, double seconds, bool strict, bool renew, uint32_t argument)
{
	if (strict || seconds == INFINITY) {
		request->ttl_ns = LOCKSHM_FOREVER;
		return true;
	}
	if (renew && seconds > 0 && seconds < LOCKSHM_AUTO_RENEW_TTL_MIN / 1e9) {
		zend_argument_value_error(argument,
					  "must be at least %g seconds to be renewed, or \"renew\" false; %g given",
					  LOCKSHM_AUTO_RENEW_TTL_MIN / 1e9, seconds);
		return false;
	}
	if (!lk_seconds(seconds, argument, LOCKSHM_TTL_MIN, &request->ttl_ns))
		return false;
	request->flags |= renew ? LOCKSHM_AUTO_RENEW : 0;
	return true;
}

/* --- Options of a segment ----------------------------------------------------------------------------- */

static bool option_number(const char *name, const zval *value, zend_long least, zend_long most, uint32_t argument,
			  zend_long *number)
{
	if (Z_TYPE_P(value) != IS_LONG || Z_LVAL_P(value) < least || Z_LVAL_P(value) > most) {
		zend_argument_value_error(argument,
					  "must have as \"%s\" an int between " ZEND_LONG_FMT " and " ZEND_LONG_FMT,
					  name, least, most);
		return false;
	}
	*number = Z_LVAL_P(value);
	return true;
}

/** A string that C gets: a null byte would cut it.  Return: false: an exception. */
bool lk_option_text(const char *name, const zval *value, uint32_t argument)
{
	if (Z_TYPE_P(value) != IS_STRING) {
		zend_argument_value_error(argument, "must have as \"%s\" a string", name);
		return false;
	}
	if (CHECK_ZVAL_NULL_PATH(value)) {
		zend_argument_value_error(argument, "must not contain any null bytes in \"%s\"", name);
		return false;
	}
	return true;
}

static bool option_group(struct lockshm_create_options *options, const zval *value, uint32_t argument)
{
	const struct group *group = NULL;
	zend_long number;

	if (Z_TYPE_P(value) != IS_STRING) {
		if (!option_number("group", value, 0, INT32_MAX, argument, &number))
			return false;
		options->group = (gid_t)number;
		return true;
	}
	if (!lk_option_text("group", value, argument))
		return false;
	group = getgrnam(Z_STRVAL_P(value));
	if (!group) {
		zend_argument_value_error(argument, "has an unknown \"group\": %s", Z_STRVAL_P(value));
		return false;
	}
	options->group = group->gr_gid;
	return true;
}

static uint32_t *capacity_named(struct lockshm_create_options *options, const char *name)
{
	if (strcmp(name, "locks") == 0)
		return &options->locks;
	if (strcmp(name, "requests") == 0)
		return &options->requests;
	return strcmp(name, "owners") == 0 ? &options->owners : NULL;
}

static bool option(struct lk_create *create, const char *name, const zval *value, uint32_t argument)
{
	struct lockshm_create_options *options = &create->options;
	uint32_t *capacity = capacity_named(options, name);
	zend_long number;
	bool known;

	if (strcmp(name, "group") == 0)
		return option_group(options, value, argument);
	if (strcmp(name, "permissions") == 0) {
		if (!option_number(name, value, 0, 0777, argument, &number))
			return false;
		options->permissions = (mode_t)number;
		return true;
	}
	if (!lk_create_redis(create, name, value, argument, &known) || known)
		return known && !EG(exception);
	if (!capacity) {
		zend_argument_value_error(argument, "has an unknown option \"%s\"", name);
		return false;
	}
	if (!option_number(name, value, 1, INT32_MAX, argument, &number))
		return false;
	*capacity = (uint32_t)number;
	return true;
}

/** @create: to be ended by lk_create_end(), also after a failure */
bool lk_create_options(struct lk_create *create, HashTable *given, uint32_t argument)
{
	zend_string *name;
	zval *value;

	create->options = (struct lockshm_create_options)LOCKSHM_CREATE_INIT;
	create->options.flags = LOCKSHM_CREATE_OR_OPEN;
	ZVAL_UNDEF(&create->servers);
	ZVAL_UNDEF(&create->prefixes);
	if (!given)
		return true;
	ZEND_HASH_FOREACH_STR_KEY_VAL(given, name, value) {
		ZVAL_DEREF(value);
		if (name && CHECK_NULL_PATH(ZSTR_VAL(name), ZSTR_LEN(name))) {
			zend_argument_value_error(argument, "must not contain any null bytes in the name of an option");
			return false;
		}
		if (!option(create, name ? ZSTR_VAL(name) : "(a number)", value, argument))
			return false;
	} ZEND_HASH_FOREACH_END();
	return true;
}

void lk_create_end(struct lk_create *create)
{
	zval_ptr_dtor(&create->servers);
	zval_ptr_dtor(&create->prefixes);
}
