/* SPDX-License-Identifier: MIT */
/* arguments.c - values of scripts as those of lockshm.h; each failure is a ValueError that names the argument */
#include "php_lockshm.h"

#include "ext/standard/php_string.h"

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

bool lk_request_policy(struct lockshm_request *request, const zend_string *policy, uint32_t argument)
{
	if (!policy)
		return true;
	if (zend_string_equals_literal(policy, "fail"))
		request->redis_policy = LOCKSHM_REDIS_FAIL;
	else if (zend_string_equals_literal(policy, "wait"))
		request->redis_policy = LOCKSHM_REDIS_WAIT;
	else if (zend_string_equals_literal(policy, "local-only"))
		request->redis_policy = LOCKSHM_REDIS_LOCAL_ONLY;
	else {
		zend_argument_value_error(argument, "must be \"fail\", \"wait\" or \"local-only\", or null");
		return false;
	}
	return true;
}

/** @tag: NULL = none */
bool lk_request_tag(struct lockshm_request *request, const char *tag, size_t length, uint32_t argument)
{
	if (tag && length > LOCKSHM_TAG_MAX) {
		zend_argument_value_error(argument, "must be at most %d bytes long, %zu given", LOCKSHM_TAG_MAX, length);
		return false;
	}
	request->tag = tag;
	return true;
}

/* --- Options of a segment ----------------------------------------------------------------------------- */

/** enum lockshm_option_kind; 0: there is no such option. */
static int kind_of(const char *name)
{
	struct lockshm_option option = LOCKSHM_OPTION_INIT;

	for (size_t i = 0; lockshm_create_option_at(i, &option) == 0; i++)
		if (strcmp(option.name, name) == 0)
			return option.kind;
	return 0;
}

/** A value as the text that the library takes, to be released; NULL: an exception. */
static zend_string *option_text(int kind, const zval *value)
{
	zend_string *comma, *text;
	const struct group *group;
	zval joined;

	switch (Z_TYPE_P(value)) {
	case IS_TRUE:
		return zend_string_init(ZEND_STRL("yes"), 0);
	case IS_FALSE:
		return zend_string_init(ZEND_STRL("no"), 0);
	case IS_LONG:
		if (kind == LOCKSHM_OPTION_DURATION || kind == LOCKSHM_OPTION_PERMISSIONS)
			return zend_strpprintf(0, kind == LOCKSHM_OPTION_DURATION ? ZEND_LONG_FMT "s" : "%" PRIo64, Z_LVAL_P(value));
		break;
	case IS_DOUBLE:
		if (kind == LOCKSHM_OPTION_DURATION)
			return zend_strpprintf(0, "%.9Fs", Z_DVAL_P(value));
		break;
	case IS_STRING:
		group = kind == LOCKSHM_OPTION_GROUP && !CHECK_ZVAL_NULL_PATH(value) ? getgrnam(Z_STRVAL_P(value)) : NULL;
		if (group)
			return zend_strpprintf(0, "%lu", (unsigned long)group->gr_gid);
		break;
	case IS_ARRAY:
		comma = zend_string_init(ZEND_STRL(","), 0);
		php_implode(comma, Z_ARRVAL_P(value), &joined);
		zend_string_release(comma);
		return EG(exception) ? NULL : Z_STR(joined);
	}
	text = zval_get_string((zval *)value);
	return EG(exception) ? NULL : text;
}

static bool set_option(struct lockshm_create_options *options, const char *name, const zval *value, uint32_t argument)
{
	zend_string *text = option_text(kind_of(name), value);
	struct lockshm_error error;
	bool good;

	if (!text)
		return false;
	good = !CHECK_NULL_PATH(ZSTR_VAL(text), ZSTR_LEN(text));
	if (!good)
		zend_argument_value_error(argument, "must not contain any null bytes in \"%s\"", name);
	else if (lockshm_create_option(options, name, ZSTR_VAL(text), &error) != 0) {
		zend_argument_value_error(argument, "is wrong: %s", error.message);
		good = false;
	}
	zend_string_release(text);
	return good;
}

bool lk_create_options(struct lockshm_create_options *options, HashTable *given, uint32_t argument)
{
	zend_string *name;
	zval *value;

	*options = (struct lockshm_create_options)LOCKSHM_CREATE_INIT;
	options->flags = LOCKSHM_CREATE_OR_OPEN;
	if (!given)
		return true;
	ZEND_HASH_FOREACH_STR_KEY_VAL(given, name, value) {
		ZVAL_DEREF(value);
		if (name && CHECK_NULL_PATH(ZSTR_VAL(name), ZSTR_LEN(name))) {
			zend_argument_value_error(argument, "must not contain any null bytes in the name of an option");
			return false;
		}
		if (!set_option(options, name ? ZSTR_VAL(name) : "(a number)", value, argument))
			return false;
	} ZEND_HASH_FOREACH_END();
	return true;
}
