/* SPDX-License-Identifier: MIT */
/* This is a generated file, edit the .stub.php file instead.
 * Stub hash: 15c24bef73aaf18041778a1f49c0dbfa2779cf2e */

ZEND_BEGIN_ARG_INFO_EX(arginfo_class_Lockshm_Locks___construct, 0, 0, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_OBJ_INFO_EX(arginfo_class_Lockshm_Locks_open, 0, 0, Lockshm\\Locks, 0)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, segment, IS_STRING, 1, "null")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, options, IS_ARRAY, 0, "[]")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Lockshm_Locks_destroy, 0, 1, IS_VOID, 0)
	ZEND_ARG_TYPE_INFO(0, segment, IS_STRING, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_OBJ_INFO_EX(arginfo_class_Lockshm_Locks_exclusive, 0, 1, Lockshm\\Hold, 0)
	ZEND_ARG_TYPE_INFO(0, key, IS_STRING, 0)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, timeout, IS_DOUBLE, 1, "5.0")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, lease, IS_DOUBLE, 1, "30.0")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, renew, _IS_BOOL, 0, "true")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, maxHold, IS_DOUBLE, 1, "null")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, outlive, _IS_BOOL, 0, "false")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, robust, _IS_BOOL, 0, "false")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, tag, IS_STRING, 1, "null")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, global, _IS_BOOL, 0, "false")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, redisPolicy, IS_STRING, 1, "null")
ZEND_END_ARG_INFO()

#define arginfo_class_Lockshm_Locks_shared arginfo_class_Lockshm_Locks_exclusive

ZEND_BEGIN_ARG_WITH_RETURN_OBJ_INFO_EX(arginfo_class_Lockshm_Locks_tryExclusive, 0, 1, Lockshm\\Hold, 1)
	ZEND_ARG_TYPE_INFO(0, key, IS_STRING, 0)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, lease, IS_DOUBLE, 1, "30.0")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, renew, _IS_BOOL, 0, "true")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, maxHold, IS_DOUBLE, 1, "null")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, outlive, _IS_BOOL, 0, "false")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, robust, _IS_BOOL, 0, "false")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, tag, IS_STRING, 1, "null")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, global, _IS_BOOL, 0, "false")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, redisPolicy, IS_STRING, 1, "null")
ZEND_END_ARG_INFO()

#define arginfo_class_Lockshm_Locks_tryShared arginfo_class_Lockshm_Locks_tryExclusive

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Lockshm_Locks_isLocked, 0, 1, _IS_BOOL, 0)
	ZEND_ARG_TYPE_INFO(0, key, IS_STRING, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Lockshm_Locks_holders, 0, 1, IS_ARRAY, 0)
	ZEND_ARG_TYPE_INFO(0, key, IS_STRING, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Lockshm_Locks_end, 0, 2, _IS_BOOL, 0)
	ZEND_ARG_TYPE_INFO(0, key, IS_STRING, 0)
	ZEND_ARG_TYPE_INFO(0, token, IS_LONG, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_OBJ_INFO_EX(arginfo_class_Lockshm_Locks_lastHolder, 0, 0, Lockshm\\Holder, 1)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Lockshm_Locks_skipped, 0, 0, IS_LONG, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Lockshm_Locks_name, 0, 0, IS_STRING, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Lockshm_Locks_singleFlight, 0, 3, IS_MIXED, 0)
	ZEND_ARG_TYPE_INFO(0, key, IS_STRING, 0)
	ZEND_ARG_TYPE_INFO(0, look, IS_CALLABLE, 0)
	ZEND_ARG_TYPE_INFO(0, fill, IS_CALLABLE, 0)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, timeout, IS_DOUBLE, 1, "5.0")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, lease, IS_DOUBLE, 1, "30.0")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, stale, IS_CALLABLE, 1, "null")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, global, _IS_BOOL, 0, "false")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, redisPolicy, IS_STRING, 1, "null")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, tag, IS_STRING, 1, "null")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Lockshm_Locks_once, 0, 3, _IS_BOOL, 0)
	ZEND_ARG_TYPE_INFO(0, key, IS_STRING, 0)
	ZEND_ARG_TYPE_INFO(0, period, IS_DOUBLE, 0)
	ZEND_ARG_TYPE_INFO(0, fn, IS_CALLABLE, 0)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, retryOnFailure, _IS_BOOL, 0, "false")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(1, result, IS_MIXED, 0, "null")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, global, _IS_BOOL, 0, "false")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, redisPolicy, IS_STRING, 1, "null")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, lease, IS_DOUBLE, 1, "30.0")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, tag, IS_STRING, 1, "null")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Lockshm_Locks_seat, 0, 2, IS_MIXED, 0)
	ZEND_ARG_TYPE_INFO(0, key, IS_STRING, 0)
	ZEND_ARG_TYPE_INFO(0, fn, IS_CALLABLE, 0)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, lease, IS_DOUBLE, 1, "30.0")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, global, _IS_BOOL, 0, "false")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, redisPolicy, IS_STRING, 1, "null")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, tag, IS_STRING, 1, "null")
