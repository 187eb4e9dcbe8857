/* SPDX-License-Identifier: MIT */
/* lockshm.c - the module: settings, start and end of processes and requests */
#include "php_lockshm.h"

#include "ext/session/php_session.h"
#include "ext/spl/spl_exceptions.h"
#include "ext/standard/info.h"
#include "php_ini.h"

#include "lockshm_arginfo.h"

ZEND_DECLARE_MODULE_GLOBALS(lockshm)

#if defined(ZTS) && defined(COMPILE_DL_LOCKSHM)
ZEND_TSRMLS_CACHE_DEFINE()
#endif

#define DEFAULT_WAIT "20"

/** C gets the text, and a null byte would cut it. */
static bool is_text(const zend_ini_entry *entry, const zend_string *value)
{
	if (!value || !CHECK_NULL_PATH(ZSTR_VAL(value), ZSTR_LEN(value)))
		return true;
	zend_error(E_WARNING, "%s must not contain any null bytes; it is not changed", ZSTR_VAL(entry->name));
	return false;
}

static PHP_INI_MH(on_update_text)
{
	return is_text(entry, new_value) ? OnUpdateString(entry, new_value, mh_arg1, mh_arg2, mh_arg3, stage) : FAILURE;
}

static PHP_INI_MH(on_update_bool)
{
	return is_text(entry, new_value) ? OnUpdateBool(entry, new_value, mh_arg1, mh_arg2, mh_arg3, stage) : FAILURE;
}

static PHP_INI_MH(on_update_wait)
{
	double kept = stage == ZEND_INI_STAGE_STARTUP ? zend_strtod(DEFAULT_WAIT, NULL) : LK_G(session_wait);
	const char *end;
	double seconds = zend_strtod(ZSTR_VAL(new_value), &end);

	if (!is_text(entry, new_value))
		return FAILURE;
	if (end == ZSTR_VAL(new_value) || *end || !(seconds >= 0 && seconds <= 86400)) {
		zend_error(E_WARNING, "lockshm.session_wait must be between 0 and 86400 seconds, \"%s\" given; it stays %g",
			   ZSTR_VAL(new_value), kept);
		return FAILURE;
	}
	return OnUpdateReal(entry, new_value, mh_arg1, mh_arg2, mh_arg3, stage);
}

PHP_INI_BEGIN()
	STD_PHP_INI_ENTRY("lockshm.segment", "", PHP_INI_SYSTEM | PHP_INI_PERDIR, on_update_text, segment,
			  zend_lockshm_globals, lockshm_globals)
	STD_PHP_INI_ENTRY("lockshm.session_handler", "files", PHP_INI_ALL, on_update_text, session_handler,
			  zend_lockshm_globals, lockshm_globals)
	STD_PHP_INI_ENTRY("lockshm.session_wait", DEFAULT_WAIT, PHP_INI_ALL, on_update_wait, session_wait,
			  zend_lockshm_globals, lockshm_globals)
	STD_PHP_INI_BOOLEAN("lockshm.session_global", "0", PHP_INI_ALL, on_update_bool, session_global,
			    zend_lockshm_globals, lockshm_globals)
PHP_INI_END()

static PHP_GINIT_FUNCTION(lockshm)
{
#if defined(ZTS) && defined(COMPILE_DL_LOCKSHM)
	ZEND_TSRMLS_CACHE_UPDATE();
#endif
	memset(lockshm_globals, 0, sizeof(*lockshm_globals));
}

/** Also the end of a thread. */
static PHP_GSHUTDOWN_FUNCTION(lockshm)
{
	struct lk_segment *segment;

	while ((segment = lockshm_globals->segments)) {
		lockshm_globals->segments = segment->next;
		lk_segment_close(segment);
	}
}

static void register_classes(void)
{
	lk_ce_locks = register_class_Lockshm_Locks();
	lk_ce_hold = register_class_Lockshm_Hold();
	lk_ce_holder = register_class_Lockshm_Holder();
	lk_ce_damage = register_class_Lockshm_Damage();
	lk_ce_exception = register_class_Lockshm_Exception(spl_ce_RuntimeException);
	lk_ce_timeout = register_class_Lockshm_TimeoutException(lk_ce_exception);
	lk_ce_busy = register_class_Lockshm_BusyException(lk_ce_timeout);
	lk_ce_lost = register_class_Lockshm_LostException(lk_ce_exception);
	lk_ce_not_held = register_class_Lockshm_NotHeldException(lk_ce_exception);
	lk_ce_deadlock = register_class_Lockshm_DeadlockException(lk_ce_exception);
	lk_ce_full = register_class_Lockshm_FullException(lk_ce_exception);
	lk_ce_segment = register_class_Lockshm_SegmentException(lk_ce_exception);
	lk_ce_bridge = register_class_Lockshm_BridgeException(lk_ce_exception);
	lk_locks_startup();
	lk_hold_startup();
}

