/* SPDX-License-Identifier: MIT */
/*
 * session.c - the save handler "lockshm": another save handler, inside a hold of the session's id
 *
 * The hold begins before the id is validated or read and ends when the session is closed.  Nothing is read, written or
 * destroyed without it.
 */
#include "php_lockshm.h"

#include "ext/hash/php_hash.h"
#include "ext/hash/php_hash_sha.h"
#include "ext/session/php_session.h"

#define SESSION (&LK_G(session))
enum { ID_HEX = 40 };

/* --- The hold ----------------------------------------------------------------------------------------- */

/** An id opens its session, and keys are shown in listings: so the key is a digest of it. */
static void key_of_id(char key[static sizeof("session:") + ID_HEX], const zend_string *id)
{
	unsigned char digest[20];
	PHP_SHA1_CTX context;

	PHP_SHA1InitArgs(&context, NULL);
	PHP_SHA1Update(&context, (const unsigned char *)ZSTR_VAL(id), ZSTR_LEN(id));
	PHP_SHA1Final(digest, &context);
	memcpy(key, "session:", sizeof("session:"));
	for (size_t i = 0; i < sizeof(digest); i++)
		snprintf(key + strlen("session:") + 2 * i, 3, "%02x", digest[i]);
}

static void release(struct lk_session *session)
{
	if (!session->id)
		return;
	lockshm_release(&session->hold, 0);
	zend_string_release(session->id);
	session->id = NULL;
}

static bool is_open(const struct lk_session *session)
{
	return session->delegate && session->segment;
}

static void warn_refused(int code, const struct lockshm_request *request, const struct lockshm_report *report)
{
	zend_string *text;

	if (EG(exception))
		return;
	if (code != LOCKSHM_TIMEOUT && code != LOCKSHM_BUSY) {
		php_error_docref(NULL, E_WARNING, "The session cannot be locked: %s",
				 *report->error.message ? report->error.message : lockshm_strerror(code));
		return;
	}
	text = lk_not_granted(request, report);
	php_error_docref(NULL, E_WARNING, "The session is in use: %s", ZSTR_VAL(text));
	zend_string_release(text);
}

/** Wait for the session, lockshm.session_wait at most. */
static bool take(struct lk_session *session, zend_string *id, int mode)
{
	char key[sizeof("session:") + ID_HEX];
	struct lockshm_request request;
	struct lockshm_report report;
	int code;

	key_of_id(key, id);
	request = (struct lockshm_request)LOCKSHM_REQUEST(key);
	request.mode = mode;
	request.flags = LOCKSHM_AUTO_RENEW | (LK_G(session_global) ? LOCKSHM_GLOBAL : 0);
	request.timeout_ns = (int64_t)(LK_G(session_wait) * 1e9);
	code = lk_acquire(session->segment, &request, &session->hold, &report);
	if (code < 0) {
		warn_refused(code, &request, &report);
		return false;
	}
	session->id = zend_string_copy(id);
	session->mode = mode;
	return true;
}

static bool holds(const struct lk_session *session, zend_string *id)
{
	return session->id && zend_string_equals(session->id, id);
}

/** The script called session_start(["read_and_close" => true]): PHP does not pass it on, but its frame is there. */
static bool only_reads(void)
{
	for (const zend_execute_data *frame = EG(current_execute_data); frame; frame = frame->prev_execute_data) {
		const zval *options, *option;

		if (!frame->func || frame->func->type != ZEND_INTERNAL_FUNCTION || frame->func->common.scope ||
		    !zend_string_equals_literal(frame->func->common.function_name, "session_start"))
			continue;
		if (ZEND_CALL_NUM_ARGS(frame) < 1)
			return false;
		options = ZEND_CALL_ARG(frame, 1);
		option = Z_TYPE_P(options) == IS_ARRAY ?
				 zend_hash_str_find(Z_ARRVAL_P(options), ZEND_STRL("read_and_close")) :
				 NULL;
		return option && zend_is_true((zval *)option);
	}
	return false;
}

/** Is the hold of the session this process's?  If not, a warning says why the session is not @done. */
static bool still_holds(const struct lk_session *session, const char *done)
{
	int code = lockshm_check(&session->hold, NULL);

	if (code >= 0)
		return true;
	php_error_docref(NULL, E_WARNING, "The session is not %s: %s", done,
			 code == LOCKSHM_LOST ? "its lock was lost, and another request has or had it" :
						"its lock is that of the parent process");
	return false;
}

/** Hold the session until it is closed.  Return: false: refused, and a warning says why. */
static bool hold_to_read(struct lk_session *session, zend_string *id)
{
	int mode = only_reads() ? LOCKSHM_SHARED : LOCKSHM_EXCLUSIVE;

	if (session->refused) {
		session->refused = false;
		return false;
	}
	if (holds(session, id) && session->mode >= mode)
		return still_holds(session, "read");
	release(session);
	return take(session, id, mode);
}

/** Only what was read under the hold may be written. */
static bool may_write(const struct lk_session *session, zend_string *id)
{
	if (holds(session, id) && session->mode == LOCKSHM_EXCLUSIVE)
		return still_holds(session, "written");
	php_error_docref(NULL, E_WARNING, "The session is not written: this process does not hold its lock");
	return false;
}

