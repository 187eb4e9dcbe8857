/* SPDX-License-Identifier: MIT */
/* inspect.c - what humans see: locks, their queues, the threads that take part, segments; stat.c counts */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hostlease/host-lease.h"
#include "hostlease/leader.h"
#include "lock/damage.h"
#include "lock/deadline.h"
#include "lock/participant.h"
#include "lock/queue.h"
#include "lock/request.h"
#include "lock/snapshot.h"
#include "lock/table.h"
#include "segment/global-keys.h"
#include "sys/error.h"
#include "sys/hash.h"
#include "sys/sized.h"

struct view {
	struct lockshm *s;
	struct snapshot snap;
	struct lockshm_request_info *infos;
	const struct lockshm_request_info **list; /* of @infos, in the order shown */
	uint32_t cap;
	unsigned char key[KEY_SHOWN_WORDS * 8];
	struct lockshm_lock_info lock;
	struct lockshm_host_lease_info lease;
};

static int view_init(struct view *v, struct lockshm *s)
{
	memset(v, 0, sizeof(*v));
	v->s = s;
	v->lock.size = sizeof(v->lock);
	return snapshot_init(&v->snap) ? 0 : LOCKSHM_NO_MEMORY;
}

static void view_free(struct view *v)
{
	snapshot_free(&v->snap);
	free(v->infos);
	free(v->list);
}

static int view_room(struct view *v, uint32_t n)
{
	const struct lockshm_request_info **list;
	struct lockshm_request_info *more;

	if (n <= v->cap)
		return 0;
	more = realloc(v->infos, n * sizeof(*more));
	if (!more)
		return LOCKSHM_NO_MEMORY;
	v->infos = more;
	list = realloc(v->list, n * sizeof(*list));
	if (!list)
		return LOCKSHM_NO_MEMORY;
	v->list = list;
	v->cap = n;
	return 0;
}

/* Stored by the owner in addition to the local grant, which is no hold until the host has its lease. */
static void fill_global(const struct lockshm *s, const struct snapshot_request *from, struct lockshm_request_info *to)
{
	int64_t now = segment_now(s);

	if (!(from->flags & REQUEST_GLOBAL))
		return;
	to->global = from->host_grant ? 2 : 1;
	to->global_token = host_grant_fence(from->host_grant);
	if (to->global != 1 || to->state != LOCKSHM_HOLDING)
		return;
	to->state = LOCKSHM_WAITING;
	to->age_ns = from->since_ns < 0 || from->since_ns > now ? 0 : now - from->since_ns;
	to->expires_in_ns = LOCKSHM_FOREVER;
}

static int lease_state(uint64_t word)
{
	static const int states[] = {
		[HOST_LEASE_ACQUIRING] = LOCKSHM_HOST_LEASE_ACQUIRING,
		[HOST_LEASE_HELD] = LOCKSHM_HOST_LEASE_HELD,
		[HOST_LEASE_CLOSING] = LOCKSHM_HOST_LEASE_CLOSING,
		[HOST_LEASE_RELEASING] = LOCKSHM_HOST_LEASE_RELEASING,
		[HOST_LEASE_LOST] = LOCKSHM_HOST_LEASE_LOST,
	};
	size_t state = (size_t)host_lease_state(word);

	return state < sizeof(states) / sizeof(states[0]) && states[state] ? states[state] : LOCKSHM_HOST_LEASE_NONE;
}

