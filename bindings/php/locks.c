/* SPDX-License-Identifier: MIT */
/* locks.c - Lockshm\Locks: segments, and taking keys */
#include "php_lockshm.h"

zend_class_entry *lk_ce_locks;

static zend_object_handlers locks_handlers;

static zend_object *locks_create(zend_class_entry *ce)
{
	struct lk_locks *locks = zend_object_alloc(sizeof(*locks), ce);

	locks->segment = NULL;
	zend_object_std_init(&locks->std, ce);
	locks->std.handlers = &locks_handlers;
	return &locks->std;
}

void lk_locks_startup(void)
{
	lk_ce_locks->create_object = locks_create;
	locks_handlers = *zend_get_std_object_handlers();
	locks_handlers.offset = offsetof(struct lk_locks, std);
	locks_handlers.clone_obj = NULL;
}

ZEND_METHOD(Lockshm_Locks, __construct)
{
	ZEND_PARSE_PARAMETERS_NONE();
}

ZEND_METHOD(Lockshm_Locks, open)
{
	char name[LOCKSHM_NAME_MAX + 1];
	struct lockshm_create_options create;
	struct lockshm_error error;
	struct lk_segment *segment;
	size_t given_length;
	char *given = NULL;
	HashTable *given_options = NULL;

	ZEND_PARSE_PARAMETERS_START(0, 2)
		Z_PARAM_OPTIONAL
		Z_PARAM_PATH_OR_NULL(given, given_length)
		Z_PARAM_ARRAY_HT(given_options)
	ZEND_PARSE_PARAMETERS_END();
	if (!given && !lk_segment_default(name)) {
		zend_value_error("lockshm.segment must be at most %d bytes long", LOCKSHM_NAME_MAX);
		RETURN_THROWS();
	}
	if (!lk_create_options(&create, given_options, 2))
		RETURN_THROWS();
	segment = lk_segment_open(given ? given : name, &create, &error);
	if (!segment) {
		lk_throw_segment(error.code, &error);
		RETURN_THROWS();
	}
	ZVAL_OBJ(return_value, locks_create(lk_ce_locks));
	((struct lk_locks *)((char *)Z_OBJ_P(return_value) - offsetof(struct lk_locks, std)))->segment = segment;
}

ZEND_METHOD(Lockshm_Locks, destroy)
{
	struct lockshm_error error;
	char *name;
	size_t length;
	int code;

	ZEND_PARSE_PARAMETERS_START(1, 1)
		Z_PARAM_PATH(name, length)
	ZEND_PARSE_PARAMETERS_END();
	code = lockshm_destroy(name, &error);
	if (code < 0)
		lk_throw_segment(code, &error);
}

/* --- Taking a key ------------------------------------------------------------------------------------- */

struct options {
	double lease, max_hold;
	bool strict, renew, no_max_hold, outlive, robust, global;
	char *tag;
	size_t tag_len;
	zend_string *policy;
};
#define OPTIONS_INIT { .lease = 30, .renew = true, .no_max_hold = true }

/** The parameters from "lease" on; @first is the number of "lease". */
static bool apply_options(struct lockshm_request *request, const struct options *options, uint32_t first)
{
	if (options->outlive && request->mode != LOCKSHM_EXCLUSIVE) {
		zend_argument_value_error(first + 3, "must be false for a shared hold");
		return false;
	}
	if (!lk_request_lease(request, options->lease, options->strict, options->renew && !options->outlive, first))
		return false;
	if (!options->no_max_hold && !lk_seconds(options->max_hold, first + 2, LOCKSHM_TTL_MIN, &request->max_hold_ns))
		return false;
	if (request->max_hold_ns && !(request->flags & LOCKSHM_AUTO_RENEW)) {
		zend_argument_value_error(first + 2, "must be null where no lease is renewed");
		return false;
	}
	if (!lk_request_tag(request, options->tag, options->tag_len, first + 5) ||
	    !lk_request_policy(request, options->policy, first + 7))
		return false;
	request->flags |= (options->robust ? LOCKSHM_ROBUST : 0) | (options->global ? LOCKSHM_GLOBAL : 0);
	return true;
}

