/* SPDX-License-Identifier: MIT */
/* use.c - the commonest uses in one call: singleFlight, once, seat */
#include "php_lockshm.h"
#include "SAPI.h"

struct options {
	double lease;
	bool strict, global;
	zend_string *policy;
	char *tag;
	size_t tag_len;
};
#define OPTIONS_INIT { .lease = 30 }

/** @lease, @policy, @tag: the numbers of the parameters */
static bool apply_options(struct lockshm_request *request, const struct options *options, uint32_t lease, uint32_t policy,
			  uint32_t tag)
{
	request->flags |= options->global ? LOCKSHM_GLOBAL : 0;
	return lk_request_lease(request, options->lease, options->strict, true, lease) &&
	       lk_request_policy(request, options->policy, policy) &&
	       lk_request_tag(request, options->tag, options->tag_len, tag);
}

/** Take @key for a call; renewed, since the length of the work is not known.  Return: NULL: not held, see @code. */
static struct lk_hold *take_for_call(zval *object, struct lk_segment *segment, struct lockshm_request *request,
				     zend_string *key, struct lockshm_report *report, int *code)
{
	struct lk_hold *hold = lk_hold_new(object, segment, key, request->mode);

	hold->lease_ns = request->ttl_ns;
	*code = lk_acquire(segment, request, &hold->hold, report);
	if (*code >= 0) {
		lk_hold_begin(hold, *code);
		return hold;
	}
	zval_ptr_dtor(object);
	ZVAL_UNDEF(object);
	return NULL;
}

/** The hold of a call that has ended: if it was lost, the script could not have noticed. */
static void end_after_call(struct lk_hold *hold)
{
	char shown[LOCKSHM_KEY_SHOWN_MAX + 1];

	if (lk_hold_end(hold) != LOCKSHM_LOST || EG(exception))
		return;
	lk_shown_key(shown, ZSTR_VAL(hold->key), ZSTR_LEN(hold->key));
	php_error_docref(NULL, E_WARNING, "'%s' was lost while the callable ran: another process has or had the key",
			 shown);
}

/** Return: false: it threw. */
static bool call(zval *result, zend_fcall_info *info, zend_fcall_info_cache *cache, uint32_t n, zval *arguments)
{
	ZVAL_UNDEF(result);
	info->retval = result;
	info->param_count = n;
	info->params = arguments;
	return zend_call_function(info, cache) == SUCCESS && !EG(exception) && Z_TYPE_P(result) != IS_UNDEF;
}

/* --- singleFlight ------------------------------------------------------------------------------------- */

struct flight {
	zend_fcall_info look, fill, stale;
	zend_fcall_info_cache look_cache, fill_cache, stale_cache;
};

/** A value is there, or an exception. */
static bool look(zval *value, struct flight *flight)
{
	return !call(value, &flight->look, &flight->look_cache, 0, NULL) || Z_TYPE_P(value) != IS_NULL;
}

/** The time-out goes to @stale instead of the caller. */
static void call_stale(zval *value, struct flight *flight)
{
	zend_object *exception = EG(exception);
	zval argument;

	GC_ADDREF(exception);
	zend_clear_exception();
	ZVAL_OBJ(&argument, exception);
	call(value, &flight->stale, &flight->stale_cache, 1, &argument);
	zval_ptr_dtor(&argument);
}

ZEND_METHOD(Lockshm_Locks, singleFlight)
{
	struct lockshm_request request = LOCKSHM_REQUEST_INIT;
	struct flight flight = { .stale = empty_fcall_info };
	struct lockshm_report report;
	struct options options = OPTIONS_INIT;
	double timeout = 5;
	bool endless = false;
	zend_string *key;
	struct lk_hold *hold;
	zval object;
	int code;

	ZEND_PARSE_PARAMETERS_START(3, 9)
		Z_PARAM_STR(key)
		Z_PARAM_FUNC(flight.look, flight.look_cache)
		Z_PARAM_FUNC(flight.fill, flight.fill_cache)
		Z_PARAM_OPTIONAL
		Z_PARAM_DOUBLE_OR_NULL(timeout, endless)
		Z_PARAM_DOUBLE_OR_NULL(options.lease, options.strict)
		Z_PARAM_FUNC_OR_NULL(flight.stale, flight.stale_cache)
		Z_PARAM_BOOL(options.global)
		Z_PARAM_STR_OR_NULL(options.policy)
		Z_PARAM_PATH_OR_NULL(options.tag, options.tag_len)
	ZEND_PARSE_PARAMETERS_END();
	if (!lk_request_key(&request, key, 1) || !lk_request_timeout(&request, timeout, endless, 4) ||
	    !apply_options(&request, &options, 5, 8, 9))
		RETURN_THROWS();
	if (look(return_value, &flight))
		return;
	hold = take_for_call(&object, lk_segment_of(ZEND_THIS), &request, key, &report, &code);
	if (!hold) {
		lk_throw_acquire(code, lk_segment_of(ZEND_THIS), &request, &report);
		if ((code == LOCKSHM_TIMEOUT || code == LOCKSHM_BUSY) && ZEND_FCI_INITIALIZED(flight.stale))
			call_stale(return_value, &flight);
		return;
	}
	if (!look(return_value, &flight))
		call(return_value, &flight.fill, &flight.fill_cache, 0, NULL);
	end_after_call(hold);
	zval_ptr_dtor(&object);
}