ZEND_END_ARG_INFO()

#define arginfo_class_Lockshm_Hold___construct arginfo_class_Lockshm_Locks___construct

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Lockshm_Hold_release, 0, 0, _IS_BOOL, 0)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, cooldown, IS_DOUBLE, 0, "0.0")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Lockshm_Hold_renew, 0, 0, _IS_BOOL, 0)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, seconds, IS_DOUBLE, 1, "null")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Lockshm_Hold_extend, 0, 1, _IS_BOOL, 0)
	ZEND_ARG_TYPE_INFO(0, seconds, IS_DOUBLE, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Lockshm_Hold_check, 0, 0, _IS_BOOL, 0)
ZEND_END_ARG_INFO()

#define arginfo_class_Lockshm_Hold_upgrade arginfo_class_Lockshm_Hold_check

#define arginfo_class_Lockshm_Hold_downgrade arginfo_class_Lockshm_Hold_check

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Lockshm_Hold_remaining, 0, 0, IS_DOUBLE, 1)
ZEND_END_ARG_INFO()

#define arginfo_class_Lockshm_Hold_token arginfo_class_Lockshm_Locks_skipped

#define arginfo_class_Lockshm_Hold_isHeld arginfo_class_Lockshm_Hold_check

#define arginfo_class_Lockshm_Hold_isExclusive arginfo_class_Lockshm_Hold_check

#define arginfo_class_Lockshm_Hold_isLocalOnly arginfo_class_Lockshm_Hold_check

#define arginfo_class_Lockshm_Hold_key arginfo_class_Lockshm_Locks_name

ZEND_BEGIN_ARG_WITH_RETURN_OBJ_INFO_EX(arginfo_class_Lockshm_Hold_damage, 0, 0, Lockshm\\Damage, 1)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_class_Lockshm_Hold_acknowledge, 0, 0, IS_VOID, 0)
ZEND_END_ARG_INFO()


ZEND_METHOD(Lockshm_Locks, __construct);
ZEND_METHOD(Lockshm_Locks, open);
ZEND_METHOD(Lockshm_Locks, destroy);
ZEND_METHOD(Lockshm_Locks, exclusive);
ZEND_METHOD(Lockshm_Locks, shared);
ZEND_METHOD(Lockshm_Locks, tryExclusive);
ZEND_METHOD(Lockshm_Locks, tryShared);
ZEND_METHOD(Lockshm_Locks, isLocked);
ZEND_METHOD(Lockshm_Locks, holders);
ZEND_METHOD(Lockshm_Locks, end);
ZEND_METHOD(Lockshm_Locks, lastHolder);
ZEND_METHOD(Lockshm_Locks, skipped);
ZEND_METHOD(Lockshm_Locks, name);
ZEND_METHOD(Lockshm_Locks, singleFlight);
ZEND_METHOD(Lockshm_Locks, once);
ZEND_METHOD(Lockshm_Locks, seat);
ZEND_METHOD(Lockshm_Hold, __construct);
ZEND_METHOD(Lockshm_Hold, release);
ZEND_METHOD(Lockshm_Hold, renew);
ZEND_METHOD(Lockshm_Hold, extend);
ZEND_METHOD(Lockshm_Hold, check);
ZEND_METHOD(Lockshm_Hold, upgrade);
ZEND_METHOD(Lockshm_Hold, downgrade);
ZEND_METHOD(Lockshm_Hold, remaining);
ZEND_METHOD(Lockshm_Hold, token);
ZEND_METHOD(Lockshm_Hold, isHeld);
ZEND_METHOD(Lockshm_Hold, isExclusive);
ZEND_METHOD(Lockshm_Hold, isLocalOnly);
ZEND_METHOD(Lockshm_Hold, key);
ZEND_METHOD(Lockshm_Hold, damage);
ZEND_METHOD(Lockshm_Hold, acknowledge);


