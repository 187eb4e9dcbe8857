/* SPDX-License-Identifier: MIT */
/* values.c - Lockshm\Holder and Lockshm\Previous */
#include "php_lockshm.h"

zend_class_entry *lk_ce_holder, *lk_ce_previous;

#define SET_LONG(object, name, value)                                                                                  \
	zend_update_property_long((object)->ce, object, ZEND_STRL(name), (zend_long)(value))
#define SET_STRING(object, name, value) zend_update_property_string((object)->ce, object, ZEND_STRL(name), value)
#define SET_SECONDS(object, name, ns) zend_update_property_double((object)->ce, object, ZEND_STRL(name), (ns) / 1e9)

static const char *state_name(int state)
{
	switch (state) {
	case LOCKSHM_WAITING:
		return "waiting";
	case LOCKSHM_COOLING:
		return "cooling";
	case LOCKSHM_BARGEABLE:
		return "bargeable";
	default:
		return "holding";
	}
}

void lk_holder_value(zval *to, const struct lockshm_blocker *holder)
{
	zend_object *object;

	object_init_ex(to, lk_ce_holder);
	object = Z_OBJ_P(to);
	SET_STRING(object, "state", state_name(holder->state));
	SET_STRING(object, "mode", holder->mode == LOCKSHM_SHARED ? "shared" : "exclusive");
	SET_LONG(object, "pid", holder->pid);
	SET_LONG(object, "tid", holder->tid);
	SET_STRING(object, "name", holder->name);
	SET_STRING(object, "tag", holder->tag);
	SET_LONG(object, "token", holder->token);
	SET_SECONDS(object, "age", holder->age_ns);
	if (holder->expires_in_ns == LOCKSHM_FOREVER)
		zend_update_property_null(object->ce, object, ZEND_STRL("expiresIn"));
	else
		SET_SECONDS(object, "expiresIn", holder->expires_in_ns);
}

void lk_previous_value(zval *to, const struct lockshm_previous *previous)
{
	zend_object *object;

	object_init_ex(to, lk_ce_previous);
	object = Z_OBJ_P(to);
	SET_STRING(object, "status", previous->status == LOCKSHM_OWNER_DIED ? "died" : "expired");
	SET_LONG(object, "pid", previous->pid);
	SET_LONG(object, "tid", previous->tid);
	SET_LONG(object, "token", previous->token);
	SET_SECONDS(object, "age", previous->age_ns);
	SET_STRING(object, "tag", previous->tag);
}

/* --- The holds of a key ------------------------------------------------------------------------------- */

struct holder_list {
	struct lockshm_blocker *holders;
	size_t room, count;
};

static void holder_of_request(struct lockshm_blocker *to, const struct lockshm_request_info *request)
{
	*to = (struct lockshm_blocker){
		.state = request->state,
		.mode = request->mode,
		.pid = request->pid,
		.tid = request->tid,
		.token = request->token,
		.age_ns = request->age_ns,
		.expires_in_ns = request->expires_in_ns,
	};
	memcpy(to->name, request->name, sizeof(to->name));
	memcpy(to->tag, request->tag, sizeof(to->tag));
}

/** No memory of the request is taken here: its limit would end the call inside the library. */
static int list_holders(const struct lockshm_lock_info *lock, void *arg)
{
	struct holder_list *list = arg;

	list->count = 0;
	for (size_t i = 0; i < lock->holders; i++) {
		const struct lockshm_request_info *request = lock->requests[i];

		if (!request->alive && request->state == LOCKSHM_HOLDING)
			continue;
		if (list->count < list->room)
			holder_of_request(&list->holders[list->count], request);
		list->count++;
	}
	return 0;
}

/**
 * lk_holders - the holds of a key, oldest first
 * @holders: [out] to be freed by efree(), or NULL to count only
 *
 * Return: as lockshm_show_lock().
 */
int lk_holders(struct lk_segment *segment, const void *key, size_t key_len, struct lockshm_blocker **holders,
	       size_t *count)
{
	struct holder_list list = { NULL, 0, 0 };
	int code = lockshm_show_lock(segment->handle, key, key_len, list_holders, &list);

	if (code == 0 && holders) {
		list.room = list.count + 8;
		list.holders = safe_emalloc(list.room, sizeof(*list.holders), 0);
		code = lockshm_show_lock(segment->handle, key, key_len, list_holders, &list);
		*holders = list.holders;
		if (list.count > list.room)
			list.count = list.room;
	}
	*count = code == 0 ? list.count : 0;
	return code;
}
