/* SPDX-License-Identifier: MIT */
/* hold.c - Lockshm\Hold, and the holds of a request */
#include "php_lockshm.h"

#include <math.h>

zend_class_entry *lk_ce_hold;

static zend_object_handlers hold_handlers;

/* --- The holds of the request ------------------------------------------------------------------------- */

void lk_hold_begin(struct lk_hold *hold, int status)
{
	hold->local_only = status == LOCKSHM_LOCAL_ONLY;
	hold->next = LK_G(holds);
	hold->prev = NULL;
	if (hold->next)
		hold->next->prev = hold;
	LK_G(holds) = hold;
	hold->listed = true;
}

static void unlist(struct lk_hold *hold)
{
	if (!hold->listed)
		return;
	if (hold->prev)
		hold->prev->next = hold->next;
	else
		LK_G(holds) = hold->next;
	if (hold->next)
		hold->next->prev = hold->prev;
	hold->listed = false;
}

/** The script broke off: a hold that got its lease after the grant is not to outlive that. */
static bool broke_off(const struct lk_hold *hold)
{
	return CG(unclean_shutdown) && hold->lease_ns == LOCKSHM_FOREVER;
}

/** How long the key stays closed after a hold that was not released by the script. */
static int64_t end_cooldown_ns(const struct lk_hold *hold)
{
	int64_t ns = 0;

	if (hold->end == LK_END_OUTLIVE && !broke_off(hold))
		lockshm_check(&hold->hold, &ns);
	else if (hold->end == LK_END_COOLDOWN)
		ns = hold->closed_until_ns - lk_now_ns();
	return ns > 0 && ns <= LOCKSHM_TIME_MAX && hold->mode == LOCKSHM_EXCLUSIVE ? ns : 0;
}

/**
 * lk_hold_end - end a hold in the way it was taken for
 *
 * One that is lost, or of the parent process, only leaves the list.
 *
 * Return: as lockshm_release(); 0 for one that has ended.
 */
int lk_hold_end(struct lk_hold *hold)
{
	int code;

	if (!hold->listed)
		return 0;
	code = lockshm_release(&hold->hold, end_cooldown_ns(hold));
	unlist(hold);
	return code;
}

/** The memory of the objects outlasts this call; their own ends find nothing left to do. */
void lk_holds_end_request(void)
{
	while (LK_G(holds))
		lk_hold_end(LK_G(holds));
}

bool lk_holds_have(const struct lk_segment *segment, const void *key, size_t key_len)
{
	for (const struct lk_hold *hold = LK_G(holds); hold; hold = hold->next)
		if (hold->segment == segment && ZSTR_LEN(hold->key) == key_len &&
		    memcmp(ZSTR_VAL(hold->key), key, key_len) == 0 && lockshm_check(&hold->hold, NULL) >= 0)
			return true;
	return false;
}

/* --- The object --------------------------------------------------------------------------------------- */

static zend_object *hold_create(zend_class_entry *ce)
{
	struct lk_hold *hold = zend_object_alloc(sizeof(*hold), ce);

	memset(hold, 0, offsetof(struct lk_hold, std));
	zend_object_std_init(&hold->std, ce);
	hold->std.handlers = &hold_handlers;
	return &hold->std;
}

static void hold_free(zend_object *object)
{
	struct lk_hold *hold = lk_hold_of(object);

	lk_hold_end(hold);
	if (hold->key)
		zend_string_release(hold->key);
	zend_object_std_dtor(object);
}

struct lk_hold *lk_hold_new(zval *to, struct lk_segment *segment, zend_string *key, int mode)
{
	struct lk_hold *hold;

	ZVAL_OBJ(to, hold_create(lk_ce_hold));
	hold = lk_hold_of(Z_OBJ_P(to));
	hold->segment = segment;
	hold->key = zend_string_copy(key);
	hold->mode = mode;
	return hold;
}

void lk_hold_startup(void)
{
	lk_ce_hold->create_object = hold_create;
	hold_handlers = *zend_get_std_object_handlers();
	hold_handlers.offset = offsetof(struct lk_hold, std);
	hold_handlers.free_obj = hold_free;
	hold_handlers.clone_obj = NULL;
}

/* --- Its methods -------------------------------------------------------------------------------------- */

#define THIS_HOLD lk_hold_of(Z_OBJ_P(ZEND_THIS))

/** true, false = late, or an exception. */
static void return_timely(zval *return_value, struct lk_hold *hold, int code)
{
	if (code < 0)
		lk_throw_hold(code, hold);
	else
		RETVAL_BOOL(code != LOCKSHM_LATE);
}

ZEND_METHOD(Lockshm_Hold, __construct)
{
	ZEND_PARSE_PARAMETERS_NONE();
}

ZEND_METHOD(Lockshm_Hold, release)
{
	struct lk_hold *hold = THIS_HOLD;
	double cooldown = 0;
	int64_t ns = 0;
	int code;

	ZEND_PARSE_PARAMETERS_START(0, 1)
		Z_PARAM_OPTIONAL
		Z_PARAM_DOUBLE(cooldown)
	ZEND_PARSE_PARAMETERS_END();
	if (cooldown != 0 && !lk_seconds(cooldown, 1, 0, &ns))
		RETURN_THROWS();
	if (ns && hold->mode != LOCKSHM_EXCLUSIVE) {
		zend_argument_value_error(1, "must be 0 for a shared hold");
		RETURN_THROWS();
	}
	code = lockshm_release(&hold->hold, ns);
	/* A hold of the parent process stays listed: its errors say so. */
	if (code != LOCKSHM_NOT_HELD)
		unlist(hold);
	return_timely(return_value, hold, code);
}

