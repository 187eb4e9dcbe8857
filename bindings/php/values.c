/* SPDX-License-Identifier: MIT */
/* values.c - Lockshm\Holder and Lockshm\Damage */
#include "php_lockshm.h"

zend_class_entry *lk_ce_holder, *lk_ce_damage;

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

void lk_damage_value(zval *to, const struct lockshm_damage *damage)
{
	zend_object *object;

	object_init_ex(to, lk_ce_damage);
	object = Z_OBJ_P(to);
	SET_STRING(object, "status", damage->status == LOCKSHM_OWNER_DIED ? "died" : "expired");
	SET_LONG(object, "pid", damage->pid);
	SET_LONG(object, "tid", damage->tid);
	SET_LONG(object, "token", damage->token);
	SET_SECONDS(object, "age", damage->age_ns);
	SET_STRING(object, "tag", damage->tag);
}

/* --- The holds of a key ------------------------------------------------------------------------------- */

/** Of a live thread, or a cooldown. */
static bool is_live(const struct lockshm_row *row)
{
	int state = row->request.state;

	return state && (row->alive || (state != LOCKSHM_HOLDING && state != LOCKSHM_WAITING));
}

/** Fills @room places at most.  No memory of the request is taken here: its limit would leave the listing open. */
static int list_holders(struct lk_segment *segment, const void *key, size_t key_len, struct lockshm_blocker *holders,
			size_t room, size_t *count)
{
	struct lockshm_row row = LOCKSHM_ROW_INIT;
	lockshm_list_t *list;
	int code = lockshm_list_open(&list, segment->handle, LOCKSHM_LIST_KEY, key, key_len);

	*count = 0;
	while (code == 0 && (code = lockshm_list_next(list, &row)) == 1) {
		code = 0;
		if (!is_live(&row))
			continue;
		if (*count < room)
			holders[*count] = row.request;
		++*count;
	}
	lockshm_list_close(list);
	return code;
}

/**
 * lk_holders - the holds of a key, oldest first, then the waits in their order
 * @holders: [out] to be freed by efree(), or NULL
 *
 * Return: 0, or the code of the listing.
 */
int lk_holders(struct lk_segment *segment, const void *key, size_t key_len, struct lockshm_blocker **holders,
	       size_t *count)
{
	size_t room;
	int code = list_holders(segment, key, key_len, NULL, 0, count);

	*holders = NULL;
	if (code < 0)
		return code;
	room = *count + 8;
	*holders = safe_emalloc(room, sizeof(**holders), 0);
	code = list_holders(segment, key, key_len, *holders, room, count);
	if (*count > room)
		*count = room;
	return code;
}