static const zend_function_entry class_Lockshm_Locks_methods[] = {
	ZEND_ME(Lockshm_Locks, __construct, arginfo_class_Lockshm_Locks___construct, ZEND_ACC_PRIVATE)
	ZEND_ME(Lockshm_Locks, open, arginfo_class_Lockshm_Locks_open, ZEND_ACC_PUBLIC|ZEND_ACC_STATIC)
	ZEND_ME(Lockshm_Locks, destroy, arginfo_class_Lockshm_Locks_destroy, ZEND_ACC_PUBLIC|ZEND_ACC_STATIC)
	ZEND_ME(Lockshm_Locks, exclusive, arginfo_class_Lockshm_Locks_exclusive, ZEND_ACC_PUBLIC)
	ZEND_ME(Lockshm_Locks, shared, arginfo_class_Lockshm_Locks_shared, ZEND_ACC_PUBLIC)
	ZEND_ME(Lockshm_Locks, tryExclusive, arginfo_class_Lockshm_Locks_tryExclusive, ZEND_ACC_PUBLIC)
	ZEND_ME(Lockshm_Locks, tryShared, arginfo_class_Lockshm_Locks_tryShared, ZEND_ACC_PUBLIC)
	ZEND_ME(Lockshm_Locks, isLocked, arginfo_class_Lockshm_Locks_isLocked, ZEND_ACC_PUBLIC)
	ZEND_ME(Lockshm_Locks, holders, arginfo_class_Lockshm_Locks_holders, ZEND_ACC_PUBLIC)
	ZEND_ME(Lockshm_Locks, end, arginfo_class_Lockshm_Locks_end, ZEND_ACC_PUBLIC)
	ZEND_ME(Lockshm_Locks, lastHolder, arginfo_class_Lockshm_Locks_lastHolder, ZEND_ACC_PUBLIC)
	ZEND_ME(Lockshm_Locks, skipped, arginfo_class_Lockshm_Locks_skipped, ZEND_ACC_PUBLIC)
	ZEND_ME(Lockshm_Locks, name, arginfo_class_Lockshm_Locks_name, ZEND_ACC_PUBLIC)
	ZEND_ME(Lockshm_Locks, singleFlight, arginfo_class_Lockshm_Locks_singleFlight, ZEND_ACC_PUBLIC)
	ZEND_ME(Lockshm_Locks, once, arginfo_class_Lockshm_Locks_once, ZEND_ACC_PUBLIC)
	ZEND_ME(Lockshm_Locks, seat, arginfo_class_Lockshm_Locks_seat, ZEND_ACC_PUBLIC)
	ZEND_FE_END
};


static const zend_function_entry class_Lockshm_Hold_methods[] = {
	ZEND_ME(Lockshm_Hold, __construct, arginfo_class_Lockshm_Hold___construct, ZEND_ACC_PRIVATE)
	ZEND_ME(Lockshm_Hold, release, arginfo_class_Lockshm_Hold_release, ZEND_ACC_PUBLIC)
	ZEND_ME(Lockshm_Hold, renew, arginfo_class_Lockshm_Hold_renew, ZEND_ACC_PUBLIC)
	ZEND_ME(Lockshm_Hold, extend, arginfo_class_Lockshm_Hold_extend, ZEND_ACC_PUBLIC)
	ZEND_ME(Lockshm_Hold, check, arginfo_class_Lockshm_Hold_check, ZEND_ACC_PUBLIC)
	ZEND_ME(Lockshm_Hold, upgrade, arginfo_class_Lockshm_Hold_upgrade, ZEND_ACC_PUBLIC)
	ZEND_ME(Lockshm_Hold, downgrade, arginfo_class_Lockshm_Hold_downgrade, ZEND_ACC_PUBLIC)
	ZEND_ME(Lockshm_Hold, remaining, arginfo_class_Lockshm_Hold_remaining, ZEND_ACC_PUBLIC)
	ZEND_ME(Lockshm_Hold, token, arginfo_class_Lockshm_Hold_token, ZEND_ACC_PUBLIC)
	ZEND_ME(Lockshm_Hold, isHeld, arginfo_class_Lockshm_Hold_isHeld, ZEND_ACC_PUBLIC)
	ZEND_ME(Lockshm_Hold, isExclusive, arginfo_class_Lockshm_Hold_isExclusive, ZEND_ACC_PUBLIC)
	ZEND_ME(Lockshm_Hold, isLocalOnly, arginfo_class_Lockshm_Hold_isLocalOnly, ZEND_ACC_PUBLIC)
	ZEND_ME(Lockshm_Hold, key, arginfo_class_Lockshm_Hold_key, ZEND_ACC_PUBLIC)
	ZEND_ME(Lockshm_Hold, damage, arginfo_class_Lockshm_Hold_damage, ZEND_ACC_PUBLIC)
	ZEND_ME(Lockshm_Hold, acknowledge, arginfo_class_Lockshm_Hold_acknowledge, ZEND_ACC_PUBLIC)
	ZEND_FE_END
};