static void fill_lease(struct view *v, const struct identity *id)
{
	struct lockshm_host_lease_info *to = &v->lease;
	uint32_t i = v->s->n_host_leases ? host_lease_look(v->s, id) : 0;
	const struct shm_host_lease *r = host_lease_at(v->s, i);
	int64_t now, blocked;
	uint64_t word, last_result;

	v->lock.lease = NULL;
	if (!r)
		return;
	now = host_now(v->s);
	memset(to, 0, sizeof(*to));
	to->size = sizeof(*to);
	word = load_acquire(&r->word);
	to->state = lease_state(word);
	if (to->state != LOCKSHM_HOST_LEASE_NONE)
		to->mode = word & HOST_LEASE_EXCLUSIVE ? LOCKSHM_EXCLUSIVE : LOCKSHM_SHARED;
	if (host_lease_good(v->s, word, load_acquire(&r->valid_until), now))
		to->remaining_ns = (int64_t)load_acquire(&r->valid_until) - now;
	last_result = load_acquire(&r->last_result);
	blocked = host_lease_blocked_until(r, last_result);
	to->blocked_ns = to->state != LOCKSHM_HOST_LEASE_ACQUIRING || blocked == 0 || blocked == INT64_MAX ? -1 :
			  blocked > now ? blocked - now : 0;
	to->next_token = host_lease_fence_next(r);
	to->local_grants = load_relaxed(&r->local_grants);
	to->other_hosts_waiting = load_relaxed(&r->other_hosts_waiting);
	host_lease_value(v->s, i, host_lease_epoch(word), to->value);
	/* The lease that came after a result made it history. */
	if ((to->state == LOCKSHM_HOST_LEASE_ACQUIRING || to->state == LOCKSHM_HOST_LEASE_RELEASING ||
	     to->state == LOCKSHM_HOST_LEASE_NONE) && result_asked(last_result) > (int64_t)load_relaxed(&r->acquired) &&
	    host_lease_reason(r, last_result, to->why))
		to->why_age_ns = now > result_asked(last_result) ? now - result_asked(last_result) : 1;
	v->lock.lease = to;
}

static void fill_request(const struct view *v, const struct snapshot_request *from, struct lockshm_request_info *to)
{
	const struct lockshm *s = v->s;
	struct owner_identity who = owner_identity(s, from->owner);

	memset(to, 0, sizeof(*to));
	to->size = sizeof(*to);
	to->state = snapshot_state(from);
	to->mode = word_exclusive(from->word) ? LOCKSHM_EXCLUSIVE : LOCKSHM_SHARED;
	to->pid = who.pid;
	to->tid = who.tid;
	memcpy(to->name, who.name, sizeof(to->name));
	to->alive = !owner_is_dead(s, from->owner);
	to->token = segment_token(s, from->ticket);
	to->age_ns = snapshot_age(s, from);
	to->expires_in_ns = snapshot_expires_in(s, from);
	request_tag(&s->requests[from->index], to->tag);
	if (to->state != LOCKSHM_WAITING && s->n_host_leases)
		fill_global(s, from, to);
}

/* Holders first: of several readers one may hold under the host lease while an older one has not seen it yet. */
static void list_requests(struct view *v, uint32_t n)
{
	struct lockshm_lock_info *lock = &v->lock;
	uint32_t i;

	for (i = 0; i < n; i++)
		if (v->infos[i].state != LOCKSHM_WAITING) {
			lock->mode = v->infos[i].mode;
			v->list[lock->holders++] = &v->infos[i];
		}
	for (i = 0; i < n; i++)
		if (v->infos[i].state == LOCKSHM_WAITING)
			v->list[lock->holders + lock->waiters++] = &v->infos[i];
	lock->requests = v->list;
}

/* How many of the first bytes of a key of @len bytes are shown: a UTF-8 character that they cut is left out. */
static size_t shown_of(const unsigned char *key, size_t len)
{
	size_t shown = len, lead = LOCKSHM_KEY_SHOWN_MAX;

	if (len <= LOCKSHM_KEY_SHOWN_MAX)
		return shown;
	do
		lead--;
	while (lead > LOCKSHM_KEY_SHOWN_MAX - 4 && (key[lead] & 0xc0) == 0x80);
	shown = key[lead] >= 0xf0 ? 4 : key[lead] >= 0xe0 ? 3 : key[lead] >= 0xc0 ? 2 : 1;
	return lead + shown > LOCKSHM_KEY_SHOWN_MAX ? lead : LOCKSHM_KEY_SHOWN_MAX;
}

static void fill_key(struct view *v, const struct shm_entry *e)
{
	uint64_t words[KEY_SHOWN_WORDS];
	int i;

	for (i = 0; i < KEY_SHOWN_WORDS; i++)
		words[i] = load_relaxed(&entry_detail(v->s, e)->key[i]);
	memcpy(v->key, words, sizeof(words));
	v->lock.key = v->key;
	v->lock.key_len = (size_t)load_relaxed(&e->key_len);
	v->lock.key_shown = shown_of(v->key, v->lock.key_len);
}

static struct identity identity_of(const struct shm_entry *e)
{
	return (struct identity){ { load_relaxed(&e->id[0]), load_relaxed(&e->id[1]) }, load_relaxed(&e->key_len) };
}

