/* SPDX-License-Identifier: MIT */
/* errors.c - codes of the library as exceptions */
#include "php_lockshm.h"

#include <inttypes.h>

zend_class_entry *lk_ce_exception, *lk_ce_timeout, *lk_ce_busy, *lk_ce_lost, *lk_ce_not_held, *lk_ce_deadlock,
	*lk_ce_full, *lk_ce_segment, *lk_ce_bridge;

static zend_class_entry *class_of(int code)
{
	switch (code) {
	case LOCKSHM_TIMEOUT:
		return lk_ce_timeout;
	case LOCKSHM_BUSY:
		return lk_ce_busy;
	case LOCKSHM_LOST:
		return lk_ce_lost;
	case LOCKSHM_NOT_HELD:
		return lk_ce_not_held;
	case LOCKSHM_DEADLOCK:
		return lk_ce_deadlock;
	case LOCKSHM_FULL:
		return lk_ce_full;
	case LOCKSHM_BRIDGE:
		return lk_ce_bridge;
	case LOCKSHM_INVALID:
	case LOCKSHM_KEY_TOO_LONG:
		return zend_ce_value_error;
	default:
		return lk_ce_segment;
	}
}

/** Bytes that are no printable ASCII are shown as '?'. */
void lk_shown_key(char shown[static LOCKSHM_KEY_SHOWN_MAX + 1], const void *key, size_t key_len)
{
	const unsigned char *bytes = key;
	size_t n = key_len < LOCKSHM_KEY_SHOWN_MAX ? key_len : LOCKSHM_KEY_SHOWN_MAX;

	for (size_t i = 0; i < n; i++)
		shown[i] = bytes[i] >= ' ' && bytes[i] < 0x7f ? (char)bytes[i] : '?';
	shown[n] = '\0';
}

/** "not granted in 5 s: held exclusive by pid 4711 (php-fpm8.2) 'nightly' for 12.3 s" */
zend_string *lk_not_granted(const struct lockshm_request *request, const struct lockshm_report *report)
{
	char text[LOCKSHM_EXPLAIN_MAX] = "";

	(void)lockshm_explain(report, request->timeout_ns, text, sizeof(text));
	return zend_string_init(text, strlen(text), 0);
}

static void set_holder(zend_object *exception, const struct lockshm_blocker *holder)
{
	zval value;

	if (holder->state)
		lk_holder_value(&value, holder);
	else
		ZVAL_NULL(&value);
	zend_update_property(lk_ce_timeout, exception, ZEND_STRL("holder"), &value);
	zval_ptr_dtor(&value);
}

static void throw_not_granted(int code, const struct lockshm_request *request, const struct lockshm_report *report)
{
	char shown[LOCKSHM_KEY_SHOWN_MAX + 1];
	zend_string *text = lk_not_granted(request, report);
	zend_object *exception;

	lk_shown_key(shown, request->key, request->key_len);
	exception = zend_throw_exception_ex(class_of(code), code, "'%s': %s", shown, ZSTR_VAL(text));
	zend_string_release(text);
	set_holder(exception, &report->blocker);
}

static const char *sentence(int code, const struct lockshm_error *error)
{
	return error && *error->message ? error->message : lockshm_strerror(code);
}

/** The failure of lk_acquire(). */
void lk_throw_acquire(int code, const struct lk_segment *segment, const struct lockshm_request *request,
		      const struct lockshm_report *report)
{
	bool own = code == LOCKSHM_DEADLOCK && lk_holds_have(segment, request->key, request->key_len);
	char shown[LOCKSHM_KEY_SHOWN_MAX + 1];

	if (EG(exception))
		return;
	if (code == LOCKSHM_TIMEOUT || code == LOCKSHM_BUSY) {
		throw_not_granted(code, request, report);
		return;
	}
	lk_shown_key(shown, request->key, request->key_len);
	zend_throw_exception_ex(class_of(code), code, "'%s': %s", shown,
				own ? "this process holds it already: use that hold, or release it first" :
				      sentence(code, &report->error));
}

void lk_throw_segment(int code, const struct lockshm_error *error)
{
	zend_throw_exception(class_of(code), sentence(code, error), code);
}

static void throw_lost(struct lk_hold *hold, const char *shown)
{
	uint64_t next = lockshm_lost_to(&hold->hold);
	char to[64] = "";

	if (next)
		snprintf(to, sizeof(to), " (token %" PRIu64 " was issued after it)", next);
	zend_throw_exception_ex(lk_ce_lost, LOCKSHM_LOST,
				"'%s' was lost: the lease expired and another request took the key%s, "
				"or an operator ended the hold",
				shown, to);
}

/** An upgrade: what else holds the key. */
static void throw_not_alone(struct lk_hold *hold, const char *shown)
{
	uint64_t token = lockshm_token(&hold->hold);
	struct lockshm_blocker *holders = NULL, other = { 0 };
	zend_object *exception;
	struct lockshm_report alone = LOCKSHM_REPORT_INIT;
	char way[LOCKSHM_EXPLAIN_MAX] = "";
	size_t n;

	lk_holders(hold->segment, ZSTR_VAL(hold->key), ZSTR_LEN(hold->key), &holders, &n);
	for (size_t i = 0; i < n && !other.state; i++)
		if (holders[i].token != token)
			other = holders[i];
	if (holders)
		efree(holders);
	alone.blocker = other;
	(void)lockshm_explain(&alone, 0, way, sizeof(way));
	exception = zend_throw_exception_ex(lk_ce_busy, LOCKSHM_BUSY,
					    "'%s': still shared, other requests hold it or wait%s%s", shown,
					    *way ? ": " : "", way);
	set_holder(exception, &other);
}

/** An upgrade of a key across hosts, under a shared lease of this host. */
static void throw_shared_by_host(const char *shown)
{
	zend_object *exception =
		zend_throw_exception_ex(lk_ce_busy, LOCKSHM_INVALID,
					"'%s': still shared, this host has the key shared: release it, then acquire it exclusive",
					shown);
	struct lockshm_blocker none = { 0 };

	set_holder(exception, &none);
}

/** The failure of an upgrade. */
void lk_throw_upgrade(int code, struct lk_hold *hold)
{
	char shown[LOCKSHM_KEY_SHOWN_MAX + 1] = "";

	if (code != LOCKSHM_INVALID || !hold->key) {
		lk_throw_hold(code, hold);
		return;
	}
	lk_shown_key(shown, ZSTR_VAL(hold->key), ZSTR_LEN(hold->key));
	throw_shared_by_host(shown);
}

/** The failure of a call on a hold. */
void lk_throw_hold(int code, struct lk_hold *hold)
{
	char shown[LOCKSHM_KEY_SHOWN_MAX + 1] = "";

	if (hold->key)
		lk_shown_key(shown, ZSTR_VAL(hold->key), ZSTR_LEN(hold->key));
	if (code == LOCKSHM_LOST)
		throw_lost(hold, shown);
	else if (code == LOCKSHM_BUSY)
		throw_not_alone(hold, shown);
	else if (code == LOCKSHM_NOT_HELD)
		zend_throw_exception_ex(lk_ce_not_held, code,
					hold->listed ? "'%s' is not held by this process: it is a hold of the parent process" :
						       "'%s' is not held: it was released before",
					shown);
	else
		zend_throw_exception_ex(class_of(code), code, "'%s': %s", shown, lockshm_strerror(code));
}