/** Return: the object in @to, or NULL there: busy and @quiet, or an exception. */
static void take(zval *to, struct lk_segment *segment, struct lockshm_request *request, zend_string *key, bool outlive,
		 bool quiet)
{
	struct lockshm_report report;
	struct lk_hold *hold = lk_hold_new(to, segment, key, request->mode);
	int code;

	hold->lease_ns = request->ttl_ns;
	hold->end = outlive ? LK_END_OUTLIVE : LK_END_RELEASE;
	code = lk_acquire(segment, request, &hold->hold, &report);
	if (code >= 0) {
		lk_hold_begin(hold, code);
		return;
	}
	zval_ptr_dtor(to);
	ZVAL_NULL(to);
	if (code != LOCKSHM_BUSY || !quiet)
		lk_throw_acquire(code, segment, request, &report);
}

static void acquire_method(INTERNAL_FUNCTION_PARAMETERS, int mode)
{
	struct lockshm_request request = LOCKSHM_REQUEST_INIT;
	struct options options = OPTIONS_INIT;
	double timeout = 5;
	bool endless = false;
	zend_string *key;

	ZEND_PARSE_PARAMETERS_START(1, 10)
		Z_PARAM_STR(key)
		Z_PARAM_OPTIONAL
		Z_PARAM_DOUBLE_OR_NULL(timeout, endless)
		Z_PARAM_DOUBLE_OR_NULL(options.lease, options.strict)
		Z_PARAM_BOOL(options.renew)
		Z_PARAM_DOUBLE_OR_NULL(options.max_hold, options.no_max_hold)
		Z_PARAM_BOOL(options.outlive)
		Z_PARAM_BOOL(options.robust)
		Z_PARAM_PATH_OR_NULL(options.tag, options.tag_len)
		Z_PARAM_BOOL(options.global)
		Z_PARAM_STR_OR_NULL(options.policy)
	ZEND_PARSE_PARAMETERS_END();
	request.mode = mode;
	if (!lk_request_key(&request, key, 1) || !lk_request_timeout(&request, timeout, endless, 2) ||
	    !apply_options(&request, &options, 3))
		RETURN_THROWS();
	take(return_value, lk_segment_of(ZEND_THIS), &request, key, options.outlive, false);
}

static void try_method(INTERNAL_FUNCTION_PARAMETERS, int mode)
{
	struct lockshm_request request = LOCKSHM_REQUEST_INIT;
	struct options options = OPTIONS_INIT;
	zend_string *key;

	ZEND_PARSE_PARAMETERS_START(1, 9)
		Z_PARAM_STR(key)
		Z_PARAM_OPTIONAL
		Z_PARAM_DOUBLE_OR_NULL(options.lease, options.strict)
		Z_PARAM_BOOL(options.renew)
		Z_PARAM_DOUBLE_OR_NULL(options.max_hold, options.no_max_hold)
		Z_PARAM_BOOL(options.outlive)
		Z_PARAM_BOOL(options.robust)
		Z_PARAM_PATH_OR_NULL(options.tag, options.tag_len)
		Z_PARAM_BOOL(options.global)
		Z_PARAM_STR_OR_NULL(options.policy)
	ZEND_PARSE_PARAMETERS_END();
	request.mode = mode;
	request.timeout_ns = 0;
	if (!lk_request_key(&request, key, 1) || !apply_options(&request, &options, 2))
		RETURN_THROWS();
	take(return_value, lk_segment_of(ZEND_THIS), &request, key, options.outlive, true);
}

ZEND_METHOD(Lockshm_Locks, exclusive)
{
	acquire_method(INTERNAL_FUNCTION_PARAM_PASSTHRU, LOCKSHM_EXCLUSIVE);
}