static const zend_function_entry class_Lockshm_Holder_methods[] = {
	ZEND_FE_END
};


static const zend_function_entry class_Lockshm_Damage_methods[] = {
	ZEND_FE_END
};


static const zend_function_entry class_Lockshm_Exception_methods[] = {
	ZEND_FE_END
};


static const zend_function_entry class_Lockshm_TimeoutException_methods[] = {
	ZEND_FE_END
};


static const zend_function_entry class_Lockshm_BusyException_methods[] = {
	ZEND_FE_END
};


static const zend_function_entry class_Lockshm_LostException_methods[] = {
	ZEND_FE_END
};


static const zend_function_entry class_Lockshm_NotHeldException_methods[] = {
	ZEND_FE_END
};


static const zend_function_entry class_Lockshm_DeadlockException_methods[] = {
	ZEND_FE_END
};


static const zend_function_entry class_Lockshm_FullException_methods[] = {
	ZEND_FE_END
};


static const zend_function_entry class_Lockshm_BridgeException_methods[] = {
	ZEND_FE_END
};


static const zend_function_entry class_Lockshm_SegmentException_methods[] = {
	ZEND_FE_END
};

static zend_class_entry *register_class_Lockshm_Locks(void)
{
	zend_class_entry ce, *class_entry;

	INIT_NS_CLASS_ENTRY(ce, "Lockshm", "Locks", class_Lockshm_Locks_methods);
	class_entry = zend_register_internal_class_ex(&ce, NULL);
	class_entry->ce_flags |= ZEND_ACC_FINAL|ZEND_ACC_NO_DYNAMIC_PROPERTIES|ZEND_ACC_NOT_SERIALIZABLE;

	return class_entry;
}

static zend_class_entry *register_class_Lockshm_Hold(void)
{
	zend_class_entry ce, *class_entry;

	INIT_NS_CLASS_ENTRY(ce, "Lockshm", "Hold", class_Lockshm_Hold_methods);
	class_entry = zend_register_internal_class_ex(&ce, NULL);
	class_entry->ce_flags |= ZEND_ACC_FINAL|ZEND_ACC_NO_DYNAMIC_PROPERTIES|ZEND_ACC_NOT_SERIALIZABLE;

	return class_entry;
}

