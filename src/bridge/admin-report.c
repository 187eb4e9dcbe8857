/* SPDX-License-Identifier: MIT */
/* admin-report.c - the reply of one server to inspect.lua, as struct remote_info */
#define _GNU_SOURCE
#include "bridge/admin-internal.h"

#include <stdlib.h>
#include <string.h>

#include "redis/note.h"
#include "redis/resp.h"

/* Fields of the reply of inspect.lua. */
enum {
	AT_MS,
	AT_TYPE,
	AT_HELD,
	AT_LEFT,
	AT_INTENT,
	AT_INTENT_LEFT,
	AT_QUEUE,
	AT_QUEUE_ENDS,
	AT_READER_ENDS,
	AT_FENCE,
	AT_NOTE,
	AT_N
};

struct report {
	const struct admin_op *q;
	const struct redis_reply *reply;
	int64_t ms;
	struct remote_info *info;
	struct remote_party *to; /* the next one to fill */
	struct remote_party intent;
};

static const struct redis_reply *at(const struct report *r, size_t i)
{
	return redis_reply_at(r->reply, i);
}

static bool same(const struct redis_reply *reply, const char *text, size_t len)
{
	size_t n;
	const char *other = redis_reply_text(reply, &n);

	return other && n == len && memcmp(other, text, len) == 0;
}

static bool is_host(const char *text, size_t len)
{
	return len >= REDIS_HOST_BYTES && strspn(text, "0123456789abcdef") >= REDIS_HOST_BYTES;
}

static void name_host(const struct report *r, struct remote_party *to, const char *host)
{
	memcpy(to->host, host, REDIS_HOST_BYTES);
	to->host[REDIS_HOST_BYTES] = '\0';
	to->this_host = memcmp(host, r->q->s->redis.host, REDIS_HOST_BYTES) == 0;
}

static int64_t left_ns(int64_t ms)
{
	return ms < 0 || ms >= REDIS_REPLY_MS_MAX ? LOCKSHM_FOREVER : LOCKSHM_MS(ms);
}

/* @end: by the server's clock. */
static int64_t left_until(const struct report *r, int64_t end)
{
	return end == REDIS_REPLY_MS_MAX ? LOCKSHM_FOREVER : LOCKSHM_MS(end - r->ms);
}

/* Time left for @member in @list (member, score, member, score...); false = not in the list. */
static bool score_of(const struct report *r, size_t list, const struct redis_reply *member, int64_t *left)
{
	const struct redis_reply *all = at(r, list);
	const char *text;
	size_t i, len;

	text = redis_reply_text(member, &len);
	for (i = 0; text && i + 1 < redis_reply_count(all); i += 2)
		if (same(redis_reply_at(all, i), text, len)) {
			*left = left_until(r, redis_reply_ms(redis_reply_at(all, i + 1)));
			return true;
		}
	return false;
}

static struct remote_party *add_party(struct report *r, const struct redis_reply *value, int mode)
{
	struct remote_party *to = r->to++;
	const char *text;

	memset(to, 0, sizeof(*to));
	text = redis_reply_text(value, &to->value_len);
	to->value = text ? text : "";
	to->mode = mode;
	return to;
}

/* A value is a host's if the fence remembers it, as in the scripts: values of other programs may look the same. */
static void report_writer(struct report *r)
{
	struct remote_party *to = add_party(r, at(r, AT_HELD), LOCKSHM_EXCLUSIVE);
	bool known = same(redis_reply_at(at(r, AT_FENCE), 1), to->value, to->value_len);

	r->info->state = REMOTE_EXCLUSIVE;
	to->expires_in_ns = left_ns(redis_reply_integer(at(r, AT_LEFT), -1));
	if (known && is_host(to->value, strlen(to->value)))
		name_host(r, to, to->value);
	r->info->holders = 1;
}

static void report_readers(struct report *r)
{
	const struct redis_reply *readers = at(r, AT_HELD);
	size_t i;

	r->info->state = REMOTE_SHARED;
	for (i = 0; i < redis_reply_count(readers); i++) {
		const struct redis_reply *reader = redis_reply_at(readers, i);
		struct remote_party *to = add_party(r, reader, LOCKSHM_SHARED);

		if (!score_of(r, AT_READER_ENDS, reader, &to->expires_in_ns))
			to->expires_in_ns = left_ns(redis_reply_integer(at(r, AT_LEFT), -1));
		else if (is_host(to->value, to->value_len))
			name_host(r, to, to->value);
		r->info->holders++;
	}
}

