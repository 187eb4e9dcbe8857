/* SPDX-License-Identifier: MIT */
/* redis.c - options of a segment and of a request for keys across hosts */
#include "php_lockshm.h"

#include "ext/standard/php_string.h"

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

static bool text(const char *name, const zval *value, uint32_t argument, const char **out)
{
	if (!lk_option_text(name, value, argument))
		return false;
	*out = Z_STRVAL_P(value);
	return true;
}

/** One text, or an array of them, which are joined in @joined. */
static bool list(const char *name, const zval *value, uint32_t argument, zval *joined, const char **out)
{
	zend_string *comma;

	if (Z_TYPE_P(value) != IS_ARRAY)
		return text(name, value, argument, out);
	comma = zend_string_init(ZEND_STRL(","), 0);
	zval_ptr_dtor(joined);
	php_implode(comma, Z_ARRVAL_P(value), joined);
	zend_string_release(comma);
	return !EG(exception) && text(name, joined, argument, out);
}

static bool policy(struct lockshm_create_options *options, const zval *value, uint32_t argument)
{
	if (Z_TYPE_P(value) == IS_STRING && zend_string_equals_literal(Z_STR_P(value), "fail"))
		options->redis_policy = LOCKSHM_REDIS_FAIL;
	else if (Z_TYPE_P(value) == IS_STRING && zend_string_equals_literal(Z_STR_P(value), "wait"))
		options->redis_policy = LOCKSHM_REDIS_WAIT;
	else {
		zend_argument_value_error(argument, "must have as \"redis_policy\" \"fail\" or \"wait\"");
		return false;
	}
	return true;
}

static bool quorum(struct lockshm_create_options *options, const zval *value, uint32_t argument)
{
	if (Z_TYPE_P(value) != IS_TRUE && Z_TYPE_P(value) != IS_FALSE) {
		zend_argument_value_error(argument, "must have as \"redis_quorum\" a bool");
		return false;
	}
	if (Z_TYPE_P(value) == IS_TRUE)
		options->flags |= LOCKSHM_CREATE_REDIS_QUORUM;
	return true;
}

static bool seconds(const char *name, const zval *value, uint32_t argument, int64_t *ns)
{
	if (Z_TYPE_P(value) == IS_DOUBLE || Z_TYPE_P(value) == IS_LONG)
		return lk_seconds(Z_TYPE_P(value) == IS_LONG ? (double)Z_LVAL_P(value) : Z_DVAL_P(value), argument, 0, ns);
	zend_argument_value_error(argument, "must have as \"%s\" a number of seconds", name);
	return false;
}

static bool count(const char *name, const zval *value, uint32_t argument, uint32_t *number)
{
	if (Z_TYPE_P(value) != IS_LONG || Z_LVAL_P(value) < 0 || Z_LVAL_P(value) > INT32_MAX) {
		zend_argument_value_error(argument, "must have as \"%s\" an int between 0 and %d", name, INT32_MAX);
		return false;
	}
	*number = (uint32_t)Z_LVAL_P(value);
	return true;
}

/** @known: [out] is it one of these?  Return: false: an exception. */
bool lk_create_redis(struct lk_create *create, const char *name, const zval *value, uint32_t argument, bool *known)
{
	struct lockshm_create_options *options = &create->options;

	*known = true;
	if (strcmp(name, "redis") == 0)
		return list(name, value, argument, &create->servers, &options->redis);
	if (strcmp(name, "global_keys") == 0)
		return list(name, value, argument, &create->prefixes, &options->global_keys);
	if (strcmp(name, "redis_prefix") == 0)
		return text(name, value, argument, &options->redis_prefix);
	if (strcmp(name, "redis_policy") == 0)
		return policy(options, value, argument);
	if (strcmp(name, "redis_quorum") == 0)
		return quorum(options, value, argument);
	if (strcmp(name, "redis_ttl") == 0)
		return seconds(name, value, argument, &options->redis_ttl_ns);
	if (strcmp(name, "redis_gap") == 0)
		return seconds(name, value, argument, &options->redis_gap_ns);
	if (strcmp(name, "redis_retain") == 0)
		return seconds(name, value, argument, &options->redis_retain_ns);
	if (strcmp(name, "host_leases") == 0)
		return count(name, value, argument, &options->host_leases);
	if (strcmp(name, "redis_wait") == 0)
		return count(name, value, argument, &options->redis_wait);
	*known = false;
	return true;
}