static zend_class_entry *register_class_Lockshm_Holder(void)
{
	zend_class_entry ce, *class_entry;

	INIT_NS_CLASS_ENTRY(ce, "Lockshm", "Holder", class_Lockshm_Holder_methods);
	class_entry = zend_register_internal_class_ex(&ce, NULL);
	class_entry->ce_flags |= ZEND_ACC_FINAL|ZEND_ACC_NO_DYNAMIC_PROPERTIES;

	zval property_state_default_value;
	ZVAL_UNDEF(&property_state_default_value);
	zend_string *property_state_name = zend_string_init("state", sizeof("state") - 1, 1);
	zend_declare_typed_property(class_entry, property_state_name, &property_state_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_STRING));
	zend_string_release(property_state_name);

	zval property_mode_default_value;
	ZVAL_UNDEF(&property_mode_default_value);
	zend_string *property_mode_name = zend_string_init("mode", sizeof("mode") - 1, 1);
	zend_declare_typed_property(class_entry, property_mode_name, &property_mode_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_STRING));
	zend_string_release(property_mode_name);

	zval property_pid_default_value;
	ZVAL_UNDEF(&property_pid_default_value);
	zend_string *property_pid_name = zend_string_init("pid", sizeof("pid") - 1, 1);
	zend_declare_typed_property(class_entry, property_pid_name, &property_pid_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_LONG));
	zend_string_release(property_pid_name);

	zval property_tid_default_value;
	ZVAL_UNDEF(&property_tid_default_value);
	zend_string *property_tid_name = zend_string_init("tid", sizeof("tid") - 1, 1);
	zend_declare_typed_property(class_entry, property_tid_name, &property_tid_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_LONG));
	zend_string_release(property_tid_name);

	zval property_name_default_value;
	ZVAL_UNDEF(&property_name_default_value);
	zend_string *property_name_name = zend_string_init("name", sizeof("name") - 1, 1);
	zend_declare_typed_property(class_entry, property_name_name, &property_name_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_STRING));
	zend_string_release(property_name_name);

	zval property_tag_default_value;
	ZVAL_UNDEF(&property_tag_default_value);
	zend_string *property_tag_name = zend_string_init("tag", sizeof("tag") - 1, 1);
	zend_declare_typed_property(class_entry, property_tag_name, &property_tag_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_STRING));
	zend_string_release(property_tag_name);

	zval property_token_default_value;
	ZVAL_UNDEF(&property_token_default_value);
	zend_string *property_token_name = zend_string_init("token", sizeof("token") - 1, 1);
	zend_declare_typed_property(class_entry, property_token_name, &property_token_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_LONG));
	zend_string_release(property_token_name);

	zval property_age_default_value;
	ZVAL_UNDEF(&property_age_default_value);
	zend_string *property_age_name = zend_string_init("age", sizeof("age") - 1, 1);
	zend_declare_typed_property(class_entry, property_age_name, &property_age_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_DOUBLE));
	zend_string_release(property_age_name);

	zval property_expiresIn_default_value;
	ZVAL_UNDEF(&property_expiresIn_default_value);
	zend_string *property_expiresIn_name = zend_string_init("expiresIn", sizeof("expiresIn") - 1, 1);
	zend_declare_typed_property(class_entry, property_expiresIn_name, &property_expiresIn_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_DOUBLE|MAY_BE_NULL));
	zend_string_release(property_expiresIn_name);

	return class_entry;
}

static zend_class_entry *register_class_Lockshm_Damage(void)
{
	zend_class_entry ce, *class_entry;

	INIT_NS_CLASS_ENTRY(ce, "Lockshm", "Damage", class_Lockshm_Damage_methods);
	class_entry = zend_register_internal_class_ex(&ce, NULL);
	class_entry->ce_flags |= ZEND_ACC_FINAL|ZEND_ACC_NO_DYNAMIC_PROPERTIES;

	zval property_status_default_value;
	ZVAL_UNDEF(&property_status_default_value);
	zend_string *property_status_name = zend_string_init("status", sizeof("status") - 1, 1);
	zend_declare_typed_property(class_entry, property_status_name, &property_status_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_STRING));
	zend_string_release(property_status_name);

	zval property_pid_default_value;
	ZVAL_UNDEF(&property_pid_default_value);
	zend_string *property_pid_name = zend_string_init("pid", sizeof("pid") - 1, 1);
	zend_declare_typed_property(class_entry, property_pid_name, &property_pid_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_LONG));
	zend_string_release(property_pid_name);

	zval property_tid_default_value;
	ZVAL_UNDEF(&property_tid_default_value);
	zend_string *property_tid_name = zend_string_init("tid", sizeof("tid") - 1, 1);
	zend_declare_typed_property(class_entry, property_tid_name, &property_tid_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_LONG));
	zend_string_release(property_tid_name);

	zval property_token_default_value;
	ZVAL_UNDEF(&property_token_default_value);
	zend_string *property_token_name = zend_string_init("token", sizeof("token") - 1, 1);
	zend_declare_typed_property(class_entry, property_token_name, &property_token_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_LONG));
	zend_string_release(property_token_name);

	zval property_age_default_value;
	ZVAL_UNDEF(&property_age_default_value);
	zend_string *property_age_name = zend_string_init("age", sizeof("age") - 1, 1);
	zend_declare_typed_property(class_entry, property_age_name, &property_age_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_DOUBLE));
	zend_string_release(property_age_name);

	zval property_tag_default_value;
	ZVAL_UNDEF(&property_tag_default_value);
	zend_string *property_tag_name = zend_string_init("tag", sizeof("tag") - 1, 1);
	zend_declare_typed_property(class_entry, property_tag_name, &property_tag_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_MASK(MAY_BE_STRING));
	zend_string_release(property_tag_name);

	return class_entry;
}