ZEND_METHOD(Lockshm_Hold, renew)
{
	struct lk_hold *hold = THIS_HOLD;
	double seconds = 0;
	bool as_taken = true;
	int64_t ns = hold->lease_ns;

	ZEND_PARSE_PARAMETERS_START(0, 1)
		Z_PARAM_OPTIONAL
		Z_PARAM_DOUBLE_OR_NULL(seconds, as_taken)
	ZEND_PARSE_PARAMETERS_END();
	if (!as_taken && seconds == INFINITY)
		ns = LOCKSHM_FOREVER;
	else if (!as_taken && !lk_seconds(seconds, 1, LOCKSHM_TTL_MIN, &ns))
		RETURN_THROWS();
	return_timely(return_value, hold, lockshm_renew(&hold->hold, ns));
}

ZEND_METHOD(Lockshm_Hold, extend)
{
	struct lk_hold *hold = THIS_HOLD;
	int64_t ns, left_ns;
	double seconds;

	ZEND_PARSE_PARAMETERS_START(1, 1)
		Z_PARAM_DOUBLE(seconds)
	ZEND_PARSE_PARAMETERS_END();
	if (!lk_seconds(seconds, 1, LOCKSHM_TTL_MIN, &ns))
		RETURN_THROWS();
	if (lockshm_check(&hold->hold, &left_ns) >= 0 && left_ns == LOCKSHM_FOREVER) {
		zend_argument_value_error(1, "cannot be added: this hold has no lease");
		RETURN_THROWS();
	}
	return_timely(return_value, hold, lockshm_extend(&hold->hold, ns));
}

ZEND_METHOD(Lockshm_Hold, check)
{
	ZEND_PARSE_PARAMETERS_NONE();
	return_timely(return_value, THIS_HOLD, lockshm_check(&THIS_HOLD->hold, NULL));
}

ZEND_METHOD(Lockshm_Hold, upgrade)
{
	struct lk_hold *hold = THIS_HOLD;
	int code;

	ZEND_PARSE_PARAMETERS_NONE();
	code = lockshm_upgrade(&hold->hold);
	if (code >= 0)
		hold->mode = LOCKSHM_EXCLUSIVE;
	if (code < 0)
		lk_throw_upgrade(code, hold);
	else
		return_timely(return_value, hold, code);
}

ZEND_METHOD(Lockshm_Hold, downgrade)
{
	struct lk_hold *hold = THIS_HOLD;
	int code;

	ZEND_PARSE_PARAMETERS_NONE();
	code = lockshm_downgrade(&hold->hold);
	if (code >= 0)
		hold->mode = LOCKSHM_SHARED;
	return_timely(return_value, hold, code);
}

ZEND_METHOD(Lockshm_Hold, remaining)
{
	int64_t left_ns;
	int code;

	ZEND_PARSE_PARAMETERS_NONE();
	code = lockshm_check(&THIS_HOLD->hold, &left_ns);
	if (code < 0) {
		lk_throw_hold(code, THIS_HOLD);
		RETURN_THROWS();
	}
	if (left_ns == LOCKSHM_FOREVER)
		RETURN_NULL();
	RETURN_DOUBLE(left_ns / 1e9);
}

ZEND_METHOD(Lockshm_Hold, token)
{
	ZEND_PARSE_PARAMETERS_NONE();
	RETURN_LONG((zend_long)lockshm_token(&THIS_HOLD->hold));
}

ZEND_METHOD(Lockshm_Hold, isHeld)
{
	ZEND_PARSE_PARAMETERS_NONE();
	RETURN_BOOL(lockshm_check(&THIS_HOLD->hold, NULL) >= 0);
}

ZEND_METHOD(Lockshm_Hold, isExclusive)
{
	ZEND_PARSE_PARAMETERS_NONE();
	RETURN_BOOL(THIS_HOLD->mode == LOCKSHM_EXCLUSIVE);
}

ZEND_METHOD(Lockshm_Hold, isLocalOnly)
{
	ZEND_PARSE_PARAMETERS_NONE();
	RETURN_BOOL(THIS_HOLD->local_only);
}

ZEND_METHOD(Lockshm_Hold, key)
{
	ZEND_PARSE_PARAMETERS_NONE();
	RETURN_STR_COPY(THIS_HOLD->key);
}

ZEND_METHOD(Lockshm_Hold, damage)
{
	struct lockshm_damage damage;
	int code;

	ZEND_PARSE_PARAMETERS_NONE();
	code = lockshm_damage(&THIS_HOLD->hold, &damage);
	if (code < 0)
		lk_throw_hold(code, THIS_HOLD);
	else if (damage.status)
		lk_damage_value(return_value, &damage);
}

ZEND_METHOD(Lockshm_Hold, acknowledge)
{
	int code;

	ZEND_PARSE_PARAMETERS_NONE();
	code = lockshm_acknowledge(&THIS_HOLD->hold);
	if (code < 0)
		lk_throw_hold(code, THIS_HOLD);
}