ZEND_METHOD(Lockshm_Locks, shared)
{
	acquire_method(INTERNAL_FUNCTION_PARAM_PASSTHRU, LOCKSHM_SHARED);
}

ZEND_METHOD(Lockshm_Locks, tryExclusive)
{
	try_method(INTERNAL_FUNCTION_PARAM_PASSTHRU, LOCKSHM_EXCLUSIVE);
}

ZEND_METHOD(Lockshm_Locks, tryShared)
{
	try_method(INTERNAL_FUNCTION_PARAM_PASSTHRU, LOCKSHM_SHARED);
}

/* --- What is held ------------------------------------------------------------------------------------- */

/** Return: false: an exception. */
static bool holders_of(INTERNAL_FUNCTION_PARAMETERS, struct lockshm_blocker **holders, size_t *count)
{
	struct lockshm_request request = LOCKSHM_REQUEST_INIT;
	zend_string *key;
	int code;

	ZEND_PARSE_PARAMETERS_START(1, 1)
		Z_PARAM_STR(key)
	ZEND_PARSE_PARAMETERS_END_EX(return false);
	if (!lk_request_key(&request, key, 1))
		return false;
	code = lk_holders(lk_segment_of(ZEND_THIS), request.key, request.key_len, holders, count);
	if (code == 0)
		return true;
	if (*holders)
		efree(*holders);
	lk_throw_segment(code, NULL);
	return false;
}

ZEND_METHOD(Lockshm_Locks, isLocked)
{
	struct lockshm_blocker *holders;
	bool held = false;
	size_t count;

	if (!holders_of(INTERNAL_FUNCTION_PARAM_PASSTHRU, &holders, &count))
		RETURN_THROWS();
	for (size_t i = 0; i < count; i++)
		held |= holders[i].state != LOCKSHM_WAITING;
	efree(holders);
	RETURN_BOOL(held);
}

ZEND_METHOD(Lockshm_Locks, holders)
{
	struct lockshm_blocker *holders;
	size_t count;
	zval value;

	if (!holders_of(INTERNAL_FUNCTION_PARAM_PASSTHRU, &holders, &count))
		RETURN_THROWS();
	array_init_size(return_value, (uint32_t)count);
	for (size_t i = 0; i < count; i++) {
		lk_holder_value(&value, &holders[i]);
		add_next_index_zval(return_value, &value);
	}
	efree(holders);
}

ZEND_METHOD(Lockshm_Locks, end)
{
	struct lockshm_request request = LOCKSHM_REQUEST_INIT;
	zend_string *key;
	zend_long token;
	int code;

	ZEND_PARSE_PARAMETERS_START(2, 2)
		Z_PARAM_STR(key)
		Z_PARAM_LONG(token)
	ZEND_PARSE_PARAMETERS_END();
	if (!lk_request_key(&request, key, 1))
		RETURN_THROWS();
	code = lockshm_end_hold(lk_segment_of(ZEND_THIS)->handle, request.key, request.key_len, (uint64_t)token);
	if (code < 0 && code != LOCKSHM_NOT_HELD) {
		lk_throw_segment(code, NULL);
		RETURN_THROWS();
	}
	RETURN_BOOL(code == 0);
}

ZEND_METHOD(Lockshm_Locks, lastHolder)
{
	const struct lockshm_blocker *holder = &lk_segment_of(ZEND_THIS)->refused_by;

	ZEND_PARSE_PARAMETERS_NONE();
	if (holder->state)
		lk_holder_value(return_value, holder);
}

ZEND_METHOD(Lockshm_Locks, skipped)
{
	ZEND_PARSE_PARAMETERS_NONE();
	RETURN_LONG((zend_long)lk_segment_of(ZEND_THIS)->skipped);
}

ZEND_METHOD(Lockshm_Locks, name)
{
	ZEND_PARSE_PARAMETERS_NONE();
	RETURN_STRING(lk_segment_of(ZEND_THIS)->name);
}