/* --- The handler -------------------------------------------------------------------------------------- */

static const ps_module lockshm_handler;

static const ps_module *find_delegate(void)
{
	const char *name = LK_G(session_handler);
	const ps_module *delegate = name && *name ? _php_find_ps_module(name) : NULL;

	if (delegate && delegate != &lockshm_handler && strcmp(delegate->s_name, "user") != 0)
		return delegate;
	php_error_docref(NULL, E_WARNING, "lockshm.session_handler: \"%s\" is no save handler that stores sessions",
			 name ? name : "");
	return NULL;
}

/** PHP names this handler in its own warning, not the one that failed. */
static zend_result by_delegate(zend_result result, const char *action)
{
	if (result != SUCCESS && !EG(exception))
		php_error_docref(NULL, E_WARNING, "The save handler \"%s\" (lockshm.session_handler) failed to %s the session",
				 SESSION->delegate->s_name, action);
	return result;
}

static struct lk_segment *open_segment(void)
{
	struct lockshm_create_options create;
	char name[LOCKSHM_NAME_MAX + 1];
	struct lockshm_error error;
	struct lk_segment *segment;

	lk_create_options(&create, NULL, 0);
	if (!lk_segment_default(name)) {
		php_error_docref(NULL, E_WARNING, "lockshm.segment is too long");
		return NULL;
	}
	segment = lk_segment_open(name, &create, &error);
	if (!segment)
		php_error_docref(NULL, E_WARNING, "No segment for session locks: %s", error.message);
	return segment;
}

/** Also called for an open session, by session_reset(): the hold stays. */
static PS_OPEN_FUNC(lockshm)
{
	struct lk_session *session = SESSION;

	session->refused = false;
	if (!session->delegate)
		session->delegate = find_delegate();
	if (!session->segment)
		session->segment = open_segment();
	if (!is_open(session))
		return FAILURE;
	PS_SET_MOD_DATA(session);
	return by_delegate(session->delegate->s_open(&session->delegate_data, save_path, session_name), "open");
}

static PS_CLOSE_FUNC(lockshm)
{
	struct lk_session *session = SESSION;
	zend_result result = SUCCESS;

	if (session->delegate)
		result = session->delegate->s_close(&session->delegate_data);
	release(session);
	memset(session, 0, sizeof(*session));
	PS_SET_MOD_DATA(NULL);
	return result;
}

static PS_READ_FUNC(lockshm)
{
	struct lk_session *session = SESSION;

	if (!is_open(session) || !hold_to_read(session, key))
		return FAILURE;
	return by_delegate(session->delegate->s_read(&session->delegate_data, key, val, maxlifetime), "read");
}

static PS_WRITE_FUNC(lockshm)
{
	struct lk_session *session = SESSION;

	if (!is_open(session) || !may_write(session, key))
		return FAILURE;
	return by_delegate(session->delegate->s_write(&session->delegate_data, key, val, maxlifetime), "write");
}

static PS_UPDATE_TIMESTAMP_FUNC(lockshm)
{
	struct lk_session *session = SESSION;

	if (!is_open(session) || !may_write(session, key))
		return FAILURE;
	return by_delegate(session->delegate->s_update_timestamp(&session->delegate_data, key, val, maxlifetime),
			   "write");
}

static PS_DESTROY_FUNC(lockshm)
{
	struct lk_session *session = SESSION;

	if (!is_open(session) || !may_write(session, key))
		return FAILURE;
	return by_delegate(session->delegate->s_destroy(&session->delegate_data, key), "destroy");
}

static PS_GC_FUNC(lockshm)
{
	struct lk_session *session = SESSION;

	return is_open(session) ? session->delegate->s_gc(&session->delegate_data, maxlifetime, nrdels) : -1;
}

static PS_CREATE_SID_FUNC(lockshm)
{
	struct lk_session *session = SESSION;

	return is_open(session) ? session->delegate->s_create_sid(&session->delegate_data) : NULL;
}

/**
 * Of a session that is being opened the id is validated under its hold: another request may be destroying it.  If the
 * wait fails the id counts as valid, so that the read fails and no other session begins.
 */
static PS_VALIDATE_SID_FUNC(lockshm)
{
	struct lk_session *session = SESSION;
	zend_result result;

	if (!is_open(session))
		return FAILURE;
	if (session->id)
		return session->delegate->s_validate_sid(&session->delegate_data, key);
	if (!hold_to_read(session, key)) {
		session->refused = true;
		return SUCCESS;
	}
	result = session->delegate->s_validate_sid(&session->delegate_data, key);
	if (result != SUCCESS)
		release(session);
	return result;
}

static const ps_module lockshm_handler = { PS_MOD_UPDATE_TIMESTAMP(lockshm) };

void lk_session_startup(void)
{
	php_session_register_module(&lockshm_handler);
}

/** The session was closed, unless the request ended inside the handler. */
void lk_session_end_request(void)
{
	struct lk_session *session = SESSION;

	if (session->id)
		lockshm_release(&session->hold, 0);
	memset(session, 0, sizeof(*session));
}