static zend_class_entry *register_class_Lockshm_Exception(zend_class_entry *class_entry_RuntimeException)
{
	zend_class_entry ce, *class_entry;

	INIT_NS_CLASS_ENTRY(ce, "Lockshm", "Exception", class_Lockshm_Exception_methods);
	class_entry = zend_register_internal_class_ex(&ce, class_entry_RuntimeException);

	return class_entry;
}

static zend_class_entry *register_class_Lockshm_TimeoutException(zend_class_entry *class_entry_Lockshm_Exception)
{
	zend_class_entry ce, *class_entry;

	INIT_NS_CLASS_ENTRY(ce, "Lockshm", "TimeoutException", class_Lockshm_TimeoutException_methods);
	class_entry = zend_register_internal_class_ex(&ce, class_entry_Lockshm_Exception);

	zend_string *property_holder_class_Lockshm_Holder = zend_string_init("Lockshm\\Holder", sizeof("Lockshm\\Holder")-1, 1);
	zval property_holder_default_value;
	ZVAL_UNDEF(&property_holder_default_value);
	zend_string *property_holder_name = zend_string_init("holder", sizeof("holder") - 1, 1);
	zend_declare_typed_property(class_entry, property_holder_name, &property_holder_default_value, ZEND_ACC_PUBLIC|ZEND_ACC_READONLY, NULL, (zend_type) ZEND_TYPE_INIT_CLASS(property_holder_class_Lockshm_Holder, 0, MAY_BE_NULL));
	zend_string_release(property_holder_name);

	return class_entry;
}

static zend_class_entry *register_class_Lockshm_BusyException(zend_class_entry *class_entry_Lockshm_TimeoutException)
{
	zend_class_entry ce, *class_entry;

	INIT_NS_CLASS_ENTRY(ce, "Lockshm", "BusyException", class_Lockshm_BusyException_methods);
	class_entry = zend_register_internal_class_ex(&ce, class_entry_Lockshm_TimeoutException);

	return class_entry;
}

static zend_class_entry *register_class_Lockshm_LostException(zend_class_entry *class_entry_Lockshm_Exception)
{
	zend_class_entry ce, *class_entry;

	INIT_NS_CLASS_ENTRY(ce, "Lockshm", "LostException", class_Lockshm_LostException_methods);
	class_entry = zend_register_internal_class_ex(&ce, class_entry_Lockshm_Exception);

	return class_entry;
}

static zend_class_entry *register_class_Lockshm_NotHeldException(zend_class_entry *class_entry_Lockshm_Exception)
{
	zend_class_entry ce, *class_entry;

	INIT_NS_CLASS_ENTRY(ce, "Lockshm", "NotHeldException", class_Lockshm_NotHeldException_methods);
	class_entry = zend_register_internal_class_ex(&ce, class_entry_Lockshm_Exception);

	return class_entry;
}

static zend_class_entry *register_class_Lockshm_DeadlockException(zend_class_entry *class_entry_Lockshm_Exception)
{
	zend_class_entry ce, *class_entry;

	INIT_NS_CLASS_ENTRY(ce, "Lockshm", "DeadlockException", class_Lockshm_DeadlockException_methods);
	class_entry = zend_register_internal_class_ex(&ce, class_entry_Lockshm_Exception);

	return class_entry;
}

static zend_class_entry *register_class_Lockshm_FullException(zend_class_entry *class_entry_Lockshm_Exception)
{
	zend_class_entry ce, *class_entry;

	INIT_NS_CLASS_ENTRY(ce, "Lockshm", "FullException", class_Lockshm_FullException_methods);
	class_entry = zend_register_internal_class_ex(&ce, class_entry_Lockshm_Exception);

	return class_entry;
}

static zend_class_entry *register_class_Lockshm_BridgeException(zend_class_entry *class_entry_Lockshm_Exception)
{
	zend_class_entry ce, *class_entry;

	INIT_NS_CLASS_ENTRY(ce, "Lockshm", "BridgeException", class_Lockshm_BridgeException_methods);
	class_entry = zend_register_internal_class_ex(&ce, class_entry_Lockshm_Exception);

	return class_entry;
}

static zend_class_entry *register_class_Lockshm_SegmentException(zend_class_entry *class_entry_Lockshm_Exception)
{
	zend_class_entry ce, *class_entry;

	INIT_NS_CLASS_ENTRY(ce, "Lockshm", "SegmentException", class_Lockshm_SegmentException_methods);
	class_entry = zend_register_internal_class_ex(&ce, class_entry_Lockshm_Exception);

	return class_entry;
}