/* The lock of key @id, which is in @e unless that is given to another meanwhile: then there is nothing to show.  Requests
 * oldest first, without the dead ones. */
static int fill_lock(struct view *v, const struct shm_entry *e, const struct identity *id)
{
	struct lockshm_lock_info *lock = &v->lock;
	uint32_t i, n = 0;

	memset(lock, 0, sizeof(*lock));
	lock->size = sizeof(*lock);
	if (!snapshot_take(v->s, e, &v->snap) || view_room(v, v->snap.n) != 0)
		return LOCKSHM_NO_MEMORY;
	fill_key(v, e);
	for (i = v->snap.n; i-- > 0;) {
		const struct snapshot_request *from = &v->snap.requests[i];

		if (!word_live(from->word) || cooldown_is_over(v->s, from->word, from->deadline))
			continue;
		fill_request(v, from, &v->infos[n++]);
	}
	list_requests(v, n);
	fill_lease(v, id);
	lock->global = segment_makes_global(v->s, lock->key, lock->key_shown);
	(void)damage_read(v->s, e, &lock->previous);
	lock->id = id->id[0];
	/* Behind the mark: that keeps the entry. */
	lock->known = entry_is(e, id->id, id->len);
	if (!lock->known) {
		lock->mode = 0;
		lock->holders = lock->waiters = 0;
		memset(&lock->previous, 0, sizeof(lock->previous));
	}
	lock->damaged = lock->previous.status != 0;
	return 0;
}

/* Is there something to show of it?  An idle key is all that is known of it. */
static bool is_shown(const struct lockshm_lock_info *lock, bool idle)
{
	return lock->holders || lock->waiters || lock->damaged || (idle && lock->known);
}

static int each(lockshm_t *segment, bool idle, lockshm_lock_fn fn, void *arg)
{
	struct view v;
	uint32_t i;
	int err;

	if (!segment_valid(segment) || !fn)
		return LOCKSHM_INVALID;
	err = view_init(&v, segment);
	for (i = 0; !err && i < segment->n_locks; i++) {
		const struct shm_entry *e = &segment->entries[i];
		uint64_t tail = load_acquire(&e->tail);
		struct identity id = identity_of(e);

		if (id.len == 0 || (!idle && tail_index(tail) == 0 && !damage_pending(e)) ||
		    table_is_claimed(segment, e, tail))
			continue;
		err = fill_lock(&v, e, &id);
		if (!err && is_shown(&v.lock, idle))
			err = fn(&v.lock, arg);
	}
	view_free(&v);
	return err;
}

LOCKSHM_EXPORT int lockshm_each_lock(lockshm_t *segment, lockshm_lock_fn fn, void *arg)
{
	return each(segment, false, fn, arg);
}

LOCKSHM_EXPORT int lockshm_each_key(lockshm_t *segment, lockshm_lock_fn fn, void *arg)
{
	return each(segment, true, fn, arg);
}

LOCKSHM_EXPORT int lockshm_show_lock(lockshm_t *segment, const void *key, size_t key_len, lockshm_lock_fn fn, void *arg)
{
	struct identity id;
	struct view v;
	uint32_t i;
	int err;

	if (!segment_valid(segment) || !fn || !key || key_len == 0)
		return LOCKSHM_INVALID;
	if (key_len > LOCKSHM_KEY_MAX)
		return LOCKSHM_KEY_TOO_LONG;
	err = view_init(&v, segment);
	if (!err) {
		hash_key(&id, segment->hash_secret, key, key_len);
		i = table_lookup(segment, &id);
		if (i != ENTRY_NONE)
			err = fill_lock(&v, &segment->entries[i], &id);
		else
			fill_lease(&v, &id);
	}
	if (!err) {
		/* The caller has the key, even if no entry is for it now. */
		v.lock.key = key;
		v.lock.key_len = key_len;
		v.lock.global = segment_makes_global(segment, key, key_len);
		v.lock.key_shown = shown_of(key, key_len);
		v.lock.id = id.id[0];
		err = fn(&v.lock, arg);
	}
	view_free(&v);
	return err;
}

/* ---------------------------------------------------------------- owners */