/* --- once --------------------------------------------------------------------------------------------- */

/** Run it; its period is kept also if the request ends inside, and by a process that is killed it is not. */
static bool run_once(struct lk_hold *hold, int64_t period_ns, bool retry, zend_fcall_info *info,
		     zend_fcall_info_cache *cache, zval *result)
{
	bool returned;

	hold->closed_until_ns = lk_now_ns() + period_ns;
	hold->end = retry ? LK_END_RELEASE : LK_END_COOLDOWN;
	returned = call(result, info, cache, 0, NULL);
	if (returned)
		hold->end = LK_END_COOLDOWN;
	end_after_call(hold);
	return returned;
}

ZEND_METHOD(Lockshm_Locks, once)
{
	struct lockshm_request request = LOCKSHM_REQUEST_INIT;
	struct lockshm_report report;
	zend_fcall_info info;
	zend_fcall_info_cache cache;
	zval *result = NULL, value, object;
	struct options options = OPTIONS_INIT;
	bool retry = false;
	zend_string *key;
	struct lk_hold *hold;
	int64_t period_ns;
	double period;
	int code;

	ZEND_PARSE_PARAMETERS_START(3, 9)
		Z_PARAM_STR(key)
		Z_PARAM_DOUBLE(period)
		Z_PARAM_FUNC(info, cache)
		Z_PARAM_OPTIONAL
		Z_PARAM_BOOL(retry)
		Z_PARAM_ZVAL(result)
		Z_PARAM_BOOL(options.global)
		Z_PARAM_STR_OR_NULL(options.policy)
		Z_PARAM_DOUBLE_OR_NULL(options.lease, options.strict)
		Z_PARAM_PATH_OR_NULL(options.tag, options.tag_len)
	ZEND_PARSE_PARAMETERS_END();
	if (!lk_request_key(&request, key, 1) || !lk_seconds(period, 2, LOCKSHM_TTL_MIN, &period_ns) ||
	    !apply_options(&request, &options, 8, 7, 9))
		RETURN_THROWS();
	request.timeout_ns = 0;
	hold = take_for_call(&object, lk_segment_of(ZEND_THIS), &request, key, &report, &code);
	if (!hold) {
		if (code != LOCKSHM_BUSY)
			lk_throw_acquire(code, lk_segment_of(ZEND_THIS), &request, &report);
		RETURN_FALSE;
	}
	if (run_once(hold, period_ns, retry, &info, &cache, &value)) {
		if (result)
			ZEND_TRY_ASSIGN_REF_TMP(result, &value);
		else
			zval_ptr_dtor(&value);
	}
	zval_ptr_dtor(&object);
	RETURN_TRUE;
}

/* --- seat --------------------------------------------------------------------------------------------- */

ZEND_METHOD(Lockshm_Locks, seat)
{
	struct lockshm_request request = LOCKSHM_REQUEST_INIT;
	struct lockshm_report report;
	zend_fcall_info info;
	zend_fcall_info_cache cache;
	struct options options = OPTIONS_INIT;
	zend_string *key;
	struct lk_hold *hold;
	zval object;
	int code;

	ZEND_PARSE_PARAMETERS_START(2, 6)
		Z_PARAM_STR(key)
		Z_PARAM_FUNC(info, cache)
		Z_PARAM_OPTIONAL
		Z_PARAM_DOUBLE_OR_NULL(options.lease, options.strict)
		Z_PARAM_BOOL(options.global)
		Z_PARAM_STR_OR_NULL(options.policy)
		Z_PARAM_PATH_OR_NULL(options.tag, options.tag_len)
	ZEND_PARSE_PARAMETERS_END();
	if (strcmp(sapi_module.name, "cli") != 0 && strcmp(sapi_module.name, "phpdbg") != 0) {
		zend_throw_exception(lk_ce_exception,
				     "seat() waits without a bound, so it is for the command line only",
				     LOCKSHM_INVALID);
		RETURN_THROWS();
	}
	request.timeout_ns = LOCKSHM_FOREVER;
	if (!lk_request_key(&request, key, 1) || !apply_options(&request, &options, 3, 5, 6))
		RETURN_THROWS();
	hold = take_for_call(&object, lk_segment_of(ZEND_THIS), &request, key, &report, &code);
	if (!hold) {
		lk_throw_acquire(code, lk_segment_of(ZEND_THIS), &request, &report);
		RETURN_THROWS();
	}
	call(return_value, &info, &cache, 1, &object);
	end_after_call(hold);
	zval_ptr_dtor(&object);
}