static void report_held(struct report *r)
{
	size_t len;
	const char *type = redis_reply_text(at(r, AT_TYPE), &len);

	r->info->type = type ? type : "?";
	if (redis_reply_equals(at(r, AT_TYPE), "none"))
		r->info->state = REMOTE_FREE;
	else if (redis_reply_equals(at(r, AT_TYPE), "string"))
		report_writer(r);
	else if (redis_reply_equals(at(r, AT_TYPE), "set"))
		report_readers(r);
	else
		r->info->state = REMOTE_OTHER;
}

static void report_waiters(struct report *r)
{
	const struct redis_reply *queue = at(r, AT_QUEUE);
	size_t i;

	for (i = 0; i + 1 < redis_reply_count(queue); i += 2) {
		struct remote_party *to = add_party(r, redis_reply_at(queue, i), LOCKSHM_EXCLUSIVE);

		if (to->value_len > 0 && to->value[0] == 'S')
			to->mode = LOCKSHM_SHARED;
		if (to->value_len > 2 && is_host(to->value + 2, to->value_len - 2))
			name_host(r, to, to->value + 2);
		(void)score_of(r, AT_QUEUE_ENDS, redis_reply_at(queue, i), &to->expires_in_ns);
		to->value = "";
		to->value_len = 0;
		r->info->waiters++;
	}
}

static void report_intent(struct report *r)
{
	struct remote_party *after = r->to;

	r->to = &r->intent;
	(void)add_party(r, at(r, AT_INTENT), LOCKSHM_EXCLUSIVE);
	r->to = after;
	r->intent.expires_in_ns = left_ns(redis_reply_integer(at(r, AT_INTENT_LEFT), -1));
	if (r->intent.value_len == REDIS_HOST_BYTES && is_host(r->intent.value, r->intent.value_len))
		name_host(r, &r->intent, r->intent.value);
	if (r->intent.value_len)
		r->info->mark = &r->intent;
}

static uint64_t number_at(const struct redis_reply *list, size_t i)
{
	size_t len;
	const char *text = redis_reply_text(redis_reply_at(list, i), &len);

	return text ? (uint64_t)strtoull(text, NULL, 10) : 0;
}

static void report_damage(struct report *r)
{
	struct remote_damage *to = &r->info->damage;
	struct note_end end;
	size_t len;
	const char *why = redis_reply_text(redis_reply_at(at(r, AT_NOTE), 2), &len);

	to->last = number_at(at(r, AT_NOTE), 0);
	to->good = number_at(at(r, AT_NOTE), 1);
	to->held = redis_reply_integer(redis_reply_at(at(r, AT_NOTE), 3), 0);
	if (to->last <= to->good)
		return;
	end = note_end(why ? why : "", (int64_t)to->good);
	to->status = end.died ? LOCKSHM_OWNER_DIED : LOCKSHM_TOOK_OVER_EXPIRED;
	memcpy(to->host, end.host, sizeof(end.host));
	to->pid = end.pid;
}

/* Room for holders and waiters. */
static bool make_room(struct admin_op *q, const struct redis_reply *reply)
{
	size_t n = 1 + redis_reply_count(redis_reply_at(reply, AT_HELD)) +
		   redis_reply_count(redis_reply_at(reply, AT_QUEUE)) / 2;
	const struct remote_party **list;
	struct remote_party *more;

	if (n <= q->room)
		return true;
	more = realloc(q->parties, n * sizeof(*more));
	if (!more)
		return false;
	q->parties = more;
	list = realloc(q->list, n * sizeof(*list));
	if (!list)
		return false;
	q->list = list;
	for (q->room = 0; q->room < n; q->room++)
		list[q->room] = &more[q->room];
	return true;
}

static void fail_info(struct remote_info *info, const char *why)
{
	info->code = LOCKSHM_BRIDGE;
	info->reason = why;
}

int admin_report(struct admin_op *q, const struct node *node, remote_fn fn, void *arg)
{
	struct remote_info info = { .server = redis_conn_label(node->conn), .reason = "" };
	struct report r = { .q = q, .reply = node->op.inspected, .info = &info };

	if (node->code) {
		fail_info(&info, node->why);
	} else if (redis_reply_count(r.reply) != AT_N) {
		fail_info(&info, "its reply is not understood");
	} else if (!make_room(q, r.reply)) {
		return LOCKSHM_NO_MEMORY;
	} else {
		info.name = node->keys.key[0];
		info.name_len = node->keys.len[0];
		info.parties = q->list;
		r.to = q->parties;
		r.ms = redis_reply_ms(at(&r, AT_MS));
		report_held(&r);
		report_waiters(&r);
		report_intent(&r);
		report_damage(&r);
		info.next_token = number_at(at(&r, AT_FENCE), 0);
	}
	return fn(&info, arg);
}