static bool fill_owner(const struct lockshm *s, uint32_t slot, struct lockshm_owner_info *out)
{
	const struct shm_owner *o = &s->owners[slot];
	uint64_t c = load_acquire(&o->control);
	struct request_ref ref = ref_unpack(load_relaxed(&o->waiting));
	const struct shm_request *r = request_at(s, ref.index);
	struct owner_identity who = owner_identity(s, owner_ref(control_gen(c), slot));

	if (control_state(c) < OWNER_ACTIVE || who.pid == 0)
		return false;
	memset(out, 0, sizeof(*out));
	out->size = sizeof(*out);
	out->pid = who.pid;
	out->tid = who.tid;
	memcpy(out->name, who.name, sizeof(out->name));
	out->alive = !owner_slot_is_dead(s, slot, c);
	out->exact = (load_relaxed32(&o->flags) & OWNER_EXACT) != 0;
	out->start_time = load_relaxed(&o->start_time);
	if (r && word_gen(load_acquire(&r->word)) == ref.gen)
		out->waiting_token = segment_token(s, ticket_of(load_relaxed(&r->ticket)));
	return true;
}

LOCKSHM_EXPORT int lockshm_each_owner(lockshm_t *segment, lockshm_owner_fn fn, void *arg)
{
	struct lockshm_owner_info info;
	uint32_t i;
	int err = 0;

	if (!segment_valid(segment) || !fn)
		return LOCKSHM_INVALID;
	for (i = 0; !err && i < segment->n_owners; i++)
		if (fill_owner(segment, i, &info))
			err = fn(&info, arg);
	return err;
}

/* ---------------------------------------------------------------- segments */

/* Does the file begin like a segment?  One that cannot be read may be one.  Other files in /dev/shm are skipped. */
static bool looks_like_segment(const char *path)
{
	uint64_t magic = 0;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	ssize_t n;

	if (fd < 0)
		return errno != ENOENT && errno != ELOOP;
	n = read(fd, &magic, sizeof(magic));
	close(fd);
	return n < 0 || (n == (ssize_t)sizeof(magic) && magic == SHM_MAGIC);
}

static int report_segment(const char *name, const struct stat *st, lockshm_segment_fn fn, void *arg)
{
	struct lockshm_segment_info info;
	struct lockshm_stat stat = LOCKSHM_STAT_INIT;
	struct lockshm_error error = { 0 };
	lockshm_t *s;
	int err;

	memset(&info, 0, sizeof(info));
	info.size = sizeof(info);
	info.name = name;
	info.uid = st->st_uid;
	info.gid = st->st_gid;
	info.mode = st->st_mode & 07777;
	info.code = lockshm_open(&s, name, LOCKSHM_OPEN_READ_ONLY | LOCKSHM_OPEN_ANY_OWNER, &error);
	info.reason = error.message;
	if (info.code == 0) {
		(void)lockshm_stat(s, &stat);
		info.stat = &stat;
		(void)lockshm_close(s);
	}
	/* Without permission to read it, it may be no segment at all. */
	if (info.code == LOCKSHM_PERMISSION || info.code == LOCKSHM_NO_SEGMENT)
		return 0;
	err = fn(&info, arg);
	return err;
}

/* 0 = skipped, or the result of @fn. */
static int visit_file(const char *file, lockshm_segment_fn fn, void *arg)
{
	char name[LOCKSHM_NAME_MAX + 2], path[LOCKSHM_NAME_MAX + 16];
	struct stat st;

	if (!segment_name(name, file))
		return 0;
	segment_path(path, name);
	if (lstat(path, &st) != 0)
		return errno == ENOENT ? 0 : LOCKSHM_SYSTEM;
	return S_ISREG(st.st_mode) && looks_like_segment(path) ? report_segment(name, &st, fn, arg) : 0;
}

LOCKSHM_EXPORT int lockshm_each_segment(lockshm_segment_fn fn, void *arg)
{
	struct dirent *entry;
	DIR *dir;
	int err = 0;

	if (!fn)
		return LOCKSHM_INVALID;
	dir = opendir("/dev/shm");
	if (!dir)
		return LOCKSHM_SYSTEM;
	for (errno = 0; !err && (entry = readdir(dir)) != NULL; errno = 0)
		err = visit_file(entry->d_name, fn, arg);
	/* Not the end, but an error in between: a list that lacks segments must not look complete. */
	if (!err && errno)
		err = LOCKSHM_SYSTEM;
	closedir(dir);
	return err;
}