/** Return: false: the library is older than the header, or of another series. */
static bool library_fits(void)
{
	int major = 0, minor = 0;

	if (sscanf(lockshm_version(), "%d.%d", &major, &minor) == 2 && major == LOCKSHM_VERSION_MAJOR &&
	    minor >= LOCKSHM_VERSION_MINOR)
		return true;
	php_error_docref(NULL, E_WARNING, "built for liblockshm %d.%d, but version %s is loaded", LOCKSHM_VERSION_MAJOR,
			 LOCKSHM_VERSION_MINOR, lockshm_version());
	return false;
}

static PHP_MINIT_FUNCTION(lockshm)
{
	if (!library_fits())
		return FAILURE;
	REGISTER_INI_ENTRIES();
	register_classes();
	REGISTER_NS_STRING_CONSTANT("Lockshm", "VERSION", PHP_LOCKSHM_VERSION, CONST_PERSISTENT);
	REGISTER_NS_STRING_CONSTANT("Lockshm", "LIBRARY_VERSION", lockshm_version(), CONST_PERSISTENT);
	lk_session_startup();
	return SUCCESS;
}

static PHP_MSHUTDOWN_FUNCTION(lockshm)
{
	UNREGISTER_INI_ENTRIES();
	return SUCCESS;
}

static PHP_RINIT_FUNCTION(lockshm)
{
#if defined(ZTS) && defined(COMPILE_DL_LOCKSHM)
	ZEND_TSRMLS_CACHE_UPDATE();
#endif
	return SUCCESS;
}

/** However the request ended: its objects may never be freed one by one. */
static PHP_RSHUTDOWN_FUNCTION(lockshm)
{
	lk_holds_end_request();
	return SUCCESS;
}

/** The session is written after RSHUTDOWN of this module. */
static ZEND_MODULE_POST_ZEND_DEACTIVATE_D(lockshm)
{
	lk_holds_end_request();
	lk_session_end_request();
	lk_segments_end_request();
	return SUCCESS;
}

static void info_segment(struct lk_segment *segment)
{
	struct lockshm_stat stat = LOCKSHM_STAT_INIT;
	char text[160];

	if (lockshm_stat(segment->handle, &stat) != 0)
		return;
	snprintf(text, sizeof(text),
		 "%u keys busy, %u of %u requests, %u of %u owners, %llu acquires, %llu after a wait",
		 stat.keys_busy, stat.requests_used, stat.requests, stat.owners_used, stat.owners,
		 (unsigned long long)stat.acquires, (unsigned long long)stat.waits);
	php_info_print_table_row(2, segment->name, text);
}

static PHP_MINFO_FUNCTION(lockshm)
{
	php_info_print_table_start();
	php_info_print_table_row(2, "lockshm support", "enabled");
	php_info_print_table_row(2, "extension version", PHP_LOCKSHM_VERSION);
	php_info_print_table_row(2, "library version", lockshm_version());
	php_info_print_table_row(2, "session save handler", "lockshm");
	php_info_print_table_end();
	if (LK_G(segments)) {
		php_info_print_table_start();
		php_info_print_table_header(2, "open segment", "use");
		for (struct lk_segment *segment = LK_G(segments); segment; segment = segment->next)
			info_segment(segment);
		php_info_print_table_end();
	}
	DISPLAY_INI_ENTRIES();
}

static const zend_module_dep dependencies[] = {
	ZEND_MOD_REQUIRED("session")
	ZEND_MOD_REQUIRED("spl")
	ZEND_MOD_REQUIRED("hash")
	ZEND_MOD_END
};

zend_module_entry lockshm_module_entry = {
	STANDARD_MODULE_HEADER_EX,
	NULL,
	dependencies,
	"lockshm",
	NULL,
	PHP_MINIT(lockshm),
	PHP_MSHUTDOWN(lockshm),
	PHP_RINIT(lockshm),
	PHP_RSHUTDOWN(lockshm),
	PHP_MINFO(lockshm),
	PHP_LOCKSHM_VERSION,
	PHP_MODULE_GLOBALS(lockshm),
	PHP_GINIT(lockshm),
	PHP_GSHUTDOWN(lockshm),
	ZEND_MODULE_POST_ZEND_DEACTIVATE_N(lockshm),
	STANDARD_MODULE_PROPERTIES_EX
};

#ifdef COMPILE_DL_LOCKSHM
ZEND_GET_MODULE(lockshm)
#endif
